"""Looks at rows of a table for a background check: each time in one short snapshot that only reads.

A look takes the lock that every SELECT takes, and waits for it only a moment. It is over after two seconds at most,
so somebody who changes the table itself (ALTER, TRUNCATE) waits no longer for us. Writers never wait.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType

import pyarrow as pa
from psycopg import sql

from headrace.connect.postgres.cut import read_in_parts
from headrace.connect.postgres.reading import TableQueries, snapshot_of
from headrace.connect.postgres.sessions import connect_session, database_errors
from headrace.connect.postgres.slots import SqlTable
from headrace.model.errors import ConnectError
from headrace.model.table_name import read_table_name
from headrace.model.types import Row, Value
from headrace.run.capture.spool import CapturedTable
from headrace.run.capture.text_values import NoSuchValue
from headrace.run.rows.arrow import arrow_type
from headrace.run.source_port import SeenRows

LOCK_WITHIN_MS, ANSWER_WITHIN_MS = 200, 2_000
_FIND_TABLE = (
    "SELECT n.nspname::text AS schema, c.relname::text AS name FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)"
)
_MARK = (
    "WITH RECURSIVE own (oid) AS (SELECT to_regclass(%s)::oid"
    " UNION SELECT i.inhrelid FROM pg_inherits i JOIN own ON i.inhparent = own.oid)"
    " SELECT string_agg(concat_ws(':', c.oid, c.relfilenode, pg_stat_get_tuples_inserted(c.oid),"
    " pg_stat_get_tuples_updated(c.oid), pg_stat_get_tuples_deleted(c.oid)), ',' ORDER BY c.oid) AS mark"
    " FROM own JOIN pg_class c USING (oid) WHERE current_setting('track_counts')::boolean"
)
"""Counters of what was written, and the files that hold the rows. Nothing here takes a lock."""


class TableSight:
    """A session of its own, for a few looks."""

    def __init__(self, dsn: str, captured: CapturedTable) -> None:
        self._dsn, self._captured = dsn, captured
        self.asked_s, self.bytes = 0.0, 0
        self._name = str(read_table_name(captured.table))
        with self._counting():
            self._session = connect_session(dsn)
        try:
            with self._counting(), database_errors(dsn):
                limits = {"lock_timeout": LOCK_WITHIN_MS, "statement_timeout": ANSWER_WITHIN_MS}
                limits["idle_in_transaction_session_timeout"] = 5 * ANSWER_WITHIN_MS
                settings = {"application_name": "headrace check", **limits}
                names = [sql.SQL("set_config({}, {}, false)").format(name, str(to)) for name, to in settings.items()]
                self._session.execute(sql.SQL("SELECT {}").format(sql.SQL(", ").join(names)))
                row = self._session.execute(_FIND_TABLE, [self._name]).fetchone()
            if row is None:
                raise ConnectError(f"its table {captured.table} no longer exists")
        except BaseException:
            self._session.close()
            raise
        self._table = SqlTable(row["schema"], row["name"])
        self._queries = TableQueries(self._session, captured, self._table)

    def __enter__(self) -> TableSight:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()

    def find_mark(self) -> str | None:
        with self._counting(), database_errors(self._dsn):
            row = self._session.execute(_MARK, [self._name]).fetchone()
        return None if row is None else row["mark"]

    def count_transactions(self) -> int:
        """Takes a number itself. Without that, a snapshot may not list a transaction that nobody has overtaken."""
        with self._counting(), database_errors(self._dsn):
            row = self._session.execute("SELECT pg_current_xact_id()::text AS number").fetchone()
        assert row is not None
        return int(row["number"])

    def read_after(self, key: Row | None, limit: int) -> SeenRows:
        last = None if key is None else tuple(map(_write_value, key))
        return self._read(lambda: self._queries.next_range(last, limit))

    def read_keys(self, keys: Sequence[Row]) -> SeenRows:
        texts = [tuple(map(_write_value, key)) for key in keys]
        return self._read(lambda: self._queries.some_keys(texts))

    def read_first(self, limit: int) -> SeenRows:
        return self._read(lambda: sql.SQL("{} LIMIT {}").format(self._queries.whole(), sql.Literal(limit)))

    def _read(self, make_query: Callable[[], sql.Composed]) -> SeenRows:
        session, captured = self._session, self._captured
        names = [f"{captured.source}.{name}" for name in captured.names]
        schema = pa.schema(
            [(name, arrow_type(type_)) for name, (_, type_) in zip(names, captured.columns, strict=True)]
        )
        try:
            with self._counting(), database_errors(self._dsn), session.transaction():
                session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                snapshot = snapshot_of(session)
                rows = sql.SQL("({}) AS headrace_rows").format(make_query())
                parts = [
                    part.rename_columns(names)
                    for part in read_in_parts(session, captured.source, captured.columns, rows)
                ]
                # After the rows: TRUNCATE empties a table for snapshots that were taken before it, too.
                position = session.execute("SELECT pg_current_wal_insert_lsn()::text AS lsn").fetchone()
        except NoSuchValue as error:
            raise ConnectError(str(error)) from error
        assert position is not None
        table = pa.concat_tables([schema.empty_table(), *(part.cast(schema) for part in parts)])
        self.bytes += table.nbytes
        return SeenRows(table, snapshot.running, position["lsn"])

    @contextmanager
    def _counting(self) -> Iterator[None]:
        began, worked = time.monotonic(), time.thread_time()
        try:
            yield
        finally:  # what this thread itself did meanwhile is counted by whoever runs it
            self.asked_s += max(0.0, time.monotonic() - began - (time.thread_time() - worked))


def _write_value(value: Value) -> str:
    """A value of a key as PostgreSQL reads it, whatever its type there."""
    match value:
        case bytes():
            return f"\\x{value.hex()}"
        case dt.datetime():
            return f"{value.isoformat()}Z"
        case _:
            return str(value)
