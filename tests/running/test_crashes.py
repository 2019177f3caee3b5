"""A service dies at every boundary between two steps to another plan: the next one does the steps that are left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psycopg

from headrace.app.planning import plan_project
from headrace.connect.processes import birth_of
from headrace.coordinate.acts import ServiceActs
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.existing import find_existing
from headrace.coordinate.perform import apply_plan, find_steps, find_unfinished, go_over
from headrace.coordinate.steps import steps_between
from headrace.doors.cli import main
from headrace.model.going_over import GoingOver
from headrace.model.plan import PlanOptions
from headrace.model.steps import Step, Steps, split_acts
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.loading import Loading
from headrace.site.reading import ViewReader
from headrace.site.running import make_running
from headrace.site.service import Service
from tests.running.running_project import RunningProject, made_in, until
from tests.running.shop import PROJECT, make_shop

NAMES = '  names: {view: names, at: us, freshness: 20 s, deliver: {postgres: {dsn: "${US_DSN}", table: names_copy}}}\n'
SCORED = (
    '  scored: {view: scored, at: us, freshness: 20 s, deliver: {postgres: {dsn: "${US_DSN}", table: scored_copy}}}\n'
)
QUERIES = {
    "names": "SELECT uid, name FROM users",
    "scored": "SELECT uid, count(*) AS posts, sum(score) AS score FROM posts GROUP BY uid",
}


class Crash(BaseException):
    """The process is gone: nobody hears of it."""


class CrashingActs(ServiceActs):
    """Does one act. The first time it crashes before that is noted, the second time before the next act begins."""

    did: Steps = ()
    is_noted = False

    def act(self, steps: Steps) -> None:
        if self.did:
            raise Crash
        super().act(steps)
        self.did = steps
        if not self.is_noted:
            raise Crash


def run_until_crash(service: Service, going: GoingOver, done: int, is_noted: bool) -> tuple[Steps, bool]:
    """The steps that were done, and whether that was all."""
    acts: list[CrashingActs] = []

    def make_acts(service: Service, loading: Loading) -> CrashingActs:
        acts.append(CrashingActs(service, loading))
        acts[0].is_noted = is_noted
        return acts[0]

    def go() -> None:
        with suppress(Crash):
            go_over(service, loading, going, done, make_acts)
            finished.set()

    finished, loading = threading.Event(), Loading(make_running(going.plan, going.forced))
    service.start_loading(loading, go)
    assert loading.done.wait(120) and loading.error is None, loading.error
    until(lambda: not any(thread.name == "load" for thread in threading.enumerate()), "it is gone")
    return acts[0].did, finished.is_set()


def opened(folder: Path, environment: Mapping[str, str]) -> Service:
    service = Service(Folder(folder), environment, HereRunner(perform), in_processes=False)
    service.open()
    return service


def test_a_crash_at_every_boundary_of_the_steps_to_a_plan(tmp_path: Path, postgres_database: Callable[[], str]) -> None:
    environment = make_shop(tmp_path, PROJECT + NAMES, postgres_database)
    for name, query in QUERIES.items():
        (tmp_path / "views" / f"{name}.sql").write_text(query)
    before = plan_project(tmp_path, environment, PlanOptions())
    (tmp_path / "headrace.yml").write_text(PROJECT + SCORED)
    then = plan_project(tmp_path, environment, PlanOptions())
    service = opened(tmp_path, environment)
    try:
        loading = apply_plan(service, before)
        assert loading.done.wait(120) and loading.error is None
        going: GoingOver = GoingOver(then, {}, find_steps(service, make_running(then)))
        kinds = [type(step).__name__ for step in going.steps]
        assert kinds == [
            "StartCapture", "ReadSources", "LoadVertices", "SwitchPlan", "StopContract", "StopCapture", "WriteCopy",
            "RemoveCopy", "GiveBackSlot",
        ]  # fmt: skip
        left, performed, number, is_all = list(split_acts(going.steps)), list[Step](), 0, False
        post = 5000
        while not is_all:
            for is_noted in (False, True):
                if is_all:
                    break
                did, is_all = run_until_crash(service, going, number, is_noted)
                assert did == left[0]
                with psycopg.connect(environment["EU_DSN"]) as session:
                    session.execute("INSERT INTO posts (post, uid, score) VALUES (%s, 7, 1.5)", (post := post + 1,))
                if not is_all:
                    service.close()
                    found = find_unfinished(service.folder)
                    assert found is not None and found[0].steps == going.steps
                    going, number = found
                    assert number == len(performed) + (len(did) if is_noted else 0)
                    service = opened(tmp_path, environment)
            performed += left.pop(0)
        assert tuple(performed) == going.steps and find_unfinished(service.folder) is None
        check_that_all_is_right(service, environment)
    finally:
        service.close()


def check_that_all_is_right(service: Service, environment: Mapping[str, str]) -> None:
    """Views are equal to their queries, and nothing is left of the plan before."""
    running, state = service.running, service.rounds.state
    assert running is not None and state is not None
    reader = ViewReader(running.plan, state.program, service.ledger, service.store)
    found = compare_views(reader, service.folder, environment, service.rounds.push_to)
    assert found.equal, found
    with psycopg.connect(environment["US_DSN"]) as session:
        until(lambda: made_in(session) == ["scored_copy"], "slot and publications are gone, and the first copy")

    def what_is_left() -> Steps:
        existing = find_existing(service.ledger, service.folder.project)
        return steps_between(running, running, existing)

    until(lambda: what_is_left() == () and "spool:users" not in service.ledger.times(), "nothing is left over")


def test_a_service_that_is_killed_on_its_way_says_what_is_left_and_does_it(project: RunningProject) -> None:
    many = "INSERT INTO users SELECT i, 'n' || i, 'c1' FROM generate_series(100, 100000) i"
    project.us.execute(many)  # reading them takes a while
    project.declare("by_pid")
    project.up()
    project.declare("by_pid", "counts")
    printed = [step["text"] for step in project.document("apply", "--dry-run")["steps"]]
    kill_on_the_way(project)
    left = [step["text"] for step in project.document("apply", "--dry-run")["steps"]]
    assert left == printed[-len(left) :] and left[0] in ("capture users from database us_dsn", "read users")
    project.change_something(5000)
    project.up()
    said = (project.folder / ".headrace" / "up.log").read_text()
    assert f"the last run had done {len(printed) - len(left)} of {len(printed)} steps to another plan" in said
    assert all(text in said for text in left)
    project.until_equal("counts")
    assert find_unfinished(Folder(project.folder)) is None
    assert project.document("apply")["changed"] is False
    project.declare("by_pid")
    assert project.document("apply")["changed"] is True


def kill_on_the_way(project: RunningProject) -> None:
    """As soon as the list of steps is noted."""
    applying = threading.Thread(target=lambda: main.run(["apply", str(project.folder)]))
    pid = project.process()["pid"]
    applying.start()
    until(lambda: find_unfinished(Folder(project.folder)) is not None, "it has begun", every_s=0.005)
    os.kill(pid, signal.SIGKILL)
    applying.join()
    until(lambda: birth_of(pid) is None, "it is gone")
