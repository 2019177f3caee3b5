"""Columns that say which of PostgreSQL's types they have mean in its dialect what PostgreSQL answers."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, reject, settings
from hypothesis import strategies as st

from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Source, SourceColumn
from headrace.model.dialect import SqlDialect
from headrace.model.errors import EvaluationError, UnsupportedSql
from headrace.model.origin_types import ColumnOrigin, Enumeration, OriginType
from headrace.model.types import INT, STRING, TIMESTAMP, Array, Decimal, Row, Type, Value
from headrace.testing import make_source
from headrace.testing.engines import difference
from tests.examples import examples
from tests.live.test_postgres_dialect import as_plain
from tests.queries.schemas import postgres_origin_types

if TYPE_CHECKING:
    from psycopg import Connection

    from headrace.connect.postgres.embedded import EmbeddedPostgres

JSON = ('{"a": 1}', '{"a": 1.0}', '{"b": [1, 2]}', "[]", '{"a": {"c": null}}')
TIMES = (dt.datetime(2024, 3, 31, 0, 30), dt.datetime(2024, 10, 27, 1, 30), dt.datetime(2024, 2, 29, 23, 59, 59, 5))
MOODS = ("sad", "calm", "happy")
SPANS = (
    *("1 day", "24:00:00", "1 mon", "30 days", "-1 days +02:00:00", "1 year 2 mons 3 days 04:05:06.789"),
    *("00:00:30", "00:00:00", "-1 mons", "1 mon -1 days", "36:00:00"),
)
COLUMNS: dict[str, tuple[Type, ColumnOrigin | None, str, tuple[Value, ...]]] = {
    "id": (INT, None, "int", (1, 2, 3)),
    "name": (STRING, OriginType.TEXT, "text", ("a", 'b"c', "1")),
    "data": (STRING, OriginType.JSONB, "jsonb", JSON),
    "other": (STRING, OriginType.JSONB, "jsonb", JSON),
    "u": (
        STRING,
        OriginType.UUID,
        "uuid",
        ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "00000000-0000-0000-0000-000000000001"),
    ),
    "ts": (TIMESTAMP, OriginType.TIMESTAMP, "timestamp", TIMES),
    "tz": (TIMESTAMP, OriginType.TIMESTAMPTZ, "timestamptz", TIMES),
    "span": (STRING, OriginType.INTERVAL, "interval", SPANS),
    "opens": (STRING, OriginType.TIME, "time", ("00:00:00", "08:30:00", "12:00:00.5", "23:59:59.999999")),
    "mood": (STRING, Enumeration(MOODS), "mood", MOODS),
    "price": (Decimal(18, 4), None, "numeric(18,4)", tuple(map(decimal.Decimal, ("0.0001", "-1234.5678")))),
    "rate": (Decimal(38, 18), None, "numeric", tuple(map(decimal.Decimal, ("0.000001", "10.123456", "-3")))),
    "grid": (Array(Array(INT)), None, "int[][]", (((1, 2), (3, None)), (), ((5,),))),
}
ROWS = st.lists(
    st.tuples(
        *(st.sampled_from([*values, *([] if name == "id" else [None])]) for name, (*_, values) in COLUMNS.items())
    ),
    min_size=1,
    max_size=6,
)
RANDOM = settings(
    max_examples=examples(12),
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def make_sources() -> dict[str, Source]:
    plain = make_source("o", {name: type_ for name, (type_, *_) in COLUMNS.items()})
    columns = (SourceColumn(name, type_, origin_type=origin) for name, (type_, origin, *_) in COLUMNS.items())
    return {"o": replace(plain, columns=tuple(columns))}


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[Connection[Any]]:
    import psycopg

    with psycopg.connect(postgres.dsn(), options="-c timezone=UTC") as connection:
        connection.execute(f"CREATE TYPE pg_temp.mood AS ENUM {MOODS}".encode())
        columns = ", ".join(f"{name} {type_}" for name, (_, _, type_, _) in COLUMNS.items())
        connection.execute(f"CREATE TEMPORARY TABLE o ({columns})".encode())
        connection.commit()
        yield connection


TEXTS = ("json", "jsonb", "uuid", "interval", "time without time zone", "mood")
AS_TEXTS = {name + depth: "text" + depth for name in TEXTS for depth in ("", "[]")}


def as_lists(value: Value) -> Any:
    return list(map(as_lists, value)) if isinstance(value, tuple) else value


def ask_postgres(connection: Connection[Any], sql: str, rows: list[Row]) -> list[Row]:
    """What we hold as text is asked for as text."""
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        with cursor.copy("COPY o FROM STDIN") as copy:
            for row in rows:
                copy.write_row([as_lists(value) for value in row])
        cursor.execute(f"CREATE TEMPORARY VIEW asked AS {sql}".encode())
        cursor.execute(
            "SELECT attname, split_part(format_type(atttypid, NULL), '.', -1) FROM pg_attribute"
            " WHERE attrelid = 'asked'::regclass ORDER BY attnum"
        )
        shown = ", ".join(
            f'"{name}"::{AS_TEXTS[type_]}' if type_ in AS_TEXTS else f'"{name}"' for name, type_ in cursor
        )
        cursor.execute(f"SELECT {shown} FROM asked".encode())
        return [tuple(map(as_plain, row)) for row in cursor.fetchall()]


@pytest.mark.parametrize("sql", postgres_origin_types())
@RANDOM
@given(rows=ROWS)
def test_a_query_means_what_postgres_answers(connection: Connection[Any], sql: str, rows: list[Row]):
    relation = read_query(sql, make_sources(), dialect=SqlDialect.POSTGRES)
    try:
        ours = [tuple(map(as_plain, row)) for row in evaluate(relation, {"o": ZSet.of(rows)}).rows()]
    except EvaluationError:
        reject()
    assert difference(ask_postgres(connection, sql, rows), ours) is None


@pytest.mark.parametrize(
    "sql",
    ["SELECT id FROM o ORDER BY data LIMIT 1", "SELECT id FROM o WHERE data < other"],
)
def test_what_we_do_not_know_the_order_or_type_of_is_refused(sql: str):
    with pytest.raises(UnsupportedSql):
        read_query(sql, make_sources(), dialect=SqlDialect.POSTGRES)
