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

    @property
    def failure(self) -> BaseException | None:
        """Why the service ended by itself."""
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
            self._failure = error
            self.stop.set()
