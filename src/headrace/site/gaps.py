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
LARGE_PATIENCE_S, LEAST_BYTES = 20.0, 10_000_000
"""How long a large piece waits for a gap of its size; and bytes below which a piece says little about large ones."""


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

    @property
    def left_s(self) -> float:
        """Seconds until the next push; 0 while one runs."""
        with self._changed:
            return 0.0 if self._pushing else max(0.0, self._next_push - self.clock())

    def learn(self, took_s: float) -> None:
        """What a piece of work took."""
        self.work_s += QUICK * (took_s - self.work_s)


@dataclass
class LargePieces:
    """Pieces of upkeep that take longer than any gap is waited for: each waits for one that is long enough, and not
    for ever.

    `byte_s` is what upkeep takes for each byte that it reads.
    """

    gaps: Gaps
    byte_s: float = 1e-8
    _waits_since: float | None = None

    def may_start(self, size: int) -> bool:
        """Whether a piece that reads so many bytes may start now."""
        takes_s, now = size * self.byte_s, self.gaps.clock()
        if takes_s <= max(LONGEST_S, self.gaps.left_s):
            return True
        if self._waits_since is None:
            self._waits_since = now
        return now - self._waits_since >= LARGE_PATIENCE_S

    def learn(self, size: int, took_s: float) -> None:
        """What a piece took that read so many bytes."""
        if size >= LEAST_BYTES:
            self.byte_s += QUICK * (took_s / size - self.byte_s)
            if size * self.byte_s > LONGEST_S:
                self._waits_since = None
