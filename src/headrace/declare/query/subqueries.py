"""Queries used as values: the rows at hand joined with the one row that the query has for each of them.

    aggregate without GROUP BY      one row, also for nothing: counts are 0 there, and other aggregates NULL
    ORDER BY ... LIMIT 1, or a key  at most one row; none means NULL
    others                          grouped: the one value, and how many rows there are. More than one fails

Without correlation that row is the same for all. With it, the query is grouped by the inner values that the outer ones
are compared with, and joined by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.constants import is_one_row
from headrace.declare.query.correlation import split_conditions
from headrace.declare.query.decorrelate import or_nothing
from headrace.declare.query.environment import Environment, Purpose, Rows, Size
from headrace.declare.query.inner_queries import read_inner
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.stage import QueryStage
from headrace.model.catalogue import SourceKind
from headrace.model.expr import TRUE, Call, Column, Expr, columns_of, conjunction, substitute
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Filter,
    Join,
    JoinKind,
    Output,
    Projection,
    Relation,
    Scan,
    fields_of,
    over_nothing,
)
from headrace.model.types import BIGINT, INTERVALS, NULL

ROWS = AggregateCall("rows", AggregateFunction.COUNT, None, False, BIGINT)


def read_scalar(stage: QueryStage, node: exp.Expr) -> Expr:
    """The value of a query in parentheses for each row at hand, to which its row is joined."""
    rows = read_inner(node, "scalar", stage, Purpose.VALUE)
    if len(rows.columns) != 1:
        if not rows.complete:
            raise Mistake("")
        raise Mistake(f"a query used as a value has {len(rows.columns)} columns, not one")
    value = rows.columns[0].value
    if rows.size == Size.ONE and is_one_row(rows.relation) and not rows.correlated:
        return value
    if rows.size == Size.ONE:
        return _attach_one(stage, rows, value)
    if rows.size == Size.AT_MOST_ONE or _is_unique(rows, stage.environment):
        return _attach_at_most_one(stage, rows, value)
    rows = read_inner(node, "scalar", stage, Purpose.VALUE, by_equality=True)
    return _attach_any(stage, rows, rows.columns[0].value)


def _attach_one(stage: QueryStage, rows: Rows, value: Expr) -> Expr:
    if not rows.correlated:
        stage.relation = Join(JoinKind.INNER, stage.relation, rows.relation, TRUE)
        return value
    stage.relation = Join(JoinKind.LEFT, stage.relation, rows.relation, conjunction(rows.correlated))
    return substitute(value, {name: or_nothing(name, nothing) for name, nothing in rows.counts.items()})


def _attach_at_most_one(stage: QueryStage, rows: Rows, value: Expr) -> Expr:
    """No row means NULL, whatever the expression makes of NULLs: it is computed before the join."""
    if value.type == NULL or value.type in INTERVALS:
        raise NotMaintained("scalar subquery without aggregate")
    field = Column(_name(stage, "value"), value.type)
    used = {name for part in rows.correlated for name in columns_of(part)}
    kept = (Output(f.name, Column(f.name, f.type)) for f in fields_of(rows.relation) if f.name in used)
    right = Projection(rows.relation, (Output(field.name, value), *kept))
    stage.relation = Join(JoinKind.LEFT, stage.relation, right, conjunction(rows.correlated))
    return field


def _attach_any(stage: QueryStage, rows: Rows, value: Expr) -> Expr:
    if value.type == NULL or value.type in INTERVALS:
        raise NotMaintained("scalar subquery without aggregate")
    least = AggregateCall("value", AggregateFunction.MIN, value, False, value.type)
    count, one = attach_aggregates(stage, rows, (ROWS, least))
    return Call("only_row", (one, count), value.type)


def _is_unique(rows: Rows, environment: Environment) -> bool:
    """Whether there is at most one row for each outer row, because a key is compared with it."""
    sides = split_conditions(rows.correlated, {field.name for field in fields_of(rows.relation)})
    return bool(sides) and _is_key(rows.relation, {str(side.inner) for side in sides or ()}, environment)


def _is_key(relation: Relation, columns: set[str], environment: Environment) -> bool:
    match relation:
        case Filter(input_):
            return _is_key(input_, columns, environment)
        case Scan(name, alias):
            source = environment.declared.source(name)
            key = () if source is None or source.kind != SourceKind.TABLE else source.key
            return bool(key) and {f"{alias}.{column}" for column in key} <= columns
        case Aggregate(_, keys):
            return bool(keys) and {key.name for key in keys} <= columns
    return False


def attach_aggregates(stage: QueryStage, rows: Rows, calls: Sequence[AggregateCall]) -> tuple[Expr, ...]:
    """Joins the rows at hand with aggregates of the rows of an inner query that belong to each. Counts are 0 where
    there are none.
    """
    sides = split_conditions(rows.correlated, {field.name for field in fields_of(rows.relation)})
    assert sides is not None, "the inner query was read for joins by equality"
    named = tuple(replace(call, name=_name(stage, call.name)) for call in calls)
    keys = {inner: Output(_name(stage, "key"), inner) for inner in dict.fromkeys(side.inner for side in sides)}
    right = Aggregate(rows.relation, tuple(keys.values()), named)
    on = tuple(side.compare(Column(keys[side.inner].name, side.inner.type)) for side in sides)
    kind = JoinKind.LEFT if sides else JoinKind.INNER
    stage.relation = Join(kind, stage.relation, right, conjunction(on))
    if not sides:
        return tuple(Column(call.name, call.type) for call in named)
    return tuple(or_nothing(call.name, over_nothing(call)) for call in named)


def _name(stage: QueryStage, stem: str) -> str:
    environment = stage.environment
    return environment.books.fresh(f"{environment.path}subquery.{stem}")
