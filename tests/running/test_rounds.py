"""What rounds tell while pushes go on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from headrace.run.push.engine import Engine
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.run.schedule.next_push import SECOND, Due
from headrace.site import service as service_module
from headrace.site.auditor import WatchedContract
from headrace.site.folder import Folder
from headrace.site.importing import SitePeer
from headrace.site.learning import Learning
from headrace.site.running import Running, make_running
from headrace.site.scheduler import Scheduler
from headrace.site.service import Service
from tests.plan.share.projects import wanted
from tests.run.test_crashes import VIEWS
from tests.run.test_engine import load_two_views
from tests.run.test_sites import apart
from tests.running.test_steps import plan_of


def test_what_pushes_are_expected_to_take_is_what_the_last_round_published(tmp_path: Path) -> None:
    """Other threads ask while pushes go on, and what these teach changes at any moment."""
    service = Service(Folder(tmp_path), {}, HereRunner(perform))
    service.open()
    try:
        running = make_running(plan_of(wanted("sales")))
        (entry,) = running.plan.contracts
        with service.turns.pushing:
            ports = (service.ledger, service.store, service.runner, service.lease)
            service.rounds.switch(running, Engine(running.program, *ports))
            scheduler = service.rounds.scheduler
            assert scheduler is not None
            before = service.rounds.expect()
            scheduler.learning.begin(entry.contract, 0, predicted_s=1.0)
            scheduler.learning.end(entry.contract, 9_000_000)
            meanwhile = service.rounds.expect()
            assert before is not None and meanwhile is not None
            assert meanwhile(entry.vertex, 10.0) == before(entry.vertex, 10.0) > 0.0
            service.rounds.push_program(running.program)  # publishes what was learnt
            after = service.rounds.expect()
            assert after is not None and after(entry.vertex, 10.0) > before(entry.vertex, 10.0)
    finally:
        service.close()


def test_a_site_ends_although_a_push_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A push may take minutes, and one that hangs never ends."""
    monkeypatch.setattr(service_module, "LEFT_WITHIN_S", 0.2)
    service = Service(Folder(tmp_path), {}, HereRunner(perform), site="us", find_peer=lambda _: cast(SitePeer, None))
    service.open()
    try:
        with ThreadPoolExecutor(1) as other, service.turns.pushing:
            running = make_running(plan_of(wanted("sales")))
            ports = (service.ledger, service.store, service.runner, service.lease)
            service.rounds.switch(running, Engine(running.program, *ports))
            other.submit(service.leave_fresh).result(10)
    finally:
        service.close()


def test_views_that_are_hurried_go_by_their_promises_and_young_ones_wait(tmp_path: Path) -> None:
    """A site that ends has seconds: what is promised most goes first, and what is fresh enough takes no time."""
    world = load_two_views(tmp_path)
    first, second = world.plan.contracts
    plan = replace(world.plan, contracts=(replace(first, freshness_s=100.0), replace(second, freshness_s=20.0)))
    running = Running(plan, world.program, {}, frozenset(world.sources), (), (), {})
    scheduler = Scheduler(running, world.engine, Learning(plan))
    now = world.pass_time(5 * SECOND)
    world.capture({})
    times = world.ledger.times()
    assert scheduler.hurry(None, now, times, share=1 / 8).keys() == {second.vertex}
    assert scheduler.hurry(None, now, times).keys() == {first.vertex, second.vertex}
    due = sorted(scheduler.pending.values(), key=lambda one: one.urgency)
    assert [one.contract for one in due] == [second.contract, first.contract]
    assert [round((one.deadline - now) / SECOND) for one in due] == [15, 95]


def test_where_nothing_happens_all_views_move_on_together_but_young_ones_that_are_delivered(tmp_path: Path) -> None:
    """With each push of a view that is delivered, somebody else's database is written to."""
    world = load_two_views(tmp_path)
    first, second = world.plan.contracts
    watched = tuple(
        WatchedContract(one.contract, one.vertex, one.freshness_s, 0.0, (), delivers=one is second)
        for one in (first, second)
    )
    running = Running(world.plan, world.program, {}, frozenset(world.sources), (), watched, {})
    scheduler = Scheduler(running, world.engine, Learning(world.plan))

    def move_idle(seconds: float) -> list[int]:
        """How far behind both are after some seconds, in seconds."""
        now = world.pass_time(round(seconds * SECOND))
        scheduler.move_idle(scheduler.state().scene(now, world.ledger.times(), {}))
        return [round((now - world.time_of(one.contract)) / SECOND) for one in (first, second)]

    assert first.freshness_s == second.freshness_s == 60.0
    assert move_idle(20.0) == [0, 20]
    assert move_idle(20.0) == [0, 0]
    assert move_idle(10.0) == [0, 10]
    scheduler.pending[second.contract] = Due(second.contract, second.vertex, world.now, world.now, late=False)
    assert move_idle(5.0) == [0, 0]
    assert world.wrong() == []


def test_a_push_that_waits_for_a_site_that_is_gone_is_decided_anew(tmp_path: Path) -> None:
    """It had said how far it would get. What has come of it is pushed all the same."""
    sites = apart(VIEWS[:1], "m2", tmp_path)
    sites.capture({})
    sites.load()
    sites.capture({})
    world, told = sites.worlds["m2"], sites.neighbours["m2"].told
    running = Running(world.plan, world.program, {}, frozenset(world.sources), (), (), {})
    scheduler, times = Scheduler(running, world.engine, Learning(world.plan)), world.ledger.times()
    now = max(told.values()) + 1
    assert told and all(t > times[copy] for copy, t in told.items())
    hurried = scheduler.hurry(None, now, times)
    scheduler.decide(now, times, {})
    assert {due.vertex for due in scheduler.pending.values()} >= hurried.keys(), "it waits for what was promised"
    aims = {name: due.target for name, due in scheduler.pending.items()}
    sites.capture({})
    scheduler.hurry(None, now, times, share=1e-9)
    assert {name: due.target for name, due in scheduler.pending.items()} == aims, "it gets there first"
    sites.neighbours["m2"].told = {copy: times[copy] for copy in told}
    scheduler.decide(now, times, {})
    assert not any(due.target > min(times[copy] for copy in told) for due in scheduler.pending.values())
