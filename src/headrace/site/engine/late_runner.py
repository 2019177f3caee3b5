"""A runner for an engine that takes a while to start and may die: work waits for the engine only when it must.

    up             the engine runs all items, as one job
    not up         small items run in this process in the meantime; the others wait for the engine
    died           its items are tried again: together once more, then one by one, since one of them may be the cause
    hangs          an engine that does not answer is killed, and then counts as dead

Items may be repeated: their results are in files that no log names before the commit. Every request gets an answer:
starting, answering and running a job each have a time limit (`run/schedule/deadlines.py`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from headrace.model.amounts import format_seconds
from headrace.model.errors import ConnectError
from headrace.run.ports import Runner
from headrace.run.push.items import Item, ItemOutcome
from headrace.run.schedule.deadlines import Patience
from headrace.site.engine.timed_runner import JobRunner, TimedRunner, ask

log = logging.getLogger("headrace.engine")

SLOW_START = "is the machine, or the cluster, very busy? A cluster needs a worker with enough memory for an executor"
BACKOFF_S = (1.0, 2.0, 5.0, 15.0, 30.0)
"""How long to wait before the next start, after one, two, ... failed starts in a row."""
TOGETHER = 2
"""How often items that died with their job are tried together before each is tried alone."""

Jobs = TypeVar("Jobs", bound=JobRunner)


@dataclass(frozen=True, slots=True)
class EngineStarter(Generic[Jobs]):
    """What to start; whether what was started still lives; and what runs those items that need not wait for it.

    `kill` ends it at once, whether it runs or is on its way, and asks nobody; `why_dead` then says what became of it.
    """

    name: str
    start: Callable[[], Jobs]
    is_alive: Callable[[Jobs], bool] = lambda _: True
    meanwhile: Runner[Any] | None = None
    is_small: Callable[[Item], bool] = lambda _: False
    kill: Callable[[], None] = lambda: None
    why_dead: Callable[[], str | None] = lambda: None
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True)
class Absence:
    """A runner that is on its way, for the first time or because it `died`; why, and why its last start failed."""

    engine: str
    died: bool
    seconds: float
    error: str | None
    why: str | None = None


class LateRunner(Generic[Jobs]):
    """May be used by several threads at once.

    One that `resumes` has nothing to wait for at the beginning: what it goes on with is there.
    """

    def __init__(self, engine: EngineStarter[Jobs], resumes: bool = False) -> None:
        self._engine = engine
        self._resumes = resumes
        self._turn = threading.Lock()  # held while the engine is asked whether it lives; `absence` does not need it
        self._ended = False
        self._died = False
        self._why: str | None = None
        self._failures = 0
        self._error: str | None = None
        self._again_at = 0.0
        self._meanwhile = 0
        # Written by threads that run jobs, each under its own key, and read by the watchdog without a lock: it must
        # never wait for a thread that it watches.
        self._running: dict[str, float] = {}
        self._began = time.monotonic()
        self._started = self._begin()

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        """Runs items. Without items it returns once the runner has started, and raises what keeps it from that."""
        if not items:
            if not self._resumes:
                self._started.result()
            return []
        done: dict[int, ItemOutcome[Any]] = {}
        left, tries, alone = list(range(len(items))), 0, False
        while left:
            for group in [[number] for number in left] if alone else [left]:
                done |= zip(group, self._attempt([items[number] for number in group]), strict=True)
            left = [number for number in left if done[number].retryable]
            if alone:
                break
            tries += 1
            alone = tries == TOGETHER or any(done[number].harmful for number in left)
        # What dies alone is the cause itself.
        return [replace(one, harmful=True) if one.retryable else one for _, one in sorted(done.items())]

    def end(self) -> None:
        """Keeps the engine from being started again."""
        self._ended = True

    def replace(self, why: str) -> None:
        """Kills it, whether it runs or is on its way, so that another is started; waits for nobody."""
        self._why = why
        log.error("%s is replaced: %s", self._engine.name, why)
        self._engine.kill()

    def allowed_s(self) -> float:
        """How long what runs now may take until it is ended; waits for nobody."""
        patience = self._engine.patience
        return max(list(self._running.values()), default=0.0) + 2 * patience.end_s if self._running else 0.0

    def absence(self) -> Absence | None:
        """None if it is there as far as is known. It is not asked: one that stands still would not answer."""
        started = self._started  # taken once: another thread may replace it by a new start at any time
        if started.done() and started.exception() is None and self._engine.why_dead() is None:
            return None
        is_noticed = not started.done() or started.exception() is not None
        died, why = self._died or not is_noticed, self._why or self._engine.why_dead()
        seconds = time.monotonic() - self._began if is_noticed else 0.0
        return Absence(self._engine.name, died, seconds, self._error, why if died else None)

    def _attempt(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
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

    def _patiently(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        if not items:
            return []
        try:
            return self._make_timed(self._started.result()).run(items)
        except Exception as error:  # whatever kept it from starting
            reason = f"{self._engine.name} is not there: {error}"
            return [ItemOutcome(item.name, None, reason, 0.0) for item in items]

    def _make_timed(self, jobs: Jobs) -> TimedRunner:
        return TimedRunner(jobs, self._engine.patience, running=self._running)

    # Starting

    def _living(self) -> TimedRunner | None:
        """The runner if it is there; if it has died, it is on its way again afterwards."""
        # One thread at a time, so that an engine that has died is started again once, not by everybody who sees it.
        with self._turn:
            if not self._started.done():
                return None
            failed = self._started.exception() is not None
            if not failed and self._is_alive(self._started.result()):
                return self._make_timed(self._started.result())
            if not self._ended and time.monotonic() >= self._again_at:
                if not failed:
                    self._why = self._why or self._engine.why_dead()
                    log.warning(
                        "%s has died, and is being restarted: %s",
                        self._engine.name,
                        self._why or "the cause is unknown",
                    )
                    self._died, self._meanwhile, self._began = True, 0, time.monotonic()
                self._started = self._begin()
            return None

    def _is_alive(self, jobs: Jobs) -> bool:
        """One that does not answer is killed: what waits for it is told by that, and it can be started again."""
        within_s = self._engine.patience.answer_s
        if self._engine.why_dead() is not None:
            return False
        alive = ask(lambda: self._engine.is_alive(jobs), within_s)
        if alive is None:
            self.replace(f"it has not answered for {format_seconds(within_s)}")
        return alive is True

    def _begin(self) -> Future[Jobs]:
        """Starts the runner in a thread that nobody has to wait for; a start that takes too long is ended by killing
        what starts.
        """
        future: Future[Jobs] = Future()
        threading.Thread(target=self._start, args=(future,), name="start", daemon=True).start()
        return future

    def _start(self, future: Future[Jobs]) -> None:
        # A start cannot be interrupted from Python: it waits for a process. Killing that makes it fail by itself.
        late = threading.Event()
        limit = threading.Timer(self._engine.patience.start_s, self._give_up_start, (late,))
        limit.daemon = True
        limit.start()
        try:
            started = self._engine.start()
        except BaseException as found:
            error = self._say_late(found) if late.is_set() else found
            self._failures += 1
            self._error = str(error)
            backoff_s = BACKOFF_S[min(self._failures, len(BACKOFF_S)) - 1]
            self._again_at = time.monotonic() + backoff_s
            if not self._ended:
                log.warning("%s could not be started: %s; trying again in %g s", self._engine.name, error, backoff_s)
            future.set_exception(error)
            return
        finally:
            limit.cancel()
        # All is noted before the future is set: threads that wait for it read these at once.
        self._failures, self._error, self._why = 0, None, None
        took_s = time.monotonic() - self._began
        log.info(
            "%s is up after %.1f s; in the meantime %d items ran in this process",
            self._engine.name,
            took_s,
            self._meanwhile,
        )
        future.set_result(started)

    def _give_up_start(self, late: threading.Event) -> None:
        late.set()
        self._engine.kill()

    def _say_late(self, found: BaseException) -> ConnectError:
        """What it fails with is that it was killed, which was our doing."""
        within = format_seconds(self._engine.patience.start_s)
        error = ConnectError(f"{self._engine.name} did not start within {within}", SLOW_START)
        error.__cause__ = found
        return error
