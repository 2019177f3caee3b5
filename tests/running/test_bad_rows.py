"""A row for which a view has no answer, while a project runs: the view says so, keeps its rows, goes on by itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.model.log import Commit
from headrace.model.notes import Halted, note_keys
from headrace.site.folder import Folder
from tests.running.running_project import RunningProject, until

RATIO = "SELECT pid, 100 / (uid - 25) AS ratio FROM posts"
NEVER_ZERO = "SELECT uid, count(*) AS n FROM posts WHERE 7 / (uid - 25) < 1 GROUP BY uid"
NUMBER = "SELECT pid, CAST(body AS BIGINT) AS number FROM posts WHERE pid >= 3000"
CONTRACTS = """
  ratio: {view: ratio, at: eu, freshness: 4 s, deliver: {postgres: {dsn: "${EU_DSN}", table: ratio_copy}}}
  filtered: {view: filtered, at: us, freshness: 4 s}
  number: {view: number, at: eu, freshness: 4 s}
"""
REASON = "100 / (uid - 25): division by zero, in row pid = 1000 of posts"


def declare(project: RunningProject) -> None:
    (project.folder / "views" / "ratio.sql").write_text(RATIO)
    (project.folder / "views" / "filtered.sql").write_text(NEVER_ZERO)
    (project.folder / "views" / "number.sql").write_text(NUMBER)
    project.declare("by_pid", more=CONTRACTS)


def contract(project: RunningProject, name: str) -> Any:
    return next(one for one in project.document("status")["contracts"] if one["id"] == name)


def state(project: RunningProject, name: str) -> str:
    return str(contract(project, name)["state"])


def troubles(project: RunningProject) -> list[Any]:
    return [one for one in project.document("status")["troubles"] if REASON in one["what"]]


def ratios(project: RunningProject) -> list[tuple[object, ...]]:
    found = project.eu.execute("SELECT pid, 100::float8 / (uid - 25) FROM posts WHERE uid <> 25 ORDER BY pid")
    return found.fetchall()


def test_a_bad_row_halts_its_views_alone_and_they_heal_when_it_is_gone(project: RunningProject) -> None:
    declare(project)
    project.up()
    until(lambda: {state(project, one) for one in ("ratio", "filtered", "by_pid")} == {"kept"}, "all are kept")
    before = project.rows("ratio")
    assert before == ratios(project)
    project.eu.execute("INSERT INTO posts VALUES (1000, 25, 'bad')")
    until(lambda: {state(project, one) for one in ("ratio", "filtered")} == {"failing"}, "both are failing")
    assert contract(project, "ratio")["reason"] == REASON
    assert contract(project, "filtered")["reason"].endswith("division by zero, in row pid = 1000 of posts")
    until(lambda: (1000, "bad") in project.rows("by_pid"), "others go on")
    assert state(project, "by_pid") == "kept"
    until(lambda: troubles(project) != [], "there is a trouble")
    (trouble,) = troubles(project)
    assert "correct or delete the row" in trouble["hint"]
    shown = project.document("show", "ratio")
    assert sorted(tuple(row) for row in shown["rows"]) == before and shown["lag_s"] > 0
    project.headrace("down")
    project.up()
    until(lambda: state(project, "ratio") == "failing", "it still is after a restart")
    assert contract(project, "ratio")["reason"] == REASON and project.rows("ratio") == before
    until(lambda: [one["since"] for one in troubles(project)] == [trouble["since"]], "since the row came")
    project.eu.execute("UPDATE posts SET uid = 5 WHERE pid = 1000")
    until(lambda: {state(project, one) for one in ("ratio", "filtered")} == {"kept"}, "they go on by themselves")
    until(lambda: project.rows("ratio") == ratios(project), "with the rows of now")
    changes = [json.loads(line) for line in project.headrace("changes", "ratio").splitlines()]
    assert [one["row"]["pid"] for one in changes] == [1000] and changes[0]["op"] == "insert"
    until(
        lambda: project.eu.execute("SELECT pid, ratio FROM ratio_copy ORDER BY pid").fetchall() == ratios(project),
        "the copy is right as well",
    )
    check_that_a_copy_names_the_row_that_it_refuses(project)
    check_that_a_row_which_goes_while_the_service_is_down_heals_its_view(project)


def check_that_a_row_which_goes_while_the_service_is_down_heals_its_view(project: RunningProject) -> None:
    """Python refuses to read a number of so many digits at all."""
    project.eu.execute("INSERT INTO posts VALUES (3000, 5, repeat('9', 5000))")
    until(lambda: state(project, "number") == "failing", "it is no number")
    assert "is out of the range of bigint, in row pid = 3000 of posts" in contract(project, "number")["reason"]
    assert project.document("show", "number")["rows"] == []
    project.headrace("down")
    project.eu.execute("DELETE FROM posts WHERE pid = 3000")
    project.eu.execute("INSERT INTO posts VALUES (3001, 5, '7')")
    project.up()
    until(lambda: state(project, "number") == "kept", "it goes on by itself")
    until(lambda: project.rows("number") == [(3001, 7)], "with the rows of now")


def check_that_a_copy_names_the_row_that_it_refuses(project: RunningProject) -> None:
    before = project.eu.execute("SELECT count(*) FROM ratio_copy").fetchone()
    project.eu.execute("ALTER TABLE ratio_copy ADD CONSTRAINT few CHECK (pid < 2000)")
    project.eu.execute("INSERT INTO posts VALUES (2000, 5, 'too many')")
    until(lambda: state(project, "ratio") == "failing", "its copy cannot be written")
    reason = contract(project, "ratio")["reason"]
    assert 'check constraint "few"' in reason and reason.endswith(", in row pid = 2000 of posts")
    hints = [one["hint"] for one in project.document("status")["troubles"] if one["what"] == reason]
    assert ["drop the constraint" in hint for hint in hints] == [True]
    assert len(project.rows("ratio")) == len(ratios(project)), "Headrace itself has the row"
    assert project.eu.execute("SELECT count(*) FROM ratio_copy").fetchone() == before
    project.eu.execute("DELETE FROM posts WHERE pid = 2000")
    project.eu.execute("INSERT INTO posts VALUES (1001, 5, 'good')")
    until(lambda: state(project, "ratio") == "kept", "it goes on by itself")
    assert project.eu.execute("SELECT pid, ratio FROM ratio_copy ORDER BY pid").fetchall() == ratios(project)


@pytest.mark.long
def test_a_view_that_starts_with_a_bad_row_is_loaded_once_that_is_gone(project: RunningProject) -> None:
    project.eu.execute("INSERT INTO posts VALUES (1000, 25, 'bad')")
    declare(project)
    project.up()
    until(lambda: state(project, "by_pid") == "kept", "others are loaded")
    assert state(project, "ratio") == "failing" and contract(project, "ratio")["reason"] == REASON
    project.eu.execute("DELETE FROM posts WHERE pid = 1000")
    until(lambda: {state(project, one) for one in ("ratio", "filtered")} == {"kept"}, "they are loaded")
    assert project.rows("ratio") == ratios(project)


@pytest.mark.long
def test_a_project_that_was_left_failing_by_an_earlier_version_heals(project: RunningProject) -> None:
    """Earlier versions noted nothing of bad rows, and had no log of what a view computes."""
    declare(project)
    project.up()
    until(lambda: state(project, "ratio") == "kept", "it is kept")
    project.eu.execute("INSERT INTO posts VALUES (1000, 25, 'bad')")
    until(lambda: state(project, "ratio") == "failing", "it is failing")
    project.headrace("down")
    forget_what_is_new(Folder(project.folder))
    project.up()
    until(lambda: state(project, "ratio") == "failing", "its answers cannot be computed")
    assert contract(project, "ratio")["reason"] == REASON
    project.eu.execute("DELETE FROM posts WHERE pid = 1000")
    until(lambda: {state(project, one) for one in ("ratio", "filtered")} == {"kept"}, "they go on by themselves")
    assert project.rows("ratio") == ratios(project)


def forget_what_is_new(folder: Folder) -> None:
    ledger = folder.ledger()
    lease = ledger.acquire("service", "an earlier version", 60.0)
    answers = tuple(name for name in ledger.times() if "#rows~" in name)
    assert answers, "what views compute has a log"
    ledger.commit(lease, Commit(notes=tuple(map(Halted.remove, note_keys(ledger, Halted))), forget=answers))
    ledger.release(lease)
    ledger.close()
