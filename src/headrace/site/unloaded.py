"""Contracts of the plan that runs whose views are not loaded, and why: upkeep loads them as soon as it can.

Whoever goes over to a plan says which they are; upkeep and the budget of a site change it later.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from headrace.model.plan import Plan
from headrace.run.compile.columns import serving_log
from headrace.run.load.transition import find_made_from
from headrace.run.program import Program


@dataclass(slots=True)
class Unloaded:
    """May be used by several threads at once. What it holds is replaced whole, never changed."""

    _why: Mapping[str, str] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    @property
    def why(self) -> Mapping[str, str]:
        """By contract, why its view is not loaded."""
        return self._why

    def start(self, why: Mapping[str, str]) -> None:
        """Another plan runs from now on, without these contracts."""
        with self._turn:
            self._why = dict(why)

    def leave_out(self, plan: Plan, program: Program, gone: Collection[str], why: str) -> None:
        """Contracts that need vertices which are not there any more."""
        lost = find_made_from(program, gone).union(gone)
        for entry in plan.contracts:
            if serving_log(program, entry) in lost:
                self.note(entry.contract, why)

    def note(self, contract: str, why: str) -> None:
        with self._turn:
            self._why = {**self._why, contract: why}

    def forget(self, contract: str) -> None:
        """The view of a contract is loaded."""
        with self._turn:
            self._why = {name: why for name, why in self._why.items() if name != contract}
