"""Threads of a service: one that fails takes the service with it, since half a service would keep no promise."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

log = logging.getLogger("headrace.service")


class GuardedThreads:
    """`stop` is set when somebody ends the service, or when one of its threads fails."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self._failure: BaseException | None = None
        self._turn = threading.Lock()  # held for a moment, so that of two failures at once one is the first

    @property
    def failure(self) -> BaseException | None:
        """Why the service ended by itself: what failed first. What fails later is often a consequence."""
        return self._failure

    def start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(target, name), name=name, daemon=True)
        thread.start()
        return thread

    def _run(self, target: Callable[[], None], name: str) -> None:
        try:
            target()
        except BaseException as error:
            log.exception("%s failed", name)
            with self._turn:
                self._failure = self._failure or error
            self.stop.set()
