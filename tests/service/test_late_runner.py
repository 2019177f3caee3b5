"""What computes may start late, die, and come back: items are done all the same."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.run.items import HereRunner, Item, Outcome
from headrace.run.ports import Runner
from headrace.service.late_runner import Engine, LateRunner
from tests.connect.spark.item_work import Job, perform
from tests.service.running_project import until

LARGE = 1e6


@dataclass
class Frail:
    """A job dies as a whole with an item called "crash"; when it is not alive any more, every job does."""

    alive: bool = True
    jobs: list[list[str]] = field(default_factory=list)

    def run(self, items: Sequence[Item]) -> list[Outcome[Any]]:
        self.jobs.append([item.name for item in items])
        if not self.alive or any(item.name == "crash" for item in items):
            return [Outcome(item.name, None, "the job died", 0.0, retryable=True) for item in items]
        return HereRunner(perform).run(items)


class Place:
    """Where runners are started, as many as it takes, when `may_start` is set."""

    def __init__(self) -> None:
        self.started: list[Frail] = []
        self.may_start = threading.Event()
        self.broken: str | None = None

    def start(self) -> Runner[Any]:
        assert self.may_start.wait(20)
        if self.broken is not None:
            raise RuntimeError(self.broken)
        self.started.append(Frail())
        return self.started[-1]

    def engine(self) -> Engine:
        return Engine("it", self.start, _is_alive, HereRunner(perform), lambda item: item.weight < LARGE)


def _is_alive(runner: Runner[Any]) -> bool:
    return isinstance(runner, Frail) and runner.alive


@pytest.fixture
def place() -> Place:
    return Place()


def values(outcomes: list[Outcome[Any]]) -> list[object]:
    return [outcome.value for outcome in outcomes]


def test_small_items_do_not_wait_until_it_has_started(place: Place):
    runner = LateRunner(place.engine())
    assert values(runner.run([Job("a", 1), Job("b", 2)])) == [2, 4]
    assert not place.started
    place.may_start.set()


def test_large_items_wait_until_it_has_started(place: Place):
    runner = LateRunner(place.engine())
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.extend(values(runner.run([Job("a", 1), Job("b", 2, LARGE)]))))
    asking.start()
    assert not found
    place.may_start.set()
    asking.join()
    assert found == [2, 4]
    assert place.started[0].jobs == [["b"]]


def test_who_asks_for_nothing_waits_for_the_start_and_hears_what_keeps_it_from_that(place: Place):
    place.broken = "there is no Java"
    place.may_start.set()
    with pytest.raises(RuntimeError, match="there is no Java"):
        LateRunner(place.engine()).run([])


def test_one_that_resumes_waits_for_nothing(place: Place):
    assert LateRunner(place.engine(), resumes=True).run([]) == []
    place.may_start.set()


def test_one_that_died_is_started_again_and_its_items_are_done_meanwhile(place: Place):
    place.may_start.set()
    runner = LateRunner(place.engine())
    runner.run([])
    place.may_start.clear()
    place.started[0].alive = False
    assert values(runner.run([Job("a", 1)])) == [2]
    assert len(place.started) == 1, "it is not there yet"
    place.may_start.set()
    until(lambda: len(place.started) == 2, "it is there again")
    assert values(runner.run([Job("b", 2, LARGE)])) == [4]
    assert place.started[1].jobs == [["b"]]


def test_an_item_that_kills_its_job_fails_alone(place: Place):
    place.may_start.set()
    runner = LateRunner(place.engine())
    runner.run([])
    good, crash, other = runner.run([Job("good", 1), Job("crash", 1), Job("other", 2)])
    assert (good.value, other.value) == (2, 4)
    assert (crash.value, crash.error) == (None, "the job died")
    together = ["good", "crash", "other"]
    assert place.started[0].jobs == [together, together, ["good"], ["crash"], ["other"]]


def test_when_it_cannot_be_started_again_large_items_fail_with_the_reason(place: Place):
    place.may_start.set()
    runner = LateRunner(place.engine())
    runner.run([])
    place.broken, place.started[0].alive = "no memory is left", False
    small, large = runner.run([Job("small", 1), Job("large", 2, LARGE)])
    assert small.value == 2
    assert large.error == "it is not there: no memory is left"
    place.broken = None
    until(lambda: runner.run([Job("large", 2, LARGE)])[0].value == 4, "it was tried again")


def test_it_says_that_it_is_away_and_why_until_it_is_there(place: Place):
    runner = LateRunner(place.engine())
    first = runner.absence()
    assert first is not None and (first.engine, first.died, first.error) == ("it", False, None)
    place.may_start.set()
    runner.run([])
    assert runner.absence() is None

    place.broken, place.started[0].alive = "no memory is left", False
    runner.run([Job("large", 2, LARGE)])
    again = runner.absence()
    assert again is not None and (again.died, again.error) == (True, "no memory is left")
    place.broken = None
    until(lambda: runner.run([Job("large", 2, LARGE)])[0].value == 4, "it was tried again")
    assert runner.absence() is None


def test_one_that_was_ended_is_not_started_again(place: Place):
    place.may_start.set()
    runner = LateRunner(place.engine())
    runner.run([])
    runner.end()
    place.started[0].alive = False
    assert values(runner.run([Job("a", 1)])) == [2]
    assert len(place.started) == 1
