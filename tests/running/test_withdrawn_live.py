"""Sources come and go, and so do their databases: no slot is left that nobody reads, none is dropped that is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from headrace.app.planning import plan_project
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.perform import apply_plan
from headrace.model.plan import Plan, PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from tests.running.running_project import RunningProject, made_in, until
from tests.running.shop import PROJECT, make_shop

SOURCES = PROJECT + "  names: {view: names, at: us, freshness: 20 s}\n"
BOTH = SOURCES + "  wall: {view: wall, at: us, freshness: 20 s}\n"


@pytest.mark.long
def test_a_source_that_is_removed_while_nothing_runs_leaves_nothing_in_its_database(project: RunningProject) -> None:
    project.declare("counts")
    project.up()
    assert len(made_in(project.eu)) == 3
    project.headrace("down")
    project.declare_users_only()
    project.up()
    until(lambda: made_in(project.eu) == [], "slot and publications are gone")
    assert len(made_in(project.us)) == 3


@pytest.mark.long
def test_a_source_that_is_asked_for_again_before_its_database_is_back_is_captured_and_complete(
    tmp_path: Path, postgres_database: Callable[[], str], server: EmbeddedPostgres
) -> None:
    def applied(plan: Plan) -> None:
        loading = apply_plan(service, plan)
        assert loading.done.wait(120)
        assert loading.error is None

    addresses = iter((postgres_database(), server.dsn()))
    environment = make_shop(tmp_path, BOTH, lambda: next(addresses))
    (tmp_path / "views" / "names.sql").write_text("SELECT uid, name FROM users")
    both = plan_project(tmp_path, environment, PlanOptions())
    (tmp_path / "headrace.yml").write_text(SOURCES)
    users_only = plan_project(tmp_path, environment, PlanOptions())
    service = Service(Folder(tmp_path), environment, HereRunner(perform), in_processes=False)
    service.open()
    try:
        applied(both)
        before = publications(server)
        server.kill()
        applied(users_only)
        until(lambda: any("slot" in one.what for one in service.troubles.all().values()), "it cannot be dropped")
        loading = apply_plan(service, both)
        until(lambda: service.troubles.all() == {}, "it is asked for again")
        server.start()
        with psycopg.connect(server.dsn()) as session:
            session.execute("INSERT INTO posts (post, uid, score) VALUES (5000, 7, 1.5)")
        assert loading.done.wait(120)
        assert loading.error is None
        assert publications(server) == before
        assert service.rounds.state is not None
        reader = ViewReader(both, service.rounds.state.program, service.ledger, service.store)
        found = compare_views(reader, service.folder, environment, service.rounds.push_to)
        assert found.equal, found
    finally:
        service.close()


def publications(server: EmbeddedPostgres) -> list[tuple[int, str]]:
    """With numbers that are never given again."""
    with psycopg.connect(server.dsn()) as session:
        return session.execute("SELECT oid, pubname FROM pg_publication ORDER BY oid").fetchall()
