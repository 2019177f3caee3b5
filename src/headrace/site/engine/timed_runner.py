"""Runs items as jobs with a time limit: the caller gets an answer, whatever an item does or happens to the engine.

The job runs in its own thread while the caller watches its marks (`run/schedule/deadlines.py` decides).

an item takes too long    the job is ended; that item has failed, the others may be tried again
the job does not end      the engine is killed; the runner that finds it dead starts it again
nothing helps             the thread is abandoned; it can only write files that no log names
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from headrace.run.push.items import Item, ItemOutcome
from headrace.run.schedule.deadlines import End, Kill, Patience, WatchedJob, begin_watch, judge, limit_s, look

log = logging.getLogger("headrace.engine")

LOOK_EVERY_S = 0.5
ASK_EVERY_S = 5.0

Answer = TypeVar("Answer")
_job_numbers = itertools.count(1)


class JobRunner(Protocol):
    """Runs items as jobs that can be told to end. Methods may be called by several threads at once."""

    def run_job(self, job: str, items: Sequence[Item]) -> list[ItemOutcome[Any]]: ...

    def in_work(self, job: str) -> Mapping[int, object]:
        """Marks of the items that are in work, by position; never waits."""

    def end_job(self, job: str) -> None:
        """Asks for the end of a job. May wait for ever."""

    def answers(self) -> bool:
        """Whether it can run jobs. May wait for ever."""

    def kill(self) -> None:
        """Ends whatever runs jobs, at once, as far as that is possible."""


@dataclass
class TimedRunner:
    """Runs items by jobs of `inner`, each no longer than `limit` and the patience allow."""

    inner: JobRunner
    patience: Patience = field(default_factory=Patience)
    limit: Callable[[Item, Patience], float] = limit_s
    running: dict[str, float] = field(default_factory=dict)
    """Of each job that runs, how long the longest of its items may take."""

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        if not items:
            return []
        job = _RunningJob(self.inner, f"{os.getpid()}-{next(_job_numbers)}", items)
        limits_s, watched = [self.limit(item, self.patience) for item in items], begin_watch(time.monotonic())
        self.running[job.name] = max(limits_s)
        try:
            return self._wait(job, limits_s, watched)
        finally:
            del self.running[job.name]

    def _wait(self, job: _RunningJob, limits_s: Sequence[float], watched: WatchedJob) -> list[ItemOutcome[Any]]:
        while not job.done.wait(LOOK_EVERY_S):
            watched = look(watched, time.monotonic(), self.inner.in_work(job.name), job.was_answered())
            match judge(watched, limits_s, self.patience):
                case None:
                    continue
                case End(overdue, why):
                    return self._end(job, overdue, why)
                case Kill(why):
                    log.error("the engine is killed: %s", why)
                    self.inner.kill()
                    job.done.wait(self.patience.end_s)
                    return job.outcomes(frozenset(), why)
        return job.result()

    def _end(self, job: _RunningJob, overdue: frozenset[int], why: str) -> list[ItemOutcome[Any]]:
        names = ", ".join(sorted(job.items[number].name for number in overdue)) or "a job"
        log.warning("%s is ended: %s", names, why)
        # First the job alone is cancelled; only if it does not end is the engine killed, with the jobs of all others.
        ends_within(lambda: self.inner.end_job(job.name), self.patience.end_s)
        if not job.done.wait(self.patience.end_s):
            log.error("a cancelled job did not end: its process is killed, unless it is this one")
            self.inner.kill()
            job.done.wait(self.patience.end_s)
        return job.outcomes(overdue, why)


class _RunningJob:
    """A job in a thread of its own, which nobody has to wait for."""

    def __init__(self, inner: JobRunner, name: str, items: Sequence[Item]) -> None:
        self.name, self.items, self.done = name, items, threading.Event()
        self._inner, self._began = inner, time.monotonic()
        self._made: list[ItemOutcome[Any]] | None = None
        self._error: BaseException | None = None
        self._asked, self._answer = time.monotonic(), threading.Event()
        self._answer.set()
        # A daemon: a job that hangs in a system call must not keep the process from ending.
        threading.Thread(target=self._run, name=f"job {name}", daemon=True).start()

    def _run(self) -> None:
        try:
            self._made = self._inner.run_job(self.name, self.items)
        except BaseException as error:
            self._error = error
        finally:
            self.done.set()  # last: a thread that sees it reads `_made` and `_error`

    def result(self) -> list[ItemOutcome[Any]]:
        if self._made is None:
            assert self._error is not None
            raise self._error
        return self._made

    def was_answered(self) -> bool:
        """Whether the last question was answered; asks again once in a while."""
        answered = self._answer.is_set()
        if answered and time.monotonic() - self._asked >= ASK_EVERY_S:
            # A new event for each question: an answer to an old one that comes late must not count for this one.
            self._asked, self._answer = time.monotonic(), threading.Event()
            threading.Thread(target=self._ask, args=(self._answer,), name="ask engine", daemon=True).start()
        return answered

    def _ask(self, answer: threading.Event) -> None:
        # One that is dead is no reason to kill it: the job hears of that by itself.
        self._inner.answers()
        answer.set()

    def outcomes(self, overdue: frozenset[int], why: str) -> list[ItemOutcome[Any]]:
        """The outcomes of a job that was ended.

        Nobody knows how far items got, unless they were done in the last moment.
        """
        made, seconds = self._made if self.done.is_set() else None, time.monotonic() - self._began
        found = []
        for number, item in enumerate(self.items):
            if made is not None and made[number].value is not None:
                found.append(made[number])
            elif number in overdue:
                found.append(ItemOutcome(item.name, None, f"{why}, and was ended", seconds, harmful=True))
            else:
                found.append(ItemOutcome(item.name, None, why, seconds, retryable=True, harmful=not overdue))
        return found


def ask(question: Callable[[], Answer], within_s: float) -> Answer | None:
    """The answer; None if there is none in time, or it is an error. A later answer is not heard."""
    said: list[Answer] = []
    return said[0] if ends_within(lambda: said.append(question()), within_s) and said else None


def ends_within(act: Callable[[], None], within_s: float) -> bool:
    """Whether something that may wait for ever has ended in time; it is left behind if not. Errors are logged."""
    acting = threading.Thread(target=_log_errors, args=(act,), name="ask engine", daemon=True)
    acting.start()
    acting.join(within_s)
    return not acting.is_alive()


def _log_errors(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception as error:  # of an engine that dies meanwhile, anything
        log.info("the engine was asked and failed: %s", error)
