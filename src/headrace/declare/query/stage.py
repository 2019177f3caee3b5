"""Where an expression stands: which names it sees, which rows it reads, and what may occur in it.

The steps of one query share a stage or follow each other: WHERE reads the rows of FROM; HAVING and SELECT read the
groups. Scalar subqueries extend the rows at hand by a join, so `relation` grows while expressions are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from headrace.declare.query.environment import Environment
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_origins import remember_origin_type
from headrace.declare.query.report import describe_fault
from headrace.declare.query.scope import Scope, fold, same_name
from headrace.declare.query.text import is_quoted, text_hint
from headrace.model.errors import InputError, nearest_name
from headrace.model.expr import Column, Expr, columns_of
from headrace.model.origin_types import ColumnOrigin
from headrace.model.relation import Relation


class GroupByResult(Protocol):
    """What GROUP BY made of the rows."""

    def regrouped(self, expr: Expr, places: Mapping[str, exp.Expr]) -> Expr:
        """An expression over the rows as one over the groups. Raises Mistake for a column that is not grouped by."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The window of GROUP BY: its call as written, and the fields that hold its bounds.

    `session` is the time and the gap in milliseconds of a session window.
    """

    node: exp.Expr
    start: Column
    end: Column
    session: tuple[Expr, int] | None = None

    @property
    def name(self) -> str:
        return "window" if self.session is None else "session_window"

    def bound(self, name: str) -> Column:
        if same_name(name, "start"):
            return self.start
        if same_name(name, "end"):
            return self.end
        raise Mistake(f'a window has no "{name}"', 'it has "start" and "end"')


@dataclass(slots=True)
class QueryStage:
    """`clause` is its name for messages. `values` are nodes whose values are known: aggregates, once they are computed.

    `aliases` are columns of the SELECT list, found where no column has the name, or before columns if `aliases_first`;
    `alias_types` are their types in PostgreSQL. Without `subquery`, `quantified` or `windowing` such an expression may
    not occur. `named_windows` are those of WINDOW, and `read_windows` the fields of window functions that were read, by
    what they compute. `correlated` are conditions that name columns of the query around, and wait to be placed there.
    `places` are where columns were named. `elements` are the names that x -> ... gives to elements of arrays.
    """

    environment: Environment
    clause: str
    scope: Scope
    relation: Relation
    not_null: frozenset[str] = frozenset()
    outer: QueryStage | None = None
    aliases: Mapping[str, Expr] = field(default_factory=dict)
    aliases_first: bool = False
    alias_types: Mapping[str, ColumnOrigin | None] = field(default_factory=dict)
    values: Mapping[int, Expr] = field(default_factory=dict)
    window: TimeWindow | None = None
    grouping: GroupByResult | None = None
    subquery: Callable[[QueryStage, exp.Expr], Expr] | None = None
    quantified: Callable[[QueryStage, exp.Expr, str | None], Expr] | None = None
    windowing: Callable[[QueryStage, exp.Window], Expr] | None = None
    named_windows: Mapping[str, exp.Window] = field(default_factory=dict)
    read_windows: dict[object, Expr] = field(default_factory=dict)
    correlated: tuple[Expr, ...] = ()
    places: dict[str, exp.Expr] = field(default_factory=dict)
    elements: Mapping[str, Expr] = field(default_factory=dict)

    def finished(self, expr: Expr) -> Expr:
        """An expression that was read here, over the rows at hand."""
        return expr if self.grouping is None else self.grouping.regrouped(expr, self.places)

    def column(self, node: exp.Column) -> Expr:
        """What a column's name means here, or in the query around this one."""
        name, qualifier = node.name, node.table or None
        if qualifier is not None and self._names_window(qualifier):
            assert self.window is not None
            return self.window.bound(name)
        found = self._here(name, qualifier)
        if found is not None:
            remember_origin_type(node, self._origin_type_of(name, qualifier))
        if found is None and self.outer is not None:
            found = self._outside(node, name, qualifier)
        if found is None:
            raise self._unknown(name, qualifier, is_quoted(node))
        for column in columns_of(found):
            self.places[column] = node
        return found

    def _names_window(self, qualifier: str) -> bool:
        return (
            self.window is not None and same_name(qualifier, self.window.name) and self.scope.table(qualifier) is None
        )

    def _here(self, name: str, qualifier: str | None) -> Expr | None:
        alias = self.aliases.get(fold(name)) if qualifier is None else None
        if alias is not None and self.aliases_first:
            return alias
        found = self.scope.find(name, qualifier)
        if len(found) > 1:
            tables = sorted(t.alias for t in self.scope.tables if t.named(name))
            hint = f"write {' or '.join(f'{alias}.{name}' for alias in tables)}" if len(tables) > 1 else None
            raise Mistake(f'column "{name}" is ambiguous', hint)
        return found[0] if found else alias

    def _origin_type_of(self, name: str, qualifier: str | None) -> ColumnOrigin | None:
        is_alias = qualifier is None and fold(name) in self.aliases
        if is_alias and (self.aliases_first or not self.scope.find(name, None)):
            return self.alias_types.get(fold(name))
        return self.scope.find_origin_type(name, qualifier)

    def _outside(self, node: exp.Column, name: str, qualifier: str | None) -> Expr | None:
        assert self.outer is not None
        found = self.outer._here(name, qualifier)
        if found is not None:
            remember_origin_type(node, self.outer._origin_type_of(name, qualifier))
            self.environment.books.outer_place = self.environment.at(node)
            return self.outer.finished(found)
        return self.outer._outside(node, name, qualifier) if self.outer.outer is not None else None

    def _unknown(self, name: str, qualifier: str | None, quoted: bool) -> Mistake:
        if not self._all_known(qualifier):
            return Mistake("")
        if qualifier is not None and self.scope.table(qualifier) is None:
            near = nearest_name(qualifier, [table.alias for table in self.scope.tables])
            return Mistake(f'table "{qualifier}" is not in FROM', near)
        written = name if qualifier is None else f"{qualifier}.{name}"
        return Mistake(*say_unknown_column(written, self.scope, quoted))

    def _all_known(self, qualifier: str | None) -> bool:
        """False when the name may belong to a table whose columns are not known because of another mistake."""
        stage: QueryStage | None = self
        while stage is not None:
            table = None if qualifier is None else stage.scope.table(qualifier)
            if not (stage.scope.complete if table is None else table.complete):
                return False
            stage = stage.outer
        return True


def say_unknown_column(written: str, scope: Scope, quoted: bool) -> tuple[str, str | None]:
    """A mistake and its hint: there is no such column, or there is one that cannot be captured."""
    table, _, name = written.rpartition(".")
    why = scope.why_left_out(name, table or None)
    if why is not None:
        return f'column "{written}" {why}', "keep a copy in another column, of a type that is handled"
    return f'column "{written}" does not exist', _hint_for_unknown(written, scope, quoted)


def _hint_for_unknown(written: str, scope: Scope, quoted: bool) -> str | None:
    """What may have been meant by the name of a column that there is not. One in quotes may have been meant as text."""
    if not quoted:
        return nearest_name(written, scope.names())
    table, dot, column = written.partition(".")
    if dot and scope.find(column, table):
        return f'write "{table}"."{column}": a dot within quotes is part of the name'
    near = nearest_name(written, [column.name for column in scope.all()])
    return "; ".join(filter(None, (near, text_hint(written))))


@dataclass(frozen=True, slots=True)
class PlacedMistakes:
    """Gives mistakes and refusals inside it the place of a node. After either the rest of the block is left out."""

    stage: QueryStage
    node: exp.Expr

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        environment = self.stage.environment
        if isinstance(error, NotMaintained):
            environment.report.refuse(error.operator, environment.at(self.node), error.hint)
            return True
        if environment.report.keeps(error):
            return True
        if isinstance(error, Mistake):
            if error.message:
                environment.error(error.message, error.node or self.node, error.hint)
            return True
        if isinstance(error, InputError | RecursionError) or not isinstance(error, Exception):
            return False
        fault = describe_fault(error, environment.at(self.node))
        if environment.report.keeps(fault):
            return True
        raise fault from error
