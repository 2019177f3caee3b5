"""What contracts cost while they run, and which of their rows came late: noted at every push, kept in the ledger."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from headrace.model.plan import Operator, Plan
from headrace.observe.cost import Account, Usage, charged
from headrace.run.ports import Ledger
from headrace.run.push import Pushed

ACCOUNT_NOTE = "account:"


@dataclass(slots=True)
class Accounts:
    """`rows`, `bytes` and `pushes` are by vertex since the service started; `last_s` the seconds of the round
    that pushed it last.
    """

    ledger: Ledger
    accounts: dict[str, Account] = field(default_factory=dict)
    pushes: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    last_s: dict[str, float] = field(default_factory=dict)
    plan: Plan | None = None
    _kept_until: int | None = None
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def resume(self) -> None:
        for name, text in self.ledger.notes(ACCOUNT_NOTE).items():
            try:
                self.accounts[name.removeprefix(ACCOUNT_NOTE)] = Account.from_json(text)
            except (TypeError, ValueError):
                continue  # another version wrote it

    def follow(self, plan: Plan) -> None:
        """What serves a plan is counted from now on; counts of other vertices go."""
        self.plan = plan
        for counts in (self.pushes, self.rows, self.bytes, self.last_s):
            for name in [name for name in counts if name not in plan.graph.vertices]:
                counts.pop(name, None)

    def forget_others(self, contracts: Set[str]) -> dict[str, None]:
        """Forgets all contracts but these; their notes, to be removed."""
        with self._turn:
            self.accounts = {name: account for name, account in self.accounts.items() if name in contracts}
        noted = self.ledger.notes(ACCOUNT_NOTE)
        return {note: None for note in noted if note.removeprefix(ACCOUNT_NOTE) not in contracts}

    def notes(self) -> dict[str, str]:
        with self._turn:
            return {ACCOUNT_NOTE + name: account.to_json() for name, account in self.accounts.items()}

    def pushed(self, pushed: Iterable[Pushed], now: int, round_s: float | None = None) -> None:
        vertices = self.plan.graph.vertices if self.plan is not None else {}
        done = [one for one in pushed if one.error is None and not one.skipped and one.vertex in vertices]
        for one in done:
            self.pushes[one.vertex] = self.pushes.get(one.vertex, 0) + 1
            self.rows[one.vertex] = self.rows.get(one.vertex, 0) + one.rows_out
            self.bytes[one.vertex] = self.bytes.get(one.vertex, 0) + one.bytes
            if round_s is not None:
                self.last_s[one.vertex] = round_s
        self._charge(self._used(done), now)

    def keep(self, now: int) -> None:
        """Charges what is on disk for the time since the last call."""
        before, self._kept_until = self._kept_until, now
        if before is None or self.plan is None:
            return
        seconds = max(0, now - before) / 1e6  # our clock may have been put back
        logs = self.ledger.logs()
        self._charge(
            (
                Usage(name.partition("#")[0], log.site, kept=seconds * sum(piece.bytes for piece in log.pieces))
                for name, log in logs.items()
                if name.partition("#")[0] in self.plan.graph.vertices
            ),
            now,
        )

    def _used(self, done: Iterable[Pushed]) -> Iterator[Usage]:
        assert self.plan is not None
        graph = self.plan.graph
        for one in done:
            edge, site = graph.edges.get(one.vertex), graph.vertices[one.vertex].site
            if edge is not None and edge.op is Operator.COPY:
                origin = graph.vertices[edge.inputs[0]].site
                yield Usage(one.vertex, site, one.seconds, origin, float(one.bytes))
            else:
                yield Usage(one.vertex, site, one.seconds)

    def _charge(self, usages: Iterable[Usage], now: int) -> None:
        if self.plan is not None:
            with self._turn:
                self.accounts = charged(self.accounts, self.plan.catalogue, _serves(self.plan), usages, now)


def _serves(plan: Plan) -> Mapping[str, tuple[str, ...]]:
    return {name: figures.serves for name, figures in plan.vertex_figures.items()}
