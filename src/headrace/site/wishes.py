"""What other sites ask for: copies of our logs, up to a time and by a deadline."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.model.plan import Plan
from headrace.model.wish import CopyWish
from headrace.run.program import Program
from headrace.run.schedule.next_push import Promised, paths_of


@dataclass(slots=True)
class CopyWishes:
    """The wishes for each copy. May be used by several threads at once: some make them, and the one that pushes takes
    them.
    """

    _made: dict[str, CopyWish] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def make(self, copy: str, wish: CopyWish) -> None:
        """Two wishes for one copy are one: the later time, the earlier deadline."""
        with self._turn:
            before = self._made.get(copy, wish)
            self._made[copy] = CopyWish(max(before.t, wish.t), min(before.deadline, wish.deadline))

    def __bool__(self) -> bool:
        return bool(self._made)

    def take(self) -> Mapping[str, CopyWish]:
        """All that were made since the last time."""
        with self._turn:
            made, self._made = self._made, {}
        return made


def promise_exports(plan: Plan, program: Program) -> tuple[Promised, ...]:
    """What other sites have of this one's vertices, each as fresh as the most demanding contract that needs it.

    Rounds do not know what is there only for sites that run an earlier plan: it is pushed when they ask for it.
    """
    if not program.exports:
        return ()
    paths = paths_of(plan.graph, (*plan.contracts, *plan.elsewhere))
    longest_s = max((entry.freshness_s for entry in paths.contracts), default=0.0)
    shortest_s: dict[str, float] = {}
    for entry in paths.contracts:
        for name in paths.upstream[entry.contract]:
            shortest_s[name] = min(entry.freshness_s, shortest_s.get(name, entry.freshness_s))
    return tuple(
        Promised(copy.name, copy.task.reads[0], shortest_s.get(copy.name, longest_s), on_demand=True)
        for copy in program.exports.values()
        if copy.task.reads[0] not in program.kept
    )
