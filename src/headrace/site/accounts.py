"""What contracts cost, folded from events: every commit of pushes tells what each contract is charged of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import reduce

from headrace.model.event_wire import EventsAsked
from headrace.model.events import Event
from headrace.model.note_texts import RemovedNote
from headrace.model.notes import (
    ChargedUpTo,
    ContractAccount,
    note_keys,
    read_document,
    read_note,
    read_notes,
)
from headrace.model.plan import Plan
from headrace.model.push_events import DatasetsPushed, DatasetsStored, LogsKeptUp, Use
from headrace.observe.cost import Account, ChargedAccounts, Usage, charge_event, share_out
from headrace.run.load.load import LoadSent
from headrace.run.logs.upkeep import UpkeepDone
from headrace.run.ports import Ledger
from headrace.run.push.push import Pushed
from headrace.site.journal import Journal

EVENTS_AT_ONCE = 1000


@dataclass(slots=True)
class Accounts:
    """`rows`, `bytes` and `pushes` are by vertex since the service started; `last_s` the seconds of the round
    that pushed it last. `sent` are bytes by link, (from, to), since the service started: changes, and what views are
    loaded with. Loading is not charged to contracts, which would cost more per hour in their first hour than later.
    """

    ledger: Ledger
    clock: Callable[[], int]
    journal: Journal = field(default_factory=Journal)
    charged: ChargedAccounts = field(default_factory=ChargedAccounts)  # replaced whole, never changed
    pushes: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    last_s: dict[str, float] = field(default_factory=dict)
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    upkeep_s: float = 0.0
    """Seconds of upkeep since the service started."""
    plan: Plan | None = None
    _kept_until: int | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held for a moment: pushes, loads and upkeep count at the same time."""
    _charging: threading.Lock = field(default_factory=threading.Lock)
    """Held while events are read and charged. Not `_turn`, which a push takes: pushes do not wait for this."""

    def resume(self) -> None:
        """Where the service was at its last look. Events since then are charged by `catch_up`."""
        noted = read_notes(self.ledger, ContractAccount).items()
        read = {contract: read_document(note, Account.from_json) for contract, note in noted}
        accounts = {contract: account for contract, account in read.items() if account is not None}
        upto = read_note(self.ledger, ChargedUpTo)
        # Accounts of a version that kept no events, or whose number is lost, go on with what happens from now on.
        newest = self.ledger.events(EventsAsked(limit=1, routine=True, latest=True)) if accounts else ()
        last = max((one.number for one in newest), default=0)
        self.charged = ChargedAccounts(accounts, last if upto is None else upto.number)

    def catch_up(self) -> ChargedAccounts:
        """Charges what happened since the last call."""
        with self._charging:
            while found := self.ledger.events(EventsAsked(self.charged.upto, EVENTS_AT_ONCE, routine=True)):
                self.charged = reduce(charge_event, found, self.charged)
            return self.charged

    def follow(self, plan: Plan) -> None:
        """What serves a plan is counted from now on; counts of other vertices go."""
        self.plan = plan
        for counts in (self.pushes, self.rows, self.bytes, self.last_s):
            for name in [name for name in counts if name not in plan.graph.vertices]:
                counts.pop(name, None)

    def forget_others(self, contracts: Set[str]) -> tuple[RemovedNote, ...]:
        """Forgets all contracts but these; what to do to their notes."""
        with self._charging:
            left = {name: account for name, account in self.charged.accounts.items() if name in contracts}
            self.charged = replace(self.charged, accounts=left)
        noted = note_keys(self.ledger, ContractAccount)
        return tuple(ContractAccount.remove(name) for name in noted if name not in contracts)

    def pushed(self, pushed: Iterable[Pushed], round_s: float | None = None) -> None:
        """Counts pushes. Parts of a vertex count with it: what they are sent."""
        plan = self.plan
        if plan is None:
            return
        for one in pushed:
            vertex = _vertex_of(one.vertex, plan)
            if one.error is not None or one.skipped or vertex is None:
                continue
            if one.origin is not None:
                self._count_sent(one.origin, plan.graph.vertices[vertex].site, one.sent)
            if one.vertex == vertex:
                self._count_push(one, round_s)

    def tell(self, pushed: Sequence[Pushed]) -> tuple[Event, ...]:
        """What a commit of pushes tells. Nobody is charged for what serves no contract of the plan that runs."""
        plan = self.plan
        if plan is None:
            return self.tell_loading(pushed)
        whole = [(one, vertex) for one in pushed if (vertex := _vertex_of(one.vertex, plan)) is not None]
        used = (_usage(one, vertex, plan.graph.vertices[vertex].site) for one, vertex in whole)
        there = {one.vertex for one in pushed}
        views = tuple(sorted(one.contract for one in plan.contracts if one.vertex in there))
        return (_event(self.clock(), pushed, views, share_out(plan.catalogue, _serves(plan), used)),)

    def tell_loading(self, pushed: Sequence[Pushed]) -> tuple[Event, ...]:
        """What a commit of pushes tells that loading takes: nobody is charged for it."""
        return (_event(self.clock(), pushed),)

    def loaded(self, sent: LoadSent) -> None:
        self._count_sent(sent.origin, sent.site, sent.bytes)

    def _count_sent(self, origin: str, site: str, size: int) -> None:
        with self._turn:
            self.sent[origin, site] = self.sent.get((origin, site), 0) + size

    def _count_push(self, one: Pushed, round_s: float | None) -> None:
        self.pushes[one.vertex] = self.pushes.get(one.vertex, 0) + 1
        self.rows[one.vertex] = self.rows.get(one.vertex, 0) + one.rows_out
        self.bytes[one.vertex] = self.bytes.get(one.vertex, 0) + one.bytes
        if round_s is not None:
            self.last_s[one.vertex] = round_s

    def kept_up(self, done: Sequence[UpkeepDone]) -> None:
        """Tells of upkeep, and whom to charge for it: a file of several logs is shared by them."""
        took_s = sum(one.seconds for one in done)
        self.upkeep_s += took_s
        plan = self.plan
        used = {} if plan is None else share_out(plan.catalogue, _serves(plan), _usages_of_upkeep(done, plan))
        self.journal.emit(LogsKeptUp(self.clock(), len(done), sum(one.read_bytes for one in done), took_s, used))

    def keep(self, now: int) -> None:
        """Tells what is on disk, and whom to charge for the time since the last call."""
        before, self._kept_until = self._kept_until, now
        plan = self.plan
        if before is None or plan is None:
            return
        seconds = max(0, now - before) / 1e6  # our clock may have been put back
        logs = [(vertex, log) for name, log in self.ledger.logs().items() if (vertex := _vertex_of(name, plan))]
        sizes = [(vertex, log.site, sum(piece.bytes for piece in log.pieces)) for vertex, log in logs]
        usages = (Usage(vertex, site, kept=seconds * size) for vertex, site, size in sizes)
        used = share_out(plan.catalogue, _serves(plan), usages)
        self.journal.emit(DatasetsStored(now, sum(size for _, _, size in sizes), seconds, used))


def account_notes(
    charged: ChargedAccounts, before: ChargedAccounts | None = None
) -> tuple[ContractAccount | ChargedUpTo, ...]:
    """Notes of the accounts and of the number of the last event in them, for one commit; of those that are not as they
    were `before`.
    """
    known, upto = ({}, None) if before is None else (before.accounts, before.upto)
    accounts = (
        ContractAccount(name, one.to_json()) for name, one in charged.accounts.items() if known.get(name) != one
    )
    return (*accounts, *(() if charged.upto == upto else (ChargedUpTo(charged.upto),)))


def _event(
    at: int, pushed: Sequence[Pushed], views: tuple[str, ...] = (), used: Mapping[str, Use] | None = None
) -> DatasetsPushed:
    rows, size = sum(one.rows_out for one in pushed), sum(one.bytes for one in pushed)
    took_s = round(sum(one.seconds for one in pushed), 6)
    return DatasetsPushed(at, len(pushed), rows, size, took_s, views, used or {})


def _usage(one: Pushed, vertex: str, site: str) -> Usage:
    return Usage(vertex, site, one.seconds - one.waited_s, one.origin, float(one.sent))


def _usages_of_upkeep(done: Sequence[UpkeepDone], plan: Plan) -> Iterator[Usage]:
    for one in done:
        for log in one.logs:
            if (vertex := _vertex_of(log, plan)) is not None:
                yield Usage(vertex, plan.graph.vertices[vertex].site, one.seconds / len(one.logs))


def _vertex_of(name: str, plan: Plan) -> str | None:
    """The vertex of a plan that a log or a task is, or is a part of; None if it has no such vertex."""
    while name not in plan.graph.vertices:
        name, separator, _ = name.rpartition("#")
        if not separator:
            return None
    return name


def _serves(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    return {name: figures.serves for name, figures in plan.vertex_figures.items()}
