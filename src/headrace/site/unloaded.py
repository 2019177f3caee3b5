"""Contracts of the plan that runs whose views are not loaded, and why: upkeep loads them as soon as it can.

Going over to a plan says which they are; upkeep and the budget of a site change it later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from headrace.model.plan import Plan
from headrace.model.plan_events import ContractLeftOut, ContractLoaded
from headrace.model.words import shorten_message
from headrace.run.compile.columns import serving_log
from headrace.run.load.transition import find_made_from
from headrace.run.program import Program
from headrace.site.journal import Journal

UNKNOWN = "it could not be loaded; see .headrace/service.log"
"""Where an error says nothing."""


@dataclass(slots=True)
class Unloaded:
    """May be used by several threads at once. What it holds is replaced whole, never changed."""

    journal: Journal = field(default_factory=Journal)
    _why: Mapping[str, str] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held for a moment, so that of two changes at once none is lost."""

    @property
    def why(self) -> Mapping[str, str]:
        """Why views are not loaded, by contract."""
        return self._why

    def start(self, why: Mapping[str, str], contracts: Collection[str]) -> None:
        """Another plan runs from now on, for some contracts; `why` are those of them that are not loaded."""
        self._replace(lambda _: why, contracts)

    def leave_out(self, plan: Plan, program: Program, gone: Collection[str], why: str) -> None:
        """Contracts that need vertices which are not there any more."""
        for contract in find_left_out(plan, program, gone):
            self.note(contract, why)

    def note(self, contract: str, why: str) -> None:
        self._replace(lambda before: {**before, contract: why})

    def forget(self, contract: str) -> None:
        """The view of a contract is loaded."""
        self._replace(lambda before: {name: why for name, why in before.items() if name != contract})

    def _replace(
        self, change: Callable[[Mapping[str, str]], Mapping[str, str]], asked: Collection[str] | None = None
    ) -> None:
        """Tells of contracts that are left out from now on, and of those that are loaded.

        Nothing is told of contracts that are not `asked` for any more.
        """
        with self._turn:
            before = self._why
            self._why = after = {name: why.strip() or UNKNOWN for name, why in change(before).items()}
        now = time.time_ns() // 1000
        for contract in sorted(after.keys() - before.keys()):
            self.journal.emit(ContractLeftOut(now, contract, reason=shorten_message(after[contract])))
        for contract in sorted(before.keys() - after.keys()):
            if asked is None or contract in asked:
                self.journal.emit(ContractLoaded(now, contract))


def find_left_out(plan: Plan, program: Program, gone: Collection[str]) -> list[str]:
    """The contracts of a plan that need vertices which are not there."""
    lost = find_made_from(program, gone).union(gone)
    return [entry.contract for entry in plan.contracts if serving_log(program, entry) in lost]
