"""A view whose changes are gone starts anew: its site had no room for them, or a plan or a crash cut it off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import psycopg
import pytest

from headrace.app.planning import plan_project
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.perform import apply_plan
from headrace.model.log import Commit
from headrace.model.plan import PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site import housekeeping
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from tests.running.running_project import until
from tests.running.shop import NEW_POST, PROJECT, make_shop

LIMITED = (
    PROJECT.replace("us: {}", "us: {disk_capacity: 1 MB}")
    + """
  names: {view: names, at: us, freshness: 2 s}
  wall: {view: wall, at: us, freshness: 2 s}
"""
)


def test_it_is_named_and_loaded_as_soon_as_it_can_be_and_the_others_go_on(
    tmp_path: Path,
    postgres_database: Callable[[], str],
    server: EmbeddedPostgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(housekeeping, "TRIM_EVERY_S", 0.5)
    addresses = iter((postgres_database(), server.dsn()))
    environment = make_shop(tmp_path, LIMITED, lambda: next(addresses))
    (tmp_path / "views" / "names.sql").write_text("SELECT uid, name FROM users")
    plan = plan_project(tmp_path, environment, PlanOptions())
    service = Service(Folder(tmp_path), environment, HereRunner(perform), in_processes=False)
    service.open()
    try:
        loading = apply_plan(service, plan)
        assert loading.done.wait(120) and loading.error is None
        server.kill()
        with psycopg.connect(environment["US_DSN"], autocommit=True) as session:

            def is_cut_off() -> bool:
                session.execute("UPDATE users SET name = repeat(chr(65 + (random() * 25)::int), 500)")
                return bool(service.unloaded.why)

            until(is_cut_off, "the view is cut off")
        assert list(service.unloaded.why) == ["wall"]
        server.start()
        until(lambda: not service.unloaded.why, "it is loaded again")

        def is_right() -> bool:
            """It may be cut off once more, while what others read leaves no room at its site."""
            assert service.rounds.state is not None
            reader = ViewReader(plan, service.rounds.state.program, service.ledger, service.store)
            found = compare_views(reader, service.folder, environment, service.rounds.push_to)
            assert found.equal, found
            return len(found.views) == 2

        until(is_right, "both views are compared, and equal their queries")
    finally:
        service.close()


def test_a_plan_that_would_cut_a_view_off_is_not_gone_over_to_and_one_that_did_is_mended_by_up(
    tmp_path: Path, postgres_database: Callable[[], str], server: EmbeddedPostgres
) -> None:
    """The second contract makes the first one read a dataset that starts later than the first view has reached."""
    addresses = iter((server.dsn(), postgres_database()))
    scores = (
        PROJECT + "  scores: {view: scores, at: us, freshness: 2 s}\n  heap: {view: heap, at: eu, freshness: 1 s}\n"
    )
    environment = make_shop(tmp_path, scores, lambda: next(addresses))
    (tmp_path / "views" / "heap.sql").write_text("SELECT post, uid FROM posts")
    service = Service(Folder(tmp_path), environment, HereRunner(perform), in_processes=False)
    service.open()
    try:
        loading = apply_plan(service, plan_project(tmp_path, environment, PlanOptions()))
        assert loading.done.wait(120) and loading.error is None
        (tmp_path / "headrace.yml").write_text(scores + "  wall: {view: wall, at: us, freshness: 2 s}\n")
        both = plan_project(tmp_path, environment, PlanOptions())
        server.kill()
        with psycopg.connect(environment["EU_DSN"], autocommit=True) as session:
            session.execute(NEW_POST)
        until(
            lambda: (t := service.ledger.times())["r:posts@eu"] > t["spool:users"], "one source is ahead of the other"
        )
        loading = apply_plan(service, both)
        assert loading.done.wait(120) and loading.error is not None
        assert "some of their sources are not captured as far as others now" in loading.error
        server.start()
        until(lambda: is_equal(service, tmp_path, environment), "the view that ran goes on")
        loading = apply_plan(service, both)
        assert loading.done.wait(120) and loading.error is None
        until(lambda: is_equal(service, tmp_path, environment), "both views run")
        assert service.failure is None
    finally:
        service.close()
    ledger = Folder(tmp_path).ledger()
    lease = ledger.acquire("service", "test", 10.0)
    ledger.commit(lease, Commit(forget=("d:posts|posts@us", "r:users@us")))
    ledger.release(lease)
    ledger.close()
    again = Service(Folder(tmp_path), environment, HereRunner(perform), in_processes=False)
    again.open()
    try:
        loading = apply_plan(again, both)
        assert loading.done.wait(120) and loading.error is None
        until(lambda: not again.unloaded.why, "all views are loaded")
        until(lambda: is_equal(again, tmp_path, environment), "both views run again")
        assert again.failure is None
    finally:
        again.close()


def is_equal(service: Service, folder: Path, environment: Mapping[str, str]) -> bool:
    """Whether all views of what runs equal their queries."""
    assert service.rounds.state is not None
    state = service.rounds.state
    reader = ViewReader(state.running.plan, state.program, service.ledger, service.store)
    found = compare_views(reader, service.folder, environment, service.rounds.push_to)
    assert found.equal, found
    return len(found.views) == len(state.running.plan.contracts)
