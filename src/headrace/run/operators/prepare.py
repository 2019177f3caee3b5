"""Rows as an aggregate needs them: keys and arguments, equal rows of one time added up.

Columns are "k:NAME" for keys and the bounds of windows, "a:NAME" for the argument of a call, and "a:NAME:1" and so on
for its further inputs. Sites prepare what they hold before they send it on, since this is often much less.
"""

from __future__ import annotations

import pyarrow as pa

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.block import Aggregation
from headrace.model.relation import AggregateCall, Field
from headrace.model.types import TIMESTAMP
from headrace.run.operators.expressions import column_of
from headrace.run.operators.windows import in_windows
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate


def key_fields(aggregation: Aggregation) -> tuple[Field, ...]:
    """What groups are told apart by: keys, then the bounds of the window."""
    window = aggregation.window
    bounds = () if window is None else (Field(window.start, TIMESTAMP), Field(window.end, TIMESTAMP))
    return (*(Field(key.name, key.expr.type) for key in aggregation.keys), *bounds)


def key_column(field: Field) -> str:
    return f"k:{field.name}"


def prepared_fields(aggregation: Aggregation) -> tuple[Field, ...]:
    """The columns of prepared rows."""
    keys = tuple(Field(key_column(field), field.type) for field in key_fields(aggregation))
    inputs = (pair for call in aggregation.calls for pair in zip(input_columns(call), call.inputs, strict=True))
    return (*keys, *(Field(name, expr.type) for name, expr in inputs))


def input_columns(call: AggregateCall) -> tuple[str, ...]:
    """The columns that hold the inputs of a call."""
    return tuple(f"a:{call.name}:{place}" if place else f"a:{call.name}" for place in range(len(call.inputs)))


def prepare(aggregation: Aggregation, changes: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """Changes of the aggregate's input, prepared."""
    if aggregation.window is not None:
        changes = in_windows(aggregation.window, changes, around)
    columns = {f"k:{key.name}": column_of(key.expr, changes, around) for key in aggregation.keys}
    if aggregation.window is not None:
        bounds = (aggregation.window.start, aggregation.window.end)
        columns |= {f"k:{name}": changes.column(name) for name in bounds}
    for call in aggregation.calls:
        for name, expr in zip(input_columns(call), call.inputs, strict=True):
            columns[name] = column_of(expr, changes, around)
    order = pa.nulls(changes.num_rows, pa.int32()).fill_null(0)
    return consolidate(pa.table({**columns, TIME: changes.column(TIME), ORDER: order, WEIGHT: changes.column(WEIGHT)}))
