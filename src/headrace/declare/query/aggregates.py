"""Aggregate functions: which nodes of a query are aggregates, and what each computes for a group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query import calls, operators
from headrace.declare.query.expressions import read_condition, read_expression
from headrace.declare.query.known_functions import AGGREGATES, MAINTAINED_AGGREGATES
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.stage import QueryStage
from headrace.model.expr import Expr, Literal
from headrace.model.promotion import average_type, sum_type
from headrace.model.relation import AggregateCall, AggregateFunction
from headrace.model.types import BIGINT, DOUBLE, INT, INTERVALS, NULL, Array, Type, is_numeric

_ONE = Literal(1, INT)


def aggregates_in(nodes: Iterable[exp.Expr], stage: QueryStage) -> list[exp.Expr]:
    """The aggregates of a query's own expressions, outermost first; those of its subqueries are their own."""
    return [found for node in nodes for found in _find_aggregates(node, stage)]


def _find_aggregates(node: exp.Expr, stage: QueryStage) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Query):
        return
    if _is_aggregate(node, stage):
        yield node
        return
    inner = node.iter_expressions()
    for part in inner:
        over = isinstance(node, exp.Window) and part is node.this
        if over and _is_aggregate(part, stage):
            continue  # sum(x) OVER (...) is no aggregate of the group
        yield from _find_aggregates(part, stage)


def _is_aggregate(node: exp.Expr, stage: QueryStage) -> bool:
    call = node.this if isinstance(node, exp.Filter) else node
    if not isinstance(call, exp.Anonymous):
        return False
    name = call.name.lower()
    return name in AGGREGATES and name not in stage.environment.declared.functions


def read_aggregate(node: exp.Expr, stage: QueryStage, name: str) -> AggregateCall:
    """One aggregate over the rows at hand. FILTER (WHERE p) counts other rows as NULL."""
    call = node.this if isinstance(node, exp.Filter) else node
    function = call.name.lower()
    if function not in MAINTAINED_AGGREGATES:
        raise NotMaintained(f"aggregate: {function}")
    inside = replace(stage, clause="an aggregate", places={})
    arguments, distinct = _arguments(call)
    count_rows = function == "count" and len(arguments) == 1 and isinstance(arguments[0], exp.Star)
    values = [] if count_rows else [read_expression(argument, inside) for argument in arguments]
    only_if = read_condition(node.expression.this, inside) if isinstance(node, exp.Filter) else None
    stage.relation = inside.relation  # subqueries inside have extended it
    if function in ("count", "count_if"):
        return _make_count(function, values, distinct, only_if, name)
    return _of_values(function, values, distinct, only_if, name)


def _arguments(call: exp.Expr) -> tuple[Sequence[exp.Expr], bool]:
    arguments = call.expressions
    if arguments and isinstance(arguments[0], exp.Distinct):
        if arguments[0].args.get("on") or len(arguments) > 1:
            raise Mistake("DISTINCT is written once, before all arguments")
        return arguments[0].expressions, True
    return arguments, False


def _make_count(
    function: str, values: Sequence[Expr], distinct: bool, only_if: Expr | None, name: str
) -> AggregateCall:
    if function == "count_if":
        if len(values) != 1 or distinct:
            raise Mistake('"count_if" takes one condition')
        values, only_if = [], _both(only_if, operators.condition(values[0]))
    if distinct and len(values) != 1:
        raise NotMaintained("count distinct of several columns") if values else Mistake("DISTINCT of nothing")
    if not distinct:
        # A constant is never NULL, and several arguments count when none is.
        present = [calls.is_not_null(value) for value in values if not _is_constant(value)]
        if len(values) > 1 or not present:
            for test in present:
                only_if = _both(only_if, test)
            values = []
    argument = None if not values and only_if is None else _where(only_if, values[0] if values else _ONE)
    return AggregateCall(name, AggregateFunction.COUNT, argument, distinct, BIGINT)


def _is_constant(value: Expr) -> bool:
    return isinstance(value, Literal) and value.value is not None


def _both(left: Expr | None, right: Expr) -> Expr:
    return right if left is None else operators.connect("and", (left, right))


def _where(only_if: Expr | None, value: Expr) -> Expr:
    return value if only_if is None else operators.case((only_if,), (value,), operators.UNKNOWN)


def _of_values(function: str, values: Sequence[Expr], distinct: bool, only_if: Expr | None, name: str) -> AggregateCall:
    if len(values) != 1:
        raise Mistake(f'"{function}" takes one argument')
    kind = AggregateFunction.AVG if function == "mean" else AggregateFunction(function)
    value = operators.convert(values[0], DOUBLE) if values[0].type == NULL else values[0]
    type_ = _result(kind, value.type)
    extreme = kind in (AggregateFunction.MIN, AggregateFunction.MAX)
    return AggregateCall(name, kind, _where(only_if, value), distinct and not extreme, type_)


def _result(kind: AggregateFunction, type_: Type) -> Type:
    if type_ in INTERVALS or isinstance(type_, Array):
        raise NotMaintained(f"aggregate: {kind.value} of {type_}")
    if kind in (AggregateFunction.MIN, AggregateFunction.MAX):
        return type_
    if not is_numeric(type_):
        raise Mistake(f'"{kind.value}" needs numbers, not {type_}', "it needs an explicit CAST")
    return sum_type(type_) if kind == AggregateFunction.SUM else average_type(type_)
