"""Expressions over tables: whole columns at once where Arrow means exactly the same, else row by row."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pyarrow as pa

from headrace.meaning.row_functions import say_failure, value_of
from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.bad_row import BadRow
from headrace.model.errors import EvaluationError
from headrace.model.expr import TRUE, Expr, columns_of
from headrace.model.relation import Output
from headrace.model.types import Row
from headrace.run.operators.vectors import Datum, vector_of
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, STAMPS, TIME, WEIGHT, consolidate


def column_of(expr: Expr, table: pa.Table, around: Surroundings = NOTHING) -> pa.Array:
    """The value of an expression for every row; the table's columns have the names that it reads."""

    def one_by_one(part: Expr) -> Datum:
        return _one_value(part, around) if not columns_of(part) else _row_by_row(part, table, around)

    try:
        return _as_column(vector_of(expr, table, one_by_one), table.num_rows)
    except (pa.ArrowInvalid, EvaluationError):
        # Something fails for some row. Whether that counts (`x <> 0 AND 1 / x > 2`) only the row itself can say.
        return _row_by_row(expr, table, around)


def keep(predicate: Expr, table: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """The rows for which a predicate is true, not false or NULL."""
    return table if predicate == TRUE else table.filter(column_of(predicate, table, around))


def with_outputs(outputs: Iterable[Output], changes: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """Changes of the rows that a projection makes, added up."""
    columns = {output.name: column_of(output.expr, changes, around) for output in outputs}
    stamps = {name: changes.column(name) for name in (TIME, ORDER, WEIGHT)}
    return consolidate(pa.table({**columns, **stamps}))


def _row_by_row(expr: Expr, table: pa.Table, around: Surroundings) -> pa.Array:
    names = tuple(sorted(columns_of(expr)))
    value = value_of(expr, names, around)
    rows = rows_of_arrow(table.select(names)) if names else [()] * table.num_rows
    values: list[Row] = []
    try:
        values.extend((value(row),) for row in rows)
    except EvaluationError as error:
        error.bad_row = error.bad_row or bad_row_at(error, expr, table, len(values), around)
        raise
    return arrow_table({"": expr.type}, values).column(0).combine_chunks()


def bad_row_at(error: EvaluationError, expr: Expr, table: pa.Table, position: int, around: Surroundings) -> BadRow:
    """What people are told of a row of a table for which an expression fails."""
    one = table.slice(position, 1)
    row = dict(zip(one.column_names, rows_of_arrow(one)[0], strict=True))
    time = row.get(TIME)
    plain = {name: value for name, value in row.items() if name not in STAMPS}
    return replace(say_failure(error, expr, plain, around), time=time if isinstance(time, int) else None)


def _one_value(expr: Expr, around: Surroundings) -> pa.Scalar:
    """What is the same for all rows."""
    return arrow_table({"": expr.type}, [(value_of(expr, (), around)(()),)]).column(0)[0]


def _as_column(datum: Datum, rows: int) -> pa.Array:
    if not isinstance(datum, pa.Scalar):
        return datum
    return pa.repeat(datum, rows) if datum.is_valid else pa.nulls(rows, datum.type)
