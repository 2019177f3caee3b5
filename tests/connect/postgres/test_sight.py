"""Rows of a table through short snapshots: all of them, range by range or by key, whatever the type of the key."""

from __future__ import annotations

import psycopg
import pytest

from headrace.connect.postgres.inspect import inspect_sources
from headrace.connect.postgres.sight import TableSight
from headrace.connect.postgres.source import CONNECTOR, make_captured_table
from headrace.model.catalogue import PostgresTable, Source, SourceKind
from headrace.model.errors import ConnectError, Location
from headrace.model.notes import CapturedUpTo
from headrace.model.types import Row
from headrace.run.rows.arrow import rows_of_arrow

KEYS = {
    "bigint": ("-5", "0", "7", "9223372036854775807"),
    "text": ("", "a", "B", "é", "z ' \"", "a,b\nc"),
    "char(5)": ("a", "ab", "abc"),
    "uuid": ("00000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000000"),
    "numeric(12,3)": ("-1.5", "0", "1000000.125"),
    "double precision": ("-0.1", "1e300", "NaN", "Infinity"),
    "real": ("0.1", "3.5"),
    "date": ("0001-01-01", "1999-12-31", "2024-02-29"),
    "timestamp": ("1969-12-31 23:59:59.999999", "2024-02-29 12:30:00"),
    "timestamptz": ("1969-12-31 23:59:59.999999+02", "2024-02-29 12:30:00Z"),
    "bytea": ("\\x", "\\x00ff", "\\x41"),
    "boolean": ("f", "t"),
    "varchar(9)": ("", "x y"),
}


def sight_of(dsn: str, table: str, key: tuple[str, ...]) -> TableSight:
    where = Location("headrace.yml")
    source = Source(
        "things", SourceKind.TABLE, "us", key, None, None, None, False, False, None, None, None,
        PostgresTable("dsn", table), where,
    )  # fmt: skip
    found, _ = inspect_sources({"things": source}, {"dsn": dsn})
    return TableSight(dsn, make_captured_table(found["things"]))


def keys_of(table: TableSight, count: int, limit: int = 2) -> list[Row]:
    """Range by range."""
    found: list[Row] = []
    while True:
        rows = table.read_after(found[-1][:count] if found else None, limit).rows
        found += rows_of_arrow(rows)
        if rows.num_rows < limit:
            return found


@pytest.mark.parametrize("type_", KEYS)
def test_a_table_is_read_whole_range_by_range_and_by_keys_of_any_type(type_: str, postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute(f"CREATE TABLE things (k {type_}, n int, v text, PRIMARY KEY (k, n))".encode())
        for value in KEYS[type_]:
            session.execute(
                f"INSERT INTO things VALUES (%s::{type_}, 1, 'one'), (%s::{type_}, 2, NULL)".encode(), [value] * 2
            )
    with sight_of(postgres_dsn, "public.things", ("k", "n")) as table:
        found = keys_of(table, 2)
        assert len(found) == len(set(found)) == 2 * len(KEYS[type_])
        again = rows_of_arrow(table.read_keys([row[:2] for row in found]).rows)
        assert sorted(map(repr, again)) == sorted(map(repr, found))
        assert table.bytes > 0 and table.asked_s > 0


def test_texts_are_those_of_the_log(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as session:
        session.execute("CREATE TABLE things (k int PRIMARY KEY, a inet, b inet, c cidr, d char(3), e interval)")
        session.execute("INSERT INTO things VALUES (1, '::1', '10.0.0.1/8', '10.0.0.0/8', 'x', '24:00')")
    with sight_of(postgres_dsn, "things", ("k",)) as table:
        found = rows_of_arrow(table.read_first(2).rows)
    assert sorted(found) == [(1, "::1", "10.0.0.1/8", "10.0.0.0/8", "x", "24:00:00")]


def test_a_look_says_what_it_shows_and_does_not_wait_for_locks(postgres_dsn: str) -> None:
    with psycopg.connect(postgres_dsn, autocommit=True) as session, psycopg.connect(postgres_dsn) as other:
        session.execute("CREATE TABLE things (k int PRIMARY KEY, v text) PARTITION BY RANGE (k)")
        session.execute("CREATE TABLE things_1 PARTITION OF things FOR VALUES FROM (0) TO (10)")
        session.execute("INSERT INTO things VALUES (1, 'a')")
        with sight_of(postgres_dsn, "things", ("k",)) as table:
            mark = table.find_mark()
            assert mark is not None and mark == table.find_mark()
            other.execute("INSERT INTO things VALUES (2, 'b')")
            (xid,) = other.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,)
            assert table.count_transactions() > xid
            seen = table.read_first(10)
            assert rows_of_arrow(seen.rows) == [(1, "a")] and xid in seen.running, "listed, though it is the last"
            other.commit()
            later = table.read_first(10)
            assert rows_of_arrow(later.rows) == [(1, "a"), (2, "b")] and xid not in later.running
            reached = CapturedUpTo("db", 1, 1, {"lsn": later.position, "slot": "s"})
            assert CONNECTOR.has_passed(seen.position, reached)
            assert not CONNECTOR.has_passed("FFFFFFFF/0", reached)
            other.execute("LOCK TABLE things IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(ConnectError, match="lock timeout"):
                table.read_first(10)
            table.find_mark()
            other.commit()
            session.execute("SELECT pg_stat_force_next_flush()")
            session.execute("DELETE FROM things")
            session.execute("SELECT pg_stat_force_next_flush()")
            assert table.find_mark() != mark
            session.execute("DROP TABLE things")
            with pytest.raises(ConnectError):
                table.read_first(10)
        with pytest.raises(ConnectError, match="no longer exists"):
            TableSight(postgres_dsn, table._captured)
