"""The ledger in an SQLite file: the default, for all processes of one machine. Not for network file systems.

Write-ahead log, so that readers and the one writer do not wait for each other. `synchronous` is FULL: a commit is on
disk when it returns, also through a loss of power. With NORMAL the last commits could be lost then, although a capture
process told its database that they are safe and the database has forgotten the changes. It costs one fsync a commit.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.connect.ledger.database import Row, Transaction, Value
from headrace.connect.ledger.ledger import IsStored, SqlLedger
from headrace.model.errors import ConnectError, DamagedLedger

BUSY_SECONDS = 30.0
"""How long to wait for other writers: thousands of commits."""


def open_sqlite(file: Path, clock: Callable[[], float] | None = None, is_stored: IsStored | None = None) -> SqlLedger:
    """The ledger in this file, made with its folder if it is not there. Close it before the process forks."""
    return SqlLedger(SqliteDatabase(file), clock, is_stored)


def check_sqlite(file: Path) -> None:
    """Looks at every page of the ledger in a file; raises `DamagedLedger`. 100 MB take a third of a second.

    SQLite keeps no checksums: what it finds is whatever does not fit together. A bit that flips within a value is not.
    """
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=BUSY_SECONDS)) as opened:
            ((found,),) = opened.execute("PRAGMA integrity_check(1)").fetchall()
    except sqlite3.Error as error:
        if is_damage(error):
            raise DamagedLedger(str(file), str(error)) from error
        return  # whoever opens it next says why it cannot be used
    if found != "ok":
        raise DamagedLedger(str(file), " ".join(found.split()))


def purge_sqlite(file: Path) -> None:
    """Writes the ledger anew, so that its files hold nothing that was removed from it or replaced."""
    with _report_errors(str(file)), closing(_connect(file)) as opened:
        opened.execute("VACUUM")
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(file, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)


@contextmanager
def _report_errors(name: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        if is_damage(error):
            raise DamagedLedger(name, str(error)) from error
        raise ConnectError(
            f'the ledger "{name}" cannot be used: {error}',
            hint="is there space on its disk, and may we write there?",
        ) from error


def is_damage(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    known = code is not None and code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    return known or (isinstance(error, sqlite3.OperationalError) and "decode" in str(error))


@dataclass(frozen=True, slots=True)
class _SqliteStatements:
    cursor: sqlite3.Cursor

    def rows(self, statement: str, values: Sequence[Value] = ()) -> list[Row]:
        return self.cursor.execute(statement, values).fetchall()

    def change(self, statement: str, many: Sequence[Row] = ((),)) -> int:
        if not many:
            return 0
        if not many[0]:
            return self.cursor.execute(statement).rowcount
        return self.cursor.executemany(statement, many).rowcount


class SqliteDatabase:
    """One connection for all threads, one transaction at a time."""

    def __init__(self, file: Path) -> None:
        self.name = str(file)
        self._turn = threading.Lock()
        with _report_errors(self.name):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)  # SQLite gives the files beside it the same mode
            self._connection = _connect(file)
            self._use_write_ahead_log()
            # NORMAL, which is usual with a write-ahead log, may lose the last commits with the power. A capture tells
            # its database to forget changes once they are committed here, so no commit may be lost.
            self._connection.execute("PRAGMA synchronous = FULL")

    def _use_write_ahead_log(self) -> None:
        """Waits while another process does the same in a new file: this switch does not heed the busy timeout."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        # The connection is shared: without the turn, a thread's statements would land in another one's transaction.
        with self._turn, _report_errors(self.name):
            cursor = self._connection.cursor()
            cursor.execute(begin)
            try:
                yield _SqliteStatements(cursor)
                cursor.execute("COMMIT")
            finally:
                # Also where COMMIT itself failed (a full disk): a transaction left open would block all that follow.
                if self._connection.in_transaction:
                    cursor.execute("ROLLBACK")

    def read(self) -> AbstractContextManager[Transaction]:
        return self._transaction("BEGIN")

    def write(self) -> AbstractContextManager[Transaction]:
        # Takes the write lock at once: one that reads first and writes later would fail when someone wrote between.
        return self._transaction("BEGIN IMMEDIATE")

    migrate = alone = write  # SQLite has one writer at a time in any case

    def now(self) -> float:
        return time.time()

    def close(self) -> None:
        with self._turn:
            self._connection.close()
