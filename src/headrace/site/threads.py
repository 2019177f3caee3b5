"""Threads of a service: one that fails takes the service with it, since half a service would keep no promise.

A thread that something outside keeps from working, such as a full disk, begins again instead: what it does is in the
ledger, so nothing is lost, and it goes on by itself once that is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from headrace.model.errors import ConnectError, DamagedLedger

log = logging.getLogger("headrace.service")

AGAIN_AFTER_S = 0.5
END_WITHIN_S = 10.0
OVER_AFTER_S = 3.0
"""A thread that has not failed for this long works."""


@dataclass(frozen=True, slots=True)
class Hindered:
    """What kept a thread from working last, and when: seconds of a clock that nobody sets."""

    error: ConnectError
    at_s: float


class GuardedThreads:
    """`stop` is set when somebody ends the service, or when one of its threads fails."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self._failure: BaseException | None = None
        self._hindered: Mapping[str, Hindered] = {}
        self._turn = threading.Lock()  # held for a moment, so that of two failures at once one is the first

    @property
    def failure(self) -> BaseException | None:
        """Why the service ended by itself: what failed first. What fails later is often a consequence."""
        return self._failure

    @property
    def hindrance(self) -> ConnectError | None:
        """What keeps threads from working now; None if nothing does."""
        now_s = time.monotonic()
        recent = [one for one in self._hindered.values() if now_s - one.at_s < OVER_AFTER_S]
        return min(recent, key=lambda one: one.error.message).error if recent else None

    def start(self, target: Callable[[], None], name: str) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(target, name), name=name, daemon=True)
        thread.start()
        return thread

    def _run(self, target: Callable[[], None], name: str) -> None:
        try:
            while self._is_hindered(target, name):
                self.stop.wait(AGAIN_AFTER_S)
        except BaseException as error:
            log.exception("%s failed", name)
            with self._turn:
                self._failure = self._failure or error
            self.stop.set()

    def _is_hindered(self, target: Callable[[], None], name: str) -> bool:
        """Whether a thread has to begin again: it does its work in rounds, each of which may be repeated."""
        try:
            target()
        except DamagedLedger:
            raise  # it does not get better by itself
        except ConnectError as error:
            if name not in self._hindered:
                log.warning("%s begins again: %s", name, error)
            with self._turn:
                self._hindered = {**self._hindered, name: Hindered(error, time.monotonic())}
            return not self.stop.is_set()
        return False


@contextmanager
def running_beside(run: Callable[[threading.Event], None], name: str) -> Iterator[None]:
    """While this holds, a thread does something that the service can do without. It looks at the event, and ends."""
    end = threading.Event()
    thread = threading.Thread(target=run, args=(end,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join(timeout=END_WITHIN_S)
