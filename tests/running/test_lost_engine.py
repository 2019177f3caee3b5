"""A service on Spark whose engine stands still or runs out of memory: it is replaced, and views are right."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.running.running_project import RunningProject, children, load, recomputed, until
from tests.running.test_stuck import contract
from tests.running.test_suspended import suspended

HEAVY = """SELECT pid, regr_count(pid, pid) OVER (ORDER BY pid) AS place,
    CAST(length(repeat('x', CASE WHEN pid = 7777 THEN 1500000000 ELSE 1 END)) AS bigint) AS n FROM posts"""
IN_FULL = "  heavy: {view: heavy, at: eu, freshness: 6 s, refresh: full}\n"
LEAST_MEMORY = "engine: {memory: 512 MB}\n"

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


def java_of(project: RunningProject) -> int | None:
    """The engine's process; None while there is none."""
    found = [pid for pid in children(project.process()["pid"]) if b"org.apache.spark" in command(pid)]
    return found[0] if found else None


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def below(pid: int) -> set[int]:
    """All that a process started, directly or not."""
    return {one for child in children(pid) for one in (child, *below(child))}


def log_of(project: RunningProject) -> str:
    return (project.folder / ".headrace" / "service.log").read_text()


def is_replaced(project: RunningProject, java: int) -> bool:
    return java_of(project) not in (None, java)


def start(project: RunningProject) -> int:
    """The project runs on Spark, and has been pushed by it; its Java."""
    project.up("spark")
    until(lambda: "Spark is up after" in log_of(project), "Spark is there", 300)
    project.change_something(1000)
    project.until_equal("named", "counts")
    java = java_of(project)
    assert java is not None
    return java


def is_right(project: RunningProject) -> None:
    project.change_something(2000)
    project.until_equal("named", "counts")
    assert all(one["equal"] for one in recomputed(project))


def test_a_java_that_stands_still_is_replaced_and_views_are_right(project: RunningProject) -> None:
    project.declare("named", "counts")
    java = start(project)
    with load(project, 1001), suspended(java):
        until(lambda: is_replaced(project, java), "another Java runs", 300)
    assert re.search("has not answered for", log_of(project))
    is_right(project)


def test_workers_that_stand_still_make_the_watchdog_replace_the_engine_and_views_are_right(
    project: RunningProject,
) -> None:
    """Java answers, and no item begins: nobody but the watchdog notices that nothing is committed."""
    project.declare("named", "counts")
    java = start(project)
    with suspended(*below(java)), load(project, 1001):
        until(lambda: is_replaced(project, java), "another Java runs", 400)
    assert "Spark is replaced: nothing was committed for" in log_of(project)
    is_right(project)


def test_a_java_that_runs_out_of_memory_fails_one_view_and_the_others_go_on(project: RunningProject) -> None:
    (project.folder / "views" / "heavy.sql").write_text(HEAVY)
    project.declare("named", "counts", more=IN_FULL + LEAST_MEMORY)
    java = start(project)
    expected = "SELECT pid, row_number() OVER (ORDER BY pid), 1 FROM posts ORDER BY pid"
    until(lambda: project.rows("heavy") == project.eu.execute(expected.encode()).fetchall(), "it is there", 300)
    project.eu.execute("INSERT INTO posts VALUES (7777, 3, 'poison')")
    until(lambda: is_replaced(project, java), "another Java runs", 400)
    assert "ran out of memory" in log_of(project)
    project.change_something(1001)
    project.until_equal("named", "counts")
    until(lambda: contract(project, "heavy")["state"] == "failing", "it is named", 400)
    project.eu.execute("DELETE FROM posts WHERE pid = 7777")
    project.headrace("down")
    project.up("spark")  # which tries at once what was left alone for ten minutes
    until(lambda: project.rows("heavy") == project.eu.execute(expected.encode()).fetchall(), "it is right again", 300)
    is_right(project)
