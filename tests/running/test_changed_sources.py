"""Tables of a running project get other columns, and the project's files say so: what they mean is read anew."""

from __future__ import annotations

import os
import signal
import threading

import psycopg
import pytest

from headrace.connect.processes import birth_of
from headrace.doors.cli import main
from tests.running.running_project import RunningProject, passed, recomputed, until


def write_view(project: RunningProject, name: str, query: str) -> None:
    (project.folder / "views" / f"{name}.sql").write_text(query)


def assert_right(project: RunningProject, contracts: int) -> None:
    found = recomputed(project)
    assert len(found) == contracts and all(one["equal"] for one in found), found


@pytest.mark.long
def test_a_view_may_use_a_column_that_its_table_got_while_it_ran(project: RunningProject) -> None:
    project.declare("named", "counts", "by_pid")
    project.up()
    project.until_equal("named", "counts")
    project.us.execute("ALTER TABLE users ADD COLUMN email text DEFAULT 'nobody'")
    project.us.execute("UPDATE users SET email = 'e' || uid WHERE uid < 7")
    project.eu.execute("ALTER TABLE posts ADD COLUMN note text DEFAULT 'none'")
    project.until_equal("named", "counts")
    query = "SELECT u.name, p.pid, p.body, u.email FROM users u JOIN posts p ON u.uid = p.uid"
    write_view(project, "named", query)
    assert project.document("apply", "--dry-run")["change"]["reread"] == ["users"]
    project.headrace("apply")
    rows = {row[3] for row in project.document("show", "named")["rows"]}
    assert rows == {"nobody", *(f"e{uid}" for uid in range(7))}
    project.change_something(1001)
    project.until_equal("counts")
    assert_right(project, 3)
    emails = "SELECT DISTINCT email FROM named_copy"
    until(lambda: {email for (email,) in project.eu.execute(emails)} == rows, "the copy has it too")


def test_what_was_begun_when_it_died_is_begun_anew(project: RunningProject) -> None:
    """The columns are noted before they are read, and what ran last has others."""
    project.declare("named", "counts")
    project.up()
    project.until_equal("named", "counts")
    project.us.execute("ALTER TABLE users ADD COLUMN email text DEFAULT 'nobody'")
    project.us.execute("INSERT INTO users SELECT i, 'n' || i, 'c1' FROM generate_series(100, 60000) i")
    write_view(project, "named", "SELECT u.name, p.pid, p.body, u.email FROM users u JOIN posts p ON u.uid = p.uid")
    applying = threading.Thread(target=lambda: main.run(["apply", str(project.folder)]))
    applying.start()
    log = project.folder / ".headrace" / "service.log"
    until(lambda: log.exists() and "again, and recomputing what depends on" in log.read_text(), "it has begun")
    with psycopg.connect(os.environ["US_DSN"]) as waiting:
        waiting.execute("LOCK TABLE users IN ACCESS EXCLUSIVE MODE")
        until(passed(1.0), "it cannot be read")
        pid = project.process()["pid"]
        os.kill(pid, signal.SIGKILL)
        applying.join()
        until(lambda: birth_of(pid) is None, "it is gone")
    project.up()
    assert {row[3] for row in project.document("show", "named")["rows"]} == {"nobody"}
    assert_right(project, 2)


@pytest.mark.long
def test_a_column_that_nobody_uses_changes_nothing(project: RunningProject) -> None:
    project.declare("counts")
    project.up()
    project.us.execute("ALTER TABLE users ADD COLUMN email text DEFAULT 'nobody'")
    project.declare("counts", "by_pid")
    project.headrace("apply")
    assert "again, and recomputing what depends on" not in (project.folder / ".headrace" / "service.log").read_text()
    project.change_something(1001)
    project.until_equal("counts")
    assert_right(project, 2)


@pytest.mark.long
def test_a_column_may_be_renamed_with_the_view_that_uses_it(project: RunningProject) -> None:
    project.declare("named", "counts", "by_pid")
    project.up()
    project.until_equal("named", "counts")
    project.us.execute("ALTER TABLE users RENAME COLUMN country TO land")
    project.us.execute("UPDATE users SET land = 'c9' WHERE uid < 4")
    write_view(
        project,
        "counts",
        "SELECT u.land AS country, count(*) AS n, max(p.pid) AS last FROM users u JOIN posts p ON u.uid = p.uid "
        "GROUP BY u.land",
    )
    write_view(project, "some_users", "SELECT uid, name FROM users WHERE land = 'c1'")
    project.headrace("apply")
    project.until_equal("named", "counts")
    assert_right(project, 3)


@pytest.mark.parametrize("running", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_source_may_become_another_table(project: RunningProject, running: bool) -> None:
    project.declare("counts", "by_pid")
    project.up()
    project.until_equal("counts")
    project.us.execute("CREATE TABLE people AS SELECT uid, name, 'x' || country AS country FROM users WHERE uid < 9")
    project.us.execute("ALTER TABLE people ADD PRIMARY KEY (uid)")
    if not running:
        project.headrace("down")
    text = (project.folder / "headrace.yml").read_text()
    (project.folder / "headrace.yml").write_text(text.replace("public.users", "public.people"))
    if running:
        project.headrace("apply")
    else:
        project.up()
    assert {row[0] for row in project.rows("counts")} == {"xc0", "xc1", "xc2"}
    assert_right(project, 2)


def test_a_column_that_goes_stops_its_source_until_it_is_back(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    project.until_equal("counts")
    project.us.execute("ALTER TABLE users RENAME COLUMN country TO land")
    project.us.execute("UPDATE users SET land = 'c9' WHERE uid < 4")
    until(lambda: 'source "users" is stopped' in project.headrace("status"), "it is said")
    assert [(one["view"], one["equal"]) for one in recomputed(project)] == [("by_pid", True), ("counts", None)]
    project.us.execute("ALTER TABLE users RENAME COLUMN land TO country")
    project.until_equal("counts")
    assert_right(project, 2)
