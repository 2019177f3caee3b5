"""What surrounds a query that is read: the declared tables and functions, the report, and names that are still free."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from sqlglot import exp

from headrace.declare.query.report import Report
from headrace.declare.query.scope import FromTable, Scope, Visible, fold
from headrace.declare.query.text import Text
from headrace.model.catalogue import PythonFunction, Source
from headrace.model.errors import InputError, Location, Problem
from headrace.model.expr import Expr, Literal
from headrace.model.relation import Relation

if TYPE_CHECKING:
    from headrace.declare.query.stage import QueryStage

MOST_SCANS = 1_000
"""A query that reads more tables than this, with all views and common table expressions expanded, is a mistake."""


class Purpose(StrEnum):
    """What the rows of a query are for, which decides what of it may be left out."""

    TABLE = "table"
    MEMBERS = "in"
    EXISTENCE = "exists"
    VALUE = "value"


class Size(StrEnum):
    """How many rows a query has, for each row of the query around it."""

    ANY = "any number"
    AT_MOST_ONE = "at most one"
    ONE = "one"


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gives: rows, and its columns as expressions over them.

    `correlated` are conditions that also name columns of the query around it, which has to place them. `not_null` names
    fields that are never NULL, as far as is known; `counts` what fields are, other than NULL, where a group is
    empty. `left_out` are columns of a source that cannot be captured, each with why.
    """

    relation: Relation
    columns: tuple[Visible, ...]
    not_null: frozenset[str] = frozenset()
    correlated: tuple[Expr, ...] = ()
    complete: bool = True
    size: Size = Size.ANY
    counts: Mapping[str, Literal] = field(default_factory=dict)
    left_out: tuple[tuple[str, str], ...] = ()

    def as_table(self, alias: str) -> FromTable:
        return FromTable(alias, self.columns, self.complete, self.left_out)


@dataclass(frozen=True, slots=True)
class FromClause:
    """What FROM gives, before anything is chosen from it."""

    relation: Relation
    scope: Scope
    not_null: frozenset[str] = frozenset()
    correlated: tuple[Expr, ...] = ()


@dataclass(slots=True)
class Books:
    """What is kept over one query, all views expanded: names taken, tables read, and places that matter in the end.

    `depth` is of the expression being read; `used_queries` are the common table expressions that were used. `places`
    are where scans are written, by alias; `now_place` and `outer_place` where `now()` and a column of the query around
    were named last.
    """

    taken: set[str] = field(default_factory=set)
    scans: int = 0
    depth: int = 0
    used_queries: set[int] = field(default_factory=set)
    places: dict[str, Location] = field(default_factory=dict)
    now_place: Location | None = None
    outer_place: Location | None = None

    def fresh(self, stem: str) -> str:
        """The stem itself, or the first of `stem#2`, `stem#3` that is free."""
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}#{number}"
        self.taken.add(name)
        return name

    def scan(self, stem: str, where: Location) -> str:
        """An alias for one more scan."""
        self.scans += 1
        if self.scans > MOST_SCANS:
            hint = "views and common table expressions count once for each use"
            raise InputError([Problem(f"the query reads more than {MOST_SCANS} tables", where, hint)])
        alias = self.fresh(stem)
        self.places[alias] = where
        return alias


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A view or common table expression: its tree, and the environment in which it was written.

    `outer` is where the query stands whose WITH it is, if that is inside another query.
    """

    query: exp.Query
    environment: Environment
    column_names: tuple[str, ...] = ()
    outer: QueryStage | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """What queries may name; functions by folded name.

    `view` gives the query of a view, None if there is none, and raises UnsupportedSql if it is refused.
    """

    sources: Mapping[str, Source]
    functions: Mapping[str, PythonFunction]
    view: Callable[[str, Environment, Location], NamedQuery | BrokenView | None]
    view_names: tuple[str, ...]

    def source(self, name: str) -> Source | None:
        """The source of that name: as written, else without regard to case."""
        folded = (source for known, source in self.sources.items() if fold(known) == fold(name))
        return self.sources.get(name) or next(folded, None)

    def table_names(self) -> tuple[str, ...]:
        return (*self.sources, *self.view_names)


@dataclass(frozen=True, slots=True)
class BrokenView:
    """A view that exists but has mistakes, which are reported at its own text."""


ReadQuery = Callable[[exp.Query, "Environment", "QueryStage | None", Purpose], Rows]


@dataclass(frozen=True, slots=True)
class Environment:
    """What surrounds one query. `reads` collects the sources and views that it names, as they are met.

    `path` begins the aliases of the tables that the query reads, `output` the names of the columns it makes. `in_place`
    leaves conditions that name columns of the query around where they are written. `in_full` is for queries that are
    evaluated as a whole at one instant, which may read the time anywhere.
    """

    text: Text
    declared: Declared
    report: Report
    books: Books
    read_query: ReadQuery
    reads: list[str]
    common_tables: Mapping[str, NamedQuery] = field(default_factory=dict)
    path: str = ""
    output: str = ""
    in_place: bool = False
    in_full: bool = False

    def inside(self, name: str) -> Environment:
        """The environment of a query that another one reads under this name."""
        return replace(self, path=f"{self.path}{name}/", output=f"{self.path}{name}.")

    def inside_another(self, stem: str) -> Environment:
        """The environment of a query without a name of its own."""
        return self.inside(self.books.fresh(f"{self.path}{stem}").removeprefix(self.path))

    def with_common_table(self, name: str, query: NamedQuery) -> Environment:
        return replace(self, common_tables={**self.common_tables, fold(name): query})

    def at(self, node: exp.Expr) -> Location:
        return self.text.at(node)

    def error(self, message: str, node: exp.Expr, hint: str | None = None) -> None:
        self.report.error(message, self.at(node), hint)
