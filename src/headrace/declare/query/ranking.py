"""First rows: ROW_NUMBER() and its kin filtered to the first k.

A ranking is read as a window function. Where conditions bound its field from above, in the WHERE of the query around
it, in QUALIFY or in ON, and nothing else is computed in its window, it becomes a TopK, which keeps less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.expressions import read_value
from headrace.declare.query.forms import check_parts
from headrace.declare.query.known_functions import RANKINGS
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_spans import refuse_sorting, refuse_span_column, sort_value
from headrace.declare.query.stage import QueryStage
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.origin_types import ColumnOrigin
from headrace.model.relation import (
    Filter,
    Join,
    JoinKind,
    Order,
    Over,
    PlaceCall,
    Projection,
    Ranking,
    Relation,
    TopK,
    WindowCall,
)

UNLIMITED = 2**63 - 1

_KEEPS_LEFT = (JoinKind.INNER, JoinKind.LEFT, JoinKind.SEMI, JoinKind.ANTI)
_KEEPS_RIGHT = (JoinKind.INNER, JoinKind.RIGHT)
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def read_order(node: exp.Expr, stage: QueryStage) -> tuple[Order, ...]:
    """The keys of an ORDER BY, over the rows at hand. Constants order nothing."""
    keys = (sort_key(part, read_value(part.this, stage), stage) for part in node.expressions)
    return tuple(key for key in keys if not isinstance(key.expr, Literal))


def sort_key(node: exp.Expr, value: Expr, stage: QueryStage, origin: ColumnOrigin | None = None) -> Order:
    """A key as its values are sorted. `origin` is what PostgreSQL calls the type of the item that the key names."""
    refuse_sorting(node.this, "ORDER BY of")
    if stage.environment.text.dialect is SqlDialect.POSTGRES:
        value = sort_value(value, origin or find_origin_type(node.this))
    else:
        refuse_span_column(node.this, "ORDER BY of")
    return plain_key(node, value)


def plain_key(node: exp.Expr, value: Expr) -> Order:
    """A key that is sorted by as it is. Spark's default, NULLs first ascending and last descending, is filled in."""
    check_parts(node)
    return Order(value, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))


def keep_first(relation: Relation, parts: Sequence[Expr]) -> tuple[Relation, tuple[Expr, ...]]:
    """Use conditions on ranks as limits of the rankings below; return the conditions that remain."""
    remaining = tuple(parts)
    for field in tuple(_find_unlimited(relation)):
        bounds = {part: bound for part in remaining if (bound := _bound(part, field)) is not None}
        lowest = max((low for low, _ in bounds.values()), default=1)
        highest = min((high for _, high in bounds.values()), default=UNLIMITED)
        if highest < UNLIMITED:
            relation = _limit_rows(relation, field, max(1, lowest), highest)
            remaining = tuple(part for part in remaining if part not in bounds)
    return relation, remaining


def _bound(part: Expr, field: str) -> tuple[int, int] | None:
    """The ranks that a condition allows, if it compares this rank with a constant."""
    if not isinstance(part, Call) or part.function not in _MIRRORED:
        return None
    left, right = part.arguments
    operator = part.function
    if isinstance(left, Literal):
        left, right, operator = right, left, _MIRRORED[operator]
    if not isinstance(right, Literal) or not isinstance(right.value, int) or not _is_rank(left, field):
        return None
    value = right.value
    return {
        "=": (value, value),
        "<": (1, value - 1),
        "<=": (1, value),
        ">": (value + 1, UNLIMITED),
        ">=": (value, UNLIMITED),
    }[operator]


def _is_rank(expr: Expr, field: str) -> bool:
    while isinstance(expr, Call) and expr.function == "cast":
        expr = expr.arguments[0]
    return isinstance(expr, Column) and expr.name == field


def _below(relation: Relation) -> tuple[Relation, ...]:
    """The inputs through which a condition on rows of the output can be pushed down."""
    match relation:
        case Filter(input_) | Projection(input_):
            return (input_,)
        case Join(kind, left, right):
            return ((left,) if kind in _KEEPS_LEFT else ()) + ((right,) if kind in _KEEPS_RIGHT else ())
    return ()


def _only_ranking(over: Over) -> WindowCall | None:
    """The one call of a window, if it is a ranking."""
    call = over.calls[0]
    is_ranking = isinstance(call.compute, PlaceCall) and call.compute.function.value in RANKINGS
    return call if is_ranking and len(over.calls) == 1 else None


def _find_unlimited(relation: Relation) -> Iterator[str]:
    if isinstance(relation, Over) and (call := _only_ranking(relation)) is not None:
        yield call.name
    for input_ in _below(relation):
        yield from _find_unlimited(input_)


def _limit_rows(relation: Relation, field: str, lowest: int, highest: int) -> Relation:
    if isinstance(relation, Over) and relation.calls[0].name == field:
        compute = relation.calls[0].compute
        assert isinstance(compute, PlaceCall), f'"{field}" is no ranking'
        bounds, ranking = (max(0, highest - lowest + 1), lowest - 1), Ranking(compute.function.value)
        return TopK(relation.input, relation.partition, relation.order, *bounds, ranking, field)
    match relation:
        case Filter(input_) | Projection(input_):
            return replace(relation, input=_limit_rows(input_, field, lowest, highest))
        case Join(kind, left, right):
            if kind in _KEEPS_LEFT:
                left = _limit_rows(left, field, lowest, highest)
            if kind in _KEEPS_RIGHT:
                right = _limit_rows(right, field, lowest, highest)
            return replace(relation, left=left, right=right)
    return relation
