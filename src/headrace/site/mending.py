"""Tries again to compute views that failed: loads those without rows, and rebuilds the others from good data.

This happens one view at a time, while everything else continues. A view that fails again is left alone for longer, and
is tried again only when something that it reads has changed: until then its data is as bad as before.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field

from headrace.model.log import NEVER
from headrace.model.plan import ContractPlan
from headrace.run.compile.columns import serving_log
from headrace.run.ports import Ledger
from headrace.run.program import reads_time
from headrace.run.push.engine import Engine, NoAnswer
from headrace.run.push.halted import read_halted, waiting_for
from headrace.site.deliver.deliveries import Deliveries
from headrace.site.loading import Loader, say_silent
from headrace.site.push_state import PushState
from headrace.site.running import Running
from headrace.site.troubles import ROW, Troubles
from headrace.site.turns import Turns
from headrace.site.unloaded import Unloaded

log = logging.getLogger("headrace.service")

BACKOFF_S = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0)
"""How long a view is left alone after none, one, two, ... failures in a row."""
BACKOFF_FOR = 5.0
"""And at least this many times as long as the last try took: a large view must not keep others from their turn."""
MEND_ROW = (
    "correct or delete the row, or make the view handle it (NULLIF in a division); the view then resumes by itself"
)


@dataclass(slots=True)
class Backoffs:
    """How often each contract failed in a row, and until when (on the clock that nobody sets) it is left alone."""

    failures: dict[str, int] = field(default_factory=dict)
    until_s: dict[str, float] = field(default_factory=dict)

    def is_over(self, contract: str) -> bool:
        return time.monotonic() >= self.until_s.get(contract, 0.0)

    def learn(self, contract: str, worked: bool, took_s: float) -> None:
        self.failures[contract] = 0 if worked else self.failures.get(contract, 0) + 1
        backoff_s = BACKOFF_S[min(self.failures[contract], len(BACKOFF_S) - 1)]
        self.until_s[contract] = time.monotonic() + (0.0 if worked else max(backoff_s, BACKOFF_FOR * took_s))


@dataclass(frozen=True, slots=True)
class Mending:
    """`backoffs` is changed by nobody else; the thread that does upkeep calls this."""

    loader: Loader
    unloaded: Unloaded
    deliveries: Deliveries
    turns: Turns
    stop: threading.Event
    backoffs: Backoffs = field(default_factory=Backoffs)

    def try_again(self, engine: Engine, running: Running) -> None:
        """All views that wait for it. Nobody compacts logs meanwhile: the caller has the turn for upkeep."""
        with self.turns.try_plan() as ours:
            if not ours:
                return  # the thread that goes over to a plan loads it, perhaps in another way
            self.loader.forget_lost(engine)
            for entry in running.plan.contracts:
                if self.backoffs.is_over(entry.contract) and not self.stop.is_set():
                    if entry.contract in self.unloaded.why:
                        self._load(engine, entry)
                    elif _is_worth_trying(engine, log := serving_log(engine.program, entry)):
                        self._rebuild(engine, entry.contract, log)
            self._load_for_others(engine)

    def _load_for_others(self, engine: Engine) -> None:
        """What other sites have of this one, and no contract here needs."""
        for name, copy in engine.program.exports.items():
            if not self.backoffs.is_over(name) or self.stop.is_set():
                continue
            began, (read,) = time.monotonic(), copy.task.reads
            missing = engine.missing_of([read])
            if missing and not self.loader.find_only_silent(engine, missing):
                error = self.loader.load_if_read(engine, [read])
                self.backoffs.learn(name, error is None, time.monotonic() - began)
            elif not missing and _is_worth_trying(engine, read):
                self._rebuild(engine, name, read)

    def _load(self, engine: Engine, entry: ContractPlan) -> None:
        began, vertex = time.monotonic(), serving_log(engine.program, entry)
        silent = self.loader.find_only_silent(engine, engine.missing_of([vertex]))
        if silent:  # it has not failed: it is tried as soon as one of them answers
            self.unloaded.note(entry.contract, say_silent(silent))
            return
        error = self.loader.load_if_read(engine, [vertex])
        self.backoffs.learn(entry.contract, error is None, time.monotonic() - began)
        if error is None:
            self.unloaded.forget(entry.contract)
        else:
            self.unloaded.note(entry.contract, str(error))

    def _rebuild(self, engine: Engine, name: str, vertex: str) -> None:
        """`name` is the contract, or the copy at another site, that a vertex is for."""
        began = time.monotonic()
        try:
            made = engine.rebuild(vertex)
        except RuntimeError as error:
            self.backoffs.learn(name, False, time.monotonic() - began)
            if not isinstance(error, NoAnswer):
                log.warning('"%s" cannot be computed again: %s', name, error)
            return
        if made:
            self.backoffs.learn(name, True, 0.0)
            self.deliveries.pushed()


def _is_worth_trying(engine: Engine, vertex: str) -> bool:
    """Whether a bad row halts a vertex, and its sources have changed since that was looked at last."""
    halted = read_halted(engine.ledger)
    first = waiting_for(engine.program, halted).get(vertex)
    if first is None:
        return False
    upstream, tried = engine.upstream([vertex]), halted[first].tried
    if any(reads_time(engine.program.tasks[name].step) for name in upstream):
        return True
    reach = engine.reach()
    if any(reach.get(name, NEVER) > tried for name in engine.program.imports_of([vertex])):
        return True
    spools = engine.ledger.logs(engine.spools([vertex])).values()
    return any(spool.start > tried or spool.changes(max(tried, spool.start), spool.t) for spool in spools)


def report_bad_rows(troubles: Troubles, ledger: Ledger, state: PushState) -> None:
    """Contracts that bad rows halt, and why: as the ledger has it, also right after a restart.

    Those that differ from their queries are told by the checks that found them (`coordinate.check`).
    """
    halted, program = read_halted(ledger), state.program
    waiting = waiting_for(program, halted)
    first = {entry.contract: waiting.get(serving_log(program, entry)) for entry in state.running.plan.contracts}
    first |= {name: waiting.get(copy.task.reads[0]) for name, copy in program.exports.items()}
    halting = {contract: halted[vertex] for contract, vertex in first.items() if vertex is not None}
    found = {contract: one for contract, one in halting.items() if not one.differs}
    for key in [key for key in troubles.all() if key.startswith(ROW) and key.removeprefix(ROW) not in found]:
        troubles.clear(key)
    for contract, one in found.items():
        whose = "what another site has of this one" if contract in program.exports else f'contract "{contract}"'
        troubles.report(ROW + contract, f"{whose} cannot be computed: {one.why}", MEND_ROW, since=one.since / 1e6)
