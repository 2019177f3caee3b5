"""Captures the tables of one PostgreSQL database into spools, each transaction once, in the order of their commits.

    open     leases, publications, slot; where the last process stopped, or from now on
    step     what the log has, a commit, then the confirmation to the database
    close    leases and slot are free for the next process, which goes on exactly there

The database forgets its log only up to what the ledger holds. A log that was lost (the slot was dropped or ran out, the
database was restored) is noticed when opening, and all tables are read again; see `run.capture` for what that means.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from headrace.connect.ledger.holder import this_holder
from headrace.connect.postgres.capture_parts import CaptureParts
from headrace.connect.postgres.capture_settings import CaptureProgress, CaptureSettings, MessageStream, SourceChanged
from headrace.connect.postgres.cut import CUT_MARK
from headrace.connect.postgres.ddl_trigger import read_told
from headrace.connect.postgres.find_position import find_position, read_log_end
from headrace.connect.postgres.intake import Intake, OtherLog, Outside
from headrace.connect.postgres.load import Loads
from headrace.connect.postgres.plan_loads import plan_loads
from headrace.connect.postgres.publish_sources import SourcePublications
from headrace.connect.postgres.reading import clock_of, emit
from headrace.connect.postgres.replication import LogUnreadable
from headrace.connect.postgres.sessions import check_version, connect_session, database_errors
from headrace.connect.postgres.slots import SlotState, drop_slot, slot_state
from headrace.connect.postgres.spill import SpillFolder
from headrace.connect.postgres.spool_target import SpoolTarget
from headrace.connect.postgres.table_checks import Callbacks, TableChecks, group_by_oid
from headrace.connect.postgres.table_watch import TableWatch
from headrace.connect.postgres.waits import say_silence
from headrace.model.errors import Conflict, ConnectError
from headrace.model.log import Commit
from headrace.model.notes import CaptureFailing, CapturingTables, CutReached, note_keys, read_note
from headrace.run.capture.clock import DatabaseClock, Skew, clock_now, measure_skew
from headrace.run.capture.pgoutput import Relation
from headrace.run.capture.position import Position
from headrace.run.capture.row_changes import Layout
from headrace.run.capture.spool import SpoolRows
from headrace.run.capture.transactions import Transactions
from headrace.run.ports import Ledger, Store
from headrace.run.source_port import LONGEST_STEP_S

LEASE_S = 15.0
HEARTBEAT_EVERY_S, BEAT_STEPS = 1.0, 2
"""Seconds, or steps if these are short: without a heartbeat, time stands still where nothing changes."""
LOOK_AT_TABLES_EVERY_S = 5.0
LOADING_WAIT_S = 0.02
SILENT_S, LONGEST_SILENCE_S = 4.0, 120.0
"""When a server that sends nothing is named, and when it is asked anew. A server that goes through much log that is of
no interest to us may send nothing for half of `wal_sender_timeout`, 30 s by default."""
BEAT = "beat:"
"""Marks of heartbeats begin so. Our time when we asked for them follows, and what no other mark has."""
ROWS_AT_ONCE = 200_000
"""A batch ends after this many rows, even if there are more."""
BYTES_IN_MEMORY = 64_000_000
"""Of the log; then rows go to files, however few they are."""


class Capture:
    """One at a time for each database and each slot: leases say who. After an error, close it and open a new one.

    While transactions of others keep it from making its slot, it notes which.
    """

    def __init__(
        self,
        settings: CaptureSettings,
        ledger: Ledger,
        store: Store,
        now: Callable[[], int] = clock_now,
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._now = now
        self._stream: MessageStream | None = None
        self._beat = self._looked = 0.0
        self._silence: ConnectError | None = None
        self._beats: dict[bytes, tuple[int, int]] = {}
        holder = this_holder()
        self._lease = ledger.acquire(f"capture:{settings.database}", holder, LEASE_S)
        self._leases = [self._lease]
        self._renewed = time.monotonic()
        self._spills = SpillFolder(settings.scratch)
        try:
            # The lease comes before the session: an earlier capture that is still there must be fenced off before we
            # touch its slot and publications.
            self._leases.append(ledger.acquire(settings.names.lease, holder, LEASE_S))
            self._session = connect_session(settings.dsn)
            check_version(self._session.info.server_version)
            with database_errors(settings.dsn):
                self._open(store)
        except BaseException:
            self.close()
            raise

    def _open(self, store: Store) -> None:
        settings = self._settings
        self._watch = TableWatch(self._session, settings.tables, settings.names, self._ledger)
        seen = self._watch.look()
        obsolete = self._watch.find_obsolete(seen)
        oids = group_by_oid(settings.tables, seen)
        self._watch.followed = {one.source: oid for oid, tables in oids.items() for one in tables}
        # Publications come before the slot: it decodes with the catalogue as it was at each place in the log, and
        # fails where a publication did not exist yet.
        publications = SourcePublications(self._session, settings.names, settings.tables)
        covered = publications.find_covered_sources(seen)
        added, refused = publications.publish_sources(
            {source: one for source, one in seen.items() if source not in covered}
        )
        position, lost = find_position(self._session, settings, self._ledger, self._now, self._note_wait)
        self._clock = DatabaseClock(self._ask_clock(), position.commit_time)
        outside = Outside(
            settings.database,
            store,
            self._spills,
            self._now,
            self._clock,
            self._resolve,
            self._on_mark,
            self._answer,
        )
        self._intake = Intake(outside, self._targets(), position)
        self._intake.note(CapturingTables(settings.database, settings.digest), CaptureFailing.remove(settings.database))
        self._loads = Loads(settings.dsn, self._session, self._intake, self._spills, self._watch, self._note_slow)
        self._transactions = Transactions(self._intake)
        parts = CaptureParts(self._session, self._ledger, self._watch, self._intake, self._loads)
        callbacks = Callbacks(self._look_soon, self._answer)
        self._checks = TableChecks(parts, settings, publications, oids, callbacks)
        self._start_stream(position)
        for source, why in refused.items():
            self._intake.halt(self._intake.targets[source], why.what, mend=why.hint)
        for source, why in covered.items():
            self._intake.halt(self._intake.targets[source], why.what, mend=why.hint)
        self._checks.drop_unasked_trigger()
        self._checks.keep_trigger(seen)
        self._checks.check_tables(seen)
        self._checks.note_rights(seen)
        plan_loads(parts, seen, added, {**dict.fromkeys(self._intake.targets, lost), **obsolete})

    def _start_stream(self, position: Position) -> None:
        settings, names = self._settings, self._settings.names
        try:
            self._stream = settings.stream(settings.dsn, names.slot, names.publications, position.start)
        except LogUnreadable as error:
            raise self._give_up_log(f"its log cannot be read any more: {error.message}") from error
        self._intake.comes_again = self._stream.comes_again
        if self._stream.comes_again:
            self._intake.await_last()
        else:
            # Nobody waits for a transaction in such a stream. One that is kept would be missed by a later stream.
            self._intake.position = replace(position, last=None)

    def _give_up_log(self, why: str) -> SourceChanged:
        """The slot leads nowhere: all sources are read again, by a capture with another slot."""
        if self._stream is not None:
            self._stream.close()
        for target in self._intake.targets.values():
            if not target.halted:
                self._intake.set_aside(target, why)
        commit = self._intake.take_commit()
        if commit is not None:
            self._ledger.commit(self._lease, commit)
        # After the commit: whoever finds no slot reads all sources again, but does not know why.
        drop_slot(self._session, self._settings.names.slot)
        return SourceChanged(why)

    def _note_wait(self, why: ConnectError) -> None:
        """People see what we wait for, and others that we are there. Another thread may call it while ours waits."""
        self._renew()
        note = CaptureFailing(self._settings.database, why.message, why.hint)
        if read_note(self._ledger, CaptureFailing, self._settings.database) != note:
            self._ledger.commit(self._lease, Commit(notes=(note,)))

    def _note_slow(self, why: ConnectError | None) -> None:
        """Called while a statement takes long: the server is at work on it, and nothing else can be done meanwhile."""
        self._answer()
        if why is not None:
            self._note_wait(why)

    def _note_writers(self) -> bool:
        """Whether a table has been waiting for some time until it can be read; notes for whom."""
        why = self._loads.find_wait()
        if why is not None:
            self._note_wait(why)
        return why is not None

    def _ask_clock(self) -> Skew:
        asked, started = self._now(), time.monotonic()
        shown = clock_of(self._session)
        return measure_skew(asked, shown, self._time_of_answer(asked, started))

    def _time_of_answer(self, asked: int, started: float) -> int:
        """Our time now, not before `asked`: clocks may be put back meanwhile, or not count while a machine sleeps."""
        return max(self._now(), asked + round((time.monotonic() - started) * 1e6))

    def _targets(self) -> dict[str, SpoolTarget]:
        times = self._ledger.times()
        return {one.source: SpoolTarget(one, times.get(one.log), SpoolRows(one)) for one in self._settings.tables}

    def _resolve(self, relation: Relation) -> tuple[Layout, ...]:
        return self._checks.resolve(relation)

    def _look_soon(self) -> None:
        self._looked = min(self._looked, time.monotonic() - LOOK_AT_TABLES_EVERY_S)

    # The loop

    def step(self, wait_s: float = LONGEST_STEP_S) -> CaptureProgress:
        """Take what comes within the time, commit it, confirm it.

        Raises SourceChanged after the commit if a source has to be read again: who opens us anew reads it.
        """
        with database_errors(self._settings.dsn):
            self._keep_up()
            self._intake.reached = max(self._ledger.times().values(), default=self._intake.t)
            self._loads.advance()
            try:
                # While tables are read every mark in the log is waited for: at once, not at the end of a batch. And
                # nobody is left to believe what is known to be wrong.
                soon = self._loads.waiting or self._intake.aside
                self._take(min(wait_s, LOADING_WAIT_S) if soon else wait_s)
            except OtherLog as error:
                raise self._give_up_log("its database was restored to an earlier state") from error
            except LogUnreadable as error:
                raise self._give_up_log(f"its log cannot be read any more: {error.message}") from error
            done = self._commit()
        if self._intake.aside:
            raise SourceChanged(" and ".join(self._intake.aside))
        return done

    def catch_up(self) -> CaptureProgress:
        """Steps until everything that is committed now in the database is in the spools, and all tables are read."""
        with database_errors(self._settings.dsn):
            end = read_log_end(self._session)
        while True:
            self._beat = 0.0
            done = self.step(0.02)
            if self._intake.position.lsn >= end and not self._loads.waiting:
                return done

    def state(self) -> SlotState | None:
        """How far the slot is behind and what it keeps, for `status`."""
        return slot_state(self._session, self._settings.names.slot)

    def close(self) -> None:
        """May be called again, and after an error."""
        # Leases go last: the next capture may begin as soon as they are free, and needs the slot that the stream holds.
        if self._stream is not None:
            self._stream.close()
        if hasattr(self, "_loads"):
            self._loads.close()
        if hasattr(self, "_session"):
            self._session.close()
        self._spills.close()
        for lease in self._leases:
            self._ledger.release(lease)

    def _renew(self) -> None:
        now = time.monotonic()
        if now - self._renewed > LEASE_S / 3:
            for lease in self._leases:
                self._ledger.renew(lease, LEASE_S)
            self._renewed = now

    def _keep_up(self) -> None:
        now = time.monotonic()
        self._renew()
        if now - self._beat >= min(HEARTBEAT_EVERY_S, BEAT_STEPS * self._settings.step_s):
            self._send_beat()
            if not (self._note_silence() or self._note_writers()):
                self._withdraw_failure()
            self._beat = now
        if now - self._looked >= LOOK_AT_TABLES_EVERY_S:
            seen = self._watch.look_if_free() if self._looked else None
            if seen is not None:
                self._checks.keep_trigger(seen)
                self._checks.check_tables(seen)
                self._checks.compare_tables(seen)
                self._checks.note_rights(seen)
            self._looked = now

    def _withdraw_failure(self) -> None:
        """This capture works. An earlier one that stood still may have noted its failure after this one took over."""
        if self._settings.database in note_keys(self._ledger, CaptureFailing):
            self._intake.note(CaptureFailing.remove(self._settings.database))

    def _note_silence(self) -> bool:
        """Whether the server sends nothing although it answers in other sessions; notes who should send."""
        silent_s = 0.0 if self._stream is None else self._stream.silent_s
        if silent_s < SILENT_S:
            self._silence = None
            return False
        if self._silence is None:
            self._silence = say_silence(self._session, self._settings.names.slot, silent_s)
            note = CaptureFailing(self._settings.database, self._silence.message, self._silence.hint)
            self._ledger.commit(self._lease, Commit(notes=(note,)))
        if silent_s > LONGEST_SILENCE_S:
            raise self._silence
        return True

    def _send_beat(self) -> None:
        """It is committed between now and the answer, which tells the database's clock when it comes by in the log."""
        asked, started = self._now(), time.monotonic()
        mark = f"{BEAT}{asked}:{uuid.uuid4().hex}"
        # Noted after the answer is there. The mark cannot come by before that: the log is read by this thread, later.
        emit(self._session, mark)
        self._beats[mark.encode()] = asked, self._time_of_answer(asked, started)

    def _take(self, wait_s: float) -> None:
        """Takes messages for at most the time, but transactions whole."""
        assert self._stream is not None
        deadline, fed = time.monotonic() + wait_s, 0
        receive, feed, transactions, intake = (
            self._stream.receive,
            self._transactions.feed,
            self._transactions,
            self._intake,
        )
        while True:
            left = deadline - time.monotonic()
            # Inside a transaction we wait on beyond the deadline: half of one can be neither timed nor committed.
            data = receive(max(left, 0.0) if not transactions.inside else 1.0)
            if data is not None:
                feed(data)
                fed += len(data)
                if fed >= BYTES_IN_MEMORY:
                    intake.relieve()
                    fed = 0
            enough = data is None or left <= 0 or intake.rows_waiting >= ROWS_AT_ONCE
            if enough and not transactions.inside:
                return

    def _commit(self) -> CaptureProgress:
        assert self._stream is not None
        commit = self._intake.take_commit()
        rows = self._intake.rows_waiting
        if commit is not None:
            try:
                self._ledger.commit(self._lease, commit)
            except Conflict as error:
                # We stood still for so long that our files were swept away: the log has all of it.
                raise ConnectError(
                    f"the rows that were read could not be stored, and are read again: {error}"
                ) from error
            # Only now may the database forget: what is confirmed and not committed would be lost with this process.
            self._intake.committed()
            self._stream.confirm(self._intake.position.lsn, self._intake.position.start)
        progress, self._loads.progress = tuple(self._loads.progress), []
        return CaptureProgress(self._intake.position.t, rows, progress)

    def _on_mark(self, content: bytes, commit_time: int) -> None:
        if content in self._beats:
            asked, answered = self._beats.pop(content)
            self._clock.measure(measure_skew(asked, commit_time, answered))
        if content.startswith(CUT_MARK.encode()):
            name = content.decode(errors="replace").removeprefix(CUT_MARK)
            self._intake.note(CutReached(self._settings.database, name, self._intake.t))
        self._checks.compare_told(read_told(content, self._settings.names))
        self._loads.note_mark(content)

    def _answer(self) -> None:
        """Called during long work: the database and the other processes see that we are there."""
        if self._stream is not None:
            self._stream.answer()
        self._renew()
