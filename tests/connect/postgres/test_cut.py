"""Tables through the snapshot of a cut."""

from __future__ import annotations

import psycopg
import pyarrow as pa
import pytest
from psycopg.conninfo import make_conninfo

from headrace.connect.postgres import cut as module
from headrace.connect.postgres.cut import DatabaseCut
from headrace.model.errors import ConnectError
from headrace.model.types import BIGINT, BINARY, STRING, Array, Row, Type
from headrace.run.capture.spool import CapturedTable
from headrace.run.rows.arrow import rows_of_arrow

COLUMNS: tuple[tuple[str, Type], ...] = (
    ("id", BIGINT),
    ("text", STRING),
    ("bytes", BINARY),
    ("list", Array(STRING)),
    ("code", STRING),
)
ROWS: list[Row] = [
    (1, "", b"", ("", None, 'a "quoted", {braced}\nline')),
    (2, None, None, None),
    (3, 'two\nlines, "quotes", \\backslash\\ and \t', bytes(range(256)), ()),
    (4, "\\N", b"x" * 100_000, ("NULL",)),
]


@pytest.fixture
def captured(postgres_dsn: str) -> CapturedTable:
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute('CREATE TABLE odd (id bigint PRIMARY KEY, text text, bytes bytea, "list" text[], code char(4))')
        for row in ROWS:
            values = [list(value) if isinstance(value, tuple) else value for value in row]
            session.execute("INSERT INTO odd VALUES (%s, %s, %s, %s, 'ab')", values)
    return CapturedTable("odd", "us", "public.odd", COLUMNS, ("id",))


def read(cut: DatabaseCut, *names: str) -> list[Row]:
    columns = [(name, dict(COLUMNS)[name]) for name in names]
    return sorted(rows_of_arrow(pa.concat_tables(cut.parts("odd", columns))), key=str)


def test_values_of_all_kinds_are_read_as_they_are(
    postgres_dsn: str, captured: CapturedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_AT_ONCE", 3)
    with DatabaseCut(postgres_dsn, (captured,)) as cut:
        cut.take_snapshot()
        assert read(cut, "id", "text", "bytes", "list") == sorted(ROWS, key=str)
        assert read(cut, "code") == [("ab",)] * len(ROWS)
        assert read(cut, "text") == sorted(((row[1],) for row in ROWS), key=str)


def test_a_table_that_our_role_may_not_lock_is_left_out_and_others_are_read(
    postgres_dsn: str, captured: CapturedTable
) -> None:
    role = "may_only_read"
    own = CapturedTable("own", "us", "own", (("id", BIGINT),), ("id",))
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        for statement in (
            f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN PASSWORD 'x'", "CREATE TABLE own (id bigint)",
            f"ALTER TABLE own OWNER TO {role}", "INSERT INTO own VALUES (7)", f"GRANT SELECT ON odd TO {role}",
        ):  # fmt: skip
            session.execute(statement.encode())
        try:
            with DatabaseCut(make_conninfo(postgres_dsn, user=role, password="x"), (captured, own)) as cut:
                assert cut.lock()
                cut.take_snapshot()
                cut.release()
                assert rows_of_arrow(pa.concat_tables(cut.parts("own", own.columns))) == [(7,)]
                assert cut.missing.keys() == {"odd"}
                mend = cut.missing["odd"].partition(": ")[2]
            assert mend == f"GRANT MAINTAIN ON public.odd TO {role};"
            session.execute(mend.encode())
            with DatabaseCut(make_conninfo(postgres_dsn, user=role, password="x"), (captured, own)) as cut:
                assert cut.lock() and not cut.missing
        finally:
            session.execute(f"DROP OWNED BY {role}".encode())
            session.execute(f"DROP ROLE {role}".encode())


def test_a_snapshot_stays_as_it_was(postgres_dsn: str, captured: CapturedTable) -> None:
    with DatabaseCut(postgres_dsn, (captured,)) as cut, psycopg.connect(postgres_dsn, autocommit=True) as session:
        cut.take_snapshot()
        session.execute("DELETE FROM odd WHERE id < 4")
        assert read(cut, "id") == [(1,), (2,), (3,), (4,)]


def test_a_table_that_is_gone_is_named(postgres_dsn: str, captured: CapturedTable) -> None:
    gone = CapturedTable("gone", "us", "public.gone", COLUMNS, ("id",))
    with DatabaseCut(postgres_dsn, (captured, gone)) as cut:
        assert cut.missing == {"gone": 'its table "public.gone" no longer exists'}
        assert cut.lock()
        cut.release()


def test_the_database_takes_the_lock_back_from_an_audit_that_stands_still(
    postgres_dsn: str, captured: CapturedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HELD_AT_MOST_MS", 100)
    with DatabaseCut(postgres_dsn, (captured,)) as cut, psycopg.connect(postgres_dsn, autocommit=True) as session:
        assert cut.lock()
        session.execute("SET statement_timeout = '60s'")
        session.execute("DELETE FROM odd WHERE id = 1")
        with pytest.raises(ConnectError):
            cut.release()
