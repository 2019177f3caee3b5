"""A role without a right that capture needs: `up`, `status`, `doctor` and `check` say so at once, with its SQL."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.running.running_project import RunningProject, until

ROLE = "lacks_rights"


@pytest.fixture
def weak(project: RunningProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningProject]:
    """The role may read and owns both tables, and may create nothing in either database."""
    owned = ((project.us, "US_DSN", "users"), (project.eu, "EU_DSN", "posts"))
    project.us.execute(f"CREATE ROLE {ROLE} LOGIN REPLICATION PASSWORD 'x'".encode())
    for session, variable, table in owned:
        session.execute(f"ALTER TABLE {table} OWNER TO {ROLE}".encode())
        monkeypatch.setenv(variable, make_conninfo(os.environ[variable], user=ROLE, password="x"))
    yield project
    project.headrace("down")
    for session, _, _ in owned:
        session.execute(f"REASSIGN OWNED BY {ROLE} TO CURRENT_USER".encode())
        session.execute(f"DROP OWNED BY {ROLE}".encode())
    project.us.execute(f"DROP ROLE {ROLE}".encode())


def grant_for(session: psycopg.Connection) -> str:
    return f"GRANT CREATE ON DATABASE {session.info.dbname} TO {ROLE};"


def until_loaded(project: RunningProject, contract: str) -> None:
    def is_loaded() -> bool:
        (found,) = [one for one in project.document("status")["contracts"] if one["id"] == contract]
        return found["state"] in ("kept", "late")

    until(is_loaded, f"{contract} is loaded")


def test_up_says_the_sql_within_its_wait_and_goes_on_when_it_was_run(weak: RunningProject) -> None:
    weak.declare_users_only()
    assert grant_for(weak.us) in weak.headrace("doctor", status=1)
    assert grant_for(weak.us) in weak.headrace("check", "--connect", status=1)
    command = [sys.executable, "-m", "headrace", "up", str(weak.folder), "--detach", "--engine", "local"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as up:
        said: list[str] = []
        reading = threading.Thread(target=lambda: said.extend(up.stdout or ()))
        reading.start()
        try:
            until(lambda: grant_for(weak.us) in "".join(said), "it says what to grant", 60.0)
            until(lambda: grant_for(weak.us) in str(weak.document("status")["troubles"]), "status says it too", 20.0)
            assert grant_for(weak.us) in weak.headrace("doctor", status=1)
        finally:
            weak.us.execute(grant_for(weak.us).encode())
        assert up.wait(120) == 0
        reading.join()
    assert [line for line in said if line.startswith("resolved: ")]
    until(lambda: weak.document("status")["troubles"] == [], "status says that nothing is wrong any more")
    assert len(weak.rows("some_users")) == 7


def test_a_database_that_cannot_be_captured_holds_up_only_the_contracts_that_read_it(weak: RunningProject) -> None:
    weak.eu.execute(grant_for(weak.eu).encode())
    weak.declare("by_pid", "counts")
    weak.headrace("up", "--detach", "--engine=local")
    states = {one["id"]: one for one in weak.document("status")["contracts"]}
    assert states["counts"]["state"] == "failing" and "may not create publications" in states["counts"]["reason"]
    assert len(weak.rows("by_pid")) == 160
    weak.us.execute(grant_for(weak.us).encode())
    until_loaded(weak, "counts")
    weak.until_equal("counts")


@pytest.mark.long
def test_a_table_of_another_role_holds_up_only_the_contracts_that_read_it(weak: RunningProject) -> None:
    for session in (weak.us, weak.eu):
        session.execute(grant_for(session).encode())
    weak.us.execute("ALTER TABLE users OWNER TO postgres")
    weak.us.execute(f"GRANT SELECT ON users TO {ROLE}".encode())
    weak.declare("by_pid", "counts")
    weak.headrace("up", "--detach", "--engine=local")
    (trouble,) = weak.document("status")["troubles"]
    assert trouble["what"].startswith('source "users" is stopped: public.users belongs to role "postgres"')
    weak.us.execute(trouble["hint"].partition(";")[0].encode())
    until_loaded(weak, "counts")
    weak.until_equal("counts")
