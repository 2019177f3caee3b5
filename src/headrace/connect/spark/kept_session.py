"""Starts the Spark of a service, restarts it when it has died, and ends it, whatever it is doing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession

from headrace.connect.spark.count_standing import count_standing, find_slots
from headrace.connect.spark.items import HEAVY_MODULES, SparkRunner, warm_up
from headrace.connect.spark.jobs import SparkJobs
from headrace.connect.spark.properties import SparkSettings
from headrace.connect.spark.session import (
    abandon_session,
    end_starting,
    is_alive,
    java_process,
    start_session,
    stop_session,
)
from headrace.connect.spark.standing import StandingTasks
from headrace.model.errors import ConnectError
from headrace.run.push.items import Item

LOOK_EVERY_S = 0.05
STANDING_WITHIN_S = 30.0
"""How long a start waits for standing tasks. They may come later as well."""
OUT_OF_MEMORY = 3
"""What a Java exits with that was told to end without memory."""


@dataclass(slots=True)
class KeptSession:
    """`perform` is a function of a module that Spark's workers can import. Nobody else uses the settings' scratch.

    Items that need the session itself are performed here, with `evaluate` for what they ask of it.
    """

    settings: SparkSettings
    perform: Callable[..., Any]
    needs_session: Callable[[Item], bool] = lambda _: False
    is_small: Callable[[Item], bool] = lambda _: True
    """Whether a standing task may do an item, if the settings ask for any."""
    limit_s: Callable[[Item], float] = lambda _: 3600.0
    """How long an item may take in a standing task."""
    _session: SparkSession | None = field(default=None, init=False)
    _java: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _standing: StandingTasks[Any] | None = field(default=None, init=False)
    _starting: threading.Lock = field(default_factory=threading.Lock, init=False)
    _ended: bool = field(default=False, init=False)

    def start(self) -> SparkJobs:
        """Returns when workers are warm. What an earlier session left is removed. Raises ConnectError once it ended."""
        with self._starting:
            jobs = self._start()
            # `end` may have been called meanwhile: it waits for this lock, and must not find a session after it.
            if self._ended:
                self._close_standing()
                stop_session(jobs.session)
                raise ConnectError("Spark was ended while it started")
            return jobs

    def _start(self) -> SparkJobs:
        if self._ended:
            raise ConnectError("Spark was ended before it started")
        # PySpark keeps one session per process and hands out the dead one again, unless it is abandoned first.
        if self._session is not None:
            self._close_standing()
            abandon_session(self._session)
            self._session = None
        for left in ("spill", "marks"):
            shutil.rmtree(self.settings.scratch / left, ignore_errors=True)
        self._session = start_session(self.settings)
        self._java = java_process(self._session)
        modules = (*HEAVY_MODULES, self.perform.__module__)
        warm_up(self._session, modules)
        self._stand(self._session, modules)
        workers, marks = SparkRunner(self._session, self.perform), self.settings.scratch.absolute() / "marks"
        return SparkJobs(workers, self.needs_session, marks, self._java, self._standing, self.is_small)

    def _stand(self, session: SparkSession, modules: Sequence[str]) -> None:
        """Starts standing tasks where there is room for them; without any, all items go as ordinary jobs."""

        def count() -> int:
            return count_standing(self.settings, find_slots(session))

        if count():
            self._standing = StandingTasks(session, self.perform, count, modules, self.limit_s)
            self._standing.wait_until_there(STANDING_WITHIN_S)

    def _close_standing(self) -> None:
        if self._standing is not None:
            self._standing.close()
            self._standing = None

    def is_alive(self, jobs: SparkJobs) -> bool:
        """May wait for ever for a Java that stands still."""
        return jobs.session is self._session and is_alive(jobs.session)

    def kill(self) -> None:
        """Kills Spark at once, whether it runs or is on its way: nobody is asked."""
        if self._java is not None and self._java.poll() is None:
            self._java.kill()
        else:
            end_starting(self.settings)

    def why_dead(self) -> str | None:
        """What became of a Java that has ended; None if it lives."""
        code = None if self._java is None else self._java.poll()
        match code:
            case None:
                return None
            case _ if code == OUT_OF_MEMORY:
                return f"its Java ran out of memory ({self.settings.memory} of heap)"
            case _ if code < 0:
                return f"its Java was killed ({signal.Signals(-code).name})"
            case _:
                return f"its Java ended with status {code}"

    def end(self) -> None:
        """Ends Spark for good: nothing of it is left. May wait for ever for a Java that stands still."""
        self._ended = True  # before the lock is asked for, so that a start on its way sees it
        # A start that is on its way may launch its Java at any moment: kill whatever it launches until it gives up.
        while not self._starting.acquire(timeout=LOOK_EVERY_S):
            end_starting(self.settings)
        self._starting.release()
        self._close_standing()
        if self._session is not None:
            stop_session(self._session)
