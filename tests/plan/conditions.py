"""Random conditions that overlap: comparisons of few columns with few constants, combined in every way."""

from __future__ import annotations

import decimal
import math

from hypothesis import strategies as st

from headrace.model.expr import FALSE, TRUE, Call, Column, Expr, Literal
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Decimal, Type, Value

MONEY = Decimal(10, 2)
COLUMNS = (
    Column("a.k", INT),
    Column("b.k", INT),
    Column("b.n", BIGINT),
    Column("a.x", DOUBLE),
    Column("a.m", MONEY),
    Column("a.o", BOOLEAN),
    Column("a.s", STRING),
)
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
VALUES: dict[Type, tuple[Value, ...]] = {
    INT: (1, 2, 3, None),
    BIGINT: (1, 2, 3, None),
    DOUBLE: (1.0, 1.5, 2.0, math.nan, math.inf, -0.0, None),
    MONEY: (decimal.Decimal("1.00"), decimal.Decimal("1.50"), None),
    BOOLEAN: (True, False, None),
    STRING: ("a", "b", "", None),
}
WIDENED: tuple[Literal, ...] = (
    Literal(1.5, DOUBLE),
    Literal(2.0, DOUBLE),
    Literal(math.nan, DOUBLE),
    Literal(decimal.Decimal("1.5"), Decimal(11, 1)),
    Literal(2, BIGINT),
)
"""What an INT column, cast to their type, may be compared with."""


def call(function: str, *arguments: Expr) -> Call:
    return Call(function, arguments, BOOLEAN)


def conditions(max_leaves: int = 8) -> st.SearchStrategy[Expr]:
    return st.recursive(st.sampled_from(COLUMNS).flatmap(_atoms), _combined, max_leaves=max_leaves)


def rows() -> st.SearchStrategy[dict[str, Value]]:
    return st.fixed_dictionaries({column.name: st.sampled_from(VALUES[column.type]) for column in COLUMNS})


def _atoms(column: Column) -> st.SearchStrategy[Expr]:
    operators = st.sampled_from(OPERATORS)
    literals = st.sampled_from([Literal(value, column.type) for value in VALUES[column.type]])
    others = st.sampled_from([other for other in COLUMNS if other.type == column.type])
    found: list[st.SearchStrategy[Expr]] = [
        st.builds(lambda operator, literal: call(operator, column, literal), operators, literals),
        st.builds(lambda operator, literal: call(operator, literal, column), operators, literals),
        st.builds(lambda operator, other: call(operator, column, other), operators, others),
        st.lists(literals, min_size=1, max_size=3).map(lambda options: call("in", column, *options)),
        st.just(call("is_null", column)),
    ]
    if column.type == BOOLEAN:
        found.append(st.just(column))
    if column.type == INT:
        found.append(
            st.builds(
                lambda operator, literal: _widened(operator, column, literal), operators, st.sampled_from(WIDENED)
            )
        )
    return st.one_of(found)


def _widened(operator: str, column: Column, literal: Literal) -> Expr:
    return call(operator, Call("cast", (column,), literal.type), literal)


def _combined(parts: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    several = st.lists(parts, min_size=2, max_size=3)
    return st.one_of(
        parts.map(lambda part: call("not", part)),
        several.map(lambda found: call("and", *found)),
        several.map(lambda found: call("or", *found)),
        parts.map(lambda part: call("is_null", part)),
        st.builds(lambda part, truth: call("<=>", part, truth), parts, st.sampled_from((TRUE, FALSE))),
        st.builds(lambda *found: call("case", *found), parts, parts, parts),
        st.builds(lambda *found: call("=", *found), parts, parts),
    )
