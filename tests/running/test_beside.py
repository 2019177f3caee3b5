"""A view in full that takes long to compute keeps nobody else waiting, and is right whatever happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.app.planning import plan_project
from headrace.coordinate.compare.committing import ask_for_views
from headrace.coordinate.compare.compare import compare_views
from headrace.coordinate.compare.compared import ComparedViews
from headrace.coordinate.perform import apply_plan
from headrace.model.plan import PlanOptions
from headrace.run.program import AggregateStep, RecomputeStep
from headrace.run.push.chains import ChainItem
from headrace.run.push.here_jobs import HereJobs
from headrace.run.push.items import HereRunner, Item, ItemOutcome
from headrace.run.push.perform import perform
from headrace.run.push.work import WorkItem
from headrace.run.schedule.deadlines import Patience
from headrace.site.engine.timed_runner import TimedRunner
from headrace.site.folder import Folder
from headrace.site.reading import ViewReader
from headrace.site.service import Service
from tests.running.running_project import until
from tests.running.shop import PROJECT, make_shop

WALL = "  wall: {view: wall, at: us, freshness: 5 s}\n"
SCORES = "  scores: {view: scores, at: eu, freshness: 5 s, refresh: full}\n"
LEAST_S = 10.0
"""So long may an item take where something hangs: others go on meanwhile, also on a busy machine."""
ELSEWHERE = "  scores_us: {view: scores, at: us, freshness: 6 s, refresh: full}\n"


def is_in_full(item: Item) -> bool:
    match item:
        case WorkItem():
            return isinstance(item.task.step, RecomputeStep)
        case ChainItem():
            return any(map(is_in_full, item.items))
        case _:
            return False


@dataclass
class HeldRunner:
    """Runs items here; those that compute a view in full wait until they may `go_on`, as long computations would."""

    inner: HereRunner[Any] = field(default_factory=lambda: HereRunner(perform))
    go_on: threading.Event = field(default_factory=threading.Event)
    held: int = 0
    most: int = 0
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def run(self, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        if any(map(is_in_full, items)):
            self.wait()
        return self.inner.run(items)

    def wait(self) -> None:
        self._count(1)
        assert self.go_on.wait(120)
        self._count(-1)

    def _count(self, more: int) -> None:
        with self._turn:
            self.held += more
            self.most = max(self.most, self.held)


class World:
    """A service that keeps `wall` as changes come, and `scores` in full."""

    def __init__(self, folder: Path, environment: dict[str, str], watched: bool = False) -> None:
        self.folder, self.environment = folder, environment
        self.runner = HeldRunner()
        self.runner.go_on.set()
        timed = TimedRunner(HereJobs(self._perform_held), Patience(least_s=LEAST_S, end_s=0.1))
        self.service = Service(Folder(folder), environment, timed if watched else self.runner, in_processes=False)
        self.service.open()

    def _perform_held(self, item: Any) -> Any:
        """As a function that never returns, in one view of several that are pushed together."""
        items = item.items if isinstance(item, ChainItem) else [item]
        if any(isinstance(one, WorkItem) and isinstance(one.task.step, AggregateStep) for one in items):
            self.runner.wait()
        return perform(item)

    def apply(self, *contracts: str) -> None:
        (self.folder / "headrace.yml").write_text(PROJECT + "".join(contracts))
        loading = apply_plan(self.service, plan_project(self.folder, self.environment, PlanOptions()))
        assert loading.done.wait(180), f"it is still {loading.phase}"
        assert loading.error is None

    @property
    def reader(self) -> ViewReader:
        state = self.service.rounds.state
        assert state is not None
        return ViewReader(state.running.plan, state.program, self.service.ledger, self.service.store)

    def time_of(self, contract: str) -> int:
        return self.reader.served(contract).log.t

    def post(self) -> None:
        with psycopg.connect(self.environment["EU_DSN"], autocommit=True) as session:
            session.execute("INSERT INTO posts (uid, score) VALUES (1, 0.5)")

    def hold(self) -> None:
        """Returns when the view in full is being computed, and for how long is up to the test."""
        self.runner.go_on.clear()
        self.post()
        until(lambda: self.runner.held > 0, "it is computed")

    def advances(self, contract: str, times: int = 3) -> None:
        for _ in range(times):
            before = self.time_of(contract)
            self.post()
            until(lambda: self.time_of(contract) > before, f"{contract} goes on")  # noqa: B023

    def compared(self) -> ComparedViews:
        found = compare_views(self.reader, self.service.folder, self.environment, self.service.rounds.push_to)
        assert found.equal and not found.not_compared, found
        return found


@pytest.fixture
def world(tmp_path: Path, postgres_database: Callable[[], str]) -> Iterator[World]:
    made = World(tmp_path, make_shop(tmp_path, PROJECT, postgres_database))
    try:
        made.apply(WALL, SCORES)
        yield made
    finally:
        made.runner.go_on.set()
        made.service.close()


def test_others_keep_their_promises_while_a_view_in_full_is_computed(world: World) -> None:
    world.hold()
    before = world.time_of("scores")
    world.advances("wall")
    assert world.time_of("scores") == before
    assert world.runner.most == 1, "it is computed once at a time"
    world.runner.go_on.set()
    until(lambda: world.time_of("scores") > before, "it is there")
    assert len(world.compared().views) == 2


def test_another_plan_runs_at_once_while_a_view_in_full_is_computed(world: World) -> None:
    world.hold()
    world.apply(WALL)
    world.advances("wall", 1)
    world.runner.go_on.set()
    until(lambda: not world.service.in_work.vertices, "the computation is over")
    assert len(world.compared().views) == 1
    world.apply(WALL, SCORES, ELSEWHERE)
    world.hold()
    world.apply(WALL, SCORES.replace("5 s", "7 s"), ELSEWHERE)
    before = world.time_of("scores"), world.time_of("scores_us")
    world.runner.go_on.set()
    until(lambda: world.time_of("scores") > before[0], "what the plan before began is taken")
    until(lambda: world.time_of("scores_us") > before[1], "and handed on")
    assert len(world.compared().views) == 3


def test_what_is_still_computed_when_a_service_ends_is_never_committed(world: World) -> None:
    world.hold()
    world.service.close()
    folder = world.service.folder
    world.service = Service(folder, world.environment, HeldRunner(go_on=is_set()), in_processes=False)
    world.service.open()
    world.apply(WALL, SCORES)
    world.runner.go_on.set()
    until(lambda: world.runner.held == 0, "the computation is over")
    assert len(world.compared().views) == 2


@pytest.mark.long
def test_who_asks_for_all_views_at_one_time_keeps_nobody_waiting(world: World) -> None:
    world.hold()
    found = list[ComparedViews]()
    ask = partial(
        compare_views, world.reader, world.service.folder, world.environment, ask_for_views(world.reader.ledger)
    )
    asking = threading.Thread(target=lambda: found.append(ask()))
    asking.start()
    world.advances("wall", 2)
    world.runner.go_on.set()
    asking.join(180)
    assert [(len(one.views), one.equal) for one in found] == [(2, True)], found


def is_set() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@pytest.mark.long
def test_a_push_that_hangs_holds_up_the_others_once_and_is_then_tried_beside_them(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    world = World(tmp_path, make_shop(tmp_path, PROJECT, postgres_database), watched=True)
    try:
        world.apply(WALL, SCORES.replace(", refresh: full", ""))
        world.hold()
        rounds = world.service.rounds
        assert rounds.scheduler is not None and rounds.state is not None
        until(lambda: world.runner.held == 2, "it was ended, and is tried once more")
        world.advances("wall", 1)
        assert world.service.in_work.vertices, "others have gone on while it is tried"
        until(lambda: rounds.state is not None and rounds.state.why_failing("scores") is not None, "it is named")
        world.advances("wall", 1)
        world.runner.go_on.set()
        rounds.scheduler.failing.clear()  # as if its rest was over
        world.post()
        assert len(world.compared().views) == 2
        assert not rounds.scheduler.slow
    finally:
        world.runner.go_on.set()
        world.service.close()
