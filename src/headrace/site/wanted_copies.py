"""Which copy of another site's to ask for next: the one with the earliest deadline, among those that nobody brings."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from headrace.model.wish import CopyWish


@dataclass(slots=True)
class WantedCopies:
    """Copies that are to be brought to a time. The caller sees to it that one thread at a time changes them."""

    wishes: dict[str, CopyWish] = field(default_factory=dict)
    """All that is not there yet, also what somebody brings now."""
    _places: dict[str, int] = field(default_factory=dict)
    """Where each copy is in the heap that nobody brings: its deadline, or when it is to be tried again."""
    _heap: list[tuple[int, str]] = field(default_factory=list)
    """Has their places; and some that copies have left, which are passed over."""

    @property
    def is_any_waiting(self) -> bool:
        return bool(self._places)

    def want(self, copy: str, wish: CopyWish) -> bool:
        """Two wishes for one copy are one: the later time, the earlier deadline. Whether there is more to bring now."""
        before = self.wishes.get(copy)
        if before is None:
            self.wishes[copy] = wish
            self._place(copy, wish.deadline)
            return True
        self.wishes[copy] = both = CopyWish(max(before.t, wish.t), min(before.deadline, wish.deadline))
        if both.deadline < before.deadline and self._places.get(copy) == before.deadline:
            self._place(copy, both.deadline)
        return False

    def take(self) -> str:
        """The copy to bring next, of which there is one."""
        while True:
            place, copy = heapq.heappop(self._heap)
            if self._places.get(copy) == place:
                del self._places[copy]
                return copy

    def finish(self, copy: str) -> None:
        """It is there, or nobody has to bring it."""
        self.wishes.pop(copy, None)

    def put_back(self, copy: str, earliest: int | None = None) -> None:
        """It has to be asked for again: by its deadline, but behind those that are due by `earliest`."""
        wish = self.wishes.get(copy)
        if wish is not None:
            self._place(copy, wish.deadline if earliest is None else max(wish.deadline, earliest))

    def _place(self, copy: str, place: int) -> None:
        self._places[copy] = place
        heapq.heappush(self._heap, (place, copy))
