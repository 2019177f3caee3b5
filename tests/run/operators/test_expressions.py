"""Columns of expressions are those that rows one by one give, errors included."""

from __future__ import annotations

import datetime as dt
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.row_functions import row_of
from headrace.meaning.scalar import NOTHING
from headrace.model.errors import EvaluationError
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.relation import Field
from headrace.model.types import BIGINT, BOOLEAN, DAY_TIME, DOUBLE, INT, TIMESTAMP, Row, Value
from headrace.run.operators.expressions import column_of, keep
from headrace.run.operators.vectors import vector_of
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing import SCHEMA
from headrace.testing.expressions import ScalarMaker
from headrace.testing.tables import COLUMN_TYPES, rows

FIELDS = tuple(Field(column.name, column.type) for column in SCHEMA["r"].columns or ())


def table_of(found: list[Row]) -> pa.Table:
    return arrow_table({field.name: field.type for field in FIELDS}, found)


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    return ScalarMaker(draw, FIELDS).make(draw(st.sampled_from(COLUMN_TYPES)), 3)


@given(st.data())
def test_a_column_is_what_its_rows_are(data: st.DataObject):
    check_column(data.draw(expressions()), table_of(data.draw(st.lists(rows(SCHEMA["r"], extreme=True), max_size=6))))


AT = Column("at", TIMESTAMP)
SPANS = (dt.timedelta(), dt.timedelta(microseconds=1), dt.timedelta(days=-40, hours=3), dt.timedelta(days=700_000))
TIMES = [
    *(Call(sign, (AT, Literal(span, DAY_TIME)), TIMESTAMP) for sign in ("+", "-") for span in SPANS),
    *(
        Call("window_start", (AT, Literal(slide, BIGINT), Literal(offset, BIGINT)), TIMESTAMP)
        for slide, offset in ((60_000, 0), (7, 3), (40 * 86_400_000, 86_400_000))
    ),
]


@given(st.sampled_from(TIMES), st.lists(rows(SCHEMA["r"], extreme=True), max_size=6))
def test_times_are_shifted_as_their_rows_are(expr: Expr, found: list[Row]):
    check_column(expr, table_of(found))


def check_column(expr: Expr, table: pa.Table) -> None:
    value = row_of((expr,), tuple(field.name for field in FIELDS), NOTHING)
    try:
        expected = [value(row) for row in rows_of_arrow(table)]
    except EvaluationError as error:
        with pytest.raises(EvaluationError, match=f"^{re.escape(str(error))}$"):
            column_of(expr, table)
        return
    column = column_of(expr, table)
    assert rows_of_arrow(pa.table({"": column})) == expected
    assert column.type == arrow_table({"": expr.type}, []).column(0).type


def number(name: str) -> Expr:
    return Column(name, BIGINT)


def numbers(*pairs: tuple[Value, Value]) -> pa.Table:
    return arrow_table({"x": BIGINT, "y": BIGINT}, list(pairs))


def test_what_overflows_is_an_error_unless_it_decides_nothing():
    product = Call("*", (number("x"), number("y")), BIGINT)
    small = Call("<", (number("x"), Literal(10, BIGINT)), BOOLEAN)
    positive = Call(">", (product, Literal(0, BIGINT)), BOOLEAN)
    table = numbers((3, 4), (2**62, 4))
    with pytest.raises(EvaluationError, match="is out of the range of bigint"):
        column_of(product, table)
    assert keep(Call("and", (small, positive), BOOLEAN), table).num_rows == 1
    assert column_of(Call("and", (small, positive), BOOLEAN), table).to_pylist() == [True, False]


def test_division_by_zero_is_an_error_unless_it_decides_nothing():
    quotient = Call("/", (Column("x", DOUBLE), Column("y", DOUBLE)), DOUBLE)
    table = arrow_table({"x": DOUBLE, "y": DOUBLE}, [(1.0, 2.0), (1.0, 0.0)])
    with pytest.raises(EvaluationError, match="division by zero"):
        column_of(quotient, table)
    zero = Call("=", (Column("y", DOUBLE), Literal(0.0, DOUBLE)), BOOLEAN)
    safe = Call("case", (zero, Literal(None, DOUBLE), quotient), DOUBLE)
    assert column_of(safe, table).to_pylist() == [0.5, None]


SIGNS = [
    (a, b) for a in (-(2**63), -7, -6, 0, 6, 7, 2**63 - 1, None) for b in (-(2**63), -3, -1, 1, 3, 2**63 - 1, None)
]


@pytest.mark.parametrize("function", ["%", "pmod"])
def test_remainders_of_columns_are_those_of_rows_whatever_the_signs(function: str):
    rest = Call(function, (number("x"), number("y")), BIGINT)
    value = row_of((rest,), ("x", "y"), NOTHING)
    for pairs in (SIGNS, [pair for pair in SIGNS if -(2**63) not in pair]):
        table = numbers(*pairs)
        assert column_of(rest, table).to_pylist() == [value(row)[0] for row in rows_of_arrow(table)]
    with pytest.raises(EvaluationError, match="division by zero"):
        column_of(rest, numbers((7, 0)))


@pytest.mark.parametrize("function", ["=", "<>", "<=>", "<", "<=", ">", ">=", "in"])
def test_integers_of_different_widths_compare_as_numbers(function: str):
    table = arrow_table({"x": BIGINT, "y": INT}, [(a, b) for a in (-(2**63), -1, 2**31, None) for b in (-1, 0, None)])
    compared = Call(function, (Column("x", BIGINT), Column("y", INT)), BOOLEAN)
    value = row_of((compared,), ("x", "y"), NOTHING)
    assert column_of(compared, table).to_pylist() == [value(row)[0] for row in rows_of_arrow(table)]


def test_a_row_is_kept_when_the_predicate_is_true_and_not_when_it_is_null():
    table = numbers((1, 1), (1, 2), (None, 1))
    assert keep(Call("=", (number("x"), number("y")), BOOLEAN), table).num_rows == 1


def test_constants_make_whole_columns():
    table = numbers((1, 1), (1, 2))
    assert column_of(Literal(None, INT), table).to_pylist() == [None, None]
    assert column_of(Call("+", (Literal(1, INT), Literal(2, INT)), INT), table).to_pylist() == [3, 3]
    assert column_of(Literal(1, INT), table.slice(0, 0)).to_pylist() == []


def test_usual_predicates_need_no_row():
    def never(part: Expr) -> pa.Scalar:
        assert isinstance(part, Literal), f"row by row: {part}"
        return pa.scalar(part.value, pa.int64())

    small = Call("in", (number("x"), Literal(1, BIGINT), Literal(2, BIGINT)), BOOLEAN)
    ordered = Call("<=", (number("x"), Call("+", (number("y"), Literal(1, BIGINT)), BIGINT)), BOOLEAN)
    there = Call("not", (Call("is_null", (number("y"),), BOOLEAN),), BOOLEAN)
    even = Call("=", (Call("%", (number("y"), Literal(2, BIGINT)), BIGINT), Literal(0, INT)), BOOLEAN)
    predicate = Call("and", (small, ordered, there, even), BOOLEAN)
    assert vector_of(predicate, numbers((1, 0), (2, 0), (None, 2)), never).to_pylist() == [True, False, None]
