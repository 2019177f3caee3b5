"""Queries inside of expressions and LATERAL: read so that the rows around can be joined with theirs.

First the query is read with its conditions on outer columns moved out, which gives cheap joins. If outer columns remain
elsewhere in it, it is read again with all of them in place, and `decorrelate` binds them.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from headrace.declare.query.correlation import split_conditions
from headrace.declare.query.decorrelate import bind_outer, find_columns, find_free
from headrace.declare.query.environment import Environment, Purpose, Rows, Size
from headrace.declare.query.mistakes import Mistake
from headrace.declare.query.report import Report
from headrace.declare.query.stage import QueryStage
from headrace.model.errors import UnsupportedSql
from headrace.model.relation import fields_of


def read_inner(node: exp.Expr, name: str, stage: QueryStage, purpose: Purpose, *, by_equality: bool = False) -> Rows:
    """The rows of a query in parentheses, with the conditions by which the rows at hand are joined with them.

    With `by_equality` these are equalities between a value of the one and a value of the other.
    """
    query = node.unnest()
    while isinstance(query, exp.Subquery) and not any(query.args.get(key) for key in ("limit", "offset", "with_")):
        query = query.this
    if not isinstance(query, exp.Query):
        raise Mistake("a query is expected in parentheses")
    return read_joined(query, stage.environment.inside_another(name), stage, purpose, by_equality=by_equality)


def read_joined(
    query: exp.Query, environment: Environment, stage: QueryStage, purpose: Purpose, *, by_equality: bool
) -> Rows:
    """Reads an inner query in an environment that gives its columns their names."""
    rows = _read_moved_out(query, environment, stage, purpose)
    if rows is not None and not _needs_domain(rows, stage, purpose, by_equality):
        return rows
    inside = replace(environment, in_place=True)
    return bind_outer(inside.read_query(query, inside, stage, purpose), stage.relation, inside)


def _read_moved_out(query: exp.Query, environment: Environment, stage: QueryStage, purpose: Purpose) -> Rows | None:
    """The rows, if conditions on outer columns can all be moved out of the query."""
    trial, scans = replace(environment, report=Report(), in_place=False), environment.books.scans
    try:
        rows = trial.read_query(query, trial, stage, purpose)
    except UnsupportedSql as refusal:
        if refusal.operator == "correlated subquery":
            environment.books.scans = scans
            return None
        rows = None
    if rows is None or trial.report.errors:
        # Once more, for what is wrong with it to be reported in order and place.
        environment.books.scans = scans
        return replace(environment, in_place=False).read_query(
            query, replace(environment, in_place=False), stage, purpose
        )
    for note in trial.report.notes:
        if note not in environment.report.notes:
            environment.report.notes.append(note)
    environment.report.blocked |= trial.report.blocked
    return rows


def _needs_domain(rows: Rows, stage: QueryStage, purpose: Purpose, by_equality: bool) -> bool:
    outer = {field.name for field in fields_of(stage.relation)}
    inner = {field.name for field in fields_of(rows.relation)}
    if outer & set(find_free(rows.relation)):
        return True
    if by_equality and split_conditions(rows.correlated, inner) is None:
        return True
    values = find_columns((column.value for column in rows.columns), inner)
    if by_equality and purpose == Purpose.MEMBERS and outer & set(values):
        return True  # they become fields of the inner rows, which are aggregated before the rows around are joined
    return purpose == Purpose.VALUE and rows.size != Size.ONE and bool(outer & set(values))
