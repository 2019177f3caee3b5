"""`headrace audit --recompute` as people run it: what it says of views it can compare and of those it cannot."""

from __future__ import annotations

import signal
import subprocess
import sys
from functools import partial

import pytest

from tests.running.running_project import RunningProject, until

STREAM = """
  clicks: {kind: stream, at: us, files: {path: in, format: csv}, columns: {uid: bigint, page: string, ts: timestamp},
    time: ts, retention: 1 h, rate: 1 /s}
"""
CLICKED = "SELECT u.name, c.page FROM clicks c JOIN users u ON c.uid = u.uid"
PAGES = "SELECT page, count(*) AS n FROM clicks GROUP BY page"
OVER_FILES = """  clicked: {view: clicked, at: us, freshness: 4 s}
  pages: {view: pages, at: us, freshness: 4 s}
"""


def declare_stream(project: RunningProject) -> None:
    for name, sql in (("clicked", CLICKED), ("pages", PAGES)):
        (project.folder / "views" / f"{name}.sql").write_text(sql)
    (project.folder / "in").mkdir()
    write_clicks(project, "first.csv", 30)
    project.declare("by_pid", more=OVER_FILES)
    text = (project.folder / "headrace.yml").read_text()
    (project.folder / "headrace.yml").write_text(text.replace("contracts:\n", f"{STREAM}contracts:\n", 1))


def write_clicks(project: RunningProject, name: str, rows: int) -> None:
    lines = [f"{n % 20},page {n % 3},2026-01-01T00:00:00Z" for n in range(rows)]
    unfinished = project.folder / "in" / f"{name}.tmp"
    unfinished.write_text("\n".join(["uid,page,ts", *lines, ""]))
    unfinished.rename(project.folder / "in" / name)


def test_a_failing_view_is_named_and_hides_no_other(project: RunningProject) -> None:
    project.declare("by_pid", "broken", "odd")
    project.up()
    until(lambda: "division by zero" in project.headrace("status"), "one of them fails")
    found = project.document("audit", "--recompute", status=3)
    compared = {one["contract"]: one for one in found["recompute"]}
    assert compared.keys() == {"by_pid", "broken", "odd"}
    assert compared["by_pid"]["equal"] is True and compared["by_pid"]["rows"] == len(project.rows("by_pid"))
    for name in ("broken", "odd"):
        assert compared[name]["equal"] is None and compared[name]["missing"] is None
        assert "division by zero" in compared[name]["reason"].lower()
    assert 0 <= found["writers_waited_s"] < 5
    said = project.headrace("audit", "--recompute", status=3)
    said = said[said.index("1 of 3") :]
    assert "1 of 3 views could be compared" in said
    assert "broken (contract broken) is not compared" in said
    assert max(map(len, said.splitlines())) <= 80
    assert list((project.folder / ".headrace" / "audit").iterdir()) == []
    told = [one["numbers"] for one in project.events() if one["kind"] == "compared"]
    assert told == [{"equal": 1, "different": 0, "not_compared": 2}] * 2
    left_out = [one for one in project.events("--contract=broken") if one["kind"] == "left out"]
    assert "division by zero" in left_out[0]["reason"].lower()


def test_views_over_folders_are_compared_until_a_file_changes(project: RunningProject) -> None:
    declare_stream(project)
    project.up()
    write_clicks(project, "second.csv", 45)
    until(lambda: sum(int(str(row[1])) for row in project.rows("pages")) == 75, "both files are taken")
    found = {one["contract"]: one for one in project.document("audit", "--recompute")["recompute"]}
    assert {name: one["equal"] for name, one in found.items()} == {"by_pid": True, "clicked": True, "pages": True}
    assert found["clicked"]["rows"] == 75
    write_clicks(project, "first.csv", 31)
    found = {one["contract"]: one for one in project.document("audit", "--recompute", status=3)["recompute"]}
    assert {name: one["equal"] for name, one in found.items()} == {"by_pid": True, "clicked": None, "pages": None}
    assert "first.csv" in found["pages"]["reason"] and "changed" in found["pages"]["reason"]
    (project.folder / "in" / "first.csv").unlink()
    until(
        lambda: "deleted" in str(project.document("audit", "--recompute", status=3)["recompute"]),
        "it is seen to be gone",
    )


@pytest.mark.long
def test_an_audit_that_is_interrupted_leaves_nothing_behind(project: RunningProject) -> None:
    project.declare("by_pid", "named")
    project.up()
    project.eu.execute("BEGIN")
    project.eu.execute("INSERT INTO posts VALUES (5000, 1, 'open')")  # keeps the audit waiting for its lock
    command = [sys.executable, "-m", "headrace", "audit", str(project.folder), "--recompute"]
    # Tests that run in the background ignore the signal, and so would all that they start.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    audit = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    until(lambda: bool(list((project.folder / ".headrace").glob("audit/*"))), "the audit has begun")
    try:
        assert audit.stderr is not None
        assert "waiting for a moment at which nobody writes" in audit.stderr.readline()
        audit.send_signal(signal.SIGINT)
        assert audit.wait(60) == 130
    finally:
        audit.kill()
        audit.communicate()
    project.eu.execute("COMMIT")
    assert list((project.folder / ".headrace" / "audit").iterdir()) == []
    sessions = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle in transaction'"
    )
    assert project.eu.execute(sessions).fetchone() == (0,)
    project.headrace("audit", "--recompute")
