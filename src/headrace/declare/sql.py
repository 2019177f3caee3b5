"""SQL text to typed algebra: the entry points.

    text --parse--> sqlglot tree --resolve--> model.relation

Views are read together, since views read views. Whatever the text is, the answer is an algebra, a Refusal (valid SQL that is not
maintained, by the operator's name) or Problems with their places; never a traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.catalogue import PythonFunction, Source, View
from headrace.model.errors import Location, Problem
from headrace.model.expr import Expr
from headrace.model.relation import Relation


@dataclass(frozen=True, slots=True)
class ViewText:
    """A view as written: its name, its query, and the file to point at (as the user would type it)."""

    name: str
    sql: str
    file: str


def read_views(
    texts: Mapping[str, ViewText], sources: Mapping[str, Source], functions: Mapping[str, PythonFunction]
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    """All views that are valid SQL, and all the mistakes of the others.

    A view that is not maintained has a Refusal for a query, and so has a view that reads it. A view with mistakes is absent.
    """
    raise NotImplementedError


def read_predicate(text: str, where: Location, source: Source) -> Expr:
    """A condition over one source's columns, which are named `source.column`. Raises InputError."""
    raise NotImplementedError


def read_query(sql: str, sources: Mapping[str, Source], file: str = "query.sql") -> Relation:
    """What one query over sources means. Raises InputError, or UnsupportedSql for SQL that is not maintained."""
    raise NotImplementedError
