"""A folder of SQL files as tables and queries: statements that create tables or views, and queries by themselves.

Later files see the tables and views of all files; within a file what stands there comes first, and what is created
again replaces what was before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from sqlglot import Token, TokenType, parse_one
from sqlglot.dialects import Dialect, Postgres, Spark
from sqlglot.errors import SqlglotError

from headrace.connect.postgres.facts import ColumnFacts
from headrace.model.catalogue import Source, SourceColumn, SourceKind
from headrace.model.dialect import SqlDialect
from headrace.model.errors import Location

_READERS: Mapping[SqlDialect, type[Dialect]] = {SqlDialect.POSTGRES: Postgres, SqlDialect.SPARK: Spark}
_CONSTRAINTS = frozenset("constraint primary unique foreign check exclude like watermark index key period".split())
_AFTER_TYPE = frozenset(
    """not null default primary unique references check collate generated constraint comment as options metadata
    auto_increment encode""".split()
)
_LONG_NAMES = {"timestamp": "timestamp without time zone", "decimal": "numeric", "dec": "numeric"}
"""Types as PostgreSQL names them, where the short name means something else to Spark."""
_WITH_ANGLES = ("array", "map", "struct", "row", "multiset")
"""Types whose parts stand between < and >, which elsewhere compare."""
Thing = TypeVar("Thing")
_QUERY_STARTS = ("select", "with", "(", "values", "from", "table")


@dataclass(frozen=True, slots=True)
class Written:
    """A query as it stands in a file. `name` is that of its view; queries by themselves are named by their place."""

    name: str
    sql: str
    file: str


@dataclass(frozen=True, slots=True)
class Case:
    """A query with the tables and views that it may read."""

    query: Written
    tables: Mapping[str, Source]
    views: Mapping[str, Written]


@dataclass(slots=True)
class _Known:
    dialect: SqlDialect
    tables: dict[str, Source] = field(default_factory=dict)
    views: dict[str, Written] = field(default_factory=dict)
    types: set[str] = field(default_factory=set)


def read_collection(folder: Path, dialect: SqlDialect) -> tuple[list[Case], list[str]]:
    """All queries, and the places of those that no parser of the dialect reads."""
    files = {path: _split(path.read_text(encoding="utf-8"), dialect) for path in sorted(folder.rglob("*.sql"))}
    everywhere = _Known(dialect)
    for path, statements in sorted(files.items(), key=lambda file: _has_queries(file[1], dialect)):
        for number, statement in enumerate(statements, 1):
            _take(statement, f"{path.relative_to(folder)}:{number}", everywhere, replaces=False)
    cases, unread = list[Case](), list[str]()
    for path, statements in files.items():
        known = _Known(dialect, dict(everywhere.tables), dict(everywhere.views), set(everywhere.types))
        for number, statement in enumerate(statements, 1):
            place = f"{path.relative_to(folder)}:{number}"
            query = _take(statement, place, known, replaces=True)
            if query is None:
                continue
            if _is_read(query.sql, dialect):
                cases.append(Case(query, dict(known.tables), dict(known.views)))
            else:
                unread.append(place)
    return cases, unread


def _has_queries(statements: Sequence[_Statement], dialect: SqlDialect) -> bool:
    """Files that only create tables are read before others, which may create tables of the same names again."""
    return any(_take(statement, "", _Known(dialect), replaces=True) for statement in statements)


@dataclass(frozen=True, slots=True)
class _Statement:
    sql: str
    tokens: Sequence[Token]

    def words(self) -> list[str]:
        return _words(self.tokens)

    def text_from(self, place: int) -> str:
        return self.sql[self.tokens[place].start : self.tokens[-1].end + 1]


def _words(tokens: Sequence[Token]) -> list[str]:
    """The words in small letters; PRIMARY KEY, which is one token, as the word that says enough."""
    return ["primary" if token.token_type is TokenType.PRIMARY_KEY else token.text.lower() for token in tokens]


def _split(text: str, dialect: SqlDialect) -> list[_Statement]:
    """The statements of a file; none of one whose quotes do not close."""
    try:
        tokens = _READERS[dialect]().tokenize(text)
    except SqlglotError:
        return []
    found, current = list[_Statement](), list[Token]()
    for token in [*tokens, None]:
        if token is not None and token.token_type is not TokenType.SEMICOLON:
            current.append(token)
        elif current:
            found.append(_Statement(text, tuple(current)))
            current = []
    return found


def _take(statement: _Statement, place: str, known: _Known, *, replaces: bool) -> Written | None:
    """Learns a table, type or view; the query of a view, or the statement if it is a query."""
    words = statement.words()
    if words[0] in _QUERY_STARTS:
        return Written(f"query_{place}", statement.text_from(0), place)
    if words[0] != "create":
        return None
    kind = next((word for word in words[1:8] if word in ("table", "view", "source", "type", "domain", "stream")), None)
    if kind is None:
        return None
    name, after = _name_after(words, words.index(kind) + 1)
    if kind in ("type", "domain"):
        known.types.add(name)
        return None
    body = _find_body(words, after)
    named = kind == "view" and _opens_columns(words, after)
    if body is not None and (kind == "view" or not _opens_columns(words, after)):
        columns = statement.sql[statement.tokens[after].start : _end_of_list(statement, after)] if named else ""
        query = statement.text_from(body)
        view = Written(name, f"SELECT * FROM ({query}) AS {name}{columns}" if named else query, place)
        _give_name(known.views, name, view, replaces=replaces)
        return view
    if kind != "view" and _opens_columns(words, after):
        table = _read_table(name, statement.tokens[after:], known)
        _give_name(known.tables, name, table, replaces=replaces)
    return None


def _give_name(things: dict[str, Thing], name: str, thing: Thing, *, replaces: bool) -> None:
    if replaces or name not in things:
        things[name] = thing


def _name_after(words: Sequence[str], place: int) -> tuple[str, int]:
    """The last part of a name, and the place after it."""
    while words[place : place + 1] and words[place] in ("if", "not", "exists"):
        place += 1
    while words[place + 1 : place + 2] == ["."]:
        place += 2
    return (words[place] if place < len(words) else ""), place + 1


def _opens_columns(words: Sequence[str], place: int) -> bool:
    return words[place : place + 1] == ["("]


def _end_of_list(statement: _Statement, place: int) -> int:
    return next(token.end + 1 for token in statement.tokens[place:] if token.text == ")")


def _find_body(words: Sequence[str], place: int) -> int | None:
    """Where the query after AS begins, outside of all parentheses."""
    depth = 0
    for number, word in enumerate(words[place:], place):
        depth += (word == "(") - (word == ")")
        if depth == 0 and word == "as" and words[number + 1 : number + 2] and words[number + 1] in _QUERY_STARTS:
            return number + 1
    return None


def _read_table(name: str, tokens: Sequence[Token], known: _Known) -> Source:
    columns, left_out, keys = list[SourceColumn](), list[tuple[str, str]](), list[str]()
    for part in _parts(tokens):
        words = _words(part)
        if words[0] == "primary" or (words[0] == "constraint" and "primary" in words[:3]):
            inside = words[words.index("(") + 1 :] if "(" in words else []
            keys += [word for word in inside[: inside.index(")")] if word != ","] if ")" in inside else []
        if words[0] in _CONSTRAINTS or len(words) < 2:
            continue
        end = next((place for place, word in enumerate(words[1:], 1) if word in _AFTER_TYPE), len(words))
        written = " ".join(words[1:end]).replace(" (", "(").replace("( ", "(").replace(" )", ")").replace(" ,", ",")
        written = written.replace(" [", "[").replace("[ ", "[").replace(" ]", "]").replace(" <", "<").replace("< ", "<")
        own = written.rpartition(".")[2].strip() in known.types
        named = written.replace(" >", ">")
        named = _LONG_NAMES.get(named, named) if known.dialect is SqlDialect.POSTGRES else named
        facts = ColumnFacts(part[0].text, named, own, True, False, None, None)
        if facts.type is None:
            left_out.append((facts.name, f"has type {written}, which is not handled"))
            continue
        columns.append(SourceColumn(facts.name, facts.type, origin_type=facts.origin_type))
        keys += [words[0]] if "primary" in words[end:] else []
    return Source(
        *(name, SourceKind.TABLE, "here", tuple(keys), tuple(columns), None, None, False, False, None, None, None),
        *(None, Location("headrace.yml")),
        left_out=tuple(left_out),
    )


def _parts(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """What commas separate in the parentheses that open with the first token."""
    depth, angles, current = 0, 0, list[Token]()
    before = ""
    for token in tokens:
        opens = token.text == "<" and before in _WITH_ANGLES
        closes = min(angles, len(token.text)) if set(token.text) == {">"} else 0
        angles += opens - closes
        depth += (token.text == "(") - (token.text == ")") + opens - closes
        before = token.text.lower()
        if depth == 0 or (depth == 1 and token.text == ","):
            if current:
                yield current
            current = []
            if depth == 0:
                return
        elif not (depth == 1 and token.text == "(" and not current):
            current.append(token)


def _is_read(sql: str, dialect: SqlDialect) -> bool:
    try:
        parse_one(sql, dialect=_READERS[dialect])
    except (SqlglotError, RecursionError):
        return False
    return True
