"""Whole queries: WITH, then a SELECT or queries combined."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.environment import Environment, NamedQuery, Purpose, Rows
from headrace.declare.query.report import Report, refuse
from headrace.declare.query.scope import fold
from headrace.declare.query.select import read_select
from headrace.declare.query.sets import limit_rows, read_set
from headrace.declare.query.stage import QueryStage
from headrace.declare.query.tables import refuse_clauses
from headrace.model.errors import UnsupportedSql


def read_query(node: exp.Query, environment: Environment, outer: QueryStage | None, purpose: Purpose) -> Rows:
    """The rows of any query. `outer` is where it stands inside another query, whose columns it may name."""
    with_ = node.args.get("with_")
    inside = environment if with_ is None else _with(with_, environment, outer)
    rows = _body(node, inside, outer, purpose)
    if with_ is not None:
        _read_unused(with_, inside)
    return rows


def _body(node: exp.Query, environment: Environment, outer: QueryStage | None, purpose: Purpose) -> Rows:
    if isinstance(node, exp.Select):
        return read_select(node, environment, outer, purpose)
    if isinstance(node, exp.SetOperation):
        return read_set(node, environment, outer, purpose)
    if not isinstance(node, exp.Subquery) or not isinstance(node.this, exp.Query):
        refuse(f"clause: {type(node).__name__.lower()}", environment.at(node))
    refuse_clauses(node, environment, "this", "with_", "order", "limit", "offset")
    rows = environment.read_query(node.this, environment, outer, purpose)
    if rows.correlated and node.args.get("limit"):
        refuse("correlated subquery", environment.books.outer_place or environment.at(node))
    return limit_rows(node, rows, environment, purpose)


def _with(node: exp.Expr, environment: Environment, outer: QueryStage | None) -> Environment:
    """The environment in which common table expressions are known, each to those after it."""
    refuse_clauses(node, environment, "expressions", "recursive")
    if node.args.get("recursive"):
        environment.report.refuse("recursive query", environment.at(node))
    seen: set[str] = set()
    for part in node.expressions:
        refuse_clauses(part, environment, "this", "alias", "materialized")
        if fold(part.alias) in seen:
            environment.error(f'"{part.alias}" is defined twice in WITH', part.args["alias"])
        seen.add(fold(part.alias))
        names = tuple(column.name for column in part.args["alias"].columns)
        if not isinstance(part.this, exp.Query):
            refuse("clause: with", environment.at(part))
        environment = environment.with_common_table(part.alias, NamedQuery(part.this, environment, names, outer))
    return environment


def _read_unused(node: exp.Expr, environment: Environment) -> None:
    """Read common table expressions that nobody used, to report their mistakes."""
    for part in node.expressions:
        if id(part.this) not in environment.books.used_queries:
            named = environment.common_tables[fold(part.alias)]
            inner = replace(named.environment, reads=[]).inside(part.alias)
            with _without_refusals(environment.report):
                inner.read_query(named.query, inner, named.outer, Purpose.TABLE)


@contextlib.contextmanager
def _without_refusals(report: Report) -> Iterator[None]:
    """What nobody uses need not be maintained."""
    before = len(report.refusals)
    with contextlib.suppress(UnsupportedSql):
        yield
    del report.refusals[before:]
