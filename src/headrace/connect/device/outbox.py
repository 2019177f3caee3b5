"""Keeps what a device must not lose in one SQLite file: what waits to be sent, rows that programs read, and results.

The file is written ahead of its log (WAL), one transaction per event: a process that is killed loses nothing that was
committed, a machine that loses power may lose its last moments but never half an event. Without a file everything is
in memory, for devices that only live as long as their process.
"""

from __future__ import annotations

import fcntl
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from headrace.meaning.zset import normal_row
from headrace.model.device_messages import LARGEST_TABLE, Sent, read_sent, write_sent
from headrace.model.errors import ConnectError, WireError
from headrace.model.types import Row
from headrace.model.wire_values import read_value, write_value
from headrace.run.device.store import Kept, Pair, Queue, WaitingRow

FILE, LOCK = "device.db", "lock"
LATEST = -1

_TABLES = """
CREATE TABLE IF NOT EXISTS document (one INTEGER PRIMARY KEY CHECK (one = 1), body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS queue (name TEXT PRIMARY KEY, given INTEGER, put INTEGER, dropped INTEGER) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS waiting
    (queue TEXT, seq INTEGER, put_ms INTEGER, text TEXT, PRIMARY KEY (queue, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS held
    (stream TEXT, device TEXT, seq INTEGER, at_ms INTEGER, sent BLOB, PRIMARY KEY (stream, device, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS result
    (template TEXT, pair TEXT, row TEXT, count INTEGER, PRIMARY KEY (template, pair, row)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS early (number INTEGER PRIMARY KEY, stream TEXT, text TEXT, at_ms INTEGER);
"""


class Outbox:
    """A `run.device.store.DeviceStore`. `folder` is this device's alone; None keeps everything in memory."""

    def __init__(self, folder: Path | None = None) -> None:
        self._lock: IO[bytes] | None = None
        place = ":memory:"
        if folder is not None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = _lock(folder)
            place = str(folder / FILE)
        # Threads take turns (`connect.device.client`), so SQLite need not insist on one.
        self._db = sqlite3.connect(place, isolation_level=None, check_same_thread=False)
        if folder is not None:
            (folder / FILE).chmod(0o600)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA cache_size = -1000")
        self._db.executescript(_TABLES)
        self._bytes: int = self._db.execute("SELECT coalesce(sum(length(text)), 0) FROM waiting").fetchone()[0]

    @contextmanager
    def step(self) -> Iterator[None]:
        """Raises `ConnectError` if the disk fails: what was kept before stays as it was."""
        before = self._bytes
        with _tell_failures():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                self._bytes = before
                if self._db.in_transaction:  # after some failures SQLite has done it itself
                    self._db.execute("ROLLBACK")
                raise

    def read(self) -> Kept:
        with _tell_failures():
            return self._read()

    def _read(self) -> Kept:
        body = self._db.execute("SELECT body FROM document").fetchone()
        queues = {name: Queue(*rest) for name, *rest in self._db.execute("SELECT name, given, put, dropped FROM queue")}
        held = [
            (stream, device, sent)
            for stream, device, body_ in self._db.execute("SELECT stream, device, sent FROM held")
            for sent in read_sent(body_, 2 * LARGEST_TABLE)
        ]
        held.sort(key=lambda one: one[2].seq)
        results: dict[str, dict[tuple[Pair, Row], int]] = {}
        for template, pair, row, count in self._db.execute("SELECT template, pair, row, count FROM result"):
            values = normal_row(tuple(map(read_value, json.loads(row))))
            results.setdefault(template, {})[tuple(json.loads(pair)), values] = count
        return Kept(body and body[0], queues, held, results)

    def keep_document(self, body: bytes) -> None:
        self._db.execute("INSERT OR REPLACE INTO document VALUES (1, ?)", (body,))

    def keep_queue(self, name: str, queue: Queue) -> None:
        row = (name, queue.given, queue.put, queue.dropped)
        self._db.execute("INSERT OR REPLACE INTO queue VALUES (?, ?, ?, ?)", row)

    def hold(self, stream: str, device: str, sent: Sequence[Sent], only_these: bool) -> None:
        # The latest row of a stream has one place, whatever its number, so that one statement replaces it.
        rows = [(stream, device, LATEST if only_these else one.seq, one.at_ms, write_sent((one,))) for one in sent]
        self._db.executemany("INSERT OR REPLACE INTO held VALUES (?, ?, ?, ?, ?)", rows)

    def forget(self, stream: str, device: str) -> None:
        self._db.execute("DELETE FROM held WHERE stream = ? AND device = ?", (stream, device))

    def forget_older(self, stream: str, up_to_ms: int) -> None:
        newest = "SELECT max(seq) FROM held AS other WHERE other.stream = held.stream AND other.device = held.device"
        sql = f"DELETE FROM held WHERE stream = ? AND at_ms <= ? AND seq < ({newest})"
        self._db.execute(sql, (stream, up_to_ms))

    def keep_result(self, template: str, pair: Pair, row: Row, count: int) -> None:
        key = (template, json.dumps(pair), json.dumps([write_value(value) for value in row]))
        if count:
            self._db.execute("INSERT OR REPLACE INTO result VALUES (?, ?, ?, ?)", (*key, count))
        else:
            self._db.execute("DELETE FROM result WHERE template = ? AND pair = ? AND row = ?", key)

    @property
    def waiting_bytes(self) -> int:
        return self._bytes

    def put(self, queue: str, waiting: WaitingRow, alone: bool) -> None:
        if alone:
            self.drop(queue, waiting.seq)
        self._db.execute(
            "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?)", (queue, waiting.seq, waiting.put_ms, waiting.text)
        )
        self._bytes += len(waiting.text)

    def waiting(self, queue: str, after: int, most: int) -> list[WaitingRow]:
        sql = "SELECT seq, text, put_ms FROM waiting WHERE queue = ? AND seq > ? ORDER BY seq LIMIT ?"
        with _tell_failures():
            return [WaitingRow(*row) for row in self._db.execute(sql, (queue, after, most))]

    def drop(self, queue: str, up_to: int) -> None:
        """Lengths are asked for first: `RETURNING` needs a newer SQLite than some devices have."""
        rows = self._db.execute("SELECT length(text) FROM waiting WHERE queue = ? AND seq <= ?", (queue, up_to))
        gone = sum(length for (length,) in rows)
        if gone:
            self._db.execute("DELETE FROM waiting WHERE queue = ? AND seq <= ?", (queue, up_to))
            self._bytes -= gone

    def drop_oldest(self, queue: str, bytes_: int) -> int:
        count, gone, last = 0, 0, None
        for seq, length in self._db.execute(
            "SELECT seq, length(text) FROM waiting WHERE queue = ? ORDER BY seq", (queue,)
        ):
            if gone >= bytes_:
                break
            count, gone, last = count + 1, gone + length, seq
        if last is not None:
            self.drop(queue, last)
        return count

    def replace(self, queue: str, waiting: Iterable[WaitingRow]) -> None:
        self.drop(queue, 1 << 62)
        for one in waiting:
            self.put(queue, one, alone=False)

    def put_early(self, stream: str, text: str, at_ms: int, most: int) -> int:
        self._db.execute("INSERT INTO early (stream, text, at_ms) VALUES (?, ?, ?)", (stream, text, at_ms))
        count: int = self._db.execute("SELECT count(*) FROM early").fetchone()[0]
        if count > most:
            oldest = "SELECT number FROM early ORDER BY number LIMIT ?"
            self._db.execute(f"DELETE FROM early WHERE number IN ({oldest})", (count - most,))
        return max(0, count - most)

    def has_early(self) -> bool:
        with _tell_failures():
            return bool(self._db.execute("SELECT EXISTS (SELECT 1 FROM early)").fetchone()[0])

    def take_early(self) -> list[tuple[str, str, int]]:
        found = self._db.execute("SELECT stream, text, at_ms FROM early ORDER BY number").fetchall()
        if found:
            self._db.execute("DELETE FROM early")
        return found

    def close(self) -> None:
        self._db.close()
        if self._lock is not None:
            self._lock.close()


def open_outbox(folder: Path | None) -> Outbox:
    """The outbox in a folder. Raises `ConnectError` if it is in use, or cannot be read."""
    try:
        return Outbox(folder)
    except (OSError, sqlite3.Error, WireError) as error:
        raise ConnectError(
            f'the state of the device in "{folder}" cannot be used: {error}',
            "give another folder with --state, or remove this one: what was not sent yet is lost then",
        ) from error


@contextmanager
def _tell_failures() -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise ConnectError(
            f"the state of the device cannot be kept: {error}",
            "make room on its disk and start it again: it goes on with what was kept before",
        ) from error


def _lock(folder: Path) -> IO[bytes]:
    file = (folder / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise ConnectError(
            f'another process is the device of "{folder}"', "end it, or give each device a folder of its own"
        ) from error
    return file
