"""Captures the tables of one PostgreSQL database into spools, each transaction once, in the order of their commits.

    open     leases, publications, slot; where the last process stopped, or from now on
    step     what the log has, a commit, then the confirmation to the database
    close    leases and slot are free for the next process, which goes on exactly there

The database forgets its log only up to what the ledger holds. A log that was lost (the slot was dropped or ran out, the
database was restored) is noticed when opening, and all tables are read again; see `run.capture` for what that means.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import psycopg

from headrace.connect.ledger.holder import this_holder
from headrace.connect.postgres.cut import CUT_MARK
from headrace.connect.postgres.ddl_trigger import drop_trigger, keep_trigger, read_told
from headrace.connect.postgres.drift import (
    columns_of_relation,
    find_drift,
    find_identity_drift,
    find_name_drift,
    find_table_drift,
)
from headrace.connect.postgres.facts import Hindrance
from headrace.connect.postgres.intake import Intake, OtherLog, Outside, SpoolTarget
from headrace.connect.postgres.load import Load, LoadProgress, Loads
from headrace.connect.postgres.publications import (
    ALL_CHANGES,
    INSERTIONS,
    explain_lock,
    find_covered,
    find_unpublishable,
    publish,
    say_covered,
)
from headrace.connect.postgres.readiness import find_unfit
from headrace.connect.postgres.reading import clock_of, emit, writers_of
from headrace.connect.postgres.reading_rights import find_unreadable
from headrace.connect.postgres.replication import LogStream, LogUnreadable
from headrace.connect.postgres.sessions import check_version, connect_session, database_errors
from headrace.connect.postgres.slots import (
    CaptureNames,
    SlotState,
    SqlTable,
    capture_names,
    create_slot,
    drop_slot,
    slot_state,
)
from headrace.connect.postgres.spill import SpillFolder
from headrace.connect.postgres.table_look import SeenTable
from headrace.connect.postgres.table_watch import SeenTables, TableWatch
from headrace.connect.postgres.unheld import is_still_there
from headrace.connect.postgres.waits import say_silence, watch_open_transactions
from headrace.model.errors import Conflict, ConnectError
from headrace.model.log import Commit
from headrace.model.notes import (
    CapturedUpTo,
    CaptureFailing,
    CapturingTables,
    CutReached,
    SourceLoaded,
    SourceLoading,
    SourceMend,
    SourceMissed,
    SourceObsolete,
    SourceStopped,
    SourceUnwatched,
    note_keys,
    read_note,
    read_notes,
)
from headrace.model.table_name import show_table
from headrace.run.capture.clock import DatabaseClock, Skew, clock_now, measure_skew, next_time
from headrace.run.capture.pgoutput import Relation
from headrace.run.capture.position import Position, parse_lsn
from headrace.run.capture.row_changes import Layout, layout_of
from headrace.run.capture.spool import CapturedTable, SpoolRows
from headrace.run.capture.transactions import Transactions
from headrace.run.ports import Ledger, Store

LEASE_S = 15.0
HEARTBEAT_EVERY_S = 1.0
LOOK_AT_TABLES_EVERY_S = 5.0
PROBE_LOCK_WITHIN = "100ms"
"""How long a look at a stopped table waits for a lock: many tables may be locked, and all others wait meanwhile."""
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


class MessageStream(Protocol):
    """Where messages come from. `receive` gives None when no more come within the time, or before `confirm`.

    Everything up to `lsn` was committed, and everything up to `forget` is never asked for again. `comes_again` is
    whether what is between the two comes again from a later stream.

    `silent_s` is for how many seconds nobody has answered our question whether somebody is there.
    """

    comes_again: bool

    @property
    def silent_s(self) -> float: ...
    def receive(self, wait_s: float) -> bytes | None: ...
    def confirm(self, lsn: int, forget: int) -> None: ...
    def answer(self, at_once: bool = False) -> None: ...
    def close(self) -> None: ...


StreamFrom = Callable[[str, str, Sequence[str], int], MessageStream]


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """`database` names the database in notes and commit marks; the address stays out of everything that is stored."""

    project: str
    database: str
    dsn: str = field(repr=False)
    tables: tuple[CapturedTable, ...]
    scratch: Path
    stream: StreamFrom = LogStream

    @property
    def names(self) -> CaptureNames:
        return capture_names(self.project, self.database)

    @property
    def digest(self) -> str:
        """A digest of the tables; what a capture notes (`CapturingTables`) once it captures exactly these."""
        return hashlib.sha256(repr(self.tables).encode()).hexdigest()[:16]


class SourceRecovered(ConnectError):
    """A source that was stopped can be captured again: the next capture, opened anew, reads it. Nothing failed."""


class SourceChanged(ConnectError):
    """A source has to be read again, as is noted: the next capture, opened anew, reads it. Nothing failed."""


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """What a step did: how far, how many rows it wrote, and how far the reading of tables is."""

    t: int
    rows: int
    progress: tuple[LoadProgress, ...]


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
        self._oids = _group_by_oid(settings.tables, seen)
        self._watch.followed = {one.source: oid for oid, tables in self._oids.items() for one in tables}
        # Publications come before the slot: it decodes with the catalogue as it was at each place in the log, and
        # fails where a publication did not exist yet.
        covered = self._find_covered(seen)
        added, refused = self._publish({source: one for source, one in seen.items() if source not in covered})
        position, lost = self._position()
        self._stopped = frozenset(note_keys(self._ledger, SourceStopped))
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
        self._start_stream(position)
        for source, why in refused.items():
            self._intake.halt(self._intake.targets[source], why.what, mend=why.hint)
        for source, why in covered.items():
            self._intake.halt(self._intake.targets[source], why.what, mend=why.hint)
        self._keep_trigger(seen)
        self._check_tables(seen)
        self._plan_loads(seen, added, {**dict.fromkeys(self._intake.targets, lost), **obsolete})

    def _find_covered(self, seen: SeenTables) -> dict[str, Hindrance]:
        """Sources whose tables are partitions of other sources' tables, and why they cannot be captured."""
        tables = {one.source: seen[one.source] for one in self._settings.tables if not one.static}
        names = {source: table.table for source, table in tables.items() if isinstance(table, SeenTable)}
        roots = find_covered(self._session, list(names.values()))
        return {source: say_covered(table, roots[table]) for source, table in names.items() if table in roots}

    def _publish(self, seen: SeenTables) -> tuple[dict[SqlTable, frozenset[str]], dict[str, Hindrance]]:
        """The tables that were not published before, or not completely, each with the transactions that wrote to it
        before it was; and the sources whose tables cannot be published.
        """
        added: list[SqlTable] = []
        refused: dict[str, Hindrance] = {}
        for streams in (False, True):
            chosen = {
                one.source: table.table
                for one in self._settings.tables
                if one.appends is streams and not one.static
                if isinstance(table := seen.get(one.source), SeenTable) and find_unfit(table.form) is None
            }
            wanted: dict[SqlTable, frozenset[str]] = {}
            for one in self._settings.tables:
                if (name := chosen.get(one.source)) is not None:
                    wanted[name] = wanted.get(name, frozenset()) | _present_columns(one, seen)
            published = publish(self._session, self._publication(streams), wanted, _operations(streams))
            added += published.added
            refused |= {name: published.refused[one] for name, one in chosen.items() if one in published.refused}
        return {table: writers_of(self._session, table) for table in added}, refused

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

    def _publication(self, streams: bool) -> str:
        return self._settings.names.streams if streams else self._settings.names.tables

    def _position(self) -> tuple[Position, str | None]:
        """Where to go on, and why the log before that is lost, if it is or was never there."""
        slot = self._settings.names.slot
        note = read_note(self._ledger, CapturedUpTo, self._settings.database)
        state = slot_state(self._session, slot)
        last = None if note is None else Position.from_note(note)
        if last is not None and state is not None and _continues(state, last, self._log_end()):
            return last, None
        # A slot that does not continue where we stopped is of no use, and would keep log until the disk is full.
        drop_slot(self._session, slot)
        with watch_open_transactions(self._settings.dsn, self._note_wait):
            lsn = create_slot(self._session, slot)
        position = Position(lsn, next_time(last.t if last else 0, self._now()), self._now(), slot)
        return position, _say_lost(state)

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

    def _log_end(self) -> int:
        row = self._session.execute("SELECT pg_current_wal_lsn()::text AS lsn").fetchone()
        assert row is not None
        return parse_lsn(row["lsn"])

    def _targets(self) -> dict[str, SpoolTarget]:
        times = self._ledger.times()
        return {one.source: SpoolTarget(one, times.get(one.log), SpoolRows(one)) for one in self._settings.tables}

    def _plan_loads(
        self, seen: SeenTables, added: Mapping[SqlTable, frozenset[str]], obsolete: Mapping[str, str | None]
    ) -> None:
        """A table is read if it never was, if its reading was interrupted, or if what we hold of it is `obsolete`."""
        loading, missed = read_notes(self._ledger, SourceLoading), read_notes(self._ledger, SourceMissed)
        loaded, noted = read_notes(self._ledger, SourceLoaded), note_keys(self._ledger, SourceLoading)
        pending = read_notes(self._ledger, SourceObsolete)
        for target in self._intake.targets.values():
            captured, table, source = target.captured, seen[target.captured.source], target.captured.source
            if target.halted or not isinstance(table, SeenTable):
                continue
            why = obsolete.get(source)
            if source in self._stopped:
                self._intake.note(SourceStopped.remove(source), SourceMend.remove(source))
            if captured.static and source in loaded and source not in noted and why is None:
                continue
            # Nobody knows any more how far a reading was whose note cannot be read: it starts again.
            damaged = source in noted and source not in loading
            if why is None and (damaged or target.t != self._intake.position.t or source in self._stopped):
                why = "changes of its table were missed"
            repeats = target.t is not None and why is not None
            writers = added.get(table.table, frozenset())
            if source in noted and source not in self._watch.known and not captured.static:
                # A capture ended before it read anything, perhaps while it waited for writers.
                writers |= writers_of(self._session, table.table)
            load = Load(captured, table.table, table.rows, repeats, wait_for=writers)
            if source in loading and not repeats:
                load.resume(loading[source])
            elif source in loaded and not repeats:
                continue
            else:
                self._watch.forget(source)
            self._loads.add(load)
            # What has to be read is committed with the position that makes it necessary.
            if repeats and why is not None:
                self._intake.note_obsolete(target, pending[source].why if source in pending else why,
                                           missed.get(source), tell=source not in pending)  # fmt: skip
            self._intake.note(load.to_note())

    # Tables that are not what they were

    def _check_tables(self, seen: SeenTables) -> None:
        """Stop the sources whose tables cannot be captured as declared, and take those that can again.

        Raises SourceRecovered if one of those that were stopped can be captured again: who opens us anew reads it.
        """
        halted = any(target.halted for target in self._intake.targets.values())
        covered = self._find_covered(seen) if halted else {}
        for target in self._intake.targets.values():
            if target.halted and not (target.drifted or target.mend):
                continue
            table = seen[target.captured.source]
            found = find_table_drift(target.captured, table)
            if found is not None:
                if found.what != target.halted:
                    self._intake.halt(target, found.what, drifted=True, mend=found.hint or None)
            elif target.halted:
                assert isinstance(table, SeenTable), "a table that is missing has drifted"
                if target.captured.source in covered:
                    continue
                self._answer()
                self._look_again(target, table.table)

    def _compare_tables(self, seen: SeenTables) -> None:
        """Has tables read again that are not the ones that were read. Others may have changed in what does not matter.

        Those that are still to be read are left out: what they are is noted with their first rows.
        """
        obsolete = self._watch.find_obsolete(seen)
        settled = {}
        for source, target in self._intake.targets.items():
            if target.halted or self._loads.is_to_begin(source):
                continue
            if source in obsolete:
                self._intake.set_aside(target, obsolete[source])
            else:
                settled[source] = seen[source]
        self._intake.note(*self._watch.learn_harmless(settled))

    def _keep_trigger(self, seen: SeenTables) -> None:
        """Makes the event trigger of those sources that ask for one, puts it back if somebody dropped or changed it,
        and says why it cannot. Without it their tables are looked at like all others.
        """
        asked = [one.source for one in self._settings.tables if one.has_trigger]
        if asked:
            found = keep_trigger(self._session, self._settings.names, self._watch.ask_watched(seen))
        else:
            found = None
            drop_trigger(self._session, self._settings.names)
        wanted = {} if found is None else {name: SourceUnwatched(name, found.what, found.hint) for name in asked}
        noted = read_notes(self._ledger, SourceUnwatched)
        own = noted.keys() & self._intake.targets.keys()
        self._intake.note(*(SourceUnwatched.remove(name) for name in sorted(own - wanted.keys())))
        self._intake.note(*(note for name, note in wanted.items() if noted.get(name) != note))

    def _compare_told(self, told: SeenTables) -> None:
        """Has tables read again that were not what they should be when somebody's statement ended."""
        for source, table in told.items():
            target = self._intake.targets.get(source)
            if target is None or target.halted or self._loads.is_to_begin(source):
                continue
            why = self._watch.why_obsolete_told(source, table)
            if why is not None:
                self._intake.set_aside(target, why)

    def _look_again(self, target: SpoolTarget, table: SqlTable) -> None:
        """Looks again at a table that is as declared, and was stopped."""
        if time.monotonic() < target.look_at:
            return
        found = self._find_hindrance(target, table)
        if found is None:
            raise SourceRecovered(
                f"table {show_table(target.captured.table)} can be captured again, and is being read again"
            )
        if found.what != target.halted:
            self._intake.halt(target, found.what, mend=found.hint)

    def _find_hindrance(self, target: SpoolTarget, table: SqlTable) -> Hindrance | None:
        captured = target.captured
        try:
            with self._session.transaction(force_rollback=True):
                self._session.execute(f"SET LOCAL lock_timeout = '{PROBE_LOCK_WITHIN}'".encode())
                unreadable = find_unreadable(self._session, captured.names, table)
                if unreadable is None and is_still_there(self._session, target, table):
                    return Hindrance(str(target.unheld), target.mend or "")
                if unreadable is not None or captured.static:
                    return unreadable
                publication, operations = self._publication(captured.appends), _operations(captured.appends)
                return find_unpublishable(self._session, publication, table, frozenset(captured.names), operations)
        except psycopg.errors.LockNotAvailable:
            return explain_lock(self._session, table)

    def _resolve(self, relation: Relation) -> tuple[Layout, ...]:
        """The sources that a table of the log is. The log tells of a table again after it was changed: a reason to look
        at once.
        """
        found = [one for one in self._oids.get(relation.oid, ()) if not self._intake.targets[one.source].halted]
        columns = columns_of_relation(self._session, relation) if found else ()
        layouts = []
        for captured in found:
            self._looked = min(self._looked, time.monotonic() - LOOK_AT_TABLES_EVERY_S)
            target = self._intake.targets[captured.source]
            drift = find_name_drift(captured, relation) or find_drift(captured, columns)
            drift = drift or find_identity_drift(captured, relation)
            obsolete = self._watch.why_obsolete_in_log(captured, relation)
            if drift is None and obsolete is None:
                padded = {column.name for column in columns if column.is_padded}
                layouts.append(layout_of(captured, relation, padded))
            elif target.unread:
                continue  # as the table was before it is read again
            elif drift is not None:
                self._intake.halt(target, drift, drifted=True)
            elif obsolete is not None:
                self._intake.set_aside(target, obsolete)
        return tuple(layouts)

    # The loop

    def step(self, wait_s: float = 0.5) -> CaptureProgress:
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
            end = self._log_end()
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
        if now - self._beat >= HEARTBEAT_EVERY_S:
            self._send_beat()
            if not (self._note_silence() or self._note_writers()):
                self._withdraw_failure()
            self._beat = now
        if now - self._looked >= LOOK_AT_TABLES_EVERY_S:
            seen = self._watch.look_if_free() if self._looked else None
            if seen is not None:
                self._keep_trigger(seen)
                self._check_tables(seen)
                self._compare_tables(seen)
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
            name = content.decode().removeprefix(CUT_MARK)
            self._intake.note(CutReached(self._settings.database, name, self._intake.t))
        self._compare_told(read_told(content, self._settings.names))
        self._loads.note_mark(content)

    def _answer(self) -> None:
        """Called during long work: the database and the other processes see that we are there."""
        if self._stream is not None:
            self._stream.answer()
        self._renew()


def _group_by_oid(tables: Sequence[CapturedTable], seen: SeenTables) -> dict[int, list[CapturedTable]]:
    """Several sources may be one table."""
    found: dict[int, list[CapturedTable]] = {}
    for captured in tables:
        table = seen[captured.source]
        if isinstance(table, SeenTable):
            found.setdefault(table.fingerprint.oid, []).append(captured)
    return found


def _present_columns(captured: CapturedTable, seen: SeenTables) -> frozenset[str]:
    table = seen[captured.source]
    return frozenset(column.name for column in table.columns) if isinstance(table, SeenTable) else frozenset()


def _operations(streams: bool) -> str:
    return INSERTIONS if streams else ALL_CHANGES


def _say_lost(state: SlotState | None) -> str:
    if state is None:
        return "the database has lost our place in its log"
    if state.lost:
        return "the database discarded log before it was read"
    return "the database was restored, or somebody else moved our place in its log"


def _continues(state: SlotState, last: Position, log_end: int) -> bool:
    """Whether the slot has the log from where we stopped.

    One that stands later than we do is not the one that we left: it was made after that one was lost, and then nothing
    was committed any more. A log that ends before where we stopped is of a database that was restored. One that has
    become long enough again does not have the transaction that was taken last (`LastCommit`).
    """
    return not state.lost and state.confirmed_lsn <= last.start and last.lsn <= log_end
