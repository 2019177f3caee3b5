"""A view that waits for a database until its site has no room for what it has not read starts anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from headrace.app.planning import plan_project
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.perform import apply_plan
from headrace.model.plan import PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site import housekeeping
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from tests.running.running_project import until
from tests.running.shop import PROJECT, make_shop

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
