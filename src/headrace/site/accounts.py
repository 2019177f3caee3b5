"""Records at every push what contracts cost and which of their rows came late; the ledger keeps the records."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from headrace.model.events import Event
from headrace.model.notes import ContractAccount, RemovedNote, note_keys, read_document, read_notes
from headrace.model.plan import Plan
from headrace.model.push_events import DatasetsPushed, Use
from headrace.observe.cost import Account, Usage, charge_accounts, share_out
from headrace.run.load.load import Sent
from headrace.run.ports import Ledger
from headrace.run.push.push import Pushed


@dataclass(slots=True)
class Accounts:
    """`rows`, `bytes` and `pushes` are by vertex since the service started; `last_s` the seconds of the round
    that pushed it last. `sent` are bytes by link, (from, to), since the service started: changes, and what views are
    loaded with. Loading is not charged to contracts, which would cost more per hour in their first hour than later.
    """

    ledger: Ledger
    clock: Callable[[], int]
    accounts: dict[str, Account] = field(default_factory=dict)  # replaced whole, never changed
    pushes: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    last_s: dict[str, float] = field(default_factory=dict)
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    plan: Plan | None = None
    _kept_until: int | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held for a moment: pushes, loads and upkeep count at the same time."""

    def resume(self) -> None:
        for contract, note in read_notes(self.ledger, ContractAccount).items():
            account = read_document(note, Account.from_json)
            if account is not None:
                self.accounts[contract] = account

    def follow(self, plan: Plan) -> None:
        """What serves a plan is counted from now on; counts of other vertices go."""
        self.plan = plan
        for counts in (self.pushes, self.rows, self.bytes, self.last_s):
            for name in [name for name in counts if name not in plan.graph.vertices]:
                counts.pop(name, None)

    def forget_others(self, contracts: Set[str]) -> tuple[RemovedNote, ...]:
        """Forgets all contracts but these; what to do to their notes."""
        with self._turn:
            self.accounts = {name: account for name, account in self.accounts.items() if name in contracts}
        noted = note_keys(self.ledger, ContractAccount)
        return tuple(ContractAccount.remove(name) for name in noted if name not in contracts)

    def pushed(self, pushed: Iterable[Pushed], now: int, round_s: float | None = None) -> None:
        """Parts of a vertex count with it: what they use, and what they are sent."""
        plan = self.plan
        if plan is None:
            return
        done = [one for one in pushed if one.error is None and not one.skipped]
        whole = [(one, vertex) for one in done if (vertex := _vertex_of(one.vertex, plan)) is not None]
        for one, vertex in whole:
            if one.origin is not None:
                self._count_sent(one.origin, plan.graph.vertices[vertex].site, one.sent)
            if one.vertex == vertex:
                self._count_push(one, round_s)
        self._charge((_usage(one, vertex, plan.graph.vertices[vertex].site) for one, vertex in whole), now)

    def tell(self, pushed: Sequence[Pushed]) -> tuple[Event, ...]:
        """What a commit of pushes tells. Nobody is charged for what serves no contract of the plan that runs."""
        plan = self.plan
        if plan is None:
            return (_event(self.clock(), pushed),)
        whole = [(one, vertex) for one in pushed if (vertex := _vertex_of(one.vertex, plan)) is not None]
        used = (_usage(one, vertex, plan.graph.vertices[vertex].site) for one, vertex in whole)
        there = {one.vertex for one in pushed}
        views = tuple(sorted(one.contract for one in plan.contracts if one.vertex in there))
        return (_event(self.clock(), pushed, views, share_out(plan.catalogue, _serves(plan), used)),)

    def loaded(self, sent: Sent) -> None:
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

    def keep(self, now: int) -> None:
        """Charges what is on disk for the time since the last call."""
        before, self._kept_until = self._kept_until, now
        plan = self.plan
        if before is None or plan is None:
            return
        seconds = max(0, now - before) / 1e6  # our clock may have been put back
        self._charge(
            (
                Usage(vertex, log.site, kept=seconds * sum(piece.bytes for piece in log.pieces))
                for name, log in self.ledger.logs().items()
                if (vertex := _vertex_of(name, plan)) is not None
            ),
            now,
        )

    def _charge(self, usages: Iterable[Usage], now: int) -> None:
        if self.plan is not None:
            with self._turn:
                self.accounts = charge_accounts(self.accounts, self.plan.catalogue, _serves(self.plan), usages, now)


def account_notes(accounts: Mapping[str, Account]) -> tuple[ContractAccount, ...]:
    return tuple(ContractAccount(name, account.to_json()) for name, account in accounts.items())


def _event(
    at: int, pushed: Sequence[Pushed], views: tuple[str, ...] = (), used: Mapping[str, Use] | None = None
) -> DatasetsPushed:
    rows, size = sum(one.rows_out for one in pushed), sum(one.bytes for one in pushed)
    took_s = round(sum(one.seconds for one in pushed), 6)
    return DatasetsPushed(at, len(pushed), rows, size, took_s, views, used or {})


def _usage(one: Pushed, vertex: str, site: str) -> Usage:
    return Usage(vertex, site, one.seconds - one.waited_s, one.origin, float(one.sent))


def _vertex_of(name: str, plan: Plan) -> str | None:
    """The vertex of a plan that a log or a task is, or is a part of; None if it has no such vertex."""
    while name not in plan.graph.vertices:
        name, separator, _ = name.rpartition("#")
        if not separator:
            return None
    return name


def _serves(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    return {name: figures.serves for name, figures in plan.vertex_figures.items()}
