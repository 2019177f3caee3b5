"""Random queries inside of queries, over rows with NULLs and duplicates, mean what PostgreSQL answers, and are kept."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.deltas import delta
from headrace.meaning.evaluate import Batch, evaluate, evaluate_change
from headrace.meaning.zset import EMPTY, apply
from headrace.model.dialect import SqlDialect
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.testing import SCHEMA, changes, tables
from headrace.testing.engines import difference
from tests.examples import examples
from tests.live.test_meaning_on_postgres import postgres_type
from tests.live.test_postgres_dialect import RANDOM, as_plain, ask_postgres

if TYPE_CHECKING:
    from psycopg import Connection

    from headrace.connect.postgres.embedded import EmbeddedPostgres

COLUMNS: dict[str, dict[str, tuple[str, ...]]] = {
    "r": {"int": ("id", "k"), "text": ("name",), "date": ("day",)},
    "s": {"int": ("k",), "text": ("label",)},
    "t": {"int": ("k",), "text": ("name",), "date": ("day",)},
}
NOW = dt.datetime(2024, 3, 1)
LITERALS = {"int": ("0", "1", "2"), "text": ("'a'", "''"), "date": ("DATE '2024-02-29'",)}
Rows = Sequence[tuple[str, str]]
"""Tables in sight: their alias and their source."""


@dataclass
class QueryText:
    """Draws one query; aliases are numbered, so that any query inside can name columns of all around it."""

    rng: random.Random
    used: int = field(default=0)

    def whole(self) -> str:
        text, rows = self._from()
        shown = (self._value(rows, "int"), self._value(rows, "text"), self._item(rows))
        listed = ", ".join(f"{value} AS {name}" for value, name in zip(shown, "abc", strict=True))
        return f"SELECT {listed} FROM {text} WHERE {self._condition(rows, 2)}"

    def _item(self, rows: Rows) -> str:
        if self.rng.random() < 0.5:
            return f"({self._condition(rows, 1)})"
        text, inner = self._table()
        aggregate = self.rng.choice(("count(*)", "max({})", "coalesce(min({}), 7)", "count({})"))
        return f"(SELECT {aggregate.format(self._value(inner, 'int'))} FROM {text} WHERE {self._link(inner, rows)})"

    def _table(self) -> tuple[str, Rows]:
        self.used += 1
        source = self.rng.choice(sorted(COLUMNS))
        return f"{source} AS t{self.used}", ((f"t{self.used}", source),)

    def _from(self) -> tuple[str, Rows]:
        text, rows = self._table()
        if self.rng.random() < 0.4:
            other, more = self._table()
            kind = self.rng.choice(("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            on = f"{rows[0][0]}.k = {more[0][0]}.k"
            return f"{text} {kind} {other} ON {on}", (*rows, *more)
        return text, rows

    def _value(self, rows: Rows, family: str) -> str:
        found = [f"{alias}.{column}" for alias, source in rows for column in COLUMNS[source].get(family, ())]
        return self.rng.choice((*found, *found, *LITERALS[family]))

    def _family(self) -> str:
        return self.rng.choice(("int", "int", "text", "date"))

    def _compare(self, rows: Rows) -> str:
        family = self._family()
        operator = self.rng.choice(("=", "<>", "<", ">=", "IS DISTINCT FROM"))
        return f"{self._value(rows, family)} {operator} {self._value(rows, family)}"

    def _link(self, inner: Rows, outer: Rows) -> str:
        """What the rows of an inner query have to do with the row around it."""
        family = self.rng.choice(("int", "text"))
        ours, theirs = self._value(inner, family), self._value(outer, family)
        forms = ("{0} = {1}", "{0} = {1}", "{0} < {1}", "{0} IS NOT DISTINCT FROM {1}", "({0} = {1} OR {1} IS NULL)")
        return self.rng.choice(forms).format(ours, theirs)

    def _inner(self, rows: Rows, families: Sequence[str], depth: int) -> str:
        text, inner = self._from()
        values = [self._value(inner, family) for family in families]
        where = self._link(inner, rows) if self.rng.random() < 0.7 else self._compare(inner)
        if depth and self.rng.random() < 0.4:
            where = f"{where} AND {self._condition((*inner, *rows), depth - 1)}"
        listed, places = ", ".join(values), ", ".join(str(place + 1) for place in range(len(values)))
        plain = f"SELECT {listed} FROM {text} WHERE {where}"
        match self.rng.choice(("plain", "plain", "distinct", "extremes", "first", "grouped", "united")):
            case "distinct":
                return plain.replace("SELECT", "SELECT DISTINCT", 1)
            case "extremes":
                return f"SELECT {', '.join(f'max({value})' for value in values)} FROM {text} WHERE {where}"
            case "first":
                return f"{plain} ORDER BY {places} LIMIT {self.rng.choice((1, 2))}"
            case "grouped":
                return f"{plain} GROUP BY {places} HAVING count(*) >= {self._value(rows, 'int')}"
            case "united":
                return f"{plain} {self.rng.choice(('UNION', 'EXCEPT ALL'))} {self._inner(rows, families, 0)}"
        return plain

    def _condition(self, rows: Rows, depth: int) -> str:
        """Conditions with an inner query, under AND, OR and NOT."""
        negated = self.rng.choice(("", "NOT "))
        family = self._family()
        value = self._value(rows, family)
        match self.rng.choice(("exists", "in", "rows", "each", "both")):
            case "exists":
                return f"{negated}EXISTS ({self._inner(rows, [family], depth)})"
            case "in":
                return f"{value} {negated}IN ({self._inner(rows, [family], depth)})"
            case "rows":
                return f"({value}, {self._value(rows, 'int')}) {negated}IN ({self._inner(rows, [family, 'int'], 0)})"
            case "each":
                word = self.rng.choice(("= ANY", "<> ALL", "< ANY", ">= ALL"))
                return f"{value} {word} ({self._inner(rows, [family], depth)})"
        first = self._condition(rows, depth - 1) if depth else self._compare(rows)
        return f"{negated}({first} {self.rng.choice(('AND', 'OR'))} {self._compare(rows)})"


@pytest.fixture(scope="module")
def database(postgres: EmbeddedPostgres) -> Iterator[Connection[Any]]:
    import psycopg

    with psycopg.connect(postgres.dsn(), options="-c timezone=UTC") as connection:
        for name, source in SCHEMA.items():
            types = [f"{column.name} {postgres_type(column.type)}" for column in source.columns or ()]
            made = ", ".join(types).replace("timestamptz", "timestamp")
            connection.execute(f"CREATE TEMPORARY TABLE {name} ({made})".encode())
        connection.commit()
        yield connection


def check(database: Connection[Any], data: st.DataObject) -> None:
    sql = QueryText(data.draw(st.randoms(use_true_random=False))).whole()
    try:
        relation = read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)
    except UnsupportedSql:
        reject()
    rows = data.draw(tables(min_rows=1, max_rows=5))
    batch = Batch(rows, data.draw(changes(rows)), NOW, NOW)
    now, change = apply(rows, batch.changes), delta(relation)
    try:
        kept = evaluate(relation, rows) + (EMPTY if change is None else evaluate_change(change, batch))
        assert kept == evaluate(relation, now), sql
    except EvaluationError:
        reject()
    ours = [tuple(map(as_plain, row)) for row in kept.rows()]
    assert difference(ask_postgres(database, sql, now), ours) is None, sql


@settings(RANDOM, max_examples=examples(20))
@given(data=st.data())
def test_queries_inside_of_queries_mean_what_postgres_answers(database: Connection[Any], data: st.DataObject):
    check(database, data)


@pytest.mark.long
@settings(RANDOM, max_examples=3_000)
@given(data=st.data())
def test_many_queries_inside_of_queries_mean_what_postgres_answers(database: Connection[Any], data: st.DataObject):
    check(database, data)
