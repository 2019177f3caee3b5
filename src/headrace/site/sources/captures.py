"""Runs the captures of a service, each as a process or a thread as its kind asks, and restarts them."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from headrace.connect.files import open_private
from headrace.connect.sources import connector_of
from headrace.model.catalogue import Catalogue
from headrace.model.errors import HeadraceError
from headrace.model.notes import CapturingTables, read_notes
from headrace.model.push_events import CaptureEnded
from headrace.run.ports import Ledger
from headrace.run.source_port import CaptureProcess, CaptureTask, SourceDatabase
from headrace.site.deadline import Deadline
from headrace.site.folder import Folder
from headrace.site.journal import Journal
from headrace.site.process import module_command
from headrace.site.sources.databases import place_of
from headrace.site.sources.still import StillSince, compare_marks, judge_captures, take_marks

log = logging.getLogger("headrace.capture")

BACKOFF_S = (0.2, 0.5, 1.0, 2.0, 5.0)
LASTED_S = 10.0
"""A capture that ran for this long was well: its end counts as its first failure."""
STEP_S = 0.3
"""How long a capture in a thread waits for changes before it looks whether to end."""
END_WITHIN_S = 20.0
WITHDRAWN_END_WITHIN_S = 2.0
"""What a capture that nobody needs any more has not committed may be lost: others wait for the plan."""


@dataclass
class RunningCapture:
    """A capture that runs since `started_at`, or will again at `retry_at` (monotonic seconds)."""

    task: CaptureTask
    process: subprocess.Popen[bytes] | None = None
    thread: threading.Thread | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    failures: int = 0
    started_at: float = 0.0
    retry_at: float = 0.0
    error: str | None = None
    hint: str | None = None
    still_since: float | None = None
    """Since when its process makes no step, in seconds since 1970; None if it does, or has said why it does not."""

    @property
    def is_alive(self) -> bool:
        """A process counts until somebody has looked how it ended."""
        return self.process is not None or (self.thread is not None and self.thread.is_alive())

    @property
    def standstill(self) -> str | None:
        """Why nothing more comes of it. A process that ended once is told as an event: it is started again at once."""
        return None if self.task.in_own_process and self.failures == 1 else self.error

    def note_progress(self) -> None:
        self.failures, self.error, self.hint = 0, None, None


@dataclass
class Captures:
    folder: Folder
    environment: Mapping[str, str]
    in_processes: bool = True
    journal: Journal = field(default_factory=Journal)
    running: dict[str, RunningCapture] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Held while captures start and end, which may take seconds: whoever loads a plan waits for the audit, and the
        # audit for whoever loads. Nobody who has the turn to push takes it.
        self._turn = threading.Lock()
        self._ending = False
        self._held_back: frozenset[str] = frozenset()
        self._seen: dict[str, StillSince] = {}
        self._seen_of: dict[str, subprocess.Popen[bytes] | None] = {}

    def run(self, catalogue: Catalogue, databases: tuple[SourceDatabase, ...]) -> None:
        """Captures these, beside what is captured already; a process goes over to other tables as it runs."""
        wanted = {database.name: self._make_task(catalogue, database) for database in databases}
        with self._turn:
            for name, task in wanted.items():
                if name in self.running and self.running[name].task != task:
                    if _go_over(self.folder, self.running[name], task):
                        continue
                    _end(self.running.pop(name), Deadline(END_WITHIN_S))
                if name not in self.running:
                    self.running[name] = RunningCapture(task)
                    self._start(self.running[name])

    def keep_only(self, databases: tuple[SourceDatabase, ...]) -> None:
        """Ends all captures but these; what they made in their databases stays."""
        wanted = {database.name for database in databases}
        self._end_those(lambda name, _: name not in wanted)

    def end_of(self, sources: Collection[str]) -> None:
        """Ends all captures that capture one of these sources, until somebody asks for them again."""
        self._end_those(lambda _, running: not running.task.sources.isdisjoint(sources))

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
        """Whether every capture captures what it was told last, and nothing else any more."""
        noted = read_notes(ledger, CapturingTables)
        with self._turn:
            told = [settled for one in self.running.values() if (settled := one.task.settled) is not None]
        return all(noted.get(settled.database) == settled for settled in told)

    def _make_task(self, catalogue: Catalogue, database: SourceDatabase) -> CaptureTask:
        sources = [catalogue.sources[name] for name in database.sources]
        place = place_of(catalogue.project, self.folder.project, self.environment)
        scratch = self.folder.capture(database.name)
        return connector_of(database.kind).make_task(database, sources, place, scratch)

    def hold_back(self, sources: frozenset[str]) -> None:
        """Captures none of these until they are not held back any more: what they tell meanwhile stays where it is, and
        is read then. Captures in processes of their own go on, since their databases keep what nobody reads for ever.
        """
        self._held_back = sources

    def find_held_back(self) -> frozenset[str]:
        """Sources of which nothing is read because they are held back."""
        held = (one.task.sources for one in list(self.running.values()) if self._is_held_back(one))
        return frozenset().union(*held)

    def _is_held_back(self, running: RunningCapture) -> bool:
        return running.thread is not None and not running.task.sources.isdisjoint(self._held_back)

    def check(self) -> None:
        """Starts again what has ended."""
        with self._turn:
            for running in () if self._ending else self.running.values():
                if running.process is not None:
                    self._look_at_process(running, running.process)
                if not running.is_alive and time.monotonic() >= running.retry_at and not self._is_held_back(running):
                    self._start(running)

    def look_at_steps(self, ledger: Ledger) -> None:
        """Notes which processes stand still, and kills those that have for long: `check` starts others."""
        now_s = time.monotonic()
        with self._turn:
            here = {name: one for name, one in self.running.items() if one.process is not None}
            marks = take_marks(ledger, here)
            fresh = {name for name, one in here.items() if self._seen_of.get(name) is not one.process}
            self._seen = compare_marks({k: v for k, v in self._seen.items() if k not in fresh}, marks, now_s)
            self._seen_of = {name: one.process for name, one in here.items()}
            verdict = judge_captures(self._seen, now_s)
            for name, one in here.items():
                still_s = verdict.still_s.get(name)
                one.still_since = None if still_s is None else (one.still_since or time.time() - still_s)
                if name in verdict.replace and one.process is not None:
                    log.warning("capture of %s makes no step, and is replaced", name)
                    one.process.kill()

    def _look_at_process(self, running: RunningCapture, process: subprocess.Popen[bytes]) -> None:
        if process.poll() is not None:
            _close_pipe(process)
            self._note_failure(running, _ending(process.returncode))
            running.process = None
        elif _has_lasted(running):
            running.note_progress()

    def _note_failure(self, running: RunningCapture, reason: str, hint: str | None = None) -> None:
        running.failures = 1 if _has_lasted(running) else running.failures + 1
        running.error, running.hint = reason, hint
        backoff_s = BACKOFF_S[min(running.failures, len(BACKOFF_S)) - 1]
        running.retry_at = time.monotonic() + backoff_s
        if running.failures == 1:
            self.journal.emit(CaptureEnded(time.time_ns() // 1000, running.task.name, backoff_s, reason=reason))
        else:
            log.warning("capture of %s: %s; trying again in %s s", running.task.name, reason, backoff_s)

    def _start(self, running: RunningCapture) -> None:
        if self._ending:
            return  # a plan on its way may still ask for it
        running.started_at = time.monotonic()
        try:
            if running.task.in_own_process and self.in_processes:
                running.process = _spawn(self.folder, running.task)
            else:
                self._start_thread(running)
        except (OSError, RuntimeError) as error:  # no more processes or threads, or no space for its log
            self._note_failure(running, f"it could not be started: {error}")

    def _start_thread(self, running: RunningCapture) -> None:
        running.stop = threading.Event()
        running.thread = threading.Thread(target=self._guard, args=(running,), daemon=True)
        running.thread.start()

    def _guard(self, running: RunningCapture) -> None:
        try:
            with contextlib.closing(self.folder.ledger()) as ledger:
                self._capture_here(running, ledger)
        except (HeadraceError, OSError) as error:
            self._note_failure(running, str(error), getattr(error, "hint", None))
        except Exception as error:  # of a library that its kind uses, or our own mistake: neither may end in silence
            log.exception("capture of %s", running.task.name)
            self._note_failure(running, f"{type(error).__name__}: {error}")

    def _capture_here(self, running: RunningCapture, ledger: Ledger) -> None:
        capture = running.task.open(ledger, self.folder.store())
        try:
            while not running.stop.wait(running.task.pause_s) and not self._is_held_back(running):
                capture.step(STEP_S)
                running.note_progress()
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


def _has_lasted(running: RunningCapture) -> bool:
    return time.monotonic() - running.started_at > LASTED_S


def _ending(status: int) -> str:
    return f"it was killed (signal {-status})" if status < 0 else f"it ended with status {status}"


def _spawn(folder: Folder, task: CaptureTask) -> subprocess.Popen[bytes]:
    """What is secret goes through the environment, which other users cannot read."""
    made, scratch = _make_process(folder, task), folder.capture(task.name)
    command = module_command(made.module, "-")
    scratch.mkdir(parents=True, exist_ok=True)
    with open_private(scratch / "capture.log", os.O_APPEND) as output:
        environment = {**os.environ, **made.environment}
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, env=environment, umask=0o077
        )
    with contextlib.suppress(BrokenPipeError):  # it has ended already: `check` finds out how
        _tell(process, made)
    return process


def _make_process(folder: Folder, task: CaptureTask) -> CaptureProcess:
    return task.make_process(folder.root / "ledger.db", folder.root / "data")


def _tell(process: subprocess.Popen[bytes], made: CaptureProcess) -> None:
    """What it is to capture from now on."""
    assert process.stdin is not None
    process.stdin.write(made.line)
    process.stdin.flush()


def _close_pipe(process: subprocess.Popen[bytes]) -> None:
    """Closes the pipe of a process that has ended."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()


def _go_over(folder: Folder, running: RunningCapture, task: CaptureTask) -> bool:
    """Whether a process has been told to go over to another task; others have to be started again."""
    if running.process is None or not running.task.can_become(task):
        return False
    try:
        _tell(running.process, _make_process(folder, task))
    except OSError:
        return False  # it has ended
    running.task = task
    return True
