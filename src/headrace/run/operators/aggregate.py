"""Groups of an aggregate: how their rows change as prepared rows come and go.

At every time at which a group changes its old row goes and its new one comes, so that the log of groups does not
depend on how changes were cut into batches. What is kept in between is of one of two kinds:

    running totals   count, sum, avg, variance and its kin of rows: a few numbers per group (`run.operators.running`)
    the rows         everything else: the prepared rows themselves (`run.operators.recount`)

A group dies with its last row; without keys there is one group, and it always lives.
"""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.block import Aggregation
from headrace.model.errors import EvaluationError
from headrace.model.relation import Field, Output, over_nothing
from headrace.model.types import BIGINT, INT
from headrace.run.operators import recount, running
from headrace.run.operators.expressions import keep, with_outputs
from headrace.run.operators.lookup import Lookup
from headrace.run.operators.prepare import key_fields, prepared_fields
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.changes import ORDER, TIME, WEIGHT


def keeps_totals(aggregation: Aggregation) -> bool:
    """Whether running totals are enough."""
    return all(call.function in running.TOTALS and not call.distinct for call in aggregation.calls)


def state_fields(aggregation: Aggregation) -> tuple[Field, ...]:
    """The columns of the state; the first ones, by which it is looked up, are those of `prepare.key_fields`."""
    return running.state_fields(aggregation) if keeps_totals(aggregation) else prepared_fields(aggregation)


def group_fields(aggregation: Aggregation) -> tuple[Field, ...]:
    """The columns of a group's row."""
    return (*key_fields(aggregation), *(Field(call.name, call.type) for call in aggregation.calls))


def accumulate(aggregation: Aggregation, prepared: pa.Table, state: Lookup | None) -> tuple[pa.Table, pa.Table]:
    """Changes of groups and of the state. `state` holds all that was returned for earlier rows; None is nothing."""
    if keeps_totals(aggregation):
        return running.accumulate(aggregation, prepared, state)
    return recount.accumulate(aggregation, prepared, state)


def initial(aggregation: Aggregation, time: int) -> pa.Table:
    """The rows that groups have over nothing: one without keys, else none."""
    values = tuple(over_nothing(call).value for call in aggregation.calls)
    rows = [] if key_fields(aggregation) else [(*values, time, 0, 1)]
    columns = {field.name: field.type for field in group_fields(aggregation)}
    return arrow_table({**columns, TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}, rows)


def make_outputs(
    aggregation: Aggregation, outputs: tuple[Output, ...], groups: pa.Table, around: Surroundings = NOTHING
) -> pa.Table:
    """Changes of groups as changes of the aggregate's output."""
    having = aggregation.having
    try:
        return with_outputs(outputs, groups if having is None else keep(having, groups, around), around)
    except EvaluationError as error:
        if error.bad_row is not None:
            keys = {field.name: error.bad_row.row[field.name] for field in key_fields(aggregation)}
            error.bad_row = replace(error.bad_row, row=keys, is_group=True)
        raise
