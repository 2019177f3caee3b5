"""Captures of a service's databases: one process each, started again when it ends."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.connect.postgres.capture import Capture, CaptureSettings
from headrace.declare.variables import fill
from headrace.model.errors import HeadraceError
from headrace.model.plan import Plan
from headrace.run.capture.spool import captured_table
from headrace.service.databases import Database
from headrace.service.folder import Folder

log = logging.getLogger("headrace.capture")

REST_S = (0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass
class Running:
    """A capture that runs, or will again at `retry_at` (monotonic seconds)."""

    settings: CaptureSettings
    process: subprocess.Popen[bytes] | None = None
    thread: threading.Thread | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    failures: int = 0
    retry_at: float = 0.0
    error: str | None = None


@dataclass
class Captures:
    folder: Folder
    environment: Mapping[str, str]
    in_processes: bool = True
    running: dict[str, Running] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._turn = threading.Lock()

    def run(self, plan: Plan, databases: tuple[Database, ...]) -> None:
        """Captures exactly these; one whose tables changed is started again."""
        wanted = {database.name: self._settings(plan, database) for database in databases}
        with self._turn:
            for name in list(self.running):
                if name not in wanted or self.running[name].settings != wanted[name]:
                    self._end(self.running.pop(name))
            for name, settings in wanted.items():
                if name not in self.running:
                    self.running[name] = Running(settings)
                    self._start(self.running[name])

    def _settings(self, plan: Plan, database: Database) -> CaptureSettings:
        return CaptureSettings(
            project=self._project(plan),
            database=database.name,
            dsn=fill(database.dsn, self.environment),
            tables=tuple(captured_table(plan.catalogue.sources[name]) for name in database.sources),
            scratch=self.folder.capture(database.name),
        )

    def _project(self, plan: Plan) -> str:
        """Two checkouts of a project on one database do not share a slot."""
        return f"{plan.catalogue.project}:{self.folder.project.absolute()}"

    def check(self) -> None:
        """Starts again what has ended."""
        with self._turn:
            for running in self.running.values():
                if running.process is not None and running.process.poll() is not None:
                    self._failed(running, f"it ended with status {running.process.returncode}")
                    running.process = None
                if running.process is None and running.thread is None and time.monotonic() >= running.retry_at:
                    self._start(running)

    def _failed(self, running: Running, reason: str) -> None:
        running.failures += 1
        running.error = reason
        rest = REST_S[min(running.failures, len(REST_S)) - 1]
        running.retry_at = time.monotonic() + rest
        log.warning("capture of %s: %s; again in %s s", running.settings.database, reason, rest)

    def _start(self, running: Running) -> None:
        running.settings.scratch.mkdir(parents=True, exist_ok=True)
        if self.in_processes:
            running.process = _spawn(self.folder, running.settings)
        else:
            running.stop = threading.Event()
            running.thread = threading.Thread(target=self._capture_here, args=(running,), daemon=True)
            running.thread.start()

    def _capture_here(self, running: Running) -> None:
        ledger = self.folder.ledger()
        try:
            capture = Capture(running.settings, ledger, self.folder.store())
            try:
                while not running.stop.is_set():
                    capture.step(0.3)
                    running.failures, running.error = 0, None
            finally:
                capture.close()
        except HeadraceError as error:
            self._failed(running, str(error))
        finally:
            ledger.close()
            running.thread = None

    def _end(self, running: Running) -> None:
        running.stop.set()
        if running.thread is not None:
            running.thread.join(timeout=20)
        if running.process is not None:
            running.process.terminate()
            try:
                running.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                running.process.kill()
                running.process.wait()

    def stop(self) -> None:
        with self._turn:
            for running in self.running.values():
                self._end(running)
            self.running = {}


def _spawn(folder: Folder, settings: CaptureSettings) -> subprocess.Popen[bytes]:
    """Settings hold the address with its password: they go through a pipe, which nobody else can read."""
    command = [sys.executable, "-m", "headrace.service.capture_process"]
    with (settings.scratch / "capture.log").open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
    assert process.stdin is not None
    process.stdin.write(pickle.dumps((folder, settings)))
    process.stdin.close()
    return process
