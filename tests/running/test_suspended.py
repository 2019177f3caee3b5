"""A project some of whose processes stand still for a while: the service, a capture, a database."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.processes import birth_of
from headrace.site.folder import Folder
from headrace.site.process import read_process, this_process, write_process
from tests.running.running_project import RunningProject, a_project, children, load, passed, recomputed, until

FRESHNESS_S = 4.0
SHORT_S = 9.0
LONG_S = 60.0
"""Longer than leases last, and than a database waits for who reads its log."""


@contextmanager
def suspended(*pids: int) -> Iterator[None]:
    """Processes that end when they go on are none of our concern."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            if birth_of(pid) is not None:
                os.kill(pid, signal.SIGCONT)


def captures(pid: int) -> set[int]:
    return {one for one in children(pid) if b"connect.postgres.process" in Path(f"/proc/{one}/cmdline").read_bytes()}


def lag(project: RunningProject) -> float:
    """Of the view that is furthest behind, by what is in the ledger now."""
    return max(float(project.document("show", view)["lag_s"]) for view in ("named", "counts"))


def audited(project: RunningProject) -> list[dict[str, Any]]:
    ledger = open_sqlite(project.folder / ".headrace" / "ledger.db")
    try:
        return [json.loads(text) for text in ledger.notes("audit:").values()]
    finally:
        ledger.close()


def is_short_again(project: RunningProject, seconds: float) -> None:
    """The lag is less than it was at the end of the pause; on a busy machine it may not be much less."""
    until(lambda: lag(project) < min(seconds - 1.0, 10.0), "lags are short again", within_s=120.0)


def is_right_again(project: RunningProject, seconds: float) -> None:
    is_short_again(project, seconds)
    project.until_equal("named", "counts")
    assert all(one["equal"] for one in recomputed(project))


@pytest.mark.long
@pytest.mark.parametrize("seconds", [SHORT_S, LONG_S])
def test_a_service_that_stood_still_goes_on_and_owns_up_to_it(project: RunningProject, seconds: float) -> None:
    project.declare("named", "counts")
    project.up()
    pid = project.process()["pid"]
    with load(project, 1000):
        until(lambda: [bool(one["intervals"]) for one in audited(project)] == [True, True], "it is watched")
        before = audited(project)
        with suspended(pid):
            until(passed(seconds), "it stands still", seconds + 60.0)
            assert lag(project) > seconds - FRESHNESS_S
        is_short_again(project, seconds)
    is_right_again(project, seconds)
    until(lambda: all(one["episodes"] for one in audited(project)), "it is counted")
    for was, now in zip(before, audited(project), strict=True):
        assert now["episodes"] > was["episodes"]
        assert now["bad_intervals"] - was["bad_intervals"] >= (seconds - FRESHNESS_S) // 5
        assert seconds - FRESHNESS_S < now["worst_lag_s"] < seconds + 120
    assert project.process()["pid"] == pid
    said = (project.folder / ".headrace" / "service.log").read_text()
    assert ("suspended for" in said) is (seconds > 30)


def test_a_service_that_lost_its_project_meanwhile_ends_and_leaves_it_to_the_other(project: RunningProject) -> None:
    project.declare("named", "counts")
    project.up()
    pid = project.process()["pid"]
    folder = Folder(project.folder)
    an_hour_later = open_sqlite(project.folder / ".headrace" / "ledger.db", clock=lambda: time.time() + 3600)
    try:
        with suspended(pid):
            lease = an_hour_later.acquire("service", "another", 3600)
            times = an_hour_later.times()
            write_process(folder, this_process(lease, 0, "", folder))
            project.change_something(1000)
        until(lambda: birth_of(pid) is None, "it has ended")
        assert all(birth_of(one) is None for one in captures(pid))
        an_hour_later.renew(lease, 3600)
        left = read_process(folder)
        assert left is not None
        assert left.holder == "another"
        views = [name for name in times if not name.startswith("spool:")]
        assert {name: an_hour_later.times()[name] for name in views} == {name: times[name] for name in views}
        said = (project.folder / ".headrace" / "up.errors").read_text()
        assert "Traceback" not in said
        assert "taken over" in said
        an_hour_later.release(lease)
        folder.remove("service.json")
    finally:
        an_hour_later.close()
    project.up()
    project.until_equal("named", "counts")


@pytest.mark.long
@pytest.mark.parametrize("replaced", [False, True])
def test_a_capture_that_stood_still_shows_as_lag_and_loses_nothing(project: RunningProject, replaced: bool) -> None:
    """One that stands still for long is replaced."""
    project.declare("named", "counts")
    project.up()
    seconds = 6.0
    with load(project, 1000):
        with suspended(*captures(project.process()["pid"])):
            until(passed(seconds), "they stand still", seconds + 60.0)
            assert lag(project) > seconds - 1.0
            if replaced:
                is_short_again(project, seconds)
        is_short_again(project, seconds)
    is_right_again(project, seconds)


@pytest.fixture
def with_server(
    tmp_path: Path,
    postgres_database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[tuple[RunningProject, int]]:
    """A project that runs, and the main process of the server that posts are in and "named" is delivered to."""
    place = Path(tempfile.mkdtemp(prefix="headrace-tests-"))
    try:
        with (
            EmbeddedPostgres(place, {"fsync": "off"}) as server,
            a_project(tmp_path, postgres_database(), server.dsn(), monkeypatch, capsys) as project,
        ):
            project.declare("named", "counts")
            project.up()
            project.change_something(1000)
            project.until_equal("named", "counts")
            (main,) = {pid for pid in children(os.getpid()) if str(place).encode() in command(pid)}
            yield project, main
    finally:
        shutil.rmtree(place, ignore_errors=True)


def command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("seconds", [6.0, LONG_S + 15.0])
def test_a_database_that_stood_still_shows_as_lag_and_loses_nothing(
    with_server: tuple[RunningProject, int], seconds: float
) -> None:
    project, main = with_server
    with suspended(main, *children(main)):
        until(passed(seconds), "it stands still", seconds + 60.0)
        assert lag(project) > seconds - 1.0
        assert {one["state"] for one in project.document("status")["contracts"]} == {"late"}
    project.change_something(1001)
    is_right_again(project, seconds)


@pytest.mark.long
def test_a_service_ends_soon_although_a_database_stands_still(with_server: tuple[RunningProject, int]) -> None:
    project, main = with_server
    project.change_something(1001)
    with suspended(main, *children(main)):
        until(passed(SHORT_S), "all that asks it waits for it")
        began = time.monotonic()
        project.document("down")
        assert time.monotonic() - began < 15.0
    project.change_something(1002)
    project.up()
    is_right_again(project, SHORT_S)
