"""Expressions as functions of rows, for the evaluation of relations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from headrace.meaning.scalar import Evaluator, Surroundings, compile_expr, failing_part
from headrace.meaning.zset import ZSet, normal
from headrace.model.bad_row import BadRow, say_expression
from headrace.model.errors import EvaluationError
from headrace.model.expr import TRUE, Expr, columns_of
from headrace.model.relation import Relation, fields_of
from headrace.model.types import FRACTIONS, Array, Row, Value

Names = tuple[str, ...]


def names_of(relation: Relation) -> Names:
    return tuple(field.name for field in fields_of(relation))


def value_of(expr: Expr, names: Names, around: Surroundings) -> Evaluator:
    """The value of an expression, in the one form that rows are compared by."""
    value = compile_expr(expr, names, around)
    if expr.type in FRACTIONS or isinstance(expr.type, Array):
        return lambda row: normal(value(row))
    return value


def row_of(exprs: tuple[Expr, ...], names: Names, around: Surroundings) -> Callable[[Row], Row]:
    """A row of values, one per expression."""
    values = tuple(value_of(expr, names, around) for expr in exprs)
    return lambda row: tuple(value(row) for value in values)


def predicate_of(expr: Expr, names: Names, around: Surroundings) -> Callable[[Row], bool]:
    """Whether a predicate is true, not false or NULL."""
    if expr == TRUE:
        return lambda row: True
    value = compile_expr(expr, names, around)
    return lambda row: value(row) is True


def say_failure(error: EvaluationError, expr: Expr, row: Mapping[str, Value], around: Surroundings) -> BadRow:
    """What people are told of a row that an expression fails for: the smallest part that does."""
    part = failing_part(expr, row, around)
    return BadRow(str(error), say_expression(part), row, tuple(sorted(columns_of(part))))


def bag(rows: ZSet, relation: Relation) -> Iterable[tuple[Row, int]]:
    """The items of a Z-set without negative weights."""
    assert rows.is_bag, f"{type(relation).__name__.lower()} of rows that occur less than zero times: {rows}"
    return rows.items()
