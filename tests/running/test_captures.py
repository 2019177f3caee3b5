"""Captures that end: each is started again, and told for as long as it stands still."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.model.types import BIGINT
from headrace.run.ports import Ledger, Store
from headrace.run.source_port import CaptureProcess, CaptureTask, SourceCapture
from headrace.site.deadline import Deadline
from headrace.site.folder import Folder
from headrace.site.sources.captures import LASTED_S, Captures, RunningCapture
from headrace.site.sources.troubles import HELD_BACK, find_held_up_sources, report_source_troubles
from headrace.site.troubles import Troubles
from tests.connect.simulated_source import LISTS, SimulatedList, SimulatedTask


@dataclass(frozen=True)
class ScriptTask(CaptureTask):
    """A capture process that is a script in a folder."""

    folder: Path
    line: bytes = b"\n"
    in_own_process = True
    name = "us"
    sources = frozenset({"users"})

    def open(self, ledger: Ledger, store: Store) -> SourceCapture:
        raise NotImplementedError

    def make_process(self, ledger: Path, store: Path) -> CaptureProcess:
        return CaptureProcess("script_of_capture", {"PYTHONPATH": str(self.folder)}, self.line)


@dataclass
class Started:
    folder: Folder
    captures: Captures
    ledger: Ledger
    troubles: Troubles = field(default_factory=Troubles)

    def add(self, task: CaptureTask) -> RunningCapture:
        self.captures.running[task.name] = RunningCapture(task)
        self.captures.check()
        return self.captures.running[task.name]

    def write_script(self, text: str) -> ScriptTask:
        (self.folder.project / "script_of_capture.py").write_text(text)
        return ScriptTask(self.folder.project)

    def find_troubles(self) -> dict[str, str]:
        report_source_troubles(self.troubles, self.ledger, self.captures)
        return {key: one.what for key, one in self.troubles.all().items()}

    def check_until(self, condition: Callable[[], bool]) -> None:
        deadline = Deadline(30.0)
        while not condition():
            assert deadline.left_s > 0.0
            self.captures.check()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    folder = Folder(tmp_path)
    folder.prepare()
    captures = Captures(folder, {})
    with closing(folder.ledger()) as ledger:
        yield Started(folder, captures, ledger)
        captures.end(Deadline(10.0))


def kill(running: RunningCapture) -> None:
    assert running.process is not None
    os.kill(running.process.pid, signal.SIGKILL)
    running.process.wait()


def test_a_capture_that_was_killed_once_holds_its_sources_up_no_longer_than_it_takes_to_start_it(
    started: Started,
) -> None:
    running = started.add(started.write_script("import sys; sys.stdin.read()"))
    kill(running)
    started.check_until(lambda: running.failures == 1 and running.process is not None)
    assert find_held_up_sources(started.ledger, started.captures) == {}
    kill(running)
    started.check_until(lambda: running.failures == 2 and running.process is not None)
    why = "it was killed (signal 9)"
    assert find_held_up_sources(started.ledger, started.captures) == {"users": why}
    assert started.find_troubles() == {"capture:us": f"capture of us: {why}"}
    running.started_at -= LASTED_S
    started.captures.check()
    assert find_held_up_sources(started.ledger, started.captures) == {}
    assert started.find_troubles() == {}


def test_a_capture_that_ends_again_and_again_is_a_trouble_whose_hint_names_its_log(started: Started) -> None:
    running = started.add(started.write_script("raise SystemExit(3)"))
    started.check_until(lambda: running.failures == 2)
    assert started.find_troubles() == {"capture:us": "capture of us: it ended with status 3"}
    assert "capture/us/capture.log" in started.troubles.all()["capture:us"].hint


def test_a_process_that_ends_before_it_was_told_what_to_capture_is_started_again(started: Started) -> None:
    task = started.write_script("raise SystemExit(3)")
    running = started.add(ScriptTask(task.folder, line=b"x" * 1_000_000))  # more than a pipe holds
    started.check_until(lambda: running.failures == 2)
    assert running.error == "it ended with status 3"


def test_a_process_that_cannot_be_started_is_tried_again(started: Started) -> None:
    task = started.write_script("import sys; sys.stdin.read()")
    in_its_way = started.folder.root / "capture"
    in_its_way.write_text("")
    running = started.add(task)
    assert running.error is not None and "it could not be started" in running.error
    in_its_way.unlink()
    started.check_until(lambda: running.process is not None)


def test_a_capture_in_a_thread_is_tried_again_when_the_ledger_could_not_be_opened(started: Started) -> None:
    file = started.folder.root / "ledger.db"
    started.ledger.close()
    kept = file.rename(file.with_name("kept.db"))
    file.write_text("this is no database at all" * 100)
    running = started.add(SimulatedTask("users", "us", (), "nothing"))
    started.check_until(lambda: running.failures == 1)
    assert running.error is not None
    kept.rename(file)
    started.check_until(lambda: running.error == "KeyError: 'nothing'")


def test_a_capture_in_a_thread_that_is_held_back_reads_nothing_until_it_is_not_any_more(started: Started) -> None:
    LISTS["held"] = SimulatedList([(1,)])
    running = started.add(SimulatedTask("users", "us", (("id", BIGINT),), "held"))
    started.check_until(lambda: LISTS["held"].confirmed == 1)
    started.captures.hold_back(frozenset({"users"}))
    started.check_until(lambda: not running.is_alive)
    LISTS["held"].rows.append((2,))
    started.captures.check()
    assert not running.is_alive and started.captures.find_held_back() == {"users"}
    assert find_held_up_sources(started.ledger, started.captures) == {"users": HELD_BACK}
    assert started.find_troubles() == {}, "whoever holds it back tells why"
    started.captures.hold_back(frozenset())
    started.check_until(lambda: LISTS["held"].confirmed == 2)
    assert find_held_up_sources(started.ledger, started.captures) == {}


def test_a_capture_in_a_process_goes_on_though_it_should_be_held_back(started: Started) -> None:
    """A database keeps what nobody reads, until its disk is full."""
    running = started.add(started.write_script("import sys; sys.stdin.read()"))
    started.captures.hold_back(frozenset({"users"}))
    started.captures.check()
    assert running.is_alive and started.captures.find_held_back() == frozenset()
