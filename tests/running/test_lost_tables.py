"""Tables that go or change while a project runs, or hold what it cannot: their sources stop, by name, and alone."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from headrace.connect.processes import birth_of
from tests.running.running_project import CONTRACTS, RunningProject, recomputed, until


def contract(project: RunningProject, name: str) -> dict[str, Any]:
    (found,) = [one for one in project.document("status")["contracts"] if one["id"] == name]
    return dict(found)


def restart_after_kill(project: RunningProject) -> str:
    """What `up` says."""
    pid = project.process()["pid"]
    os.kill(pid, signal.SIGKILL)
    until(lambda: birth_of(pid) is None, "it is gone")
    project.up()
    return (project.folder / ".headrace" / "up.log").read_text()


@pytest.mark.long
def test_up_goes_on_without_tables_that_are_gone_and_says_which_contracts_wait(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    project.until_equal("counts")
    project.us.execute("ALTER TABLE users RENAME TO people")
    said = restart_after_kill(project)
    assert 'continuing without source "users": table "public.users" of source "users" does not exist' in said
    assert 'contract "counts" waits for it' in said
    project.eu.execute("INSERT INTO posts VALUES (9001, 5, 'still kept')")
    until(lambda: (9001, "still kept") in project.rows("by_pid"), "the other source goes on")
    until(lambda: contract(project, "counts")["state"] != "kept", "its view is not said to be kept")
    assert 'source "users" is stopped: table "public.users" of' in contract(project, "counts")["reason"]
    project.us.execute("ALTER TABLE people RENAME TO users")
    project.until_equal("counts")
    project.us.execute("CREATE TABLE heir () INHERITS (users)")
    until(lambda: "inherit from it (public.heir)" in str(project.document("status")["troubles"]), "it is stopped")
    project.us.execute("INSERT INTO heir VALUES (77, 'heir', 'c1')")
    project.us.execute("ALTER TABLE heir NO INHERIT users")
    project.us.execute("UPDATE users SET country = 'c2' WHERE uid = 4")
    project.until_equal("counts")
    until(lambda: project.document("status")["troubles"] == [], "nothing is wrong any more")
    assert all(one["equal"] for one in recomputed(project))


@pytest.mark.long
def test_apply_goes_on_without_a_table_that_is_gone_and_says_so(project: RunningProject) -> None:
    project.declare("counts", "by_pid")
    project.up()
    project.us.execute("ALTER TABLE users RENAME TO people")
    until(lambda: "is stopped" in str(project.document("status")["troubles"]), "it is stopped")
    slower = CONTRACTS["by_pid"].replace("freshness: ", "freshness: 1")
    project.declare("counts", more=f"  by_pid: {slower}\n")
    answer = project.document("apply")
    assert answer["applied"] and answer["changed"] and not answer["rejected"]
    (lost,) = answer["lost"]
    assert 'continuing without source "users": table "public.users" of source "users" does not exist' in lost["message"]
    assert 'contract "counts" waits for it' in lost["message"] and lost["hint"]
    assert 'continuing without source "users"' in project.headrace("apply", "--dry-run")
    promised = {one["id"]: one["freshness_s"] for one in project.document("status")["contracts"]}
    assert promised["by_pid"] > 10
    project.us.execute("ALTER TABLE people RENAME TO users")
    project.until_equal("counts")
    assert project.document("apply")["lost"] == []
