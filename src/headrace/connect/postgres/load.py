"""Reading whole tables while they change: by ranges of their key, or, without a key, in one snapshot.

    mark "open"    capture meets it: from here on it watches what changes, and a reading that follows may rely on that
    read           in a snapshot, a range of the key (or all of the table into a spill)
    mark "close"   capture meets it: everything that the snapshot saw has been captured, the rows are merged in

A keyed table goes on with the next range; how far it got is a note (`SourceLoading`), and a restart goes on from
there. A table without key starts again. Marks are messages in the log, so they are met in its order.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

import psycopg
from psycopg import sql

from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.intake import Intake
from headrace.connect.postgres.load_state import Load, LoadProgress
from headrace.connect.postgres.publications import explain_lock
from headrace.connect.postgres.reading import (
    TableQueries,
    emit,
    snapshot_of,
    text_rows,
    texts_of_key,
    writers_of,
)
from headrace.connect.postgres.reading_rights import explain_unreadable
from headrace.connect.postgres.sessions import Connection, connect_session
from headrace.connect.postgres.spill import SpillFolder
from headrace.connect.postgres.spool_target import Holding, SpoolTarget
from headrace.connect.postgres.table_look import SeenTable
from headrace.connect.postgres.table_watch import TableWatch
from headrace.connect.postgres.waits import run_watched, say_writers
from headrace.model.errors import ConnectError
from headrace.model.notes import SourceLoaded, SourceLoading, SourceMissed, SourceObsolete, SourceWhole
from headrace.model.table_name import show_table
from headrace.run.capture.chunks import SnapshotWindow
from headrace.run.capture.spool import TextRow, UnheldValue
from headrace.run.capture.visibility import Snapshot

ROWS_AT_ONCE = 10_000
SAY_WRITERS_AFTER_S = 2.0
FIRST_ROWS = 1_000
"""Rows may be large: after the first we know."""
READ_AGAIN_AFTER_S = 600.0
"""Until a table that the server itself cannot read is tried again: it may be large, and that takes a repair."""
MEND_SLOW = (
    "changes of this database wait until it has answered; an index on the key makes reading a table faster, "
    "and a view that takes long can be made a table"
)
MEND_READ = "repair the table: PostgreSQL's log says more. It is tried again every ten minutes"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a range as one snapshot saw them, and the table. `last` is whether there are no more after them."""

    snapshot: Snapshot
    table: SeenTable
    rows: tuple[TextRow, ...]
    last: bool
    repaired: int


class Loads:
    """The tables that are to be read, one after the other. `advance` reads, `note_mark` is told of marks.

    `note_slow` hears every few seconds of a statement that takes long, and why if it takes very long.
    """

    def __init__(
        self,
        dsn: str,
        session: Connection,
        intake: Intake,
        spills: SpillFolder,
        watch: TableWatch,
        note_slow: Callable[[ConnectError | None], None],
    ) -> None:
        self._dsn = dsn
        self._session = session
        self._intake = intake
        self._spills = spills
        self._watch = watch
        self._note_slow = note_slow
        self._queue: list[Load] = []
        self._mark: tuple[str, str] | None = None
        self._chunk: Chunk | None = None
        self._open = False
        self._cursor: Connection | None = None
        self._seen: SeenTable | None = None
        self.progress: list[LoadProgress] = []

    def add(self, load: Load) -> None:
        self._queue.append(load)
        self._target(load).unread = not load.captured.keyed or (load.repeats and not load.begun)

    @property
    def waiting(self) -> bool:
        return bool(self._queue)

    def is_to_begin(self, source: str) -> bool:
        """Whether the table is to be read, and nothing of it was."""
        return any(load.captured.source == source for load in self._queue) and source not in self._watch.known

    def close(self) -> None:
        if self._cursor is not None:
            self._cursor.close()

    def advance(self) -> None:
        """Do the next piece of reading, unless a mark is under way."""
        while self._queue and self._target(self._queue[0]).halted:
            self._leave()
        if not self._queue or self._mark is not None:
            return
        load = self._queue[0]
        if not self._open:
            if self._writers_are_done(load):
                load.started, load.started_rows = time.monotonic(), load.rows
                load.at_once = min(FIRST_ROWS, ROWS_AT_ONCE)
                self._send("open")
        else:
            self._read_next_rows(load)

    def _read_next_rows(self, load: Load) -> None:
        """A table that we may not read, or that somebody has locked, stops its own source and no other."""
        try:
            if load.captured.keyed:
                self._read_range(load)
            else:
                self._read_whole(load)
        except psycopg.errors.InsufficientPrivilege as error:
            self._stop(load, explain_unreadable(self._session, load.table, error))
        except psycopg.errors.LockNotAvailable:
            self.close()
            self._cursor = None
            self._stop(load, explain_lock(self._session, load.table))
        except (psycopg.InternalError, psycopg.DataError) as error:
            self.close()
            self._cursor = None
            self._stop(
                load, Hindrance(f"{load.table.sql_name} cannot be read: {error.diag.message_primary}", MEND_READ)
            )
            self._target(load).look_at = time.monotonic() + READ_AGAIN_AFTER_S

    def _stop(self, load: Load, found: Hindrance) -> None:
        self._intake.halt(self._target(load), found.what, mend=found.hint)

    def note_mark(self, content: bytes) -> None:
        """Capture has come to a mark."""
        if self._mark is None or content.decode() != self._mark[1]:
            return
        kind, self._mark = self._mark[0], None
        load = self._queue[0]
        target = self._target(load)
        if target.halted:
            return
        if kind == "open":
            self._note_opened(load, target)
        elif load.captured.keyed:
            self._merge(load, target)
        else:
            self._release(load, target)

    def _target(self, load: Load) -> SpoolTarget:
        return self._intake.targets[load.captured.source]

    def _send(self, kind: str) -> None:
        content = f"{kind}:{uuid.uuid4().hex}"
        self._mark = kind, content
        emit(self._session, content)

    def find_wait(self) -> ConnectError | None:
        """Whom the next table has been waiting for, for some time."""
        load = self._queue[0] if self._queue else None
        if load is None or not load.wait_for or load.asked_writers is None:
            return None
        if time.monotonic() - load.asked_writers < SAY_WRITERS_AFTER_S:
            return None
        return say_writers(self._session, show_table(load.captured.table), load.wait_for)

    def _read_rows(self, load: Load, session: Connection, query: sql.SQL | sql.Composed) -> tuple[TextRow, ...]:
        """The server may have to sort a whole table for them, or to compute a view: others see that we wait for it."""

        def tell(since: str | None) -> None:
            what = f"the server has been at work since {since} on one statement that reads"
            name = show_table(load.captured.table)
            self._note_slow(None if since is None else ConnectError(f"{what} {name}", MEND_SLOW))

        return run_watched(session, self._dsn, lambda: tuple(text_rows(session, query)), tell)

    def _writers_are_done(self, load: Load) -> bool:
        if load.wait_for:
            load.asked_writers = load.asked_writers or time.monotonic()
            load.wait_for &= writers_of(self._session, load.table)
        return not load.wait_for

    def _note_opened(self, load: Load, target: SpoolTarget) -> None:
        self._open = True
        target.unread = False
        self._intake.forget_layouts()
        if load.captured.keyed:
            target.window = SnapshotWindow(tuple(self._intake.recent))
            if load.repeats and not load.begun:
                target.rows.mark(self._intake.t, "b")
                load.begun = True
        else:
            target.holding = Holding(self._spills.new(), self._spills.new())
        self._intake.note(load.to_note())

    # By ranges of the key

    def _read_range(self, load: Load) -> None:
        window = self._target(load).window
        assert window is not None
        chunk = self._chunk_of(load)
        if chunk is not None and window.can_use(chunk.snapshot):
            self._chunk = chunk
            self._send("close")

    def _chunk_of(self, load: Load) -> Chunk | None:
        """The keys to be read again, if any, else the next range. None if the table is not the one it was."""
        again = load.again[: load.at_once]
        with self._session.transaction():
            self._session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            snapshot = snapshot_of(self._session)
            table = self._look_at(load, self._session)
            if table is None:
                return None
            queries = TableQueries(self._session, load.captured, load.table)
            query = queries.some_keys(again) if again else queries.next_range(load.last, load.at_once)
            rows = self._read_rows(load, self._session, query)
        chunk = Chunk(snapshot, table, rows, not again and len(rows) < load.at_once, len(again))
        load.note_read(rows, ROWS_AT_ONCE)
        return chunk

    def _look_at(self, load: Load, session: Connection) -> SeenTable | None:
        """The table as the session's snapshot sees it; None if it is not the one that was read so far, or that the log
        tells of: then it is read again from the start.

        Statements find tables by their present names, which may be later than the snapshot. Then the next look finds
        that the table is another one.
        """
        seen, source = self._watch.look_at(session, load.captured), load.captured.source
        gone = f"table {show_table(load.captured.table)} was not there for a while"
        why = self._watch.why_obsolete(source, seen) if isinstance(seen, SeenTable) else gone
        if why is not None:
            self._intake.set_aside(self._target(load), why)
        return seen if isinstance(seen, SeenTable) and why is None else None

    def _note_table(self, load: Load, table: SeenTable) -> None:
        """Notes the fingerprint with the first rows: those that come later have to be of the same table."""
        if load.captured.source not in self._watch.known:
            self._intake.note(self._watch.learn(load.captured.source, table.fingerprint))
            self._intake.forget_layouts()

    def _merge(self, load: Load, target: SpoolTarget) -> None:
        chunk, self._chunk = self._chunk, None
        assert chunk is not None and target.window is not None
        self._note_table(load, chunk.table)
        positions = load.captured.key_positions
        keys = [tuple([row[position] for position in positions]) for row in chunk.rows]
        merged = target.window.merge(keys, chunk.snapshot)
        if merged is None:
            return
        target.rows.add_many(self._intake.t, "u", [chunk.rows[position] for position in merged.positions])
        self._intake.flush(target)
        if target.halted:  # by a value, before its key is taken for a text: it may be none
            return
        load.again = load.again[chunk.repaired :] + [texts_of_key(key) for key in merged.again]
        load.rows += len(chunk.rows)
        self._intake.rows_waiting += len(merged.positions)
        if keys and not chunk.repaired:
            load.last = texts_of_key(keys[-1])
        if chunk.last and not load.again:
            self._complete(load, target)
        else:
            self._intake.note(load.to_note())
            self.progress.append(load.progress(complete=False))

    # As a whole

    def _read_whole(self, load: Load) -> None:
        holding = self._target(load).holding
        assert holding is not None
        if self._cursor is None:
            self._start_reading(load, holding)
        if self._cursor is None:
            return
        rows = self._read_rows(load, self._cursor, sql.SQL(f"FETCH {load.at_once} FROM headrace_load"))
        collected = holding.read.rows_of(load.captured)
        collected.add_many(0, "i", rows)
        load.rows += len(rows)
        try:
            holding.read.settle(collected)
        except UnheldValue as error:
            self._intake.halt_at(self._target(load), error)
            return
        complete = len(rows) < load.at_once
        load.note_read(rows, ROWS_AT_ONCE)
        if complete:
            self._send("close")
        else:
            self.progress.append(load.progress(complete=False))

    def _start_reading(self, load: Load, holding: Holding) -> None:
        cursor = connect_session(self._dsn)
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        snapshot = snapshot_of(cursor)
        if not all(map(snapshot.sees, self._intake.recent)):
            cursor.close()  # A transaction is in the log that readers cannot see yet: in a moment they can.
            return
        self._seen = self._look_at(load, cursor)
        if self._seen is None:
            cursor.close()
            return
        self._cursor = cursor
        whole = TableQueries(cursor, load.captured, load.table).whole()
        cursor.execute(sql.SQL("DECLARE headrace_load NO SCROLL CURSOR FOR {}").format(whole))
        load.rows = 0
        holding.begin_reading(snapshot)

    def _release(self, load: Load, target: SpoolTarget) -> None:
        """All of it at once, with one time: before, the table was as it was."""
        assert target.holding is not None and self._cursor is not None and self._seen is not None
        self._note_table(load, self._seen)
        holding, target.holding = target.holding, None
        self._cursor.close()
        self._cursor = None
        if load.repeats:
            target.rows.mark(self._intake.t, "t")
        for spill in (holding.read, holding.changed):
            self._intake.add_tables(target, spill.release(load.captured.source, self._intake.t))
            spill.delete()
        self._complete(load, target)

    def _complete(self, load: Load, target: SpoolTarget) -> None:
        if load.begun:
            target.rows.mark(self._intake.t, "e")
        target.window = None
        source = load.captured.source
        loaded = SourceLoaded(source, self._intake.t)
        over = SourceLoading.remove(source), SourceMissed.remove(source), SourceObsolete.remove(source)
        self._intake.note(*over, loaded, *([SourceWhole(source, self._intake.t)] if load.repeats else []))
        self.progress.append(load.progress(complete=True))
        self._leave()

    def _leave(self) -> None:
        self._queue.pop(0)
        self._open = False
        self._mark = self._chunk = None
        self.close()
        self._cursor = None
