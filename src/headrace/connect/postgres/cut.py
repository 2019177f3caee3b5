"""A cut through a database that changes: a snapshot of its tables, bound to a place in its log.

    lock      nobody writes to the tables, and everyone who did is done: their commits are in the log, and visible
    mark      a message into the log, then the snapshot: it sees exactly what the log has before the message
    release   writers go on; the snapshot stays as it is until it is closed

The lock is SHARE: readers go on. Who asks for it waits behind writers, and writers wait behind who asks; so it is asked
for briefly, for less time than PostgreSQL takes to look for deadlocks, and given up if it does not come.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import TracebackType

import psycopg
import pyarrow as pa
from psycopg import sql

from headrace.connect.postgres.inspect import ask_table, reason
from headrace.connect.postgres.reading import TableQueries, emit, text_rows
from headrace.connect.postgres.sessions import connect_session
from headrace.connect.postgres.slots import Table
from headrace.model.errors import ConnectError
from headrace.run.capture.spool import CapturedTable, SpoolRows

CUT_MARK = "cut:"
"""Capture notes the time of marks that begin so, as `cut:DATABASE`."""
LOCK_WITHIN_MS = 300
ROWS_AT_ONCE = 50_000


class DatabaseCut:
    """Of some tables of one database. `mark` may be set without `lock`, to see how far behind the capture is."""

    def __init__(self, dsn: str, tables: tuple[CapturedTable, ...]) -> None:
        self._dsn = dsn
        self._locker = connect_session(dsn)
        self._reader = connect_session(dsn)
        self._captured = tables
        self._tables: Mapping[str, Table] = {one.source: self._found(one) for one in tables}

    def __enter__(self) -> DatabaseCut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locker.close()
        self._reader.close()

    def _found(self, captured: CapturedTable) -> Table:
        facts = ask_table(self._reader, captured.table, count=False)
        if facts is None:
            raise ConnectError(f'table "{captured.table}" of source "{captured.source}" is not there any more')
        return Table(facts.schema, facts.name)

    @property
    def _names(self) -> sql.Composed:
        return sql.SQL(", ").join(table.identifier for table in dict.fromkeys(self._tables.values()))

    def lock(self) -> bool:
        """Whether nobody writes now; False if someone went on writing for too long."""
        self._locker.execute("BEGIN")
        self._locker.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(LOCK_WITHIN_MS)))
        try:
            self._locker.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(self._names))
        except psycopg.errors.LockNotAvailable:
            self.release()
            return False
        except psycopg.Error as error:
            raise ConnectError(reason(error, self._dsn), "a cut needs GRANT MAINTAIN on the tables") from error
        return True

    def mark(self) -> str:
        """The name of a new mark in the log."""
        name = uuid.uuid4().hex
        emit(self._reader, CUT_MARK + name)
        return name

    def take_snapshot(self) -> None:
        """TRUNCATE is seen through snapshots, unless someone reads the table."""
        self._reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        self._reader.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(self._names))
        self._reader.execute("SELECT 1")

    def release(self) -> None:
        self._locker.execute("ROLLBACK")

    def drop_snapshot(self) -> None:
        self._reader.execute("ROLLBACK")

    def rows(self, source: str) -> pa.Table:
        """The source's columns, named `source.column`, as the snapshot has them."""
        captured = next(one for one in self._captured if one.source == source)
        whole = TableQueries(self._reader, captured, self._tables[source]).whole()
        self._reader.execute(sql.SQL("DECLARE headrace_cut NO SCROLL CURSOR FOR {}").format(whole))
        rows = SpoolRows(captured)
        parts = [rows.take()]
        while True:
            some = tuple(text_rows(self._reader, sql.SQL(f"FETCH {ROWS_AT_ONCE} FROM headrace_cut")))
            rows.add_many(0, "i", some)
            parts.append(rows.take())
            if len(some) < ROWS_AT_ONCE:
                break
        self._reader.execute("CLOSE headrace_cut")
        return pa.concat_tables(parts).select([f"{source}.{name}" for name in captured.names])
