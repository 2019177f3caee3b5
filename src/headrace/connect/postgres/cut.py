"""A cut through a database that changes: a snapshot of its tables, bound to a place in its log.

    lock      nobody writes to the tables, and everyone who did is done: their commits are in the log, and visible
    mark      a message into the log, then the snapshot: it sees exactly what the log has before the message
    release   writers go on; the snapshot stays as it is until it is closed

The lock is SHARE, so readers continue. Our request waits behind writers, and later writers wait behind our request. So
the request is short: it gives up after less time than PostgreSQL takes to look for deadlocks. PostgreSQL itself takes
the lock back from an audit that hangs.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

import psycopg
import pyarrow as pa
from psycopg import sql
from pyarrow import csv

from headrace.connect.postgres.inspect import ask_table
from headrace.connect.postgres.reading import emit
from headrace.connect.postgres.sessions import (
    Connection,
    connect_session,
    database_errors,
    reason,
    texts_as_they_are,
)
from headrace.connect.postgres.slots import SqlTable
from headrace.model.errors import ConnectError
from headrace.model.table_name import quote_name, show_table
from headrace.model.types import STRING, Type
from headrace.run.capture.spool import CapturedTable
from headrace.run.capture.text_values import NoSuchValue, column_of_texts

CUT_MARK = "cut:"
"""Marks of audits begin so; the capture notes when it came to them (`CutReached`)."""
LOCK_WITHIN_MS = 300
HELD_AT_MOST_MS = 10_000
"""How long an audit that asks for nothing more may hold the lock: one that was stopped, for example."""
ROWS_AT_ONCE, BYTES_AT_ONCE = 100_000, 32 << 20
_MAY_LOCK = """
SELECT current_user::text AS role, has_table_privilege(c.oid, %s) AS may_lock
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = %s AND c.relname = %s
"""


class DatabaseCut:
    """A cut through some tables of one database. `mark` may be set without `lock`, to see how far behind the capture
    is.

    `missing` are sources whose tables are gone or cannot be locked, and `rows` how many rows others have, as the
    database estimates.
    """

    def __init__(self, dsn: str, tables: tuple[CapturedTable, ...]) -> None:
        self._dsn = dsn
        self._locker = connect_session(dsn)
        try:
            self._reader = connect_session(dsn)
        except BaseException:
            self._locker.close()
            raise
        self.missing: dict[str, str] = {}
        self.rows: dict[str, float | None] = {}
        self._tables: Mapping[str, SqlTable] = self._find(tables)

    def __enter__(self) -> DatabaseCut:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locker.close()
        self._reader.close()

    def _find(self, tables: tuple[CapturedTable, ...]) -> Mapping[str, SqlTable]:
        found = {}
        with database_errors(self._dsn):
            for one in tables:
                facts = ask_table(self._reader, one.table, count=False)
                if facts is None:
                    self.missing[one.source] = f"its table {show_table(one.table)} no longer exists"
                elif (why := self._why_unlockable(SqlTable(facts.schema, facts.name))) is not None:
                    self.missing[one.source] = why
                else:
                    found[one.source] = SqlTable(facts.schema, facts.name)
                    self.rows[one.source] = facts.rows
        return found

    def _why_unlockable(self, table: SqlTable) -> str | None:
        """A table of another role must not keep those of others from being compared."""
        # Any one of these is enough. Names of privileges that a server does not know are an error.
        enough = ["UPDATE", "DELETE", "TRUNCATE", *(["MAINTAIN"] if self._reader.info.server_version >= 170000 else [])]
        row = self._reader.execute(_MAY_LOCK, [", ".join(enough), table.schema, table.name]).fetchone()
        if row is None or row["may_lock"]:
            return None
        grant = f"GRANT {enough[-1]} ON {table.sql_name} TO {quote_name(row['role'])};"
        return f'role "{row["role"]}" may not lock its table, which a snapshot needs: {grant}'

    @property
    def _names(self) -> sql.Composed:
        return sql.SQL(", ").join(table.identifier for table in dict.fromkeys(self._tables.values()))

    def lock(self) -> bool:
        """Whether nobody writes now; False if someone went on writing for too long."""
        try:
            self._locker.execute("BEGIN")
            self._locker.execute(f"SET LOCAL lock_timeout = {LOCK_WITHIN_MS}")
            self._locker.execute(f"SET LOCAL idle_in_transaction_session_timeout = {HELD_AT_MOST_MS}")
            if self._tables:
                self._locker.execute(sql.SQL("LOCK TABLE {} IN SHARE MODE").format(self._names))
        except psycopg.errors.LockNotAvailable:
            self.release()
            return False
        except psycopg.Error as error:
            raise ConnectError(reason(error, self._dsn)) from error
        return True

    def mark(self) -> str:
        """The name of a new mark in the log."""
        name = uuid.uuid4().hex
        with database_errors(self._dsn):
            emit(self._reader, CUT_MARK + name)
        return name

    def take_snapshot(self) -> None:
        """TRUNCATE is seen through snapshots, unless someone reads the table."""
        with database_errors(self._dsn):
            self._reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            if self._tables:
                self._reader.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(self._names))
            self._reader.execute("SELECT 1")

    def release(self) -> None:
        with database_errors(self._dsn):
            self._locker.execute("ROLLBACK")

    def drop_snapshot(self) -> None:
        with database_errors(self._dsn):
            self._reader.execute("ROLLBACK")

    def parts(self, source: str, columns: Sequence[tuple[str, Type]]) -> Iterator[pa.Table]:
        """Some columns of a source as the snapshot has them, a part at a time."""
        with database_errors(self._dsn):
            yield from read_in_parts(self._reader, source, columns, self._tables[source].identifier)


def read_in_parts(
    session: Connection, source: str, columns: Sequence[tuple[str, Type]], rows_of: sql.Composable
) -> Iterator[pa.Table]:
    """Some columns of a table, or of a query in parentheses with an alias, a part at a time: c0, c1, ..."""
    names = sql.SQL(", ").join(_select_column(name, type_) for name, type_ in columns)
    select = sql.SQL("SELECT {} FROM {}").format(names, rows_of)
    # Quotes tell an empty text from NULL, which is the only value without them.
    copy = sql.SQL("COPY ({}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)").format(select).as_bytes(session)
    rows: list[bytes] = []
    size = 0
    with texts_as_they_are(session), session.cursor() as cursor, cursor.copy(copy) as lines:
        for line in lines:
            rows.append(bytes(line))
            size += len(line)
            if len(rows) >= ROWS_AT_ONCE or size >= BYTES_AT_ONCE:
                yield _parse_rows(source, columns, rows)
                rows, size = [], 0
    if rows:
        yield _parse_rows(source, columns, rows)


def _select_column(name: str, type_: Type) -> sql.Composed:
    """A cast to text leaves out the spaces that fill up a char(n), and any other text as it is. That of an address adds
    its mask, which the log does not have.
    """
    if type_ != STRING:
        return sql.Composed([sql.Identifier(name)])
    written = "CASE pg_typeof({0})::text WHEN 'inet' THEN format('%s', {0}) ELSE {0}::text END"
    return sql.SQL(written).format(sql.Identifier(name))


def _parse_rows(source: str, columns: Sequence[tuple[str, Type]], lines: list[bytes]) -> pa.Table:
    """Raises NoSuchValue with the column's name."""
    names = [f"c{position}" for position in range(len(columns))]
    text = b"".join(lines)
    found = csv.read_csv(
        pa.BufferReader(text),
        # One block: a row may be of any length.
        read_options=csv.ReadOptions(column_names=names, block_size=len(text) + 1, use_threads=False),
        parse_options=csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    arrays = []
    for position, (name, type_) in enumerate(columns):
        try:
            arrays.append(column_of_texts(found.column(position).combine_chunks(), type_))
        except NoSuchValue as error:
            raise NoSuchValue(f'column "{name}" of source "{source}": {error}') from error
    return pa.Table.from_arrays(arrays, names)
