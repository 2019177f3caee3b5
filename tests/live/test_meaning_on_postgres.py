"""PostgreSQL, where sources live and views are delivered, answers portable queries as we do.

What is not portable, and why, is said in `headrace.testing.queries`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import sqlglot
from hypothesis import given

from headrace.meaning.zset import normal_row
from headrace.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Row, Type, Value
from headrace.testing import SCHEMA
from tests.live.agreement import LONG, QUICK, Question, answer_or_reject, as_numbers, columns_of, questions, report

if TYPE_CHECKING:
    from psycopg import Connection

    from headrace.connect.postgres.embedded import EmbeddedPostgres

POSTGRES_TYPES: dict[Type, str] = {
    BOOLEAN: "boolean",
    INT: "integer",
    BIGINT: "bigint",
    DOUBLE: "double precision",
    STRING: 'text COLLATE "C"',
    DATE: "date",
    TIMESTAMP: "timestamptz",
}


def postgres_type(type_: Type) -> str:
    return str(type_) if isinstance(type_, Decimal) else POSTGRES_TYPES[type_]


@pytest.fixture(scope="module")
def connection(postgres: EmbeddedPostgres) -> Iterator[Connection[Any]]:
    """Temporary tables of the schema, in a connection of their own."""
    import psycopg

    with psycopg.connect(postgres.dsn(), options="-c timezone=UTC") as connection:
        for name in SCHEMA:
            columns = ", ".join(f"{column} {postgres_type(type_)}" for column, type_ in columns_of(name).items())
            connection.execute(f"CREATE TEMPORARY TABLE {name} ({columns})".encode())
        connection.commit()
        yield connection


def answer_of(connection: Connection[Any], question: Question) -> list[Row]:
    """Inside a transaction that is rolled back, so that the tables are empty again."""
    (sql,) = sqlglot.transpile(question.sql, read="spark", write="postgres")
    with connection.transaction(force_rollback=True), connection.cursor() as cursor:
        for name, table in question.tables.items():
            with cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
                for row in table.rows():
                    copy.write_row([_sent(value) for value in row])
        cursor.execute(sql.encode())
        return [normal_row(tuple(map(_received, row))) for row in cursor.fetchall()]


def _sent(value: Value) -> Value:
    return value.replace(tzinfo=dt.UTC) if isinstance(value, dt.datetime) else value


def _received(value: Any) -> Value:
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value  # type: ignore[no-any-return]  # whatever the driver made of the column


def check(connection: Connection[Any], question: Question) -> None:
    ours = answer_or_reject(question)
    problem = report(question, as_numbers(ours), as_numbers(answer_of(connection, question)))
    assert problem is None, problem


@QUICK
@given(questions(portable=True))
def test_a_random_portable_query_means_what_postgres_answers(connection: Connection[Any], question: Question):
    check(connection, question)


@pytest.mark.long
@LONG
@given(questions(portable=True))
def test_many_random_portable_queries_mean_what_postgres_answers(connection: Connection[Any], question: Question):
    check(connection, question)
