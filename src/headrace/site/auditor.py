"""Watches promises independently of the scheduler, from its own clock, source commit times and the ledger."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cache, partial

import numpy as np

from headrace.model.damage import DamagedFile
from headrace.model.events import Event
from headrace.model.log import Commit, CommitMark, Lease, Log
from headrace.model.note_texts import RemovedNote
from headrace.model.notes import (
    AuditRecord,
    CapturedUpTo,
    ChargedUpTo,
    ContractAccount,
    CopyReached,
    LastLook,
    SourceMissed,
    note_keys,
    read_document,
    read_note,
    read_notes,
)
from headrace.observe.audit import Record, apply_rows, count_late, look, tell_breach
from headrace.observe.cost import Account, ChargedAccounts
from headrace.observe.lag import DatabaseProgress, lag_s
from headrace.observe.shown import ContractReadings, WatchedPromise, take_numbers
from headrace.run.ports import Ledger, Store
from headrace.run.rows.changes import TIME, WEIGHT
from headrace.site.accounts import account_notes
from headrace.site.journal import Journal

PAUSE = 2_000_000
"""Microseconds without a look, though there is one every second, mean that the process stood still."""
BEHIND = 100_000
"""Microseconds by which clocks may be measured wrong."""
LOADED_WITHIN = 600_000_000
"""Microseconds that loading a view may take."""
MOST_COMMIT_MARKS = 10_000
"""To look through for the oldest: captures make two with each commit, several a second."""


OldestAfter = Callable[[str, int], CommitMark | None]
"""The oldest commit mark of a database after a time."""


@dataclass(frozen=True, slots=True)
class WatchedContract:
    """A contract to watch: its vertex, its promise, and the databases and sources whose changes it reflects.

    `links` are those that these changes cross, (from, to). `planned_h` is $/h. The promise of one that `delivers` is
    about its copy: whoever reads that has nothing newer.
    """

    contract: str
    vertex: str
    freshness_s: float
    penalty: float
    databases: tuple[str, ...]
    sources: frozenset[str] = frozenset()
    planned_h: float = 0.0
    delivers: bool = False
    links: frozenset[tuple[str, str]] = frozenset()
    imports: frozenset[str] = frozenset()
    """Copies of other sites' logs that it is made of: of these, lag counts from the view's own time."""


@dataclass(frozen=True, slots=True)
class MeasuredLag:
    """Lags of a contract whose view was at time `t` then: `lag_s` is what its readers see, and is that of its copy
    if it delivers one; None while there is no copy yet. `view_lag_s` is that of the view.
    """

    vertex: str
    t: int
    lag_s: float | None
    view_lag_s: float


@dataclass(frozen=True, slots=True)
class KeptLook:
    """What the ledger has of a look beside its numbers: records, times of copies, accounts. Most stays the same from
    one look to the next, and is not written again.
    """

    records: Mapping[str, Record] = field(default_factory=dict)
    copies: Mapping[str, int] = field(default_factory=dict)
    charged: ChargedAccounts | None = None

    def notes_since(self, before: KeptLook) -> tuple[AuditRecord | CopyReached | ContractAccount | ChargedUpTo, ...]:
        """The notes that differ."""
        known = before.records
        records = (AuditRecord(name, one.to_json()) for name, one in self.records.items() if known.get(name) != one)
        copies = (CopyReached(name, t) for name, t in self.copies.items() if before.copies.get(name) != t)
        accounts = () if self.charged is None else account_notes(self.charged, before.charged)
        return (*records, *copies, *accounts)


@dataclass(slots=True)
class Auditor:
    ledger: Ledger
    clock: Callable[[], int]
    journal: Journal = field(default_factory=Journal)
    watched: tuple[WatchedContract, ...] = ()
    measured: dict[str, MeasuredLag] = field(default_factory=dict)
    """Of each contract, the last."""
    records: dict[str, Record] = field(default_factory=dict)
    judged: dict[str, int] = field(default_factory=dict)
    """Up to which time rows of each contract's view were judged late or not."""
    looked: ContractReadings | None = None
    """The last look, which is in the ledger unless that cannot be written; None before the first of this process."""
    cause_of: Callable[[WatchedContract], str | None] = lambda _: None
    """Why a contract is late, as far as somebody knows."""
    copies: Callable[[], Mapping[str, int]] = dict
    """The times that copies have reached, by contract; of those that this service has asked."""
    find_reach: Callable[[], Mapping[str, int]] = dict
    """How far other sites could bring what we have of them, by their clocks."""
    _looked_at: int | None = None
    _kept: KeptLook = field(default_factory=KeptLook)
    """As of the last commit of this process."""
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held while records are read or changed, inside of `_looking`: pushes judge rows during a look."""
    _looking: threading.Lock = field(default_factory=threading.Lock)
    """Held during a look, and taken before the clock is read, so that looks come in the order of their times."""

    def resume(self) -> None:
        """Records of earlier runs."""
        for contract, note in read_notes(self.ledger, AuditRecord).items():
            record = read_document(note, Record.from_json)
            if record is not None:
                self.records[contract] = record

    @property
    def lags_s(self) -> dict[str, float]:
        """How far behind its sources is what readers of each contract find."""
        return {contract: one.lag_s for contract, one in self.measured.items() if one.lag_s is not None}

    def lags_of(self, times: Mapping[str, int]) -> dict[str, float]:
        """Lags of views that are still as they were measured: of others they say nothing any more.

        Not those of copies: a push brings the view forward, and the copy follows.
        """
        return {contract: one.view_lag_s for contract, one in self.measured.items() if times.get(one.vertex) == one.t}

    @property
    def finds_captures_behind(self) -> bool:
        """Whether the last look found a view to lack changes from before the time that it has reached: a capture has
        fallen behind its database.
        """
        at = self._looked_at or 0
        return any(one.view_lag_s * 1e6 > at - one.t + BEHIND for one in self.measured.values())

    @property
    def is_any_late(self) -> bool:
        """Whether a promise was broken at the last look."""
        lags = self.lags_s
        return any(lags.get(one.contract, 0.0) > one.freshness_s for one in self.watched)

    def measure(self) -> Mapping[str, float]:
        """Lags now, by contract; of those that are loaded."""
        return self._measure_lags(self.clock())

    def _measure_lags(self, now: int) -> Mapping[str, float]:
        times = self.ledger.times()
        positions = read_notes(self.ledger, CapturedUpTo)
        last = {name: CommitMark(name, one.t, one.commit_time) for name, one in positions.items()}
        missed = {name: one.t for name, one in read_notes(self.ledger, SourceMissed).items()}
        copies = self._find_copies()
        found: dict[str, MeasuredLag] = {}
        # Contracts that were pushed together lack the same: of those the ledger is asked once.
        oldest, reach = cache(partial(self._oldest_after, now=now)), self.find_reach()
        for one in self.watched:
            before = self.measured.get(one.contract)  # one that has to be loaded again is as late as it was
            reached = times.get(one.vertex, None if before is None else before.t)
            if reached is not None:
                # Whatever came since changes were missed may not be all.
                t = min([reached, *(since for source, since in missed.items() if source in one.sources)])
                view_lag_s = _measure_lag(one, t, last, now, oldest)
                seen_s: float | None = view_lag_s
                if one.delivers:
                    copied = copies.get(one.contract)
                    seen_s = None if copied is None else _measure_lag(one, min(copied, t), last, now, oldest)
                if seen_s is not None:
                    # A site whose clock is ahead of ours has rows that the view gets only when ours has got there.
                    there = max((reach[name] for name in one.imports if name in reach), default=now)
                    seen_s += max(0, there - now) / 1e6
                found[one.contract] = MeasuredLag(one.vertex, t, seen_s, view_lag_s)
        self.measured = found
        return self.lags_s

    def _find_copies(self) -> dict[str, int]:
        """The times of all copies: those that were asked say it themselves, of others it is noted."""
        noted = {name: one.t for name, one in read_notes(self.ledger, CopyReached).items()}
        return {**noted, **self.copies()}

    def _oldest_after(self, database: str, view_t: int, now: int) -> CommitMark | None:
        """The first; unless our clock was put back since then. Then the oldest by the clock as it is now."""
        lacking = self.ledger.commit_marks(database, view_t, 1)
        if lacking and lacking[0].commit_time > now:
            lacking = self.ledger.commit_marks(database, view_t, MOST_COMMIT_MARKS)
        return min(lacking, key=lambda mark: mark.commit_time, default=None)

    def audit(self, lease: Lease, charged: ChargedAccounts) -> None:
        """Looks at all contracts, and keeps what was seen, with what was used of their accounts and what happened."""
        with self._looking:
            now, events = self._look()
            looked = self._take(now, charged.accounts)
            self._tell(events)
            with self._turn:
                kept = KeptLook(self.records.copy(), dict(self.copies()), charged)
            shown = [LastLook(looked.to_json())] if self.watched else []
            # Here, so that an episode and the events that tell of it are in one commit: each is told once.
            try:
                with self.journal.committing() as told:
                    self.ledger.commit(lease, Commit(notes=(*kept.notes_since(self._kept), *shown), events=told))
                self._kept = kept
            finally:  # also where the ledger cannot be written, a full disk: views fall behind meanwhile
                self.looked = looked if self.watched else self.looked

    def imagine(self, accounts: Mapping[str, Account]) -> ContractReadings:
        """What a look would find now; nothing is kept, and nothing told."""
        with self._looking:
            now, _ = self._look()
            return self._take(now, accounts)

    def _take(self, now: int, accounts: Mapping[str, Account]) -> ContractReadings:
        promises = {one.contract: WatchedPromise(one.freshness_s, one.planned_h) for one in self.watched}
        with self._turn:
            return take_numbers(now, promises, self.lags_s, self.records, accounts)

    def look_before_pushing(self) -> None:
        """Looks after a pause of the whole process: a push would hide how late views were until then."""
        if self._looked_at is None or not 0 <= self.clock() - self._looked_at < PAUSE:
            with self._looking:
                self._tell(self._look()[1])

    def _tell(self, events: Iterable[Event]) -> None:
        for event in events:
            self.journal.emit(event)

    def _look(self) -> tuple[int, list[Event]]:
        """When it was, and what it has to tell."""
        now = self.clock()  # before measuring: if the process stands still between, the next look finds it
        lags = self._measure_lags(now)
        self._looked_at = now
        events: list[Event] = []
        with self._turn:
            for one in self.watched:
                if one.contract in lags:
                    record = self.records.get(one.contract, Record())
                    seen = lags[one.contract], one.freshness_s
                    self.records[one.contract] = after = look(record, now, *seen)
                    events += tell_breach(one.contract, record, after, now, seen, self.cause_of(one))
        return now, events

    def watch(self, watched: tuple[WatchedContract, ...]) -> None:
        """These from now on; rows that a view has already are judged no more."""
        times, copies = self.ledger.times(), self._find_copies()
        there = {one.contract: times[one.vertex] for one in watched if one.vertex in times}
        there |= {name: min(copies[name], t) for name, t in there.items() if name in copies}
        with self._turn:
            self.judged = {name: self.judged.get(name, t) for name, t in there.items()}
        self.watched = watched

    def forget_others(self, contracts: Set[str]) -> tuple[RemovedNote, ...]:
        """Forgets all contracts but these; what to do to their notes."""
        with self._turn:
            self.records = {name: record for name, record in self.records.items() if name in contracts}
        records = (AuditRecord.remove(name) for name in note_keys(self.ledger, AuditRecord) if name not in contracts)
        delivering = {one.contract for one in self.watched if one.delivers}
        copies = (CopyReached.remove(name) for name in note_keys(self.ledger, CopyReached) if name not in delivering)
        return (*records, *copies)

    def forget_commit_marks(self, lease: Lease) -> None:
        """Those that all views and copies have, and have had for a while: one that is being loaded may start a little
        earlier.
        """
        times, copies = self.ledger.times(), self._find_copies()
        reached = [times[one.vertex] for one in self.watched if one.vertex in times]
        reached += [copies[one.contract] for one in self.watched if one.delivers and one.contract in copies]
        if not self.watched:  # a site of which only others read something: nobody here asks how late its rows are
            reached.append(self.clock())
        if reached:
            self.ledger.forget_commit_marks(lease, min(reached) - LOADED_WITHIN)

    def judge(self, store: Store, vertices: Set[str], now: int) -> None:
        """Counts the rows that came to views since they were last judged, and those of them that came late.

        Rows of a copy come when they are delivered: `judge_copy` counts them.
        """
        for one in self.watched:
            if one.vertex in vertices and not one.delivers:
                self._judge(store, one, None, now)

    def judge_copy(self, store: Store, contract: str, t: int, now: int) -> None:
        """Counts the rows that came to a copy, which has reached a time now."""
        for one in self.watched:
            if one.contract == contract and one.delivers:
                self._judge(store, one, t, now)

    def _judge(self, store: Store, one: WatchedContract, upto: int | None, now: int) -> None:
        """A contract is judged by one thread: the one that pushes, or that which delivers its copy."""
        log, before = self.ledger.logs([one.vertex]).get(one.vertex), self.judged.get(one.contract)
        if log is None or before is None:
            return
        after, upto = max(before, log.start), log.t if upto is None else min(upto, log.t)
        try:
            rows, late = _count_changes(store, log, after, upto, now, one.freshness_s)
        except DamagedFile:
            return  # the store has noted it; they are judged when they are there again
        with self._turn:
            self.judged[one.contract] = max(before, upto)
            record = self.records.get(one.contract, Record())
            self.records[one.contract] = apply_rows(record, rows, late, one.penalty)


def _measure_lag(one: WatchedContract, t: int, last: Mapping[str, CommitMark], now: int, oldest: OldestAfter) -> float:
    """The lag of a view or a copy that is at a time."""
    progress = (DatabaseProgress(name, oldest(name, t), last.get(name)) for name in one.databases)
    found = lag_s(now, t, progress)
    return max(found, (now - t) / 1e6) if one.imports else found


def last_look(ledger: Ledger) -> ContractReadings | None:
    """The last look of the service that ran last; None if it never looked, or another version did."""
    note = read_note(ledger, LastLook)
    return None if note is None else read_document(note, ContractReadings.from_json)


def _count_changes(store: Store, log: Log, after: int, upto: int, now: int, freshness_s: float) -> tuple[int, int]:
    rows, late = 0, 0
    for piece in log.changes(after, upto) if after < upto else ():
        table = store.read(log.site, piece.stored, [TIME, WEIGHT])
        times, weights = (table.column(name).to_numpy().astype(np.int64) for name in (TIME, WEIGHT))
        new = (times > after) & (times <= upto)
        counted = count_late(times[new], weights[new], now, freshness_s)
        rows, late = rows + counted[0], late + counted[1]
    return rows, late
