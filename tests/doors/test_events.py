"""`headrace events`: what happened, in words and as JSON lines, from the ledger of a project that does not run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.app.happened import read_events
from headrace.doors.cli import main
from headrace.model.event_wire import EventsAsked
from headrace.model.events import ContractKeptAgain, ContractLate, Event, ServiceStarted, UnknownEvent
from headrace.model.log import Commit
from headrace.model.push_events import DatasetsPushed
from headrace.site.folder import Folder

AT = 1_772_442_847_000_000
WHY = "capture of eu_dsn: the database does not answer, or nobody listens at its address"


def commit(folder: Path, *events: Event) -> None:
    with closing(Folder(folder).ledger()) as ledger:
        lease = ledger.acquire("service", "here", 60)
        ledger.commit(lease, Commit(events=events))
        ledger.release(lease)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "headrace.yml").write_text("project: shop\n")
    commit(
        tmp_path,
        ServiceStarted(AT, 77),
        DatasetsPushed(AT + 1, 3, 10, contracts=("counts",)),
        ContractLate(AT + 2_000_000, "counts", 24.02, 20.0, reason=WHY),
        DatasetsPushed(AT + 3_000_000, 3, 10, contracts=("counts",)),
        ContractKeptAgain(AT + 4_000_000, "counts", 1.0, 20.0, 2.0),
        UnknownEvent(AT + 5_000_000, "danced", {"with": "eu"}),
    )
    return tmp_path


def test_events_are_told_in_words_that_fit_a_page(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["events", str(project)]) == 0
    said = capsys.readouterr().out
    assert said == (
        "2026-03-02 09:14:07  the service started as process 77\n"
        '2026-03-02 09:14:09  contract "counts" is late: 24 s behind; the promise is\n'
        "                     20 s: capture of eu_dsn: the database does not answer, or\n"
        "                     nobody listens at its address\n"
        '2026-03-02 09:14:11  contract "counts" is kept again after 2 s: 1 s behind\n'
        "2026-03-02 09:14:12  another version of Headrace wrote this event\n"
    )


def test_events_as_json_are_lines_of_six_fields(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["events", str(project), "--json", "--contract", "counts"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == {
        "at": AT / 1e6 + 2,
        "kind": "late",
        "about": {"contracts": ["counts"]},
        "text": 'contract "counts" is late: 24 s behind; the promise is 20 s',
        "reason": WHY,
        "numbers": {"lag_s": 24.02, "freshness_s": 20.0},
    }
    assert [line["kind"] for line in lines] == ["late", "kept again"]
    assert main.run(["events", str(project), "--json", "--all", "--limit", "4"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["kind"] for line in lines] == ["late", "pushed", "kept again", "danced"]


def test_whoever_follows_gets_what_comes_once(project: Path) -> None:
    stop = threading.Event()

    def follow() -> Iterator[Event]:
        return read_events(project, EventsAsked(limit=1, contract="counts"), stop)

    events = follow()
    assert next(events).kind == "kept again"
    commit(project, ServiceStarted(AT, 78), ContractLate(AT, "counts", 2.0, 1.0), ContractLate(AT, "other", 2.0, 1.0))
    assert next(events) == ContractLate(AT, "counts", 2.0, 1.0)
    commit(project, ContractKeptAgain(AT, "counts", 0.5, 1.0))
    assert next(events).kind == "kept again"
    stop.set()
    assert list(events) == []


def test_a_project_without_state_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "headrace.yml").write_text("project: shop\n")
    assert main.run(["events", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f'error: the project in "{tmp_path}" has not run yet\n  hint: start it with `headrace up`\n'
    )
    assert main.run(["events", str(tmp_path / "none"), "--json"]) == 2
    (problem,) = json.loads(capsys.readouterr().out)["errors"]
    assert problem["message"] == f'no project in "{tmp_path / "none"}": it has no headrace.yml'
