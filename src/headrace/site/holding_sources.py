"""Has sources wait while other sites take less of them than there is, and says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from headrace.model.amounts import format_bytes, format_seconds
from headrace.run.logs.back_pressure import Untaken, choose_held, find_untaken
from headrace.run.logs.upkeep import Upkeep
from headrace.site.sources.captures import Captures
from headrace.site.troubles import DISK, Troubles

LOOK_EVERY_S = 2.0
UNTAKEN = f"{DISK}changes that other sites have not taken"
MEND = (
    "wait, if it is for a while; otherwise give the link more bandwidth, this site more `disk_capacity`, or end the "
    "contracts that read this there"
)


@dataclass(slots=True)
class HoldingSources:
    """`find_answering` names other sites that answer and take changes."""

    captures: Captures
    troubles: Troubles
    find_answering: Callable[[], frozenset[str]]
    clock: Callable[[], int]
    _held: frozenset[str] = frozenset()
    _looked_s: float = float("-inf")

    def look(self, upkeep: Upkeep, budget: int | None) -> None:
        now_s = time.monotonic()
        if budget is None or now_s < self._looked_s + LOOK_EVERY_S:
            return
        self._looked_s = now_s
        engine = upkeep.engine
        untaken = find_untaken(engine.program, engine.ledger.logs(), self.find_answering())
        kept = upkeep.count_needed() if any(one.bytes for one in untaken) else 0
        self._held = choose_held(self._held, untaken, kept, budget)
        self.captures.hold_back(self._held)
        if self._held:
            self.troubles.report(UNTAKEN, self._describe(untaken, budget), MEND)
        else:
            self.troubles.clear(UNTAKEN)

    def _describe(self, untaken: tuple[Untaken, ...], budget: int) -> str:
        most = max(untaken, key=lambda one: one.bytes)
        behind = format_seconds(round((self.clock() - most.after) / 1e6))
        room = f"{format_bytes(sum(one.bytes for one in untaken))} of {format_bytes(budget)}"
        waiting = self.captures.find_held_back()
        on = sorted(self._held - waiting)
        held = f"nothing more is read of {', '.join(sorted(waiting))} until they have" if waiting else ""
        goes_on = f"{', '.join(on)} cannot wait, and what is too much of it is loaded there anew" if on else ""
        return (
            f"other sites have not taken {room} that changes may take here"
            f' (site "{most.site}" is {behind} behind): {"; ".join(one for one in (held, goes_on) if one)}'
        )
