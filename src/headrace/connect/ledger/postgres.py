"""The ledger in a PostgreSQL database, in a schema of its own: for processes on several machines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psycopg

from headrace.connect.ledger.database import Row, Transaction, Value
from headrace.connect.ledger.ledger import IsStored, SqlLedger
from headrace.model.errors import ConnectError

CONNECT_WITHIN_S = 10
MIGRATION_LOCK = 0x4845_4144_5241_4345
"""An advisory lock's number, ours alone by improbability."""


def open_postgres(
    address: str, clock: Callable[[], float] | None = None, is_stored: IsStored | None = None
) -> SqlLedger:
    """The ledger in the schema "headrace" of this database, made if it is not there."""
    return SqlLedger(PostgresDatabase(address), clock, is_stored)


@dataclass(frozen=True, slots=True)
class _PostgresStatements:
    cursor: psycopg.Cursor[Row]

    def rows(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        return self.cursor.execute(_write_statement(statement), values).fetchall()

    def change(self, statement: str, many: Sequence[Row] = ((),)) -> int:
        if not many:
            return 0
        self.cursor.executemany(_write_statement(statement), many)
        return self.cursor.rowcount


def _write_statement(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


class PostgresDatabase:
    """One connection for all threads, one transaction at a time; made again when it broke.

    When it breaks during a commit nobody knows whether that happened. Its caller asks for the logs again.
    """

    def __init__(self, address: str) -> None:
        self.name = "PostgreSQL"
        self._address = address
        self._turn = threading.Lock()
        self._connection: psycopg.Connection[Row] | None = None

    def _connect(self) -> psycopg.Connection[Row]:
        if self._connection is None or self._connection.closed:
            made = psycopg.connect(self._address, autocommit=True, connect_timeout=CONNECT_WITHIN_S)
            made.execute("SET search_path TO headrace")
            made.execute("SET row_security TO off")  # a policy that somebody made must not hide rows in silence
            self.name = f"{made.info.dbname} at {made.info.host}"
            self._connection = made
        return self._connection

    @contextmanager
    def _transaction(self, *first: bytes) -> Iterator[Transaction]:
        with self._turn, self._report_errors():
            connection = self._connect()
            with connection.cursor() as cursor:
                try:
                    for statement in first:
                        cursor.execute(statement)
                    yield _PostgresStatements(cursor)
                    cursor.execute("COMMIT")
                except BaseException:
                    _roll_back(connection)
                    raise

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            # Of an address that it cannot read the driver quotes parts, and one may be a password.
            readable = isinstance(error, psycopg.OperationalError) or error.diag.message_primary
            said = " ".join(str(error).split()) if readable else "its address cannot be read"
            raise ConnectError(
                f'the ledger "{self.name}" cannot be used: {said}', hint="is the server running, and the address right?"
            ) from error

    def read(self) -> AbstractContextManager[Transaction]:
        return self._transaction(b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def write(self) -> AbstractContextManager[Transaction]:
        return self._transaction(b"BEGIN ISOLATION LEVEL READ COMMITTED")

    def alone(self) -> AbstractContextManager[Transaction]:
        # This lock excludes itself and every INSERT into `pieces`, but no reader.
        return self._transaction(
            b"BEGIN ISOLATION LEVEL READ COMMITTED", b"LOCK TABLE pieces IN SHARE ROW EXCLUSIVE MODE"
        )

    def migrate(self) -> AbstractContextManager[Transaction]:
        # The advisory lock comes before the schema: of two processes that create it at the same time one fails, even
        # with IF NOT EXISTS.
        return self._transaction(
            b"BEGIN ISOLATION LEVEL READ COMMITTED",
            b"SELECT pg_advisory_xact_lock(%d)" % MIGRATION_LOCK,
            b"CREATE SCHEMA IF NOT EXISTS headrace",
        )

    def now(self) -> float:
        with self.read() as transaction:
            ((now,),) = transaction.rows("SELECT extract(epoch FROM clock_timestamp())::float8")
        assert isinstance(now, float)
        return now

    def close(self) -> None:
        with self._turn:
            if self._connection is not None:
                self._connection.close()


def _roll_back(connection: psycopg.Connection[Row]) -> None:
    """A connection that cannot even do this is of no further use."""
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()
