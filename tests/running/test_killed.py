"""kill -9 of what a project is made of: it goes on, and only what needs the dead one waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.connect.processes import birth_of
from tests.running.running_project import VIEWS, RunningProject, a_project, children, made_in, until


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
        made.declare("counts", more="  some_users: {view: some_users, at: us, freshness: 4 s}\n")
        yield made


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def state(project: RunningProject, contract: str) -> str:
    found = {one["id"]: str(one["state"]) for one in project.document("status")["contracts"]}
    return found.get(contract, "loading")


def has_users(project: RunningProject) -> Callable[[], bool]:
    return lambda: project.rows("some_users") == sorted(project.us.execute(VIEWS["some_users"]))


def test_captures_that_were_killed_go_on_where_they_were(project: RunningProject) -> None:
    project.up()
    for capture in children(project.process()["pid"]):
        kill(capture)
    project.change_something(5000)
    project.until_equal("counts")
    told = [one for one in project.events() if one["kind"] == "capture ended"]
    assert {(*one["about"]["databases"], one["reason"]) for one in told} == {
        (name, "it was killed (signal 9)") for name in ("us_dsn", "eu_dsn")
    }
    said = "capture of us_dsn ended; the service starts it again in 200 ms: it was killed (signal 9)"
    assert said in (project.folder / ".headrace" / "service.log").read_text()


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
    assert "continuing with the plan that ran last" in said
    assert "2 of 2 views are kept, as of" in said
    project.us.execute("UPDATE users SET country = 'c1' WHERE uid = 5")
    until(has_users(project), "changes of the other database arrive in a service that was started without the first")

    server.start()
    with psycopg.connect(server.dsn(), autocommit=True) as posts:
        posts.execute("INSERT INTO posts VALUES (6000, 3, 'written later')")
        whole = RunningProject(project.folder, project.us, posts, project.out)
        whole.until_equal("counts")
    until(lambda: state(project, "counts") == "kept", "it has caught up")
    until(lambda: told(project, "counts")[-1] == "kept again", "it is told")
    each_is_told_once_and_in_order(project)


def told(project: RunningProject, contract: str) -> list[str]:
    """Whether it was late and kept again, and how often."""
    kinds = [one["kind"] for one in project.events(f"--contract={contract}")]
    return [kind for kind in kinds if kind in ("late", "kept again")]


def each_is_told_once_and_in_order(project: RunningProject) -> None:
    """On a busy machine there may be more episodes than the one that we made."""
    audited = {one["id"]: one["episodes"] for one in project.document("audit", status=1)["contracts"]}
    episodes = told(project, "counts")
    assert episodes == ["late", "kept again"] * audited["counts"]
    all_ = project.events()
    kinds = [one["kind"] for one in all_]
    assert kinds.count("recovered") == 1 and kinds.count("started") == 2 and kinds.count("stopped") == 0
    ours = [one for one in all_ if one["kind"] == "recovered" or one["about"] == {"contracts": ["counts"]}]
    during = [one for one in ours if one["kind"] in ("late", "recovered", "kept again")]
    place = [one["kind"] for one in during].index("recovered")
    assert [one["kind"] for one in during[place - 1 : place + 2]] == ["late", "recovered", "kept again"]
    assert "capture of eu_dsn" in during[place - 1]["reason"]
    assert kinds.count("capture failed") >= 1 and kinds.index("capture failed") < kinds.index("recovered")
    assert [one["at"] for one in all_] == sorted(one["at"] for one in all_)
    assert all(list(one) == ["at", "kind", "about", "text", "reason", "numbers"] for one in all_)
    assert {"pushed"} <= {one["kind"] for one in project.events("--all")}


COPY = '{view: some_users, at: us, freshness: 4 s, deliver: {postgres: {dsn: "${EU_DSN}", table: users_copy}}}'


@pytest.mark.long
def test_what_is_withdrawn_while_its_database_is_away_is_dropped_later(
    project: RunningProject, server: EmbeddedPostgres
) -> None:
    def made() -> list[str]:
        with psycopg.connect(server.dsn()) as session:
            return made_in(session)

    def troubles() -> str:
        return str(project.document("status")["troubles"])

    def are_told() -> bool:
        found = troubles()
        return all(f"{what} could not be dropped yet" in found for what in (copy, slot))

    project.declare("counts", more=f"  some_users: {COPY}\n")
    project.up()
    until(lambda: "users_copy" in made(), "it is delivered")
    name = next(name for name in made() if name.startswith("headrace_shop_"))
    copy = 'table "users_copy" of contract "some_users", which was withdrawn,'
    slot = f'slot "{name}" of database eu_dsn, which is no longer captured,'
    server.kill()
    project.declare_users_only()
    project.document("apply")
    until(are_told, "it is told")
    pid = project.process()["pid"]
    kill(pid)
    until(lambda: birth_of(pid) is None, "it is gone")
    project.up()
    until(are_told, "the next service knows")
    server.start()
    until(lambda: made() == [], "all of it is dropped")
    until(lambda: troubles() == "[]", "nothing is left to tell")


@pytest.mark.long
def test_every_process_is_killed_under_load_and_all_views_equal_their_queries() -> None:
    """How long recoveries take is for the benchmark to say, on a machine that does nothing else."""
    checkout = Path(__file__).parents[2]
    command = [sys.executable, "-m", "bench.kills", "--minutes", "2.34", "--every", "20"]
    ran = subprocess.run(command, cwd=checkout, capture_output=True, text=True)
    assert "views equal to their queries: 8 of 8" in ran.stdout, ran.stdout + ran.stderr
