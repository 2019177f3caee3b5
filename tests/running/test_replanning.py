"""A service moves to a better plan when what it measures differs from what was planned, and only then."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.connect.ledger.sqlite import open_sqlite
from headrace.coordinate.replanning import LOOK_EVERY_S, ContractMove, Replanning, move_event, take_measured
from headrace.model.event_wire import EventsAsked
from headrace.model.log import Commit
from headrace.model.notes import PlanMoves
from headrace.model.plan import Plan
from headrace.model.statistics import rate_of
from headrace.plan.share.change import add_contract
from headrace.run.ports import Ledger
from headrace.run.push.push import Pushed
from headrace.site.learning import Learning
from tests.plan.share.projects import plan_for, wanted

START_S = 1_000_000.0
PUSH_EVERY_S = 10.0

Rates = Callable[[float], Mapping[str, float]]
"""Rows per second of sources, from the seconds since the start."""


@dataclass
class Running:
    """A plan whose sources change as a test says: pushes teach, a hand turns the clock."""

    plan: Plan
    replanning: Replanning
    error: str | None = None
    clock_s: float = START_S
    moves: list[ContractMove] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.learning = Learning(self.plan)

    def go_over(self, plan: Plan) -> str | None:
        if self.error is None:
            self.plan, self.learning = plan, Learning(plan, flows=self.learning.flows)
        return self.error

    def run(self, seconds: float, rates: Rates) -> None:
        end_s = self.clock_s + seconds
        while self.clock_s < end_s:
            self.clock_s += LOOK_EVERY_S
            if (self.clock_s - START_S) % PUSH_EVERY_S == 0:
                self.push(rates(self.clock_s - START_S))
            move = self.replanning.step(self.plan, take_measured(self.learning, {}, self.clock_s), self.go_over)
            if move is not None:
                self.moves.append(move)

    def push(self, rates: Mapping[str, float]) -> None:
        """Ten seconds of changes of the sources that the plan reads."""
        graph, now = self.plan.graph, round(self.clock_s * 1e6)
        homes = {name: vertex.scope[0] for name, vertex in graph.vertices.items() if name not in graph.edges}
        before = dict.fromkeys(homes, now - round(PUSH_EVERY_S * 1e6))
        rows = {name: round(rates.get(source, planned(source)) * PUSH_EVERY_S) for name, source in homes.items()}
        self.learning.learn([Pushed(name, now, 0.0, count, count) for name, count in rows.items()], before)


def planned(source: str) -> float:
    return {"orders": 50.0, "customers": 2.0, "items": 150.0}[source]


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    opened = open_sqlite(tmp_path / "ledger.db")
    yield opened
    opened.close()


@pytest.fixture
def running(ledger: Ledger) -> Running:
    plan = plan_for(wanted("by_country"), wanted("by_product", "asia"))
    return Running(plan, Replanning(ledger, ledger.acquire("service", "test", 1e9)))


@pytest.fixture
def swinging(ledger: Ledger) -> Running:
    """What moves when customers change more than orders, and back when orders do."""
    return Running(plan_for(wanted("sales")), Replanning(ledger, ledger.acquire("service", "test", 1e9)))


def many_orders(since_s: float) -> Mapping[str, float]:
    return {"orders": 500.0, "customers": 2.0}


def many_customers(since_s: float) -> Mapping[str, float]:
    return {"orders": 5.0, "customers": 200.0}


def as_planned(since_s: float) -> Mapping[str, float]:
    return {}


def tenfold(since_s: float) -> Mapping[str, float]:
    return {"orders": 500.0}


def test_nothing_moves_while_all_is_as_planned(running: Running):
    running.run(1800, as_planned)
    assert running.moves == []


def test_a_source_that_changes_ten_times_as_much_moves_who_reads_it_and_says_why(running: Running):
    before = running.plan
    running.run(300, tenfold)
    (move,) = running.moves
    assert move.contracts == ("by_country_eu",)
    assert move.reasons == ("orders changes 500 rows/s instead of 50",)
    assert move.saving > 0 and move.saving * 3600 > move.migration > 0
    assert set(move.made) == set(running.plan.graph.vertices) - set(before.graph.vertices) != set()
    assert set(move.dropped) == set(before.graph.vertices) - set(running.plan.graph.vertices)
    assert move.error is None
    assert rate_of(running.plan.catalogue.sources["orders"]) == pytest.approx(500.0)


def test_a_short_burst_moves_nothing(running: Running):
    running.run(300, as_planned)
    running.run(20, tenfold)
    running.run(600, as_planned)
    assert running.moves == []


def test_noise_moves_nothing(running: Running):
    chance = random.Random(7)

    def noisy(since_s: float) -> Mapping[str, float]:
        return {name: planned(name) * chance.uniform(0.8, 1.2) for name in ("orders", "customers", "items")}

    running.run(3600, noisy)
    assert running.moves == []


def test_who_moved_rests_although_the_rate_is_back(swinging: Running):
    swinging.run(200, many_customers)
    swinging.run(220, many_orders)
    (there,) = swinging.moves
    swinging.run(1200, many_orders)
    back = swinging.moves[1]
    assert back.at_s - there.at_s >= 300
    assert back.parts[0].after == there.parts[0].before


def test_a_rate_that_swings_moves_a_contract_ever_less_often(swinging: Running):
    swinging.run(2.5 * 3600, lambda since_s: (many_customers if since_s % 800 < 400 else many_orders)(0))
    at_s = [move.at_s for move in swinging.moves]
    rests = [after - before for before, after in pairwise(at_s)]
    assert len(rests) >= 2
    assert all(rest >= least for rest, least in zip(rests, [300, 600, 1200], strict=False))


def test_contracts_are_planned_once_more_some_time_after_others_came(ledger: Ledger):
    plan = plan_for(wanted("countries", "eu"))
    for later in (wanted("sales", "us"), wanted("bought_items", "eu"), wanted("top", "eu")):
        plan = add_contract(plan, later)
    running = Running(plan, Replanning(ledger, ledger.acquire("service", "test", 1e9)))
    running.run(595, as_planned)
    assert running.moves == []
    running.run(2400, as_planned)
    (move,) = running.moves
    assert move.contracts == ("countries_eu",)
    assert running.plan.totals.rescost < 0.9 * plan.totals.rescost


def test_a_restart_forgets_neither_moves_nor_rests(running: Running, ledger: Ledger):
    running.run(300, tenfold)
    again = Replanning(ledger, running.replanning.lease)
    again.resume()
    assert again.moves == tuple(running.moves)
    restarted = Running(running.plan, again, clock_s=running.clock_s)
    restarted.run(150, as_planned)
    assert restarted.moves == []


def test_a_move_that_fails_leaves_what_runs_and_is_not_tried_at_once(running: Running):
    before, running.error = running.plan, "the disk is full"
    running.run(400, tenfold)
    (failed,) = running.moves
    assert failed.error == "the disk is full" and running.plan is before
    running.error = None
    running.run(400, tenfold)
    again = running.moves[1]
    assert again.error is None and again.at_s - failed.at_s >= 300
    assert again.made == failed.made
    told = [one.event for one in running.replanning.ledger.events(EventsAsked())]
    assert told == [move_event(failed), move_event(again)], "each is told once"
    assert [one.kind for one in told] == ["move failed", "moved"]
    assert told[0].reason is not None and told[0].reason.startswith("the disk is full")
    assert told[1].reason == "; ".join(again.reasons) and told[1].about == {"contracts": again.contracts}
    assert "@" not in told[1].text, "datasets are named in words"


def test_what_another_version_noted_is_no_move(running: Running, ledger: Ledger):
    running.run(300, tenfold)
    again = Replanning(ledger, running.replanning.lease)
    (text,) = ledger.notes("moves").values()
    assert "at_s" in text
    ledger.commit(again.lease, Commit(notes=(PlanMoves(text.replace("at_s", "when")),)))
    again.resume()
    assert again.moves == ()
