"""Real tables in a real PostgreSQL: what is measured, and what is said about tables that cannot be captured."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from headrace.connect.postgres import sessions
from headrace.connect.postgres.differences import find_differences
from headrace.connect.postgres.facts import ColumnFacts, TableFacts
from headrace.connect.postgres.inspect import inspect_differences, inspect_sources
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
            "CREATE TABLE t (id int) PARTITION BY RANGE (id)",
            {},
            "public.t is partitioned and has no primary key: its changes do not say which row changed",
            "ALTER TABLE public.t ADD PRIMARY KEY (id);   with the columns that name a row",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id);"
            "CREATE UNLOGGED TABLE p PARTITION OF t DEFAULT",
            {},
            "public.p, a partition of public.t, is unlogged: its changes are not in the log",
            "ALTER TABLE public.p SET LOGGED;",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY) PARTITION BY RANGE (id);"
            "CREATE TABLE p PARTITION OF t DEFAULT; ALTER TABLE p REPLICA IDENTITY NOTHING",
            {},
            "public.p, a partition of public.t, has a replica identity of its own: "
            "its changes may not say which row changed",
            "ALTER TABLE public.p REPLICA IDENTITY DEFAULT;",
        ),
        (
            "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE heir () INHERITS (t)",
            {},
            "public.t has tables that inherit from it (public.heir): changes of their rows are not in its log",
            "ALTER TABLE public.heir NO INHERIT public.t;   or make it a partitioned table",
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
            "CREATE TABLE t (id int PRIMARY KEY, p money)",
            {"columns": (SourceColumn("id", types.INT), SourceColumn("p", types.STRING))},
            'column "p" of source "s" has type money, which is not handled',
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
    execute("CREATE TABLE t (id int PRIMARY KEY, p money, n int GENERATED ALWAYS AS (id + 1) STORED)")
    found, problems = inspect(source("t"), postgres_dsn)
    assert [column.name for column in found.columns or ()] == ["id"]
    assert [problem.severity for problem in problems] == [Severity.WARNING, Severity.WARNING]


def test_a_partitioned_table_is_measured_as_a_whole(execute: Execute, postgres_dsn: str) -> None:
    execute("""
        CREATE TABLE t (id int PRIMARY KEY, v text) PARTITION BY RANGE (id);
        CREATE TABLE t_1 PARTITION OF t FOR VALUES FROM (0) TO (10);
        CREATE TABLE t_2 PARTITION OF t DEFAULT;
        INSERT INTO t SELECT n, 'value' FROM generate_series(1, 50) n
    """)
    found, problems = inspect(source("t"), postgres_dsn)
    assert (problems, found.key, found.rows) == ((), ("id",), 50)
    execute("ANALYZE")
    found, _ = inspect(source("t"), postgres_dsn)
    assert found.rows == 50 and found.columns is not None
    assert [(column.name, column.width) for column in found.columns] == [("id", 4), ("v", 6)]


def test_columns_for_which_postgresql_answers_otherwise_are_named(execute: Execute, postgres_dsn: str) -> None:
    execute("""
        CREATE TABLE t (
            id int PRIMARY KEY, c char(5), n numeric, exact numeric(20,19), plain text, bytes text COLLATE "C",
            several numeric[], unused numeric, lasts interval, at time(3)[], fits int4range)
    """)
    found, _ = inspect(source("t"), postgres_dsn)
    used = tuple(column for column in found.columns or () if column.name != "unused")
    problems = list(inspect_differences(postgres_dsn, [dataclasses.replace(found, columns=used)]))
    assert {problem.severity for problem in problems} == {Severity.WARNING}
    as_text = "and is read as text: = and < compare texts"
    rounded = "is numeric without a number of digits: it is rounded to 18 digits after the point here"
    assert [problem.message for problem in problems] == [
        'column "c" of public.t has type character(5), and is read without the spaces that fill it up: '
        "LIKE, octet_length and comparisons with texts that end in spaces may differ from PostgreSQL",
        f'column "n" of public.t {rounded}, and 20 digits before it are the most',
        f'column "several" of public.t {rounded}, and 20 digits before it are the most',
        f'column "lasts" of public.t has type interval, {as_text} in Spark\'s dialect',
        f'column "at" of public.t has type time(3) without time zone[], {as_text}',
    ]


def test_collations_that_are_not_the_order_of_bytes_are_named() -> None:
    """The embedded server has no collations of that kind."""
    columns = tuple(
        ColumnFacts(name, "text", False, True, False, None, None, collation, deterministic)
        for name, collation, deterministic in (
            ("bytes", None, True), ("folded", "ci", False), ("one", "de", True), ("two", "de", True),
        )
    )  # fmt: skip
    facts = TableFacts("public", "t", "r", "p", "d", (), (), (), True, None, columns)
    used = tuple(SourceColumn(column.name, types.STRING) for column in columns)
    apart = "<, >, ORDER BY, min and max may differ from PostgreSQL"
    assert [problem.message for problem in find_differences(source("t", columns=used), facts)] == [
        'column "folded" of public.t has collation "ci", which takes different texts for equal: '
        "here they stay different in =, IN, joins, GROUP BY and DISTINCT",
        f'public.t sorts "folded" by collation "ci", and we sort by bytes: {apart}',
        f'public.t sorts "one", "two" by collation "de", and we sort by bytes: {apart}',
    ]


def test_a_database_of_encoding_sql_ascii_is_read_as_utf_8(postgres_dsn: str) -> None:
    name = "plain_bytes"
    with psycopg.connect(postgres_dsn, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}".encode())
        connection.execute(
            f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C' LOCALE_PROVIDER libc".encode()
        )
    address = make_conninfo(postgres_dsn, dbname=name)
    try:
        with psycopg.connect(address, autocommit=True, client_encoding="UTF8") as connection:
            connection.execute('CREATE TABLE t (id int PRIMARY KEY, "größe" text)')
            found, problems = inspect(source("t"), address)
            assert problems == () and [column.name for column in found.columns or ()] == ["id", "größe"]
            (warning,) = inspect_differences(address, [found])
            assert "SQL_ASCII" in warning.message and warning.severity is Severity.WARNING
            connection.execute("SET client_encoding TO 'SQL_ASCII'")
            connection.execute('ALTER TABLE t RENAME COLUMN id TO "\u00ef"'.encode("latin-1"))
            _, (problem,) = inspect(source("t"), address)
            assert "the name of a table or column is not UTF-8" in problem.message
    finally:
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name}".encode())


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
