"""A query as one text over sources alone: what views it reads stand in it as queries in parentheses.

The text is as people wrote it but for the names of tables, and for double quotes: names stand in backquotes, which are
names to every Spark. Sources are named `source:NAME`, which no query calls its own tables, so that a name of WITH
around a view does not hide a source inside of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from sqlglot import exp

from headrace.declare.query.environment import Books
from headrace.declare.query.scope import fold
from headrace.declare.query.text import Text, double_quoted_names, statement
from headrace.model.full_query import SOURCE_PREFIX, backquote


@dataclass(frozen=True, slots=True)
class WrittenView:
    """Text and tree of a view. `columns` are their names where the query gives two of them one name."""

    text: Text
    tree: exp.Query
    columns: tuple[str, ...] = ()


Find = Callable[[str], str | WrittenView | None]
"""The name of a source, or a view, by the name that a query gives it; None if there is none."""


def write_out(text: Text, tree: exp.Query, find: Find, books: Books) -> tuple[str, frozenset[str]]:
    """The text, and the sources that it reads. Raises InputError for one that reads too many tables."""
    start, end = statement(text)
    pieces, reads = list[tuple[int, int, str]](), set[str]()
    for table in _tables(tree):
        books.scan(table.name, text.at(table))
        found = find(f"{table.db}.{table.name}" if table.db else table.name)
        if found is None:
            continue
        if isinstance(found, str):
            inner = backquote(f"{SOURCE_PREFIX}{found}")
            reads.add(found)
        else:
            query, inside = write_out(found.text, found.tree, find, books)
            inner = f"(\n{query}\n)"
            if found.columns:
                inner = f"(SELECT * FROM {inner} AS named({', '.join(map(backquote, found.columns))}))"
            reads |= inside
        named = "" if table.alias else f" AS {backquote(table.name)}"
        pieces.append((_first(table), _last(table) + 1, inner + named))
    pieces += [(first, last, backquote(name)) for first, last, name in double_quoted_names(text)]
    return _replace_places(text.sql, start, end, pieces), frozenset(reads)


def _replace_places(sql: str, start: int, end: int, pieces: Iterable[tuple[int, int, str]]) -> str:
    """The text with other words in some places. Of places within each other the outer one counts."""
    parts, at = [], start
    for first, last, words in sorted(pieces, key=lambda piece: (piece[0], -piece[1])):
        if first >= at:
            parts += [sql[at:first], words]
            at = last
    return "".join([*parts, sql[at:end]])


def _tables(tree: exp.Query) -> Iterator[exp.Table]:
    """Tables that are no names of WITH."""
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and (table.db or fold(table.name) not in _common(table)):
            yield table


def _common(node: exp.Expr) -> set[str]:
    """Names of WITH that a node sees: those of queries around it; inside of WITH itself, only earlier ones."""
    found: set[str] = set()
    child, parent = node, node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            own = next(number for number, part in enumerate(parent.expressions) if part is child)
            seen = parent.expressions if parent.args.get("recursive") else parent.expressions[:own]
            found |= {fold(part.alias) for part in seen}
            child, parent = parent.parent or parent, parent.parent.parent if parent.parent is not None else None
            continue
        with_ = parent.args.get("with_")
        if with_ is not None and with_ is not child:
            found |= {fold(part.alias) for part in with_.expressions}
        child, parent = parent, parent.parent
    return found


def _first(table: exp.Table) -> int:
    return min(int(part.meta["start"]) for part in _name(table))


def _last(table: exp.Table) -> int:
    return max(int(part.meta["end"]) for part in _name(table))


def _name(table: exp.Table) -> list[exp.Expr]:
    return [part for key in ("this", "db", "catalog") if (part := table.args.get(key)) is not None]
