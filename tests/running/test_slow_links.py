"""Changes that are on their way over a link keep nobody waiting who does not need them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.app.planning import plan_project
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.perform import apply_plan
from headrace.coordinate.status import status_document
from headrace.model.plan import PlanOptions
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.run.push.simulated_links import SimulatedLinksRunner
from headrace.site.folder import Folder
from headrace.site.last_status import State
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from headrace.site.snapshot import take_snapshot
from tests.running.running_project import until
from tests.running.shop import PROJECT, make_shop

CONTRACTS = """\
  wall: {view: wall, at: eu, freshness: 2 s}
  own: {view: own, at: eu, freshness: 2 s}
"""
OWN = "SELECT uid, count(*) AS posts FROM posts GROUP BY uid"


class World:
    """`own` needs posts alone, which are where it is. `wall` also needs users, which come over a link."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.environment = environment
        self.passes = threading.Event()
        self.passes.set()
        (folder / "views" / "own.sql").write_text(OWN)
        links = SimulatedLinksRunner(HereRunner(perform), lambda: self.service.links(), wait=self._wait)
        self.service = Service(Folder(folder), environment, links, in_processes=False, links_now=links.queues)
        self.service.open()
        loading = apply_plan(self.service, plan_project(folder, environment, PlanOptions()))
        assert loading.done.wait(120), f"it is still {loading.phase}"
        assert loading.error is None

    def _wait(self, seconds: float) -> None:
        """Nothing arrives while the link is cut."""
        self.passes.wait(120)

    @property
    def reader(self) -> ViewReader:
        state = self.service.rounds.state
        assert state is not None
        return ViewReader(state.running.plan, state.program, self.service.ledger, self.service.store)

    def time_of(self, contract: str) -> int:
        return self.reader.served(contract).log.t

    def rename(self) -> None:
        with psycopg.connect(self.environment["US_DSN"], autocommit=True) as session:
            session.execute("UPDATE users SET name = name || '!'")

    def post(self) -> None:
        with psycopg.connect(self.environment["EU_DSN"], autocommit=True) as session:
            session.execute("INSERT INTO posts (uid, score) VALUES (1, 0.5)")

    def status(self) -> dict[str, Any]:
        document = status_document(take_snapshot(self.service), State.RUNNING, 1)
        return {**document, "contracts": {one["id"]: one for one in document["contracts"]}}


@pytest.fixture
def world(tmp_path: Path, postgres_database: Callable[[], str]) -> Iterator[World]:
    made = World(tmp_path, make_shop(tmp_path, PROJECT + CONTRACTS, postgres_database))
    try:
        yield made
    finally:
        made.passes.set()
        made.service.close()


def test_who_needs_nothing_that_comes_over_a_cut_link_goes_on(world: World) -> None:
    world.passes.clear()
    world.rename()
    until(lambda: bool(world.service.in_work.vertices), "changes of users are on their way")
    before = world.time_of("wall")
    for _ in range(3):
        reached = world.time_of("own")
        world.post()
        until(lambda: world.time_of("own") > reached, "own goes on")  # noqa: B023
    assert world.time_of("wall") == before
    until(lambda: world.status()["contracts"]["wall"]["state"] == "late", "it is named late")
    document = world.status()
    assert "wait for the link from us to eu" in document["contracts"]["wall"]["reason"]
    assert document["contracts"]["own"]["state"] == "kept"
    (link,) = [one for one in document["links"] if one["from"] == "us"]
    assert link["state"] == "sending"
    world.passes.set()
    until(lambda: world.time_of("wall") > before, "what was on its way is there")
    found = compare_views(world.reader, world.service.folder, world.environment, world.service.rounds.push_to)
    assert found.equal and not found.not_compared, found
    assert len(found.views) == 2
