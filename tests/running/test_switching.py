"""A contract that leaves the choice switches when the other way has been a fifth cheaper for an hour, and only then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace import Project
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.coordinate.replanning import ContractMove, Replanning
from headrace.model.catalogue import OperatorTime
from headrace.model.plan import Plan
from headrace.plan.explain import why
from headrace.plan.explain_ways import explain_other_way
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.adapt import compare_ways
from headrace.plan.share.revalue import Measured
from headrace.plan.share.way_watch import COMPARE_EVERY_S, LASTS_S, LONGEST_GAP_S, WayWatch
from headrace.run.ports import Ledger

CALM, BUSY = 150.0, 60_000.0
"""Changed posts per second at which the view is cheaper maintained, and in full."""
HOUR = int(LASTS_S)


def plan_wall(rate: float, freshness: str = "8 s", users: float = 1.0) -> Plan:
    project = Project("shop", headroom={"cpu": 0, "link": 0, "blocking": 0})
    project.site("eu", cpu="0.34 $/core-hour")
    project.source("users", at="eu", key="uid", rows=50, rate=users, columns={"uid": "bigint", "name": "string"})
    posts = dict.fromkeys(("post", "uid", "score"), "bigint")
    project.source("posts", at="eu", key="post", rows=100_000, rate=rate, columns=posts)
    project.view("wall", "SELECT p.post, u.name, p.score FROM posts p JOIN users u ON p.uid = u.uid")
    project.contract("wall", view="wall", at="eu", freshness=freshness, refresh="auto")
    return make_plan(project.catalogue)


def is_in_full(plan: Plan) -> bool:
    return plan.catalogue.is_in_full("wall")


@dataclass
class Running:
    """A plan whose rates are as a test says; a hand turns the clock."""

    plan: Plan
    ledger: Ledger
    clock_s: float = 0.0
    error: str | None = None
    moves: list[ContractMove] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lease = self.ledger.acquire("service", "test", 1e9)
        self.restart()

    def restart(self) -> None:
        self.replanning = Replanning(self.ledger, self.lease)
        self.replanning.resume()

    def go_over(self, plan: Plan) -> str | None:
        self.plan = self.plan if self.error else plan
        return self.error

    def run(self, seconds: float, rate: float, recomputing: Mapping[str, OperatorTime] | None = None) -> None:
        end_s = self.clock_s + seconds
        while self.clock_s < end_s:
            self.clock_s += COMPARE_EVERY_S
            found = Measured(self.clock_s, {"posts": rate}, recomputing=recomputing or {})
            move = self.replanning.step(self.plan, found, self.go_over)
            self.moves += [] if move is None else [move]

    @property
    def switches(self) -> list[ContractMove]:
        return [move for move in self.moves if any("for an hour" in reason for reason in move.reasons)]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_sqlite(tmp_path / "ledger.db")
    yield opened
    opened.close()


def test_the_cheaper_way_depends_on_the_rate():
    assert not is_in_full(plan_wall(CALM))
    assert is_in_full(plan_wall(BUSY))


@pytest.mark.parametrize(("planned", "then"), [(CALM, 2 * BUSY), (BUSY, CALM)], ids=["to full", "to maintained"])
def test_it_switches_after_an_hour_and_says_why(planned: float, then: float, ledger: Ledger):
    running = Running(plan_wall(planned), ledger)
    before = is_in_full(running.plan)
    running.run(HOUR, then)
    assert is_in_full(running.plan) is before and not running.switches
    running.run(2 * COMPARE_EVERY_S, then)
    assert is_in_full(running.plan) is not before
    (move,) = running.switches
    assert move.contracts == ("wall",)
    assert running.plan.catalogue.contracts["wall"].ways
    again = plan_on_running(running.plan, plan_wall(planned).catalogue)
    assert is_in_full(again) is not before, "who applies the same files again does not switch it back"


def test_an_hour_with_a_break_is_none(ledger: Ledger):
    running = Running(plan_wall(BUSY), ledger)
    for _ in range(3):
        running.run(HOUR - 2 * COMPARE_EVERY_S, CALM)
        running.run(COMPARE_EVERY_S, BUSY)
    assert is_in_full(running.plan) and not running.switches


def test_a_restart_begins_the_hour_anew(ledger: Ledger):
    running = Running(plan_wall(BUSY), ledger)
    running.run(HOUR - COMPARE_EVERY_S, CALM)
    running.restart()
    running.run(HOUR - COMPARE_EVERY_S, CALM)
    assert is_in_full(running.plan)
    running.run(3 * COMPARE_EVERY_S, CALM)
    assert not is_in_full(running.plan)


def test_less_than_a_fifth_is_no_reason(ledger: Ledger):
    plan = plan_wall(BUSY)
    rates = (rate for rate in range(int(BUSY), int(CALM), -500))
    rate = next(rate for rate in rates if (compare_ways(plan, Measured(0.0, {"posts": rate}), "wall") or 0.0) > 0.1)
    saving = compare_ways(plan, Measured(0.0, {"posts": rate}), "wall")
    assert saving is not None and 0.1 < saving < 0.2
    running = Running(plan, ledger)
    running.run(3 * HOUR, rate)
    assert is_in_full(running.plan) and not running.switches


def test_a_promise_that_only_the_other_way_keeps_is_no_reason_to_wait(ledger: Ledger):
    running = Running(plan_wall(BUSY, "8 s"), ledger)
    slow = OperatorTime(0.15, 1e-4, 0.0)
    running.run(10 * COMPARE_EVERY_S, BUSY, recomputing={"eu": slow})
    assert not is_in_full(running.plan)
    assert [move.restores for move in running.moves] == [("wall",)]


def test_what_recomputing_was_seen_to_take_is_its_price():
    plan = plan_wall(CALM)
    for per_in, is_cheaper in ((5e-6, False), (1e-8, True)):
        found = Measured(0.0, {"posts": CALM}, recomputing={"eu": OperatorTime(0.01, per_in, 0.0)})
        saving = compare_ways(plan, found, "wall")
        assert saving is not None and (saving > 0) is is_cheaper


def test_a_switch_that_fails_is_not_tried_again_at_once(ledger: Ledger):
    running = Running(plan_wall(BUSY), ledger, error="no room")
    running.run(HOUR + 4 * COMPARE_EVERY_S, CALM)
    assert is_in_full(running.plan) and len(running.switches) == 1


# The watch alone


def watch_for(seconds: float, every_s: float, saving: float | None = 0.3, watch: WayWatch | None = None) -> WayWatch:
    plan, found = plan_wall(BUSY), watch or WayWatch()
    clock_s = 0.0
    while clock_s <= seconds:
        found = found.note_saving(plan, "wall", saving, clock_s)
        clock_s += every_s
    return found


def test_nobody_knows_what_was_in_a_long_gap():
    plan = plan_wall(BUSY)
    assert watch_for(HOUR, LONGEST_GAP_S).find_due(plan, "wall", HOUR) == 0.3
    assert watch_for(2 * HOUR, LONGEST_GAP_S + 1).find_due(plan, "wall", 2 * HOUR) is None


def test_a_contract_that_has_the_other_way_by_now_begins_anew():
    watched, other = watch_for(HOUR, COMPARE_EVERY_S), plan_wall(CALM)
    assert watched.find_due(plan_wall(BUSY), "wall", HOUR) == 0.3
    assert watched.find_due(other, "wall", HOUR) is None


def test_ways_are_compared_once_a_minute():
    plan = plan_wall(BUSY)
    assert WayWatch().choose_next(plan, 0.0) == ("wall",)
    watched = WayWatch().note_saving(plan, "wall", None, 0.0)
    assert watched.choose_next(plan, COMPARE_EVERY_S - 1) == ()
    assert watched.choose_next(plan, COMPARE_EVERY_S) == ("wall",)


# Why


@pytest.mark.parametrize("rate", [CALM, BUSY])
def test_why_tells_from_which_rate_on_the_other_way_would_win(rate: float):
    plan = plan_wall(rate)
    (entry,) = plan.contracts
    other = explain_other_way(plan, entry)
    assert other is not None and other.in_full is is_in_full(plan)
    assert other.cost is not None and other.cost > entry.cost
    assert other.wins_at is not None and (other.wins_at < other.rate) is other.in_full
    for factor, is_other in ((0.98, other.in_full), (1.02, not other.in_full)):
        times = factor * other.wins_at / other.rate
        there = plan_wall(rate * times, users=times)
        assert (is_in_full(there) is not is_in_full(plan)) is is_other
    (answer,) = why(plan, "wall")
    assert getattr(answer, "other_way", None) == other
