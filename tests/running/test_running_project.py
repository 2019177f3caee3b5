"""A project from `up` to `down`: as a process of its own, on real databases, through changes and a crash."""

from __future__ import annotations

import json
import os
import signal
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace.connect.processes import birth_of
from headrace.doors.cli import main
from headrace.site.folder import Folder
from tests.architecture_page import LIVES, not_passed
from tests.running.recorder import record_processes, recorded_here, recorded_processes
from tests.running.running_project import RunningProject, children, load, mapped_files, until


def get(project: RunningProject, path: str, token: str | None = None) -> tuple[int, str]:
    process = project.process()
    headers = {"Authorization": f"Bearer {process['token'] if token is None else token}"}
    request = urllib.request.Request(f"http://127.0.0.1:{process['port']}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def replayed(before: list[Any], changes: list[Any]) -> Counter[tuple[object, ...]]:
    rows = Counter(tuple(row) for row in before)
    for change in changes:
        rows[tuple(change["row"].values())] += 1 if change["op"] == "insert" else -1
    return +rows


def test_a_project_is_kept_and_read_and_changed_while_it_runs(project: RunningProject) -> None:
    project.declare("named", "counts")
    steps = [step["do"] for step in project.document("apply", "--dry-run")["steps"]]
    assert steps == ["capture", "capture", "read", "load", "load", "switch", "copy"]
    project.up()
    status = project.document("status")
    assert {contract["id"] for contract in status["contracts"]} == {"named", "counts"}
    asked_for = {"id", "lag_s", "freshness_s", "violations", "cost_h", "next_push_s", "state"}
    assert all(asked_for <= contract.keys() for contract in status["contracts"])
    project.until_equal("named", "counts")
    seen = project.document("show", "named")
    for number in range(1000, 1010):
        project.change_something(number)
    project.until_equal("named", "counts")
    lines = project.headrace("changes", "named", f"--from={seen['as_of']}").splitlines()
    assert replayed(seen["rows"], [json.loads(line) for line in lines]) == Counter(project.expected("named"))
    copied = "SELECT name, pid, body FROM named_copy"
    until(lambda: sorted(project.eu.execute(copied)) == project.expected("named"), "it is delivered")
    assert "as of" in project.headrace("show", "counts") and "(promised 4 s)" in project.headrace("show", "counts")

    assert [row[0] for row in project.document("show", "counts")["rows"]] == ["c2", "c1", "c0"], "as its ORDER BY says"
    few = project.document("show", "named", "--where=pid between 196 and 198", "--order=pid desc", "--limit=2")
    assert [row[1] for row in few["rows"]] == [198, 197]
    assert 'column "pdi" does not exist' in project.headrace("show", "named", "--where=pdi > 1", status=2)
    assert "cannot be computed for some row" in project.headrace("show", "named", "--order=1 / (pid - pid)", status=2)
    assert project.headrace("changes", "named", "--from=beginning") == project.headrace("changes", "named")
    assert project.headrace("changes", "named", "--from=1 ms") == ""
    assert '"soon" is not a time' in project.headrace("changes", "named", "--from=soon", status=2)

    table = headrace.read("counts", project.folder)
    assert table.column_names == ["country", "n", "last"] and table.num_rows == 3
    assert "measured: " in project.headrace("why", "counts")

    assert get(project, "/healthz", "") == (200, '{"state":"running"}')
    assert get(project, "/status", "wrong")[0] == 401
    assert json.loads(get(project, "/views/counts?limit=1")[1])["columns"] == ["country", "n", "last"]
    chosen = json.loads(get(project, "/views/named?where=pid%3D197&order=pid")[1])
    assert [row[1] for row in chosen["rows"]] == [197]
    assert get(project, "/views/named?where=pdi%3D197")[0] == 422
    assert get(project, "/views/nothing")[0] == 404 and get(project, "/views/counts?limit=-1")[0] == 422
    assert 'headrace_freshness_seconds{contract="named"} 4.0' in get(project, "/metrics")[1]
    assert 'headrace_prediction_error_ratio{contract="named"}' in get(project, "/metrics")[1]
    assert "https://" not in get(project, "/docs")[1]
    assert get(project, "/events", "wrong")[0] == 401 and get(project, "/events?limit=0")[0] == 422
    told = [json.loads(line) for line in get(project, "/events?contract=named&all=true&limit=9")[1].splitlines()]
    assert 1 < len(told) <= 9 and {"pushed"} <= {one["kind"] for one in told} <= {
        "plan applied",
        "pushed",
        "kept up",
        "stored",
        "late",
        "kept again",
    }
    assert all("named" in one["about"]["contracts"] for one in told)
    assert json.loads(get(project, "/events?after=0&limit=1")[1])["kind"] == "started"

    assert "is already running" in project.headrace("up", "--engine=local", status=2)
    pid = project.process()["pid"]
    captures = children(pid)
    assert captures and not any("pandas" in maps for maps in map(mapped_files, (pid, *captures)))
    assert project.document("down") == {"stopped": True, "pid": pid}
    until(lambda: not any(birth_of(one) for one in (pid, *captures)), "no process is left")
    assert project.document("down")["stopped"] is False
    assert "stopped" in project.headrace("status")
    assert f"the service stopped (process {pid})" in project.headrace("events").splitlines()[-1]


def test_contracts_come_and_go_under_load_and_a_killed_service_goes_on(
    project: RunningProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along the way, all modules that the architecture page names are passed, each where the page says so."""
    ran: dict[str, set[str]] = {life: set() for life in LIVES}
    record_processes(tmp_path, monkeypatch)
    project.declare("named", "counts")
    with recorded_here(ran["declaration"]):
        project.headrace("check", "--connect")
    with recorded_processes(tmp_path / "first", monkeypatch, ran["contract"], ran["change"]):
        with recorded_here(ran["contract"]):
            (tmp_path / "plan.json").write_text(project.headrace("plan", "--json"))
            assert main.run(["check-plan", str(tmp_path / "plan.json")]) == 0
            project.up()
        assert project.document("apply")["changed"] is False
        with load(project, 2000):
            project.declare("named", "by_body")
            change = project.document("apply", "--dry-run")
            assert change["applied"] is False and change["change"]["contracts_added"] == ["by_body"]
            with recorded_here(ran["contract"]):
                change = project.document("apply")
            assert change["change"]["contracts_removed"] == ["counts"] and change["steps"]
            assert {contract["id"] for contract in project.document("status")["contracts"]} == {"named", "by_body"}
        with recorded_here(ran["change"]):
            project.until_equal("named", "by_body")
    with load(project, 3000):
        pid = project.process()["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: birth_of(pid) is None, "it is gone")
        assert "failed" in project.headrace("status")
        project.declare("named", "by_body", "counts")
        with recorded_processes(tmp_path / "second", monkeypatch, ran["crash"]):
            project.up()
            project.change_something(4000)
            until(lambda: (4000,) in {row[1:2] for row in project.rows("named")}, "what was written since is there")
    project.until_equal("named", "by_body", "counts")
    assert "ended unexpectedly" in (project.folder / ".headrace" / "up.log").read_text()
    assert {life: not_passed(life, ran[life]) for life in LIVES} == {life: [] for life in LIVES}


@pytest.mark.long
def test_nothing_is_left_of_a_contract_that_went(project: RunningProject) -> None:
    project.declare("named", "counts")
    project.up()
    copies = "SELECT count(*) FROM pg_class WHERE relname = 'named_copy'"
    slots = "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    until(lambda: project.eu.execute(copies).fetchone() == (1,), "it is delivered")
    project.declare("by_pid")
    said = project.headrace("apply")
    assert "load by_pid at eu (" in said and "stop counts: counts at us" in said and "stop named: named at eu" in said
    assert "@" not in said, "people read no ids"
    assert project.eu.execute(copies).fetchone() == (0,)
    assert project.us.execute(slots).fetchone() == (0,)
    plan = json.loads(get(project, "/plan")[1])
    ledger = Folder(project.folder).ledger()
    kept = {vertex["id"] for vertex in plan["vertices"]} | {"spool:posts"}
    until(lambda: set(ledger.times()) == kept, "no other log is there")
    until(lambda: set(ledger.notes("loaded:")) == {"loaded:posts"}, "what comes back is read anew")
    until(lambda: set(ledger.notes("audit:")) == {"audit:by_pid"}, "nothing is owed to those that went")
    ledger.close()
    project.change_something(4000)
    project.declare("named", "by_pid")
    project.document("apply")
    project.until_equal("named")
    project.document("down")
    project.declare("by_pid")
    project.up()
    until(lambda: project.eu.execute(copies).fetchone() == (0,), "a copy that nobody wants any more is dropped")


def test_a_refused_contract_is_kept_only_when_it_is_forced(project: RunningProject) -> None:
    more = "  now: {view: counts, at: us, freshness: 10 ms}\n  soon: {view: named, at: us, freshness: 20 ms}\n"
    project.declare("named", "broken", "odd", more=more)
    project.up()
    assert [one["contract"] for one in project.document("apply", status=1)["rejected"]] == ["soon", "now"]
    forced = project.document("apply", "--force=now", status=1)
    assert [one["id"] for one in forced["contracts"] if one["forced"]] == ["now"]
    until(lambda: project.document("show", "counts")["freshness_s"] == 0.01, "its promise is what was declared")
    assert project.document("apply", status=1)["changed"] is False
    forced = project.document("apply", "--force=soon")
    assert [one["id"] for one in forced["contracts"] if one["forced"]] == ["now", "soon"]
    assert project.document("apply")["changed"] is False
    (kept,) = [one for one in project.document("status")["contracts"] if one["id"] == "now"]
    assert kept["forced"] is True
    assert "is not loaded yet" in project.headrace("show", "broken", status=2)
    for one in project.document("status")["contracts"]:
        if one["id"] in ("broken", "odd"):
            assert one["state"] == "failing" and "division by zero" in one["reason"], one


def test_a_promise_that_runs_stays_when_a_tighter_one_is_refused(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    text = (project.folder / "headrace.yml").read_text()
    tighter = text.replace("view: counts, at: us, freshness: 4 s", "view: counts, at: us, freshness: 10 ms")
    (project.folder / "headrace.yml").write_text(tighter)
    answer = project.document("apply", status=1)
    assert [(one["contract"], one["stays"]) for one in answer["rejected"]] == [("counts", True)]
    assert project.document("apply", status=1)["changed"] is False
    (counts, _) = sorted(project.document("status")["contracts"], key=lambda one: one["id"] != "counts")
    assert counts["running"] == "earlier version" and counts["refused"]["reason"] == "freshness"
    assert "counts runs its earlier version: the new one is refused, because" in project.headrace("status")
    assert "runs its earlier version" in project.headrace("why", "counts")
    assert "the running version continues" in project.headrace("apply", status=1)
    assert {one["id"]: one["freshness_s"] for one in answer["contracts"]} == {"counts": 4.0, "by_pid": 4.0}
    project.change_something(1001)
    project.until_equal("counts")


def test_a_project_runs_on_spark_and_says_when_it_is_restarted(project: RunningProject) -> None:
    def engine() -> str:
        return str(project.document("status")["service"]["engine"]["state"])

    project.declare("counts")
    project.up("spark")
    project.change_something(3000)
    project.until_equal("counts")
    assert engine() == "running"
    (java,) = [one for one in children(project.process()["pid"]) if Path(f"/proc/{one}/comm").read_text() == "java\n"]
    os.kill(java, signal.SIGKILL)
    project.change_something(3001)
    until(lambda: engine() == "restarting", "it is said that Spark is away")
    assert "Spark has died and is being restarted" in project.headrace("status")
    assert "headrace_engine_up 0.0" in get(project, "/metrics")[1]
    project.until_equal("counts")
    until(lambda: engine() == "running", "it is there again", within_s=180)
    left = children(project.process()["pid"])
    project.document("down")
    until(lambda: not any(birth_of(one) for one in left), "Spark has ended")
