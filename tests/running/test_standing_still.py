"""Whatever stands still or is in the way of a running project is named within seconds, and goes on by itself."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.doors.cli import main
from headrace.model.errors import ConnectError
from headrace.site.sources.still import CaptureMark, compare_marks, judge_captures
from headrace.site.threads import GuardedThreads
from tests.running.running_project import RunningProject, a_project, recomputed, until
from tests.running.test_suspended import captures, suspended

NAMED_WITHIN_S = 30.0


def test_a_capture_is_named_when_it_stands_still_and_replaced_when_that_lasts() -> None:
    at = CaptureMark(1, 15.0, None)
    seen = compare_marks({}, {"us": at, "eu": at}, 100.0)
    seen = compare_marks(seen, {"us": at, "eu": CaptureMark(1, 20.0, None)}, 106.0)
    assert judge_captures(seen, 106.0).still_s == {}
    verdict = judge_captures(seen, 108.0)
    assert (dict(verdict.still_s), verdict.replace) == ({"us": 8.0}, frozenset())
    assert judge_captures(seen, 145.0).replace == {"us"}
    starting = compare_marks({}, {"us": CaptureMark(None, None, None)}, 0.0)
    assert judge_captures(starting, 20.0).still_s == {}, "it has no lease yet: it starts, on a busy machine"
    assert judge_captures(starting, 40.0).still_s == {"us": 40.0}
    told = compare_marks({}, {"us": CaptureMark(None, None, "the database does not answer")}, 0.0)
    assert judge_captures(told, 10.0).still_s == {}, "it has said why"
    assert judge_captures(told, 60.0).replace == {"us"}


def test_a_thread_that_something_outside_keeps_from_working_begins_again() -> None:
    tries = list[int]()
    threads = GuardedThreads(threading.Event())

    def work() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectError("the disk is full")

    threads.start(work, "push").join(30)
    assert len(tries) == 3 and threads.failure is None
    assert str(threads.hindrance) == "the disk is full"
    threads.start(fail, "audit").join(30)
    assert isinstance(threads.failure, ZeroDivisionError)


def fail() -> None:
    raise ZeroDivisionError


def status_of(project: RunningProject, status: int = 0) -> dict[str, Any]:
    found: dict[str, Any] = project.document("status", status=status)
    return found


def troubles_of(project: RunningProject) -> str:
    return "\n".join(f"{one['what']} | {one['hint']}" for one in status_of(project)["troubles"])


def until_named(project: RunningProject, *words: str) -> None:
    until(lambda: all(word in troubles_of(project) for word in words), f"{words} named", NAMED_WITHIN_S, 0.3)


def until_resolved(project: RunningProject) -> None:
    until(lambda: status_of(project)["troubles"] == [], "nothing is wrong any more", 60.0, 0.3)


def walsender(session: psycopg.Connection[Any]) -> int:
    query = "SELECT active_pid FROM pg_replication_slots WHERE database = current_database() AND active"
    (pid,) = session.execute(query).fetchone() or (0,)
    return int(pid)


@pytest.mark.long
def test_what_stands_still_is_named_and_holds_up_nobody_else(project: RunningProject) -> None:
    project.declare("named", "counts", more="  some_users: {view: some_users, at: us, freshness: 4 s}\n")
    project.up()
    pid = project.process()["pid"]
    until(lambda: len(captures(pid)) == 2, "both capture")
    with psycopg.connect(project.us.info.dsn, password=project.us.info.password) as locking:
        locking.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        project.eu.execute("INSERT INTO posts VALUES (5000, 3, 'while it is locked')")
        until(lambda: "while it is locked" in str(project.rows("named")), "others go on")
        states = {one["id"]: one["state"] for one in status_of(project)["contracts"]}
        assert set(states.values()) == {"kept"}, states
    first = sorted(captures(pid))[0]
    with suspended(first):
        until_named(project, f"its process {first} has stood still since", f"kill -CONT {first}")
        project.change_something(5001)
    until_resolved(project)
    sender = walsender(project.us)
    with suspended(sender):
        project.change_something(5002)
        until_named(project, f"its process {sender}, which sends them, stands still", f"kill -CONT {sender}")
    until_resolved(project)
    with suspended(pid):
        until(lambda: main.run(["status", str(project.folder)]) == 1, "it is unresponsive", NAMED_WITHIN_S)
        said = status_of(project, status=1)
        assert said["service"]["state"] == "unresponsive" and said["service"]["age_s"] > 5.0
        assert {one["state"] for one in said["contracts"]} == {"unresponsive"}
        assert "is unresponsive: these numbers are from" in project.headrace("status", status=1)
    until_resolved(project)
    stuck = sorted(captures(pid))[0]
    with suspended(stuck):
        until(lambda: stuck not in captures(pid), "it is replaced", 90.0)
        project.change_something(5003)
        project.until_equal("named", "counts")
    assert all(one["equal"] for one in recomputed(project))


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A disk of 24 MB in memory."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", folder], capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("this user may not mount a disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
        folder.rmdir()


@pytest.mark.long
def test_a_full_disk_is_named_and_everything_goes_on_once_it_has_room(
    small_disk: Path,
    postgres_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with a_project(small_disk, postgres_database(), postgres_database(), monkeypatch, capsys) as project:
        project.declare("named", "counts")
        project.up()
        pid = project.process()["pid"]
        filler = small_disk / "filler"
        fill_disk(filler)
        for number in range(20):
            project.change_something(6000 + number)
        until_named(project, "cannot be written", "make room")
        for number in range(20):
            project.change_something(7000 + number)
        filler.unlink()
        until_resolved(project)
        project.until_equal("named", "counts")
        assert project.process()["pid"] == pid
        assert all(one["equal"] for one in recomputed(project))


def fill_disk(file: Path) -> None:
    with file.open("wb") as handle:
        size = 1 << 20
        while size:
            try:
                os.write(handle.fileno(), bytes(size))
            except OSError:
                size //= 2


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, small_disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (small_disk / "views").mkdir()
    (small_disk / "views" / "all.sql").write_text("SELECT who FROM clicks")
    (small_disk / "headrace.yml").write_text(FOLDERS.format(path=tmp_path))
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for words in ([], ["--detach"]):
        assert main.run(["up", str(small_disk), "--engine=local", *words]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f'"{small_disk / ".headrace"}" cannot be written: Read-only file system' in said


FOLDERS = """
project: clicks
sites: {{us: {{}}}}
sources:
  clicks:
    kind: stream
    at: us
    time: at
    rate: 1 /s
    columns: {{at: timestamp, who: string}}
    files: {{path: "{path}", format: csv}}
contracts:
  all: {{view: all, at: us, freshness: 5 s}}
"""
