"""Scalar subqueries: the rows at hand joined with the one row that the subquery has for each of them.

Without correlation that row is the same for all: a product with an aggregate that has one row. With it, the subquery is
grouped by the inner columns that the outer ones are compared with, and joined by them. A row without a match has an
empty group: its counts are 0 and its other aggregates NULL, just as the aggregate over nothing.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.environment import Purpose, Rows, Size
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.stage import QueryStage
from headrace.model.expr import TRUE, Call, Column, Expr, Literal, conjunction, substitute
from headrace.model.relation import Join, JoinKind, Output, Projection
from headrace.model.types import BIGINT


def read_scalar(stage: QueryStage, node: exp.Expr) -> Expr:
    """The value of a query in parentheses for each row at hand, to which its row is joined."""
    query = node.unnest()
    if not isinstance(query, exp.Query):
        raise Mistake("a query is expected in parentheses")
    inner = stage.environment.inside_another("scalar")
    rows = inner.read_query(query, inner, stage, Purpose.VALUE)
    if len(rows.columns) != 1:
        if not rows.complete:
            raise Mistake("")
        raise Mistake(f"a query used as a value has {len(rows.columns)} columns, not one")
    return _attach_rows(stage, rows, f"{inner.output}value")


def _attach_rows(stage: QueryStage, rows: Rows, name: str) -> Expr:
    value = rows.columns[0].value
    if rows.size == Size.ONE and not rows.correlated:
        stage.relation = Join(JoinKind.INNER, stage.relation, rows.relation, TRUE)
        return value
    if rows.size == Size.ONE:
        stage.relation = Join(JoinKind.LEFT, stage.relation, rows.relation, conjunction(rows.correlated))
        return substitute(value, {count: _or_zero(count) for count in rows.counts})
    if rows.size == Size.AT_MOST_ONE and not rows.correlated:
        # No row means NULL, whatever the expression makes of NULLs: compute it before the join.
        field = Column(name, value.type)
        stage.relation = Join(
            JoinKind.LEFT, stage.relation, Projection(rows.relation, (Output(field.name, value),)), TRUE
        )
        return field
    raise NotMaintained("scalar subquery without aggregate" if rows.size == Size.ANY else "correlated subquery")


def _or_zero(count: str) -> Expr:
    return Call("coalesce", (Column(count, BIGINT), Literal(0, BIGINT)), BIGINT)
