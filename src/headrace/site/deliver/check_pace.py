"""Decides when copies are checked for what others have done to them: one after the other, at a bounded cost.

A check reads a whole copy. So each is followed by a pause in proportion to what it took, for all copies together: they
take at most `SHARE` of a core, however large they are. Within that, each copy is checked every `EVERY_S` seconds. The
one that was checked longest ago comes first; one that cannot be written is put off, and delays nobody.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

SHARE = 0.005
"""Of a core, for all checks of copies together."""
EVERY_S = 5.0
"""Between two checks of one copy, at least."""
PATIENCE_S = 10.0
"""After a check has begun, another may begin this much later even if nobody has told of its end."""
UNUSED_S = 3.0
"""A turn that the next in line has not taken for this long is anybody's."""


@dataclass(slots=True)
class CheckPace:
    """May be used by several threads. Times are on the clock that nobody sets, in seconds."""

    _checked: dict[str, float] = field(default_factory=dict)
    """When the last check of each copy began; 0.0 before the first."""
    _free_at: float = 0.0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def add(self, copy: str) -> None:
        """The copy waits for its turn from now on."""
        with self._turn:
            self._checked[copy] = 0.0

    def forget(self, copy: str) -> None:
        with self._turn:
            self._checked.pop(copy, None)

    def put_off(self, copy: str, now_s: float) -> None:
        """It cannot be checked now."""
        with self._turn:
            if copy in self._checked:
                self._checked[copy] = now_s

    def take_turn(self, copy: str, now_s: float) -> bool:
        """Whether the copy is to be checked now; then `end_turn` has to be called."""
        with self._turn:
            before = self._checked.get(copy)
            if before is None or now_s < self._free_at or (before and now_s - before < EVERY_S):
                return False
            if any(other < before for other in self._checked.values()) and now_s - self._free_at < UNUSED_S:
                return False
            self._checked[copy] = now_s
            self._free_at = now_s + PATIENCE_S
            return True

    def end_turn(self, took_s: float, now_s: float) -> None:
        with self._turn:
            self._free_at = now_s + took_s / SHARE
