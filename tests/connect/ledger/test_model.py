"""Any history of leases and rounds leaves in the ledger what it leaves in a few dictionaries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.postgres import open_postgres
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.model.errors import Conflict, Fenced, LeaseHeld
from headrace.model.event_wire import EventsAsked, NumberedEvent
from headrace.model.events import ContractLate, ServiceStarted
from headrace.model.log import Commit, CommitMark, Edit, Lease, Log, Piece, PieceKind
from headrace.model.note_texts import RemovedNote
from headrace.model.notes import SourceMend, WantedTime
from headrace.model.push_events import DatasetsPushed
from tests.examples import examples

LOGS = st.sampled_from(("a", "b", "ä b"))
FILES = st.sampled_from(("f", "g", "h"))
HOLDERS = st.sampled_from(("x", "y"))
LEASES = st.sampled_from(("service", "capture"))
TIMES = st.integers(0, 4)
PIECES = st.builds(
    Piece,
    kind=st.sampled_from(PieceKind),
    file=FILES,
    after=TIMES,
    upto=TIMES,
    rows=TIMES,
    bytes=st.just(2**40),
    key=st.lists(LOGS, max_size=2).map(tuple),
)
CONTRACTS = st.sampled_from(("a", 'a"b', "ä_%", "!"))
EVENTS = st.one_of(
    st.builds(ServiceStarted, at=TIMES, pid=TIMES),
    st.builds(ContractLate, at=TIMES, contract=CONTRACTS, lag_s=st.just(2.0), freshness_s=st.just(1.0)),
    st.builds(DatasetsPushed, at=TIMES, pushes=TIMES, contracts=st.lists(CONTRACTS, max_size=2).map(tuple)),
)


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    t, back = draw(TIMES), draw(st.one_of(st.none(), st.integers(0, 2)))
    return Edit(
        log=draw(LOGS),
        expected=None if back is None else t - back,
        t=t,
        add=tuple(draw(st.lists(PIECES, max_size=2, unique_by=lambda piece: piece.file))),
        drop=tuple(draw(st.lists(FILES, max_size=1))),
        start=draw(st.one_of(st.none(), TIMES)),
        site=draw(st.sampled_from(("us", "eu"))),
    )


NOTES = st.one_of(
    st.builds(SourceMend, LOGS, st.text("xy'%?", max_size=2)), LOGS.map(SourceMend.remove), st.builds(WantedTime, TIMES)
)
COMMITS = st.builds(
    Commit,
    edits=st.lists(edits(), max_size=3, unique_by=lambda edit: edit.log).map(tuple),
    notes=st.lists(NOTES, max_size=2).map(tuple),
    commit_marks=st.lists(st.builds(CommitMark, LOGS, TIMES, TIMES), max_size=2).map(tuple),
    forget=st.lists(LOGS, max_size=1).map(tuple),
    events=st.lists(EVENTS, max_size=3).map(tuple),
)


def edited(logs: dict[str, Log], edit: Edit) -> Log | None:
    """The log after an edit; None if it conflicts."""
    log = logs.get(edit.log)
    if (log.t if log else None) != edit.expected:
        return None
    if log is None:
        starts = [piece.after for piece in edit.add if piece.kind is PieceKind.CHANGE]
        log = Log(edit.log, edit.site, edit.t, min(starts, default=edit.t))
    pieces = {piece.file: piece for piece in log.pieces}
    if not set(edit.drop) <= pieces.keys() or {p.file for p in edit.add} & (pieces.keys() - set(edit.drop)):
        return None
    pieces = {file: piece for file, piece in pieces.items() if file not in edit.drop}
    pieces |= {piece.file: piece for piece in edit.add}
    ordered = tuple(sorted(pieces.values(), key=lambda piece: (piece.after, piece.upto, piece.file)))
    return replace(log, t=edit.t, start=log.start if edit.start is None else edit.start, pieces=ordered)


def fitted(edit: Edit, log: Log | None) -> Edit:
    """The edit without what conflicts."""
    present = {piece.file for piece in log.pieces} if log else set()
    drop = tuple(file for file in edit.drop if file in present)
    add = tuple(piece for piece in edit.add if piece.file not in present - set(drop))
    expected = log.t if log else None
    return replace(edit, expected=expected, t=edit.t + (expected or 0), add=add, drop=drop)


class LedgerMachine(RuleBasedStateMachine):
    """Two connections take turns; `held` are the current lease of each name and the time when it ends."""

    def __init__(self, opener: Callable[[Callable[[], float]], SqlLedger]) -> None:
        super().__init__()
        self.now = 0.0
        self.ledgers = [opener(lambda: self.now), opener(lambda: self.now)]
        self.logs: dict[str, Log] = {}
        self.notes: dict[str, str] = {}
        self.commit_marks: dict[tuple[str, int], CommitMark] = {}
        self.events: list[NumberedEvent] = []
        self.told = 0
        self.held: dict[str, tuple[Lease, float]] = {}
        self.epochs: dict[str, int] = {}
        self.given: list[Lease] = [Lease("service", "x", 9)]

    @property
    def ledger(self) -> SqlLedger:
        self.ledgers.reverse()
        return self.ledgers[0]

    def valid(self, lease: Lease) -> bool:
        return lease.name in self.held and self.held[lease.name][0] == lease

    @rule(name=LEASES, holder=HOLDERS, seconds=st.integers(1, 5))
    def acquire(self, name: str, holder: str, seconds: int) -> None:
        if name in self.held and self.held[name][1] > self.now:
            with pytest.raises(LeaseHeld):
                self.ledger.acquire(name, holder, seconds)
            return
        lease = self.ledger.acquire(name, holder, seconds)
        self.epochs[name] = self.epochs.get(name, 0) + 1
        assert lease == Lease(name, holder, self.epochs[name])
        self.held[name] = lease, self.now + seconds
        self.given.append(lease)

    @rule(data=st.data(), seconds=st.integers(1, 5))
    def renew(self, data: st.DataObject, seconds: int) -> None:
        lease = data.draw(st.sampled_from(self.given))
        if self.valid(lease):
            self.ledger.renew(lease, seconds)
            self.held[lease.name] = lease, self.now + seconds
        else:
            with pytest.raises(Fenced):
                self.ledger.renew(lease, seconds)

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        lease = data.draw(st.sampled_from(self.given))
        self.ledger.release(lease)
        if self.valid(lease):
            del self.held[lease.name]

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    def fitting(self, commit: Commit) -> Commit:
        kept = {name: log for name, log in self.logs.items() if name not in commit.forget}
        return replace(commit, edits=tuple(fitted(edit, kept.get(edit.log)) for edit in commit.edits))

    @rule(data=st.data(), commit=COMMITS)
    def commit_under_any_lease(self, data: st.DataObject, commit: Commit) -> None:
        self._commit(data.draw(st.sampled_from(self.given)), self.fitting(commit))

    @rule(commit=COMMITS)
    def commit_what_fits(self, commit: Commit) -> None:
        for lease, _ in list(self.held.values())[:1]:
            self._commit(lease, self.fitting(commit))

    @rule(commit=COMMITS, back=st.integers(-1, 1))
    def commit_what_was_meant_for_another_time(self, commit: Commit, back: int) -> None:
        for lease, _ in list(self.held.values())[:1]:
            fitting = self.fitting(commit).edits
            late = tuple(replace(e, expected=e.expected - back, t=e.t + 1) for e in fitting if e.expected is not None)
            self._commit(lease, replace(commit, edits=late))

    @rule(commit=COMMITS)
    def commit_anything(self, commit: Commit) -> None:
        for lease, _ in list(self.held.values())[:1]:
            self._commit(lease, commit)

    def _commit(self, lease: Lease, commit: Commit) -> None:
        kept = {name: log for name, log in self.logs.items() if name not in commit.forget}
        after = {edit.log: edited(kept, edit) for edit in commit.edits}
        changed = {name: log for name, log in after.items() if log is not None}
        if not self.valid(lease) or len(changed) < len(after):
            with pytest.raises(Conflict if self.valid(lease) else Fenced):
                self.ledger.commit(lease, commit)
            return
        self.ledger.commit(lease, commit)
        self.logs = kept | changed
        for one in commit.notes:
            self.notes.pop(one.name, None)
            if not isinstance(one, RemovedNote):
                self.notes[one.name] = one.to_text()
        self.commit_marks |= {(moment.database, moment.t): moment for moment in commit.commit_marks}
        self.events += [NumberedEvent(self.told + place, one) for place, one in enumerate(commit.events, start=1)]
        self.told += len(commit.events)

    @rule(data=st.data(), before=TIMES)
    def forget_commit_marks(self, data: st.DataObject, before: int) -> None:
        lease = data.draw(st.sampled_from(self.given))
        if self.valid(lease):
            self.ledger.forget_commit_marks(lease, before)
            self.commit_marks = {key: mark for key, mark in self.commit_marks.items() if mark.t >= before}

    @rule(data=st.data(), before=TIMES)
    def forget_events(self, data: st.DataObject, before: int) -> None:
        """The oldest of either kind, up to the first that is young enough."""
        lease = data.draw(st.sampled_from(self.given))
        if self.valid(lease):
            gone = set[int]()
            for routine in (False, True):
                kind = [one for one in self.events if one.event.is_routine is routine]
                gone |= {one.number for one in takewhile(lambda one: one.event.at < before, kind)}
            assert self.ledger.forget_events(lease, before, 10**6, 10**6) == len(gone)
            self.events = [one for one in self.events if one.number not in gone]

    @rule(
        after=st.integers(0, 9),
        limit=st.integers(1, 3),
        contract=st.one_of(st.none(), CONTRACTS),
        routine=st.booleans(),
        latest=st.booleans(),
    )
    def ask_for_events(self, after: int, limit: int, contract: str | None, routine: bool, latest: bool) -> None:
        found = [
            one
            for one in self.events
            if one.number > after
            and (routine or not one.event.is_routine)
            and (contract is None or contract in one.event.about.get("contracts", ()))
        ]
        asked = EventsAsked(after, limit, contract, routine, latest)
        assert list(self.ledger.events(asked)) == (found[-limit:] if latest else found[:limit])

    @rule(names=st.lists(LOGS), prefix=st.sampled_from(("", "mend:a", "mend:ä", "w", "%")), database=LOGS, after=TIMES)
    def ask(self, names: list[str], prefix: str, database: str, after: int) -> None:
        ledger = self.ledger
        assert ledger.logs(names) == {name: log for name, log in self.logs.items() if name in names}
        assert ledger.notes(prefix) == {name: value for name, value in self.notes.items() if name.startswith(prefix)}
        later = sorted(m.t for m in self.commit_marks.values() if m.database == database and m.t > after)
        assert [mark.t for mark in ledger.commit_marks(database, after, limit=2)] == later[:2]

    @invariant()
    def the_ledger_holds_what_the_model_holds(self) -> None:
        ledger = self.ledger
        assert ledger.logs() == self.logs
        assert ledger.times() == {name: log.t for name, log in self.logs.items()}
        assert ledger.files() == {f"{log.site}/{piece.file}" for log in self.logs.values() for piece in log.pieces}

    def teardown(self) -> None:
        for ledger in self.ledgers:
            ledger.close()


FEW = settings(max_examples=examples(20), stateful_step_count=30)


def test_sqlite_holds_what_the_model_holds(tmp_path_factory: pytest.TempPathFactory):
    class Machine(LedgerMachine):
        def __init__(self) -> None:
            file = tmp_path_factory.mktemp("ledger") / "ledger.db"
            super().__init__(lambda clock: open_sqlite(file, clock))

    run_state_machine_as_test(Machine, settings=FEW)


def test_postgres_holds_what_the_model_holds(postgres_dsn: str):
    import psycopg

    class Machine(LedgerMachine):
        def __init__(self) -> None:
            with psycopg.connect(postgres_dsn, autocommit=True) as connection:
                connection.execute("DROP SCHEMA IF EXISTS headrace CASCADE")
            super().__init__(lambda clock: open_postgres(postgres_dsn, clock))

    run_state_machine_as_test(Machine, settings=FEW)
