"""Gaps between pushes, for work that can wait.

Upkeep that runs beside a push makes the push take half as long again, which cannot be predicted. So upkeep starts when
no push runs and none is due before it ends. If pushes leave no such gap for a while, upkeep runs between two pushes
anyway, and after a longer while beside them: logs that are never merged make every push slower.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

PATIENCE_S = 2.0
"""After this long any moment between pushes will do for upkeep, and after twice as long any moment."""
LOOK_EVERY_S = 0.1
QUICK = 0.2
"""Weight of the last piece of work in what the next is expected to take."""
LONGEST_S = 1.0
"""More than this is not waited for."""


@dataclass
class Gaps:
    """`work_s` is what a piece of upkeep takes, about. `clock` is in seconds, and never put back."""

    clock: Callable[[], float] = time.monotonic
    work_s: float = 0.5
    _pushing: bool = False
    _next_push: float = 0.0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def pushing(self) -> Iterator[None]:
        self._set(True, 0.0)
        try:
            yield
        finally:
            self._set(False, self._next_push)

    def expect_push(self, in_s: float) -> None:
        """No push runs, and the next starts after that many seconds if nothing happens before."""
        self._set(False, self.clock() + in_s)

    def _set(self, pushing: bool, next_push: float) -> None:
        with self._changed:
            self._pushing, self._next_push = pushing, next_push
            self._changed.notify_all()

    def wait(self, stop: threading.Event, patience_s: float = PATIENCE_S) -> None:
        """Returns when other work may start, or shall not any more."""
        began = self.clock()
        with self._changed:
            while not stop.is_set() and not self._may_start(self.clock() - began, patience_s):
                self._changed.wait(LOOK_EVERY_S)

    def _may_start(self, waited_s: float, patience_s: float) -> bool:
        if self._pushing:
            return waited_s >= 2 * patience_s
        left_s = self._next_push - self.clock()
        return waited_s >= patience_s or left_s >= min(self.work_s, LONGEST_S)

    def learn(self, took_s: float) -> None:
        """What a piece of work took."""
        self.work_s += QUICK * (took_s - self.work_s)
