"""LATERAL: queries in FROM that name columns of the items before them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from headrace.declare.query.constants import is_one_row
from headrace.declare.query.decorrelate import or_nothing
from headrace.declare.query.environment import FromClause, Purpose, Size
from headrace.declare.query.inner_queries import read_joined
from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.stage import QueryStage
from headrace.declare.query.tables import name_item, refuse_clauses, show_rows
from headrace.model.expr import Expr, conjunction, substitute
from headrace.model.relation import Join, JoinKind, Relation


@dataclass(frozen=True, slots=True)
class LateralItem:
    """What a lateral query shows, and the conditions that join it. `always`: it has one row for each row before it."""

    shown: FromClause
    correlated: tuple[Expr, ...]
    always: bool

    def join(self, left: Relation) -> Relation:
        """The rows before it with its one row for each of them."""
        if is_one_row(self.shown.relation) and not self.correlated:
            return left
        kind = JoinKind.LEFT if self.correlated else JoinKind.INNER
        return Join(kind, left, self.shown.relation, conjunction(self.correlated))


def read_lateral(node: exp.Lateral, stage: QueryStage, *, fills: bool) -> LateralItem:
    """The item. `fills`: rows without a partner get NULLs, so that its columns have to be computed before the join."""
    environment = stage.environment
    query = node.this.unnest()
    if not isinstance(query, exp.Query):
        if isinstance(query, exp.Anonymous):
            raise NotMaintained(f"table function: {query.name.lower()}")
        raise NotMaintained("lateral join", "write a query: LATERAL (SELECT ...)")
    refuse_clauses(node, environment, "this", "alias", "cross_apply")
    alias = name_item(node, environment.books.fresh("lateral"), environment)
    purpose = Purpose.VALUE if fills else Purpose.TABLE
    rows = read_joined(query, environment.inside(alias), stage, purpose, by_equality=False)
    always = rows.size == Size.ONE
    if always:
        nothing = {name: or_nothing(name, value) for name, value in rows.counts.items()}
        columns = tuple(replace(column, value=substitute(column.value, nothing)) for column in rows.columns)
        rows = replace(rows, columns=columns)
    shown = show_rows(replace(rows, correlated=()), alias, node, environment)
    return LateralItem(shown, rows.correlated, always)
