"""Queries written for PostgreSQL mean what PostgreSQL answers.

Text is compared in the collation C, and times are in UTC.
"""

from __future__ import annotations

import datetime as dt
import decimal
import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet, normal_row
from headrace.model.dialect import SqlDialect
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.model.relation import fields_of
from headrace.model.types import Row, Value
from headrace.testing import SCHEMA, Tables, tables
from headrace.testing.engines import difference
from tests.examples import examples
from tests.live.agreement import columns_of
from tests.live.test_meaning_on_postgres import postgres_type
from tests.queries.schemas import postgres_only, postgres_queries

if TYPE_CHECKING:
    from psycopg import Connection

    from headrace.connect.postgres.embedded import EmbeddedPostgres

RANDOM = settings(
    max_examples=examples(12),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[Connection[Any]]:
    import psycopg

    with psycopg.connect(postgres.dsn(), options="-c timezone=UTC") as connection:
        for name in SCHEMA:
            columns = ", ".join(
                f"{column} {postgres_type(type_).replace('timestamptz', 'timestamp')}"
                for column, type_ in columns_of(name).items()
            )
            connection.execute(f"CREATE TEMPORARY TABLE {name} ({columns})".encode())
        connection.commit()
        yield connection


def ask_postgres(connection: Connection[Any], sql: str, rows: Tables) -> list[Row]:
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        for name, table in rows.items():
            with cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for row in table.rows():
                    copy.write_row(row)
        cursor.execute(sql.encode())
        return [normal_row(tuple(map(as_plain, row))) for row in cursor.fetchall()]


def as_plain(value: Any) -> Value:
    """Numbers by their first ten digits: PostgreSQL has more, and other types for some of them."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    if isinstance(value, list | tuple):
        return tuple(map(as_plain, value))
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return float(f"{value:.9e}")
    return value  # type: ignore[no-any-return]  # whatever the driver made of the column


@pytest.mark.parametrize("sql", [*postgres_queries(), *postgres_only()])
@RANDOM
@given(rows=tables(min_rows=3, max_rows=8))
def test_a_query_means_what_postgres_answers(connection: Connection[Any], sql: str, rows: Tables):
    relation = read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)
    try:
        ours = [tuple(map(as_plain, row)) for row in evaluate(relation, rows).rows()]
    except EvaluationError:
        reject()
    assert difference(ask_postgres(connection, sql, rows), ours) is None


UNNAMED = (
    "count(*)",
    "Sum(r.k) OVER (PARTITION BY name)",
    "count(*) FILTER (WHERE k > 1) OVER ()",
    "k + 1",
    "k::text",
    "(k + 1)::bigint",
    "CAST(name || 'x' AS varchar)",
    "(k + 1)::numeric(10, 2)",
    "(k + 1)::double precision",
    "date '2024-01-01'",
    "now()::date",
    "upper(name)::text",
    "CASE WHEN k > 1 THEN name END",
    "CASE WHEN k > 1 THEN 1 ELSE k END",
    "CASE WHEN k > 1 THEN 1 ELSE k + 1 END",
    "coalesce(name, 'none')",
    "nullif(k, 1)",
    "greatest(k, 1)",
    "extract(year FROM at)",
    "position('x' IN name)",
    "substring(name FROM 1 FOR 2)",
    "overlay(name PLACING 'x' FROM 1)",
    "trim(name)",
    "trim(LEADING 'x' FROM name)",
    "trim(TRAILING 'x' FROM name)",
    "at AT TIME ZONE 'UTC'",
    "current_date",
    "EXISTS (SELECT 1 FROM s)",
    "ARRAY[k, 1]",
    "(ARRAY[k, 1])[1]",
    "(string_to_array(name, ','))[1]",
    "(SELECT max(s.k) FROM s)",
    "(SELECT max(s.k) + 1 FROM s)",
    "(SELECT max(s.k) AS most FROM s)",
    "name IS NULL",
    "name LIKE 'a%'",
    "NOT k > 1",
    "'x'",
    "row_number() OVER (ORDER BY k)",
    "date_trunc('day', at)",
)


@pytest.mark.parametrize("expression", UNNAMED)
def test_a_column_without_a_name_is_called_what_postgres_calls_it(connection: Connection[Any], expression: str):
    sql = f"SELECT {expression} FROM r"
    relation = read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        cursor.execute(sql.encode())
        assert cursor.description is not None
        name = cursor.description[0].name
    assert name in ("?column?", fields_of(relation)[0].name)


ATOMS = st.tuples(st.sampled_from(["a", "b", "[ab]", "[(a]", "."]), st.sampled_from(["", "", "?", "*", "+", "{0,2}"]))
GROUPS = st.tuples(
    st.sampled_from(["(", "(?:"]),
    st.lists(ATOMS.map("".join), min_size=1, max_size=2).map("".join),
    st.sampled_from([")", ")?", ")*"]),
)
PATTERNS = st.lists(st.one_of(ATOMS, GROUPS).map("".join), min_size=1, max_size=4).map("".join)
TEXTS = ["(ab", *("".join(letters) for length in range(6) for letters in itertools.product("ab", repeat=length))]


@settings(RANDOM, max_examples=examples(60))
@given(pattern=PATTERNS)
@example("(a)?b")
@example("(a*)(ab)*")
@example("[(]a")
def test_a_pattern_that_is_read_finds_what_it_finds_in_postgres(connection: Connection[Any], pattern: str):
    """A longer match, another group or NULL for one that took no part would show."""
    sql = f"SELECT label, substring(label FROM '{pattern}') AS found FROM s"
    try:
        relation = read_query(sql, SCHEMA, dialect=SqlDialect.POSTGRES)
    except UnsupportedSql:
        reject()
    rows = {"s": ZSet.of([(1, 1, None, text, None) for text in TEXTS])}
    assert difference(ask_postgres(connection, sql, rows), list(evaluate(relation, rows).rows())) is None
