"""What commands about a running project tell people."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.app.reading import read_moment
from headrace.doors.cli import main, up
from headrace.doors.cli.output import Exit
from headrace.doors.cli.show import show_rows
from headrace.doors.cli.status_text import status_text
from headrace.doors.cli.why_text import grounds_lines
from headrace.model.errors import UsageError
from headrace.model.explanation import Grounds, SourceRate, StatisticOrigin
from headrace.model.log import Lease
from headrace.site.folder import Folder
from headrace.site.last_status import last_status
from headrace.site.process import this_process, write_process
from headrace.site.reading import Seen

CONTRACT = {
    "id": "sales",
    "lag_s": 3.84,
    "freshness_s": 30.0,
    "violations": 2,
    "cost_h": 0.0141,
    "next_push_s": 18.57,
    "state": "kept",
}
SERVICE = {"state": "running", "pid": 7, "phase": "running", "error": None, "written": 100.0}
SLOT = {"database": "us", "slot": "s", "wal_status": "reserved", "kept_bytes": 128_800}


def test_status_shows_lags_against_promises() -> None:
    document = {"contracts": [CONTRACT], "slots": [SLOT], "service": SERVICE}
    assert status_text(document, 100.5).splitlines() == [
        "running as process 7",
        "  contract  lag    promised  violations  cost       next push  state",
        "  sales     3.8 s  30 s      2           0.014 $/h  in 18.6 s  kept",
        "  us: keeps 128.8 kB of log, reserved",
    ]


def test_status_says_how_long_rows_of_streaming_contracts_take() -> None:
    streaming = {**CONTRACT, "streaming": True, "latency_s": 1.26, "longest_latency_s": 3.5}
    assert "  sales is streaming: rows of the last minute took 1.3 s, and 3.5 s at most" in status_text(
        {"contracts": [streaming], "slots": [], "service": SERVICE}, 100.0
    )
    quiet = {**CONTRACT, "streaming": True, "latency_s": None, "longest_latency_s": None}
    usual = {**CONTRACT, "latency_s": 1.26, "longest_latency_s": 3.5}
    assert "took" not in status_text({"contracts": [quiet, usual], "slots": [], "service": SERVICE}, 100.0)


def test_status_says_what_was_checked_and_what_cannot_be() -> None:
    checked = {"kind": "source", "name": "users", "found": "equal", "checked": 90.0}
    others = [
        {"kind": "view", "name": "sales", "found": "not yet checked", "checked": None},
        {"kind": "view", "name": "all", "found": "not checked", "checked": None, "reason": "it is too large"},
        {"kind": "source", "name": "a", "found": "not checked", "checked": None, "reason": "it is ours"},
        {"kind": "source", "name": "b", "found": "not checked", "checked": None, "reason": "it is ours"},
    ]
    document = {"contracts": [], "slots": [], "service": SERVICE, "checks": {"subjects": [checked, *others]}}
    assert status_text(document, 102.0).splitlines() == [
        "running as process 7",
        "  checked in the background: 1 of 3 sources and 0 of 2 views, the oldest 12.0 s",
        "    ago",
        "  view all is not checked: it is too large",
        "  sources a, b are not checked: each is ours",
    ]


def test_status_names_what_goes_wrong() -> None:
    late = {**CONTRACT, "state": "failing", "lag_s": None, "next_push_s": 0.0, "forced": True, "reason": "no disk"}
    slot = {"database": "us", "slot": "s", "error": "the database does not answer"}
    trouble = {"what": "capture of us: connection refused", "since": 130.0, "hint": "start the database"}
    document = {"contracts": [late], "slots": [slot], "service": SERVICE, "troubles": [trouble]}
    text = status_text(document, 160.0)
    assert "running as process 7, 60.0 s ago" in text
    assert "failing, forced" in text and "sales is failing: no disk" in text
    assert "us: the database does not answer" in text and "connection refused (for 30.0 s)" in text
    assert "hint: start the database" in text


def test_status_says_that_spark_is_being_restarted() -> None:
    engine = {"state": "restarting", "name": "Spark", "away_s": 12.34, "error": "no memory is left\nat java.lang"}
    document = {"contracts": [], "slots": [], "service": {**SERVICE, "engine": engine}}
    assert status_text(document, 100.0).splitlines() == [
        "running as process 7",
        "  Spark has died and is being restarted, for 12.3 s now: small pushes continue",
        "    without it; large pushes and loading wait",
        "    its last start failed: no memory is left",
    ]
    document["service"] = {**SERVICE, "engine": {"state": "running"}}
    assert status_text(document, 100.0) == "running as process 7"


MOVE = {
    "at": 88.0,
    "contracts": ["sales"],
    "because": ["orders changes 500 rows/s instead of 50"],
    "restores": [],
    "saving_h": 0.0012,
    "migration": 0.00017,
    "made": ["d:orders|orders@us~b600ec", "r:orders@us", "r:sales@eu", "r:items@eu"],
    "dropped": ["r:orders@eu"],
    "error": None,
}


def test_status_tells_what_was_moved_and_why() -> None:
    failed = {**MOVE, "restores": ["sales"], "error": "the disk is full\ntraceback"}
    document = {"contracts": [], "slots": [], "service": SERVICE, "moves": [MOVE, failed]}
    assert status_text(document, 100.0).splitlines() == [
        "running as process 7",
        "  moved sales 12.0 s ago",
        "    because orders changes 500 rows/s instead of 50",
        "    saves 0.0012 $/h, moving cost 0.00017 $; made changes of orders at us,",
        "      orders at us, sales at eu and 1 more; dropped orders at eu",
        "  could not move sales 12.0 s ago",
        "    because orders changes 500 rows/s instead of 50",
        "    the running plan stays in place: the disk is full",
    ]


def test_answers_about_what_runs_say_where_their_rates_are_from() -> None:
    rates = (
        SourceRate("orders", 512.3456, StatisticOrigin.MEASURED, 50.0),
        SourceRate("items", 3.0, StatisticOrigin.MEASURED, None),
        SourceRate("customers", 2.0, StatisticOrigin.DECLARED, 2.0),
        SourceRate("tags", 1.0, StatisticOrigin.ASSUMED, None),
    )
    assert list(grounds_lines(Grounds(True, rates, 1.25))) == [
        "based on the running plan, with these numbers",
        "  orders     512 rows/s  measured, 50 rows/s declared",
        "  items      3 rows/s    measured",
        "  customers  2 rows/s    declared",
        "  tags       1 row/s     assumed",
        "  pushes take 1.2 times as long as planned",
    ]
    assert list(grounds_lines(Grounds(False, rates, None))) == []


def test_a_service_that_is_gone_without_a_word_has_failed(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.prepare()
    folder.write_json("status.json", {"contracts": [dict(CONTRACT)], "slots": [], "service": SERVICE})
    found = last_status(folder)
    assert found is not None and found["service"]["state"] == "failed"
    assert found["contracts"][0]["state"] == "stopped"
    assert found["contracts"][0]["reason"] == "the service failed: its process is gone"
    assert "`headrace up` continues" in status_text(found, 200.0)


def test_a_service_that_stands_still_is_unresponsive_and_says_how_old_its_numbers_are(tmp_path: Path) -> None:
    folder, now = Folder(tmp_path), time.time()
    folder.prepare()
    write_process(folder, this_process(Lease("service", "me", 1), 0, "", folder))
    service = {**SERVICE, "pid": os.getpid(), "written": now - 4.0}
    document: dict[str, object] = {"contracts": [dict(CONTRACT)], "slots": [], "troubles": [], "service": service}
    folder.write_json("status.json", document)
    fresh = last_status(folder)
    assert fresh is not None and fresh["service"]["state"] == "running" and fresh["troubles"] == []
    folder.write_json("status.json", {**document, "service": {**service, "written": now - 30.0}})
    found = last_status(folder)
    assert found is not None and found["service"]["state"] == found["contracts"][0]["state"] == "unresponsive"
    assert found["contracts"][0]["reason"].endswith("it last wrote its status 30 s ago")
    (trouble,) = found["troubles"]
    assert trouble["since"] == now - 30.0 and f"kill -CONT {os.getpid()}" in trouble["hint"]
    assert "is unresponsive: these numbers are from" in status_text(found, now) and "30.0 s ago" in status_text(
        found, now
    )


@pytest.mark.parametrize("command", [["status"], ["audit"], ["show", "sales"], ["changes", "sales"], ["apply"]])
def test_what_never_ran_cannot_be_looked_at(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *view = command
    (tmp_path / "headrace.yml").write_text("project: shop\n")
    assert main.run([name, *view, str(tmp_path)]) == Exit.WRONG_USE
    assert "hint: start it with `headrace up`" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["status"], ["audit"], ["show", "sales"], ["changes", "sales"]])
def test_a_folder_without_a_project_is_named(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *view = command
    assert main.run([name, *view, str(tmp_path / "nowhere")]) == Exit.WRONG_USE
    assert "it has no headrace.yml" in capsys.readouterr().err


def test_down_of_what_does_not_run_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["down", str(tmp_path)]) == Exit.DONE
    assert capsys.readouterr().out == "the project is not running\n"


def test_up_makes_nothing_where_there_is_no_project(tmp_path: Path) -> None:
    assert main.run(["up", str(tmp_path)]) == Exit.WRONG_USE
    assert main.run(["up", str(tmp_path), "--detach"]) == Exit.WRONG_USE
    assert list(tmp_path.iterdir()) == []


def test_times_are_microseconds_or_written_as_people_do() -> None:
    assert read_moment("1709209815000000") == 1709209815000000
    assert read_moment("2024-02-29T12:30:15Z") == read_moment("2024-02-29T14:30:15+02:00") == 1709209815000000
    assert read_moment("2024-02-29T12:30:15.000001") == 1709209815000001
    assert read_moment(None) is None
    with pytest.raises(UsageError):
        read_moment("yesterday")


def test_rows_that_do_not_fit_are_shown_one_column_on_a_line() -> None:
    rows = pa.table({"id": [1, 2], "a_long_name_of_a_column": ["x" * 40, None], "text": ["word " * 30, "short"]})
    lines = show_rows(Seen("v", "c", 0, 1.0, 30.0, rows, 0.0), 20).splitlines()
    assert lines[0] == "row 1"
    assert lines[1] == "  id                       1"
    assert max(map(len, lines)) <= 80
    assert lines[-1].startswith("2 rows, as of ")
    narrow = show_rows(Seen("v", "c", 0, 1.0, 30.0, rows.select(["id"]), 0.0), 20)
    assert narrow.splitlines()[:3] == ["id", "1", "2"]


def test_a_service_goes_on_if_its_output_goes_to_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full").open("w")  # noqa: SIM115 (closing it fails)
    monkeypatch.setattr("sys.stdout", full)
    up._say("the disk is full")
    up._say_json("the disk is full")
    monkeypatch.undo()
    with suppress(OSError):
        full.close()
