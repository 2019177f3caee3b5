"""Joins: changes of one side meet the rows of the other that were there before them.

Each pair is made by exactly one of the two terms of a join, that of the later row, whatever the batches are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.relation import Field
from headrace.model.types import TIMESTAMP
from headrace.run.logs.key_index import earlier
from headrace.run.operators.expressions import column_of, keep
from headrace.run.operators.lookup import Integers
from headrace.run.operators.reading import Contents, schema_of
from headrace.run.program import JoinStep, NearTime
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate

STRETCH = "stretch"


def join(
    step: JoinStep, changes: pa.Table, contents: Contents, columns: Sequence[Field], around: Surroundings = NOTHING
) -> pa.Table:
    """`changes` are already read as the step reads them. The larger time of a pair is that of the change."""
    positions, met = _meet(step, changes, contents, around)
    before = earlier(met, changes, positions)
    if not before.all():
        positions, met = positions[before], met.filter(pa.array(before))
    met_weights = met.column(WEIGHT).to_numpy()
    mine = changes.take(pa.array(positions))
    weights = mine.column(WEIGHT).to_numpy() * met_weights
    made = {name: mine.column(name) for name in step.changes.values}
    made |= {name: met.column(name) for name in step.relation.values}
    pairs = pa.table(
        {**made, TIME: mine.column(TIME), ORDER: mine.column(ORDER), WEIGHT: pa.array(weights, pa.int64())}
    )
    pairs = keep(step.residual, pairs, around)
    return consolidate(pairs.select(schema_of(columns).names))


def _meet(step: JoinStep, changes: pa.Table, contents: Contents, around: Surroundings) -> tuple[Integers, pa.Table]:
    """Pairs of a change, by its position, and a row with its key."""
    if step.near is not None:
        return _meet_near(step.near, changes, contents, around)
    if step.equal:
        columns = {output.name: column_of(output.expr, changes, around) for output in step.equal}
        return contents.meet(pa.table(columns), tuple(columns))
    return contents.meet(changes, step.on)


def _meet_near(
    near: NearTime, changes: pa.Table, contents: Contents, around: Surroundings
) -> tuple[Integers, pa.Table]:
    """What is near a change begins in one stretch of time and ends in it or in the next."""
    times = column_of(near.time, changes, around).cast(pa.int64())
    length = 1000 * near.length_ms
    first = (times.fill_null(0).to_numpy() + near.low_us) // length
    stretches = np.concatenate((first, first + 1)) * length
    is_known = times.is_valid().to_numpy(zero_copy_only=False)
    starts = pa.array(stretches, mask=np.tile(~is_known, 2)).cast(arrow_type(TIMESTAMP))
    positions, met = contents.meet(pa.table({STRETCH: starts}), (STRETCH,))
    return positions % max(1, changes.num_rows), met
