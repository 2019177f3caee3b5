"""Since when the other way to refresh a view has been cheaper: a contract switches only if that lasts.

Prices follow rates and times that are measured, and these waver. Every switch loads a view. So the other way has to be
cheaper by a fifth, each time one looks, for an hour without a break. The hour begins anew with a restart of the
service: nobody looked while it was away.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from headrace.model.plan import Plan

CHEAPER = 0.2
"""Share of the contract's cost that the other way has to save."""

LASTS_S = 3600.0

COMPARE_EVERY_S = 60.0
"""How often the ways of a contract are compared: each time takes as long as planning it."""

LOOKS = 12
"""How often somebody looks in that time; each time, the ways of some contracts are compared."""

LONGEST_GAP_S = 600.0
"""Seconds between two comparisons beyond which nobody knows what was in between."""


@dataclass(frozen=True, slots=True)
class WayCompared:
    """The last comparison of a contract with this view: when it was, and since when the other way has been cheaper, by
    which share at least; None if it was not.
    """

    view: str
    at_s: float
    since_s: float | None
    saving: float


@dataclass(frozen=True, slots=True)
class WayWatch:
    """Remembers the last comparison of each contract."""

    compared: Mapping[str, WayCompared] = field(default_factory=dict)

    def choose_next(self, plan: Plan, clock_s: float) -> tuple[str, ...]:
        """Contracts whose ways are to be compared now, those that have waited longest first."""
        names = [one.contract for one in plan.contracts if plan.catalogue.contracts[one.contract].ways]
        at_s = {name: self.compared[name].at_s if name in self.compared else float("-inf") for name in names}
        due = [name for name in names if clock_s - at_s[name] >= COMPARE_EVERY_S]
        return tuple(sorted(due, key=lambda name: (at_s[name], name))[: ceil(len(names) / LOOKS)])

    def note_saving(self, plan: Plan, contract: str, saving: float | None, clock_s: float) -> WayWatch:
        """The watch after a comparison, which found that the other way saves this share; None if there is none."""
        view, last = plan.catalogue.contracts[contract].view, self.compared.get(contract)
        if saving is None or saving < CHEAPER:
            now = WayCompared(view, clock_s, None, 0.0)
        elif last is None or last.since_s is None or last.view != view or clock_s - last.at_s > LONGEST_GAP_S:
            now = WayCompared(view, clock_s, clock_s, saving)
        else:
            now = WayCompared(view, clock_s, last.since_s, min(saving, last.saving))
        return WayWatch({**self.compared, contract: now})

    def find_due(self, plan: Plan, contract: str, clock_s: float) -> float | None:
        """The share that the other way has saved at least, if it has for long enough."""
        found = self.compared.get(contract)
        if found is None or found.since_s is None or found.view != plan.catalogue.contracts[contract].view:
            return None
        return found.saving if clock_s - found.since_s >= LASTS_S else None
