"""An edit of a running contract that is refused: what runs goes on, through applies, restarts and kills."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from headrace.connect.processes import birth_of
from tests.running.running_project import VIEWS, RunningProject, until

REFUSED = (
    "SELECT u.country, count(*) AS n FROM users u JOIN posts p ON u.uid = p.uid WHERE rand() < 0.5 GROUP BY u.country"
)
"""Its answer is another one each time, so nobody can maintain it."""


def status_of(project: RunningProject, contract: str) -> Any:
    return next(one for one in project.document("status")["contracts"] if one["id"] == contract)


def edit(project: RunningProject, view: str, query: str) -> None:
    (project.folder / "views" / f"{view}.sql").write_text(query)


def kill(project: RunningProject) -> None:
    pid = project.process()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: birth_of(pid) is None, "it is gone")


def planned_h(project: RunningProject) -> float:
    """$/h of all resources of the plan that the project's files ask for."""
    return float(project.document("plan", "--on-running")["totals"]["rescost"]) * 3600.0


def test_a_refused_query_leaves_the_one_that_runs_through_restarts_and_kills(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    edit(project, "counts", REFUSED)
    dry = project.document("apply", "--dry-run", status=1)
    answer = project.document("apply", status=1)
    assert {**dry, "applied": True} == answer
    assert [(one["contract"], one["stays"]) for one in answer["rejected"]] == [("counts", True)]
    assert next(step["text"] for step in answer["steps"]).startswith("keep counts as it runs: refused, because ")
    assert status_of(project, "counts")["running"] == "earlier version"
    project.change_something(5000)
    project.until_equal("counts")
    assert project.document("show", "counts")["running"] == "earlier version"
    assert "earlier version of the view" in project.headrace("show", "counts")
    project.document("down")
    edit(project, "counts", REFUSED.replace("0.5", "0.9"))
    project.up()
    assert status_of(project, "counts")["running"] == "earlier version"
    kill(project)
    project.change_something(5001)
    project.up()
    project.until_equal("counts")
    assert project.document("apply", status=1)["changed"] is False
    edit(project, "counts", VIEWS["counts"].replace("AS n", "AS number"))
    assert project.document("apply")["rejected"] == []
    assert "running" not in status_of(project, "counts")
    assert project.document("show", "counts")["columns"] == ["country", "number", "last"]


@pytest.mark.long
def test_two_versions_of_a_view_and_of_one_that_reads_it_run_side_by_side(project: RunningProject) -> None:
    edit(project, "busy", "SELECT country, n FROM counts WHERE n > 1")
    project.declare("counts", "by_pid", more="  busy: {view: busy, at: us, freshness: 4 s}\n")
    project.up()
    before = project.rows("busy")
    edit(project, "counts", VIEWS["counts"].replace("max(p.pid)", "min(p.pid)"))
    edit(project, "busy", "SELECT percentile_approx(n, 0.5) AS middle FROM counts")
    answer = project.document("apply", status=1)
    assert [(one["contract"], one["stays"]) for one in answer["rejected"]] == [("busy", True)]
    assert project.rows("busy") == before
    assert {tuple(row)[2] for row in project.rows("counts")} <= {1, 2, 3}
    names = {one["id"]: (one["view"], one.get("running")) for one in project.document("status")["contracts"]}
    assert names == {"counts": ("counts", None), "busy": ("busy", "earlier version"), "by_pid": ("by_pid", None)}
    project.document("down")
    project.up()
    project.change_something(6000)
    until(lambda: sum(int(str(row[1])) for row in project.rows("busy")) == 200, "both go on")
    check_that_contracts_stop_at_once_where_rows_may_not_be(project)


def check_that_contracts_stop_at_once_where_rows_may_not_be(project: RunningProject) -> None:
    """Where rows still may be, nothing is loaded anew. A version that is held goes on if it can be made without."""
    text = (project.folder / "headrace.yml").read_text()
    posts = "posts: {kind: table, at: eu,"
    before = {one["id"]: one["view"] for one in project.document("status")["contracts"]}
    (project.folder / "headrace.yml").write_text(text.replace(posts, f"{posts} stays: [us, eu],"))
    steps = [step["do"] for step in project.document("apply", status=1)["steps"]]
    assert "load" not in steps and {one["id"] for one in project.document("status")["contracts"]} == before.keys()
    (project.folder / "headrace.yml").write_text(text.replace(posts, f"{posts} stays: [eu],"))
    answer = project.document("apply", status=1)
    rejected = {one["contract"]: (one["reason"].partition(":")[0], one["stays"]) for one in answer["rejected"]}
    assert rejected == {"counts": ("stays", False), "busy": ("unsupported", True)}, "busy reads no column of posts"
    assert {one["id"] for one in project.document("status")["contracts"]} == {"by_pid", "busy"}
    until(lambda: sum(int(str(row[1])) for row in project.rows("busy")) == 201, "with the post that came")
    assert 'no contract keeps a view "counts"' in project.headrace("show", "counts", status=2)
    assert len(project.rows("by_pid")) == 160


def test_a_changed_price_and_a_changed_link_are_taken_over(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    text = (project.folder / "headrace.yml").read_text()
    changed = text.replace("us: {cpu: 0.34", "us: {cpu: 3.4").replace("latency: 10 ms", "latency: 20 ms")
    (project.folder / "headrace.yml").write_text(changed)
    said = project.headrace("apply", "--dry-run")
    assert "take over site us: cpu 0.34 $/core-hour -> 3.4 $/core-hour" in said
    assert "take over link us > eu: latency 10 ms -> 20 ms" in said
    before = {one["id"]: one["cost_h"] for one in project.document("apply", "--dry-run")["contracts"]}
    assert sum(before.values()) == pytest.approx(planned_h(project)), "what all are charged is what all resources cost"
    assert project.document("apply")["changed"] is True
    assert project.document("apply")["changed"] is False
    document = project.document("plan")
    running = next(one for one in document["catalogue"]["sites"] if one["id"] == "us")
    assert running["cpu_price_h"] == 3.4
    assert {one["id"]: one["cost_h"] for one in project.document("apply", "--dry-run")["contracts"]} == before
