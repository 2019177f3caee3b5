"""A project through clocks that are wrong, jump and stand still: those of a database, and the service's own."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from tests.running.running_project import RunningProject, a_project, load, passed, recomputed, until
from tests.shifted_clock import HOUR_S, ShiftedClock

FAR_S = 60.0
"""More than a lag gets on a busy machine, and much less than an hour."""


@contextmanager
def rising_times(folder: Path) -> Iterator[None]:
    """No log goes back in time meanwhile."""
    stop, ledger = threading.Event(), open_sqlite(folder / ".headrace" / "ledger.db")
    went_back: list[str] = []

    def watch() -> None:
        before = dict(ledger.times())
        while not stop.wait(0.05):
            now = dict(ledger.times())
            went_back.extend(name for name in before if now.get(name, before[name]) < before[name])
            before = now

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        ledger.close()
    assert not went_back


def status(project: RunningProject) -> Any:
    """As the service itself wrote it, by its own clock."""
    return json.loads((project.folder / ".headrace" / "status.json").read_text())


def lags(project: RunningProject) -> list[float]:
    return [one["lag_s"] for one in status(project)["contracts"] if one["lag_s"] is not None]


def worst_lag(project: RunningProject) -> float:
    ledger = open_sqlite(project.folder / ".headrace" / "ledger.db")
    try:
        return float(max(json.loads(text)["worst_lag_s"] for text in ledger.notes("audit:").values()))
    finally:
        ledger.close()


def pushes(project: RunningProject) -> int:
    return int(status(project)["service"]["pushes"])


@pytest.mark.long
@pytest.mark.parametrize("ahead", [-HOUR_S, HOUR_S])
def test_a_database_whose_clock_is_wrong_and_jumps_has_right_lags_and_loses_nothing(
    tmp_path: Path,
    postgres_dsn: str,
    shifted_dsn: str,
    clock: ShiftedClock,
    ahead: float,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock.set(ahead)
    with a_project(tmp_path, postgres_dsn, shifted_dsn, monkeypatch, capsys) as project:
        project.declare("named", "counts")
        project.up()
        with rising_times(project.folder):
            with load(project, 1000):
                until(passed(5.0), "it has run for a while")
                assert max(lags(project)) < FAR_S
            project.until_equal("named", "counts")
            assert f"{'ahead of' if ahead > 0 else 'behind'} ours" in project.headrace("doctor", status=1)
            assert all(one["equal"] for one in recomputed(project))
            with load(project, 2000):
                clock.set(0.0)
                until(passed(5.0), "it has run for a while")
                assert max(lags(project)) < FAR_S
            project.until_equal("named", "counts")
            assert all(one["equal"] for one in recomputed(project))
        assert worst_lag(project) < FAR_S


@pytest.mark.long
def test_the_service_goes_on_through_jumps_of_its_own_clock_and_while_it_stands_still(
    tmp_path: Path,
    postgres_database: Callable[[], str],
    clock: ShiftedClock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock.set()
    monkeypatch.setenv("LD_PRELOAD", os.fspath(clock.library))
    with a_project(tmp_path, postgres_database(), postgres_database(), monkeypatch, capsys) as project:
        project.declare("named", "counts")
        project.up()
        monkeypatch.delenv("LD_PRELOAD")
        pid = project.process()["pid"]
        with rising_times(project.folder), load(project, 1000):
            for ahead in (HOUR_S, 0.0):
                clock.set(ahead)
                before = pushes(project)
                until(passed(4.0), "it has run for a while")
                until(lambda before=before: pushes(project) > before, "it pushes")  # type: ignore[misc]
                until(lambda: max(lags(project)) < 10.0, "lags are right again")
                assert min(lags(project)) >= 0.0
                assert pushes(project) - before < 200
            clock.stop()
            until(passed(2.0), "what was due has been pushed")
            before = pushes(project)
            until(passed(4.0), "it stands still")
            assert pushes(project) - before < 60
            assert min(lags(project)) >= 0.0
            clock.set()
            until(passed(2.0), "it goes on")
        project.until_equal("named", "counts")
        assert all(one["equal"] for one in recomputed(project))
        assert project.process()["pid"] == pid
        log = (project.folder / ".headrace" / "service.log").read_text()
        assert "Traceback" not in log
