"""One time limit for waiting for several things, one after another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable


class Deadline:
    """A time limit, a number of seconds from now."""

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def left_s(self) -> float:
        return max(0.0, self._at - time.monotonic())

    def join(self, threads: Iterable[threading.Thread | None]) -> bool:
        """Waits until they have ended; whether they have."""
        started = [thread for thread in threads if thread is not None]
        for thread in started:
            thread.join(self.left_s)
        return not any(thread.is_alive() for thread in started)
