"""A runner that takes a while to start, and is started again when it has died; nobody waits for it without need.

    there          items run by it, as one job
    not there      small items run in this process meanwhile; the others wait for it
    died           what ran is tried again: together once more, then each item alone, since one of them may be the cause

Items may be repeated: what they make is in files that nobody names before they are committed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from headrace.run.items import Item, Outcome
from headrace.run.ports import Runner

log = logging.getLogger("headrace.engine")

REST_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""After so many starts in a row that failed, how long until the next."""


@dataclass(frozen=True, slots=True)
class Engine:
    """What to start; whether what was started still lives; and what runs those items that need not wait for it."""

    name: str
    start: Callable[[], Runner[Any]]
    is_alive: Callable[[Runner[Any]], bool] = lambda _: True
    meanwhile: Runner[Any] | None = None
    is_small: Callable[[Item], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class Absence:
    """Of a runner that is on its way, for the first time or because it `died`; and why its last start failed."""

    engine: str
    died: bool
    seconds: float
    error: str | None


class LateRunner:
    """May be used by several threads at once.

    One that `resumes` has nothing to wait for at the beginning: what it goes on with is there.
    """

    def __init__(self, engine: Engine, resumes: bool = False) -> None:
        self._engine = engine
        self._resumes = resumes
        self._turn = threading.Lock()
        self._ended = False
        self._died = False
        self._failures = 0
        self._error: str | None = None
        self._again_at = 0.0
        self._meanwhile = 0
        self._began = time.monotonic()
        self._started = self._begin()

    def run(self, items: Sequence[Item]) -> list[Outcome[Any]]:
        """Without items it returns once the runner has started, and raises what keeps it from that."""
        if not items:
            if not self._resumes:
                self._started.result()
            return []
        done: dict[int, Outcome[Any]] = {}
        left = list(range(len(items)))
        for together in (True, True, False):
            for group in [left] if together else [[number] for number in left]:
                done |= zip(group, self._attempt([items[number] for number in group]), strict=True)
            left = [number for number in left if done[number].retryable]
            if not left:
                break
        return [done[number] for number in range(len(items))]

    def end(self) -> None:
        """It is not started again from now on."""
        self._ended = True

    def absence(self) -> Absence | None:
        """None if it is there as far as is known. It is not asked: one that stands still would not answer."""
        started = self._started
        if started.done() and started.exception() is None:
            return None
        return Absence(self._engine.name, self._died, time.monotonic() - self._began, self._error)

    def _attempt(self, items: Sequence[Item]) -> list[Outcome[Any]]:
        runner = self._living()
        if runner is not None:
            return runner.run(items)
        here = self._engine.meanwhile
        small = [n for n, item in enumerate(items) if here is not None and self._engine.is_small(item)]
        large = [n for n in range(len(items)) if n not in small]
        self._meanwhile += len(small)
        done = dict(zip(small, here.run([items[n] for n in small]) if here is not None else [], strict=True))
        done |= zip(large, self._patiently([items[n] for n in large]), strict=True)
        return [done[n] for n in range(len(items))]

    def _patiently(self, items: Sequence[Item]) -> list[Outcome[Any]]:
        if not items:
            return []
        try:
            return self._started.result().run(items)
        except Exception as error:  # whatever kept it from starting
            reason = f"{self._engine.name} is not there: {error}"
            return [Outcome(item.name, None, reason, 0.0) for item in items]

    # Starting

    def _living(self) -> Runner[Any] | None:
        """The runner if it is there; if it has died, it is on its way again afterwards."""
        with self._turn:
            if not self._started.done():
                return None
            failed = self._started.exception() is not None
            if not failed and self._engine.is_alive(self._started.result()):
                return self._started.result()
            if not self._ended and time.monotonic() >= self._again_at:
                if not failed:
                    log.warning("%s has died, and is started again", self._engine.name)
                    self._died, self._meanwhile, self._began = True, 0, time.monotonic()
                self._started = self._begin()
            return None

    def _begin(self) -> Future[Runner[Any]]:
        starter = ThreadPoolExecutor(1, thread_name_prefix="start")
        try:
            return starter.submit(self._start)
        finally:
            starter.shutdown(wait=False)

    def _start(self) -> Runner[Any]:
        try:
            started = self._engine.start()
        except Exception as error:
            self._failures += 1
            self._error = str(error)
            rest_s = REST_S[min(self._failures, len(REST_S)) - 1]
            self._again_at = time.monotonic() + rest_s
            if not self._ended:
                log.warning("%s could not be started: %s; again in %g s", self._engine.name, error, rest_s)
            raise
        self._failures, self._error = 0, None
        took_s = time.monotonic() - self._began
        log.info("%s is there after %.1f s; %d items ran here meanwhile", self._engine.name, took_s, self._meanwhile)
        return started
