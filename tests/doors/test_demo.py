"""The demo, as a newcomer starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from headrace.app.checking import check_project
from headrace.app.project import sample_project
from headrace.doors.cli.main import run
from headrace.model.errors import Severity

pytestmark = pytest.mark.live

DEMO = [sys.executable, "-m", "headrace", "demo"]
KEPT = {"wall", "nearby", "busy", "visitors", "visitors_eu", "pictures", "talkers"}
FEED_VIEWS = {"home/newest", "home/pairs", "home/stored"}


def leftovers() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("headrace-demo-*")}


def test_the_sample_apps_have_no_mistakes_but_addresses_that_are_not_known_yet() -> None:
    folder = sample_project("apps")
    assert folder is not None
    report = check_project(folder, {})
    assert report.of(Severity.ERROR) == ()
    assert all("is not set" in problem.message for problem in report.problems)


@pytest.mark.long
def test_every_view_of_the_demo_equals_its_query() -> None:
    before = leftovers()
    ended = subprocess.run([*DEMO, "--for", "5s", "--json"], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    document = json.loads(ended.stdout)
    assert document["ok"]
    assert {one["id"] for one in document["contracts"]} == KEPT
    assert [one["id"] for one in document["rejected"]] == ["adverts"]
    assert {one["contract"] for one in document["recompute"] if one["equal"]} == KEPT | FEED_VIEWS
    assert document["feed"]["compared"] == 25
    assert document["feed"]["different"] == []
    assert document["written_rows"] > 0
    assert document["cost_h"] < document["separate_cost_h"]
    assert leftovers() == before


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_demo_that_is_stopped_while_it_starts_leaves_nothing_behind(number: signal.Signals) -> None:
    before = leftovers()
    process = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    assert process.stderr is not None
    assert b"starting" in process.stderr.readline()
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130
    assert b"Traceback" not in said
    assert leftovers() == before
    assert members_of(process.pid) == []


@pytest.mark.long
def test_a_demo_that_is_stopped_twice_while_it_keeps_views_fresh_leaves_nothing_behind() -> None:
    before = leftovers()
    process = subprocess.Popen(DEMO, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if b"behind: " in line:
            break
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: captures and databases hear it as well
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=120)
    assert process.returncode in (0, 130)
    assert leftovers() == before
    assert members_of(process.pid) == []


def members_of(session: int) -> list[str]:
    """Processes of a session, the moment that those who are ending may take aside."""
    until = time.monotonic() + 10
    while True:
        found = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit() and _is_of(entry, session)]
        if not found or time.monotonic() > until:
            return found


def _is_of(process: Path, session: int) -> bool:
    try:
        return os.getsid(int(process.name)) == session
    except OSError:
        return False


def test_how_long_it_runs_is_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", "--for", "a while"]) == 2
    assert "hint: " in capsys.readouterr().err
