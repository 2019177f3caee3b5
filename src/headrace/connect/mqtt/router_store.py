"""What the router keeps on disk: an SQLite file, one transaction per flush.

    waiting    messages whose rows are not in the inboxes yet, as they came     numbers   last number of each stream
    newest     the newest message of each latest-row stream                     history   rows of `keep` streams
    sent       last number that each taker of a `keep` stream was sent          reported  results that devices stand by

A message and its number are committed together: only then is it acknowledged. Rows go to the inboxes in the order of
`waiting`, and are deleted there afterwards: after a crash in between they are written again, which changes nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from headrace.connect.ledger.sqlite import is_damage
from headrace.model.errors import ConnectError
from headrace.run.devices.numbers import LastNumber

BUSY_S = 10.0
SCHEMA = """
CREATE TABLE IF NOT EXISTS waiting (id INTEGER PRIMARY KEY AUTOINCREMENT, device TEXT, stream TEXT, after INTEGER,
    body BLOB, devices TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS numbers (device TEXT, stream TEXT, seq INTEGER, at_ms INTEGER,
    PRIMARY KEY (device, stream)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS newest (device TEXT, stream TEXT, body BLOB, PRIMARY KEY (device, stream)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS history (device TEXT, stream TEXT, seq INTEGER, at_ms INTEGER, body BLOB,
    PRIMARY KEY (device, stream, seq)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS history_at ON history (stream, at_ms);
CREATE TABLE IF NOT EXISTS sent (taker TEXT, device TEXT, stream TEXT, seq INTEGER,
    PRIMARY KEY (taker, device, stream)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS reported (device TEXT, template TEXT, key TEXT, PRIMARY KEY (device, template, key))
    WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """`after` is the last number before: rows of the message with a higher one are new. `group` are the devices whose
    stream it is; results have none. `id` is 0 until committed.
    """

    device: str
    stream: str
    after: int
    body: bytes
    group: str = ""
    id: int = 0


@dataclass(slots=True)
class Flush:
    """What one transaction writes. Rows of tables are in the order of their columns."""

    waiting: list[WaitingMessage] = field(default_factory=list)
    numbers: dict[tuple[str, str], LastNumber] = field(default_factory=dict)
    newest: dict[tuple[str, str], bytes] = field(default_factory=dict)
    history: list[tuple[str, str, int, int, bytes]] = field(default_factory=list)
    sent: dict[tuple[str, str, str], int] = field(default_factory=dict)
    reported: dict[tuple[str, str, str], bool] = field(default_factory=dict)
    """By device, template and key of the row, whether it is there."""

    def note_message(self, message: WaitingMessage, last: LastNumber) -> None:
        """A message whose rows are new, and the last number of its stream from now on."""
        self.waiting.append(message)
        self.numbers[message.device, message.stream] = last

    def note_number(self, device: str, stream: str, last: LastNumber) -> None:
        self.numbers[device, stream] = last

    def note_newest(self, device: str, stream: str, body: bytes) -> None:
        self.newest[device, stream] = body

    def note_kept(self, device: str, stream: str, seq: int, at_ms: int, body: bytes) -> None:
        self.history.append((device, stream, seq, at_ms, body))

    def note_sent(self, taker: str, device: str, stream: str, seq: int) -> None:
        self.sent[taker, device, stream] = seq

    def note_result(self, device: str, template: str, key: str, is_there: bool) -> None:
        self.reported[device, template, key] = is_there

    @property
    def is_empty(self) -> bool:
        return not (self.waiting or self.numbers or self.newest or self.history or self.sent or self.reported)


class RouterStore:
    """Used by one thread. Raises `ConnectError` if the disk or the file does not let it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        with self._report_errors():
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.is_new = not file.exists()
            file.touch(0o600)
            self._database = sqlite3.connect(file, timeout=BUSY_S, isolation_level=None)
            self._database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;" + SCHEMA)
            if "devices" not in {row[1] for row in self._database.execute("PRAGMA table_info(waiting)")}:
                self._database.execute("ALTER TABLE waiting ADD COLUMN devices TEXT NOT NULL DEFAULT ''")

    def close(self) -> None:
        self._database.close()

    def commit(self, flush: Flush, done: int = 0) -> int:
        """Writes all or nothing, and is on disk when it returns. Messages up to number `done` wait no more. The number
        of the last one that waits.
        """
        run = self._database
        with self._report_errors(), self._transaction():
            run.execute("DELETE FROM waiting WHERE id <= ?", (done,))
            rows = [(one.device, one.stream, one.after, one.body, one.group) for one in flush.waiting]
            run.executemany("INSERT INTO waiting (device, stream, after, body, devices) VALUES (?, ?, ?, ?, ?)", rows)
            _put(run, "numbers", ((*key, *last) for key, last in flush.numbers.items()), 4)
            _put(run, "newest", ((*key, body) for key, body in flush.newest.items()), 3)
            _put(run, "history", flush.history, 5)
            _put(run, "sent", ((*key, seq) for key, seq in flush.sent.items()), 4)
            _put(run, "reported", (key for key, there in flush.reported.items() if there), 3)
            gone = [key for key, there in flush.reported.items() if not there]
            run.executemany("DELETE FROM reported WHERE device = ? AND template = ? AND key = ?", gone)
            ((last,),) = run.execute("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'waiting'")
        return int(last)

    def waiting(self) -> list[WaitingMessage]:
        """Messages whose rows may not be in the inboxes yet, in the order in which they came."""
        with self._report_errors():
            found = self._database.execute("SELECT device, stream, after, body, devices, id FROM waiting ORDER BY id")
            return [WaitingMessage(*row) for row in found]

    def numbers(self) -> dict[tuple[str, str], LastNumber]:
        with self._report_errors():
            found = self._database.execute("SELECT * FROM numbers")
            return {(device, stream): LastNumber(seq, at_ms) for device, stream, seq, at_ms in found}

    def newest(self) -> dict[tuple[str, str], bytes]:
        with self._report_errors():
            return {(row[0], row[1]): row[2] for row in self._database.execute("SELECT * FROM newest")}

    def newest_kept(self) -> dict[tuple[str, str], bytes]:
        """The newest row of each `keep` stream."""
        with self._report_errors():
            found = self._database.execute("SELECT device, stream, MAX(seq), body FROM history GROUP BY device, stream")
            return {(device, stream): body for device, stream, _, body in found}

    def sent(self) -> dict[tuple[str, str, str], int]:
        with self._report_errors():
            return {(row[0], row[1], row[2]): row[3] for row in self._database.execute("SELECT * FROM sent")}

    def history(self, device: str, stream: str, after: int, most: int) -> list[tuple[int, bytes]]:
        """RowNumbers and bodies of kept rows with a higher number, oldest first."""
        text = "SELECT seq, body FROM history WHERE device = ? AND stream = ? AND seq > ? ORDER BY seq LIMIT ?"
        with self._report_errors():
            return list(self._database.execute(text, (device, stream, after, most)))

    def reported(self, device: str, template: str) -> list[str]:
        """Keys of the results that a device stands by."""
        text = "SELECT key FROM reported WHERE device = ? AND template = ? ORDER BY key"
        with self._report_errors():
            return [key for (key,) in self._database.execute(text, (device, template))]

    def old_rows(self, stream: str, before_ms: int, most: int) -> list[tuple[str, int]]:
        """Devices and numbers of kept rows that are from before then, oldest first."""
        text = "SELECT device, seq FROM history WHERE stream = ? AND at_ms < ? ORDER BY at_ms LIMIT ?"
        with self._report_errors():
            return list(self._database.execute(text, (stream, before_ms, most)))

    def forget_rows(self, stream: str, rows: Iterable[tuple[str, int]]) -> None:
        with self._report_errors(), self._transaction():
            text = "DELETE FROM history WHERE stream = ? AND device = ? AND seq = ?"
            self._database.executemany(text, ((stream, *row) for row in rows))

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            hint = "is there space on its disk, and may we write there?"
            if is_damage(error):
                hint = "move it away: devices go on, but rows of the last second before may be missing"
            raise ConnectError(f'"{self._file}" cannot be used: {error}', hint) from error


def _put(database: sqlite3.Connection, table: str, rows: Iterable[tuple[object, ...]], columns: int) -> None:
    database.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * columns)})", rows)
