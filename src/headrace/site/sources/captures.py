"""Runs the captures of a service, a process for each database and a thread for each folder, and restarts them."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from headrace.connect.postgres.capture import Capture, CaptureSettings, clock_now
from headrace.connect.postgres.slots import CaptureNames, capture_names
from headrace.connect.tables.folder import FolderCapture, FolderStream
from headrace.declare.variables import fill
from headrace.model.errors import HeadraceError
from headrace.model.notes import CapturingTables, read_notes
from headrace.model.plan import Plan
from headrace.run.capture.spool import CapturedTable, make_captured_table
from headrace.run.ports import Ledger
from headrace.site.deadline import Deadline
from headrace.site.folder import Folder
from headrace.site.sources.databases import SourceDatabase, database_name, folder_databases
from headrace.site.sources.folder_sources import folder_streams

log = logging.getLogger("headrace.capture")

BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
LASTED_S = 10.0
"""One that ran for so long was well: that it ended is its first failure."""
LOOK_EVERY_S = 0.5
END_WITHIN_S = 20.0
WITHDRAWN_END_WITHIN_S = 2.0
"""What a capture that nobody needs any more has not committed may be lost: others wait for the plan."""
DSN_VARIABLE = "HEADRACE_CAPTURE_DSN"


@dataclass
class RunningCapture:
    """A capture that runs since `started_at`, or will again at `retry_at` (monotonic seconds)."""

    settings: CaptureSettings | FolderStream
    process: subprocess.Popen[bytes] | None = None
    thread: threading.Thread | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    failures: int = 0
    started_at: float = 0.0
    retry_at: float = 0.0
    error: str | None = None
    hint: str | None = None

    @property
    def sources(self) -> frozenset[str]:
        if isinstance(self.settings, FolderStream):
            return frozenset((self.settings.source,))
        return frozenset(table.source for table in self.settings.tables)


@dataclass
class Captures:
    folder: Folder
    environment: Mapping[str, str]
    in_processes: bool = True
    running: dict[str, RunningCapture] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._turn = threading.Lock()
        self._ending = False

    def run(self, plan: Plan, databases: tuple[SourceDatabase, ...]) -> None:
        """Captures these, beside what is captured already; a process goes over to other tables as it runs."""
        wanted: dict[str, CaptureSettings | FolderStream] = {
            **{database.name: self._settings(plan, database) for database in databases},
            **folder_streams(plan.catalogue, _sources_read(plan), self.folder.project, self.environment),
        }
        with self._turn:
            for name, settings in wanted.items():
                if name in self.running and self.running[name].settings != settings:
                    if _go_over(self.folder, self.running[name], settings):
                        continue
                    _end(self.running.pop(name), Deadline(END_WITHIN_S))
                if name not in self.running:
                    self.running[name] = RunningCapture(settings)
                    self._start(self.running[name])

    def keep_only(self, plan: Plan, databases: tuple[SourceDatabase, ...]) -> None:
        """Ends all captures but these; what they made in their databases stays."""
        wanted = {database.name for database in databases} | set(folder_databases(plan.catalogue, _sources_read(plan)))
        self._end_those(lambda name, _: name not in wanted)

    def end_of(self, sources: Collection[str]) -> None:
        """Ends all captures that capture one of these sources, until somebody asks for them again."""
        self._end_those(lambda _, running: not running.sources.isdisjoint(sources))

    def _end_those(self, chosen: Callable[[str, RunningCapture], bool]) -> None:
        with self._turn:
            names = [name for name, running in self.running.items() if chosen(name, running)]
            ended = [self.running.pop(name) for name in names]
        for running in ended:
            _tell_to_end(running)
        deadline = Deadline(WITHDRAWN_END_WITHIN_S)
        for running in ended:
            _end(running, deadline)

    def are_settled(self, ledger: Ledger) -> bool:
        """Whether every capture of a database captures what it was told last, and nothing else any more."""
        noted = read_notes(ledger, CapturingTables)
        with self._turn:
            told = [one.settings for one in self.running.values() if isinstance(one.settings, CaptureSettings)]
        return all(noted.get(one.database) == CapturingTables(one.database, one.digest) for one in told)

    def _settings(self, plan: Plan, database: SourceDatabase) -> CaptureSettings:
        return CaptureSettings(
            project=project_on_this_machine(plan.catalogue.project, self.folder),
            database=database.name,
            dsn=fill(database.dsn, self.environment),
            tables=tuple(make_captured_table(plan.catalogue.sources[name]) for name in database.sources),
            scratch=self.folder.capture(database.name),
        )

    def check(self) -> None:
        """Starts again what has ended."""
        with self._turn:
            for running in () if self._ending else self.running.values():
                if running.process is not None and running.process.poll() is not None:
                    _close_pipe(running.process)
                    self._note_failure(running, _ending(running.process.returncode))
                    running.process = None
                if running.process is None and running.thread is None and time.monotonic() >= running.retry_at:
                    self._start(running)

    def _note_failure(self, running: RunningCapture, reason: str, hint: str | None = None) -> None:
        lasted = time.monotonic() - running.started_at > LASTED_S
        running.failures = 1 if lasted else running.failures + 1
        running.error, running.hint = reason, hint
        backoff_s = BACKOFF_S[min(running.failures, len(BACKOFF_S)) - 1]
        running.retry_at = time.monotonic() + backoff_s
        log.warning("capture of %s: %s; trying again in %s s", running.settings.database, reason, backoff_s)

    def _start(self, running: RunningCapture) -> None:
        if self._ending:
            return  # a plan on its way may still ask for it
        running.started_at = time.monotonic()
        if isinstance(running.settings, FolderStream):
            self._start_thread(running, self._watch_folder)
            return
        running.settings.scratch.mkdir(parents=True, exist_ok=True)
        if self.in_processes:
            running.process = _spawn(self.folder, running.settings)
        else:
            self._start_thread(running, self._capture_here)

    def _start_thread(self, running: RunningCapture, work: Callable[[RunningCapture, Ledger], None]) -> None:
        running.stop = threading.Event()
        running.thread = threading.Thread(target=self._guard, args=(running, work), daemon=True)
        running.thread.start()

    def _guard(self, running: RunningCapture, work: Callable[[RunningCapture, Ledger], None]) -> None:
        ledger = self.folder.ledger()
        try:
            work(running, ledger)
        except (HeadraceError, OSError) as error:
            self._note_failure(running, str(error), getattr(error, "hint", None))
        finally:
            ledger.close()
            running.thread = None

    def _capture_here(self, running: RunningCapture, ledger: Ledger) -> None:
        assert isinstance(running.settings, CaptureSettings)
        capture = Capture(running.settings, ledger, self.folder.store())
        try:
            while not running.stop.is_set():
                capture.step(0.3)
                running.failures, running.error = 0, None
        finally:
            capture.close()

    def _watch_folder(self, running: RunningCapture, ledger: Ledger) -> None:
        assert isinstance(running.settings, FolderStream)
        capture = FolderCapture(running.settings, ledger, self.folder.store(), clock_now)
        try:
            while not running.stop.wait(LOOK_EVERY_S):
                capture.step()
                running.failures, running.error = 0, None
        finally:
            capture.close()

    def tell_to_end(self) -> None:
        """Ends all captures for good. Waits for nothing, not even for a thread that is starting or ending one."""
        self._ending = True
        for running in list(self.running.values()):
            _tell_to_end(running)

    def end(self, deadline: Deadline) -> None:
        """One that does not end in time is killed: what it has not committed is read again."""
        self.tell_to_end()
        for running in list(self.running.values()):
            _end(running, deadline)
        self.running = {}


def _tell_to_end(running: RunningCapture) -> None:
    process = running.process
    running.stop.set()
    if process is not None:
        process.terminate()


def _end(running: RunningCapture, deadline: Deadline) -> None:
    _tell_to_end(running)
    deadline.join([running.thread])
    process = running.process
    if process is not None:
        try:
            process.wait(deadline.left_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _close_pipe(process)


def _ending(status: int) -> str:
    return f"it was killed (signal {-status})" if status < 0 else f"it ended with status {status}"


def names_of(project: str, dsn: str, folder: Folder) -> CaptureNames:
    """What a capture is called in its database; the address is as written in the project."""
    return capture_names(project_on_this_machine(project, folder), database_name(dsn))


def project_on_this_machine(project: str, folder: Folder) -> str:
    """Two checkouts of a project on one database do not share a slot."""
    return f"{project}:{folder.project.absolute()}"


def _spawn(folder: Folder, settings: CaptureSettings) -> subprocess.Popen[bytes]:
    """The address with its password goes through the environment, which other users cannot read."""
    command = [sys.executable, "-m", "headrace.connect.postgres.process", "-"]
    environment = {**os.environ, DSN_VARIABLE: settings.dsn}
    with (settings.scratch / "capture.log").open("ab") as output:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment)
    _tell(process, folder, settings)
    return process


def _tell(process: subprocess.Popen[bytes], folder: Folder, settings: CaptureSettings) -> None:
    """What it is to capture from now on."""
    config = {
        "project": settings.project,
        "database": settings.database,
        "dsn_variable": DSN_VARIABLE,
        "ledger": str(folder.root / "ledger.db"),
        "store": str(folder.root / "data"),
        "scratch": str(settings.scratch),
        "tables": [_table_config(table) for table in settings.tables],
    }
    assert process.stdin is not None
    process.stdin.write(json.dumps(config).encode() + b"\n")
    process.stdin.flush()


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    """Of a process that has ended."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _go_over(folder: Folder, running: RunningCapture, settings: CaptureSettings | FolderStream) -> bool:
    """Whether a process has been told to capture other tables of its database; others have to be started again."""
    now, process = running.settings, running.process
    if process is None or not isinstance(now, CaptureSettings) or not isinstance(settings, CaptureSettings):
        return False
    if replace(now, tables=settings.tables) != settings:
        return False
    try:
        _tell(process, folder, settings)
    except OSError:
        return False  # it has ended
    running.settings = settings
    return True


def _table_config(table: CapturedTable) -> dict[str, object]:
    return {
        "source": table.source,
        "site": table.site,
        "table": table.table,
        "columns": {name: str(type_) for name, type_ in table.columns},
        "key": list(table.key),
        "appends": table.appends,
        "static": table.static,
    }


def _sources_read(plan: Plan) -> frozenset[str]:
    return frozenset(vertex.scope[0] for vertex in plan.graph.vertices.values() if vertex.base)
