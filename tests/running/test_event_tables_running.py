"""A project whose stream joins a table as of its events, as people run it: changes, a kill, another view, an audit."""

from __future__ import annotations

import os
import signal
from datetime import UTC, datetime

import pytest

from tests.running.running_project import RunningProject, until

STREAM = """
  clicks: {kind: stream, at: eu, files: {path: in, format: csv}, columns: {id: bigint, uid: bigint, ts: timestamp},
    time: ts, retention: 1 h, rate: 1 /s, joins: as_of_event}
"""
VIEWS = {
    "clicked": "SELECT c.id, u.name FROM clicks c JOIN users u ON c.uid = u.uid",
    "countries": "SELECT c.id, u.country FROM clicks c LEFT JOIN users u ON c.uid = u.uid AND u.name = 'new name'",
}
CONTRACTS = "  clicked: {view: clicked, at: us, freshness: 4 s}\n"
ANOTHER = "  countries: {view: countries, at: eu, freshness: 4 s}\n"


def write_clicks(project: RunningProject, name: str, *rows: tuple[int, int, datetime]) -> None:
    unfinished = project.folder / "in" / f"{name}.tmp"
    lines = [f"{id_},{uid},{ts.isoformat().replace('+00:00', 'Z')}" for id_, uid, ts in rows]
    unfinished.write_text("\n".join(["id,uid,ts", *lines, ""]))
    unfinished.rename(project.folder / "in" / name)


def declare(project: RunningProject, contracts: str) -> None:
    project.declare("by_pid", more=contracts)
    text = (project.folder / "headrace.yml").read_text()
    (project.folder / "headrace.yml").write_text(text.replace("contracts:\n", f"{STREAM}contracts:\n", 1))


@pytest.mark.long
def test_a_running_project_joins_tables_as_of_events(project: RunningProject) -> None:
    for name in ("clicked", "countries"):
        (project.folder / "views" / f"{name}.sql").write_text(VIEWS[name])
    (project.folder / "in").mkdir()
    (old,) = project.us.execute("SELECT name FROM users WHERE uid = 5").fetchone() or ("",)
    before = datetime.now(UTC)
    write_clicks(project, "first.csv", (1, 5, before))
    declare(project, CONTRACTS)
    project.up()
    until(lambda: project.rows("clicked") == [(1, old)], "the first click is there")
    unchanged = datetime.now(UTC)
    project.us.execute("UPDATE users SET name = 'new name' WHERE uid = 5")
    until_captured(project)
    write_clicks(project, "second.csv", (2, 5, unchanged), (3, 5, datetime.now(UTC)))
    expected = [(1, old), (2, old), (3, "new name")]
    until(lambda: project.rows("clicked") == expected, "late and new clicks meet what was there")
    os.kill(project.process()["pid"], signal.SIGKILL)
    project.up()
    project.us.execute("DELETE FROM users WHERE uid = 5")
    declare(project, CONTRACTS + ANOTHER)
    project.headrace("apply")
    until(lambda: project.rows("countries") != [], "the other view is loaded")
    assert [country is not None for _, country in project.rows("countries")] == [False, False, True]
    assert project.rows("clicked") == expected
    found = {one["contract"]: one for one in project.document("audit", "--recompute", status=3)["recompute"]}
    assert {name: one["equal"] for name, one in found.items()} == {"by_pid": True, "clicked": None, "countries": None}
    assert "when rows came" in found["clicked"]["reason"]


def until_captured(project: RunningProject) -> None:
    """Waits until what was committed is captured: a change of the other kind behind it is shown."""
    project.us.execute("SELECT pg_logical_emit_message(true, 'test', '')")
    since = datetime.now(UTC).timestamp()

    def is_captured() -> bool:
        contract = next(one for one in project.document("status")["contracts"] if one["id"] == "clicked")
        return bool(contract["lag_s"] < datetime.now(UTC).timestamp() - since)

    until(is_captured, "the change is captured")
