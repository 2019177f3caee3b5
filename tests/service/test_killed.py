"""kill -9 of what a project is made of: it goes on, and only what needs the dead one waits."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.connect.postgres.embedded import EmbeddedPostgres, free_port
from headrace.connect.processes import birth_of
from tests.service.running_project import VIEWS, RunningProject, a_project, children, until

USERS_ONLY = "SELECT uid, name FROM users WHERE country = 'c1'"


@pytest.fixture
def server() -> Iterator[EmbeddedPostgres]:
    """A second server, at a port that it keeps."""
    folder, port = Path(tempfile.mkdtemp(prefix="headrace-tests-")), free_port()
    try:
        with EmbeddedPostgres(folder, {"fsync": "off"}, lambda: port) as started:
            yield started
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def project(
    tmp_path: Path,
    postgres_dsn: str,
    server: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Iterator[RunningProject]:
    """Users are in the server of all tests, posts in one that can be killed."""
    with a_project(tmp_path, postgres_dsn, server.dsn(), monkeypatch, capsys) as made:
        (tmp_path / "views" / "some_users.sql").write_text(USERS_ONLY)
        made.declare("counts", more="  some_users: {view: some_users, at: us, freshness: 4 s}\n")
        yield made


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def state(project: RunningProject, contract: str) -> str:
    found = {one["id"]: str(one["state"]) for one in project.document("status")["contracts"]}
    return found.get(contract, "loading")


def has_users(project: RunningProject) -> Callable[[], bool]:
    return lambda: project.rows("some_users") == sorted(project.us.execute(USERS_ONLY))


def test_captures_that_were_killed_go_on_where_they_were(project: RunningProject) -> None:
    project.up()
    for capture in children(project.process()["pid"]):
        kill(capture)
    project.change_something(5000)
    project.until_equal("counts")
    log = (project.folder / ".headrace" / "service.log").read_text()
    assert "it was killed (signal 9); again in 0.2 s" in log


def test_views_of_other_databases_are_kept_while_one_is_away(project: RunningProject, server: EmbeddedPostgres) -> None:
    project.up()
    project.until_equal("counts")
    server.kill()
    until(lambda: state(project, "counts") == "late", "its lag grows with the clock")
    project.us.execute("UPDATE users SET country = 'c1' WHERE uid = 3")
    until(has_users(project), "changes of the other database arrive")
    until(lambda: state(project, "some_users") == "kept", "as promised")

    pid = project.process()["pid"]
    kill(pid)
    until(lambda: birth_of(pid) is None, "it is gone")
    project.up()
    said = (project.folder / ".headrace" / "up.log").read_text()
    assert "database eu_dsn does not answer" in said
    assert "going on with the plan that ran last" in said
    assert "2 of 2 views are kept, as of" in said
    project.us.execute("UPDATE users SET country = 'c1' WHERE uid = 5")
    until(has_users(project), "changes of the other database arrive in a service that was started without the first")

    server.start()
    with psycopg.connect(server.dsn(), autocommit=True) as posts:
        posts.execute("INSERT INTO posts VALUES (6000, 3, 'written later')")
        whole = RunningProject(project.folder, project.us, posts, project.out)
        whole.until_equal("counts")
    until(lambda: state(project, "counts") == "kept", "it has caught up")


COPIED = """
project: shop
sites: {us: {cpu: 0.34 $/core-hour}}
sources:
  users: {kind: table, at: us, postgres: {dsn: "${US_DSN}", table: public.users}, key: [uid]}
contracts:
  some_users: {view: some_users, at: us, freshness: 4 s%s}
"""
COPY = ', deliver: {postgres: {dsn: "${EU_DSN}", table: users_copy}}'


def test_a_copy_whose_database_is_away_when_it_is_withdrawn_is_dropped_later(
    project: RunningProject, server: EmbeddedPostgres
) -> None:
    def copies() -> int:
        with psycopg.connect(server.dsn()) as session:
            (found,) = session.execute("SELECT count(*) FROM pg_class WHERE relname = 'users_copy'").fetchall()
            return int(found[0])

    def troubles() -> str:
        return str(project.document("status")["service"]["troubles"])

    for other in VIEWS:
        (project.folder / "views" / f"{other}.sql").unlink()
    (project.folder / "headrace.yml").write_text(COPIED % COPY)
    project.up()
    until(lambda: copies() == 1, "it is delivered")
    server.kill()
    (project.folder / "headrace.yml").write_text(COPIED % "")
    project.document("apply")
    what = 'table "users_copy" of contract "some_users", which was withdrawn, could not be dropped yet'
    until(lambda: what in troubles(), "it is told")
    pid = project.process()["pid"]
    kill(pid)
    until(lambda: birth_of(pid) is None, "it is gone")
    project.up()
    until(lambda: what in troubles(), "the next service knows")
    server.start()
    until(lambda: copies() == 0, "it is dropped")
    until(lambda: what not in troubles(), "nothing is left to tell")


@pytest.mark.slow
def test_every_process_is_killed_under_load_and_all_views_equal_their_queries() -> None:
    """How long recoveries take is for the benchmark to say, on a machine that does nothing else."""
    checkout = Path(__file__).parents[2]
    command = [sys.executable, "-m", "bench.kills", "--minutes", "2.34", "--every", "20"]
    ran = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert "views equal to their queries: 8 of 8" in ran.stdout, ran.stdout + ran.stderr
