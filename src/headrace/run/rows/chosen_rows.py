"""Rows as a reader asks for them: those for which a condition is true, sorted as SQL sorts."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.evaluate_rank import order_key
from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.expr import Expr
from headrace.model.relation import Order
from headrace.model.types import FRACTIONS, Array
from headrace.run.operators.expressions import column_of, keep
from headrace.run.rows.arrow import rows_of_arrow

ASCENDING, DESCENDING = "ascending", "descending"


def choose_rows(rows: pa.Table, where: Expr | None, order: Sequence[Order], around: Surroundings = NOTHING) -> pa.Table:
    """The rows for which `where` holds, in this order; rows that it leaves tied stay as they were."""
    chosen = rows if where is None else keep(where, rows, around)
    if not order or chosen.num_rows < 2:
        return chosen
    if any(isinstance(key.expr.type, Array) for key in order):
        return chosen.take(_sort_in_python(chosen, order, around))
    return chosen.take(_sort_in_arrow(chosen, order, around))


def _sort_in_arrow(rows: pa.Table, order: Sequence[Order], around: Surroundings) -> pa.Array:
    """Arrow puts NULL and NaN at one end for all keys; SQL asks for NULL key by key and has NaN above all numbers."""
    columns: dict[str, pa.Array] = {}
    directions: list[tuple[str, str]] = []

    def add(column: pa.Array, descending: bool) -> None:
        name = str(len(columns))
        columns[name] = column
        directions.append((name, DESCENDING if descending else ASCENDING))

    for key in order:
        values = column_of(key.expr, rows, around)
        add(pc.cast(pc.is_null(values), pa.int8()), key.nulls_first)
        if key.expr.type in FRACTIONS:
            unknown = pc.fill_null(pc.is_nan(values), False)
            add(pc.cast(unknown, pa.int8()), key.descending)
            values = pc.if_else(unknown, pa.scalar(0.0, values.type), values)
        add(values, key.descending)
    return pc.sort_indices(pa.table(columns), sort_keys=directions)


def _sort_in_python(rows: pa.Table, order: Sequence[Order], around: Surroundings) -> pa.Array:
    values = list(rows_of_arrow(rows))
    positions = list(range(len(values)))
    for key in reversed(order):
        value = order_key(key, tuple(rows.column_names), around)
        positions.sort(key=lambda position, value=value: value(values[position]), reverse=key.descending)  # type: ignore[misc]
    return pa.array(positions, pa.int64())
