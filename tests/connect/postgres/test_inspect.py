"""Real tables in a real PostgreSQL: what is measured, and what is said about tables that cannot be captured."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator

import psycopg
import pytest

from headrace.connect.postgres import sessions
from headrace.connect.postgres.inspect import inspect_sources
from headrace.model import types
from headrace.model.catalogue import PostgresTable, Source, SourceColumn, SourceKind
from headrace.model.errors import ConnectError, Location, Problem, Severity

Execute = Callable[[str], None]


@pytest.fixture
def execute(postgres_dsn: str) -> Iterator[Execute]:
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:

        def run(statements: str) -> None:
            for statement in filter(str.strip, statements.split(";")):
                connection.execute(statement.encode())

        yield run


def source(table: str, **fields: object) -> Source:
    plain = Source(
        name="s",
        kind=SourceKind.TABLE,
        site="us",
        key=(),
        columns=None,
        rows=None,
        rate=None,
        static=False,
        parent_first=False,
        stays=None,
        time=None,
        retention_s=None,
        origin=PostgresTable("${DSN}", table),
        declared_at=Location("headrace.yml", 5, 3),
    )
    return dataclasses.replace(plain, **fields)  # type: ignore[arg-type]


def inspect(one: Source, dsn: str) -> tuple[Source, tuple[Problem, ...]]:
    found, problems = inspect_sources({"s": one}, {"${DSN}": dsn})
    return found["s"], problems


def told(problems: tuple[Problem, ...]) -> list[tuple[str, str | None]]:
    return [(problem.message, problem.hint) for problem in problems]


def test_columns_key_and_sizes_come_from_the_table(execute: Execute, postgres_dsn: str) -> None:
    execute("""
        CREATE TYPE mood AS ENUM ('good', 'bad');
        CREATE DOMAIN price AS numeric(12,2);
        CREATE TABLE people (
            id int8 PRIMARY KEY, age int4, tall float8, cost price, name varchar(20), born date, seen timestamptz,
            tags text[], raw bytea, extra jsonb, uid uuid, feels mood, ok bool);
        INSERT INTO people (id, age, name) SELECT n, n % 10, 'person' FROM generate_series(1, 1000) AS n;
        ANALYZE people
    """)
    found, problems = inspect(source("public.people"), postgres_dsn)
    assert problems == ()
    assert found.key == ("id",)
    assert found.rows == 1000
    assert found.columns is not None
    assert {column.name: column.type for column in found.columns} == {
        "id": types.BIGINT,
        "age": types.INT,
        "tall": types.DOUBLE,
        "cost": types.Decimal(12, 2),
        "name": types.STRING,
        "born": types.DATE,
        "seen": types.TIMESTAMP,
        "tags": types.Array(types.STRING),
        "raw": types.BINARY,
        "extra": types.STRING,
        "uid": types.STRING,
        "feels": types.STRING,
        "ok": types.BOOLEAN,
    }
    by_name = {column.name: column for column in found.columns}
    assert by_name["id"].distinct == 1000
    assert by_name["age"].distinct == 10
    assert by_name["name"].width == 7


def test_a_table_that_was_never_analysed_is_counted(execute: Execute, postgres_dsn: str) -> None:
    execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1), (2), (3)")
    found, _ = inspect(source("t"), postgres_dsn)
    assert found.rows == 3


def test_what_is_declared_wins_over_what_is_measured(execute: Execute, postgres_dsn: str) -> None:
    execute("CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL UNIQUE); INSERT INTO t VALUES (1, 1); ANALYZE t")
    declared = source("t", columns=(SourceColumn("id", types.BIGINT, width=9, distinct=5),), rows=7.0)
    found, problems = inspect(declared, postgres_dsn)
    assert problems == ()
    assert found.columns == declared.columns
    assert found.rows == 7


@pytest.mark.parametrize(
    ("statement", "fields", "message", "hint"),
    [
        (
            "CREATE TABLE t (id int)",
            {},
            "public.t has no primary key: its changes do not say which row changed",
            "ALTER TABLE public.t ADD PRIMARY KEY (id);   with the columns that name a row, "
            "or ALTER TABLE public.t REPLICA IDENTITY FULL;",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
            {},
            "changes of public.t do not name rows by id",
            "ALTER TABLE public.t REPLICA IDENTITY DEFAULT;",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, n int)",
            {"key": ("n",)},
            'key n of source "s" is not kept unique by public.t',
            "its primary key is id",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL CONSTRAINT one UNIQUE)",
            {"key": ("n",)},
            "changes of public.t do not name rows by n",
            "ALTER TABLE public.t REPLICA IDENTITY USING INDEX one;",
        ),
        (
            "CREATE UNLOGGED TABLE t (id int PRIMARY KEY)",
            {},
            "public.t is unlogged: its changes are not in the log",
            "ALTER TABLE public.t SET LOGGED;",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id)",
            {},
            "public.t is partitioned: its changes are not in the log",
            "declare each partition as a source, and put them together in a view with UNION ALL",
        ),
        (
            "CREATE VIEW t AS SELECT 1 AS id",
            {},
            "public.t is a view: its changes are not in the log",
            "declare the tables that it reads, and write the query as a view of the project",
        ),
        (
            "CREATE TABLE tt (id int PRIMARY KEY)",
            {},
            'table "t" of source "s" does not exist',
            'did you mean "tt"?',
        ),
        (
            'CREATE TABLE "T" (id int PRIMARY KEY)',
            {},
            'table "t" of source "s" does not exist',
            "write '\"T\"': PostgreSQL keeps capitals in double quotes only",
        ),
        (
            'CREATE TABLE t (id int PRIMARY KEY, "A b" int)',
            {"columns": (SourceColumn("id", types.INT), SourceColumn("a b", types.INT))},
            'column "a b" of source "s" is not in public.t',
            'did you mean "A b"?',
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, n text)",
            {"columns": (SourceColumn("id", types.INT), SourceColumn("n", types.INT))},
            'column "n" of source "s" is declared int, and is text',
            "write string",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, n int GENERATED ALWAYS AS (id + 1) STORED)",
            {"columns": (SourceColumn("id", types.INT), SourceColumn("n", types.INT))},
            'column "n" of source "s" is generated: its changes are not in the log',
            "ALTER TABLE public.t ALTER COLUMN n DROP EXPRESSION;   or do without it",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY, p point)",
            {"columns": (SourceColumn("id", types.INT), SourceColumn("p", types.STRING))},
            'column "p" of source "s" has type point, which is not handled',
            "remove it from `columns`, or keep a copy as text in another column",
        ),
    ],
)
def test_each_finding_comes_with_its_fix(
    execute: Execute, postgres_dsn: str, statement: str, fields: dict[str, object], message: str, hint: str
) -> None:
    execute(statement)
    _, problems = inspect(source("t", **fields), postgres_dsn)
    assert told(problems) == [(message, hint)]
    if hint.startswith("ALTER TABLE") and "GENERATED" not in statement:
        execute(hint.partition(";")[0])
        assert inspect(source("t", **fields), postgres_dsn)[1] == ()


def test_columns_that_cannot_be_captured_are_left_out_with_a_warning(execute: Execute, postgres_dsn: str) -> None:
    execute("CREATE TABLE t (id int PRIMARY KEY, p point, n int GENERATED ALWAYS AS (id + 1) STORED)")
    found, problems = inspect(source("t"), postgres_dsn)
    assert [column.name for column in found.columns or ()] == ["id"]
    assert [problem.severity for problem in problems] == [Severity.WARNING, Severity.WARNING]


def test_a_table_that_never_changes_needs_no_capture(execute: Execute, postgres_dsn: str) -> None:
    execute("CREATE TABLE t (id int)")
    assert inspect(source("t", static=True), postgres_dsn)[1] == ()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 password=hunter2",
        "hunter2",
        "postgresql://me:hunter2@[::1/db",
        "host=127.0.0.1 hunter2 port=1",
        "postgresql://me:hunter2@nowhere.invalid/db?connect_timeout=2",
    ],
)
def test_a_database_that_does_not_answer_is_a_finding_without_the_password(address: str) -> None:
    _, problems = inspect(source("t"), address)
    assert [problem.severity for problem in problems] == [Severity.ERROR]
    assert "hunter2" not in str(problems[0])
    assert 'source "s"' in problems[0].message


def test_a_wrong_password_is_not_repeated(postgres_dsn: str) -> None:
    host = postgres_dsn.partition("@")[2]
    _, problems = inspect(source("t"), f"postgresql://postgres:hunter2@{host}")
    assert "password authentication failed" in problems[0].message
    assert "hunter2" not in str(problems[0])


@pytest.mark.parametrize(
    "address",
    [
        *("postgresql://app:se%cret@db/shop", "host=db password=secret oops", "secret"),
        *("postgresql://app:x@cret@127.0.0.1:1/shop", "postgresql://app:x/cret@127.0.0.1:1/shop"),
        "postgresql://app:x?cret@127.0.0.1:1/shop",
    ],
)
@pytest.mark.parametrize("connect", [sessions.connect_reading, sessions.connect_session, sessions.connect_replication])
def test_an_address_that_cannot_be_read_is_not_shown(connect, address: str):
    with pytest.raises(ConnectError) as raised:
        connect(address)
    shown = "".join(traceback.format_exception(raised.value))
    assert "cret" not in str(raised.value) + (raised.value.hint or "") and "cannot be read" in str(raised.value)
    assert "ProgrammingError" not in shown
