"""Joins: changes of one side meet the rows of the other that were there before them.

Each pair is made by exactly one of the two terms of a join, that of the later row, whatever the batches are.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.relation import Field
from headrace.run.logs.key_index import earlier
from headrace.run.operators.expressions import keep
from headrace.run.operators.reading import Contents, schema_of
from headrace.run.program import JoinStep
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate


def join(
    step: JoinStep, changes: pa.Table, contents: Contents, columns: Sequence[Field], around: Surroundings = NOTHING
) -> pa.Table:
    """`changes` are already read as the step reads them. The larger time of a pair is that of the change."""
    positions, met = contents.meet(changes, step.on)
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
