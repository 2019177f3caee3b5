"""What computes may start late, die, and come back: items are done all the same."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from headrace.model.errors import ConnectError
from headrace.run.push.items import HereRunner, Item, ItemOutcome
from headrace.run.schedule.deadlines import Patience
from headrace.site.engine.late_runner import EngineStarter, LateRunner
from tests.connect.spark.item_work import Job, perform
from tests.running.running_project import until

LARGE = 1e6
SHORT = Patience(least_s=0.2, load_s=0.2, idle_s=20.0, answer_s=0.5, start_s=20.0, end_s=0.5)


@dataclass
class Frail:
    """A job dies as a whole with an item called "crash"; when it is not alive any more, every job does.

    One with an item called "hang" does not end by itself: when it `hears`, once it is told to end, else when it is
    killed. While it does not `hear` it does not answer either.
    """

    alive: bool = True
    hears: bool = True
    jobs: list[list[str]] = field(default_factory=list)
    at: dict[int, object] = field(default_factory=dict)
    killed: threading.Event = field(default_factory=threading.Event)
    told: threading.Event = field(default_factory=threading.Event)

    def run_job(self, job: str, items: Sequence[Item]) -> list[ItemOutcome[Any]]:
        self.jobs.append([item.name for item in items])
        hanging = [number for number, item in enumerate(items) if item.name == "hang"]
        if hanging:
            self.at[hanging[0]] = "begun"
            self.told.wait()
            self.at.clear()
        if not self.alive or hanging or any(item.name == "crash" for item in items):
            return [ItemOutcome(item.name, None, "the job died", 0.0, retryable=True) for item in items]
        return HereRunner(perform).run(items)

    def in_work(self, job: str) -> Mapping[int, object]:
        return dict(self.at)

    def end_job(self, job: str) -> None:
        if not self.hears:
            self.killed.wait()
        self.told.set()

    def answers(self) -> bool:
        if not self.hears:
            self.killed.wait()
        return self.alive

    def kill(self) -> None:
        self.alive = False
        self.killed.set()
        self.told.set()


class Place:
    """Where runners are started, as many as it takes, when `may_start` is set."""

    def __init__(self) -> None:
        self.started: list[Frail] = []
        self.may_start = threading.Event()
        self.broken: str | None = None

    def start(self) -> Frail:
        assert self.may_start.wait(20)
        if self.broken is not None:
            raise RuntimeError(self.broken)
        self.started.append(Frail())
        return self.started[-1]

    def engine(self) -> EngineStarter[Frail]:
        meanwhile, is_small = HereRunner(perform), lambda item: item.weight < LARGE
        return EngineStarter("it", self.start, Frail.answers, meanwhile, is_small, self.kill, self.why_dead, SHORT)

    def kill(self) -> None:
        self.started[-1].kill()

    def why_dead(self) -> str | None:
        return None if not self.started or self.started[-1].alive else "it was killed"


@pytest.fixture
def place() -> Place:
    return Place()


def values(outcomes: list[ItemOutcome[Any]]) -> list[object]:
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


def begin(place: Place) -> LateRunner[Frail]:
    place.may_start.set()
    runner = LateRunner(place.engine())
    runner.run([])
    return runner


def test_an_item_that_hangs_fails_alone_and_is_named_and_the_others_are_done(place: Place):
    runner = begin(place)
    good, hang, other = runner.run([Job("good", 1), Job("hang", 1), Job("other", 2)])
    assert (good.value, other.value) == (2, 4)
    assert (hang.name, hang.error, hang.harmful) == ("hang", "it took longer than 200 ms, and was ended", True)
    assert place.started[0].jobs == [["good", "hang", "other"], ["good", "other"]]
    assert len(place.started) == 1, "it heard that it shall end the job"


def test_one_that_does_not_end_a_job_is_killed_and_started_again(place: Place):
    runner = begin(place)
    place.may_start.clear()
    small, hang, large = runner_in_thread(runner, [Job("small", 1), Job("hang", 1), Job("large", 2, LARGE)], place)
    assert (small.value, large.value) == (2, 4)
    assert hang.harmful
    assert len(place.started) == 2


def runner_in_thread(runner: LateRunner[Frail], jobs: list[Job], place: Place) -> list[ItemOutcome[Any]]:
    """The first does not hear anything from the middle of its job on; another starts once it has been killed."""
    found: list[ItemOutcome[Any]] = []
    asking = threading.Thread(target=lambda: found.extend(runner.run(jobs)))
    asking.start()
    until(lambda: bool(place.started[0].at), "it is at the item that hangs", every_s=0.01)
    place.started[0].hears = False
    until(lambda: not place.started[0].alive, "it was killed")
    place.may_start.set()
    asking.join()
    return found


def test_one_that_does_not_answer_before_a_job_is_killed_and_started_again(place: Place):
    runner = begin(place)
    place.started[0].hears = False
    assert values(runner.run([Job("small", 1), Job("large", 2, LARGE)])) == [2, 4]
    assert place.started[0].jobs == []
    assert place.started[1].jobs == [["large"]]


def test_whoever_finds_that_it_stands_still_may_have_it_replaced(place: Place):
    runner = begin(place)
    runner.replace("nothing was committed for an hour")
    away = runner.absence()
    assert away is not None and (away.died, away.why) == (True, "nothing was committed for an hour")
    assert values(runner.run([Job("large", 2, LARGE)])) == [4]
    assert runner.absence() is None
    assert len(place.started) == 2


def test_an_item_that_kills_it_even_alone_is_harmful(place: Place):
    runner = begin(place)
    good, crash = runner.run([Job("good", 1), Job("crash", 1)])
    assert (good.harmful, crash.harmful) == (False, True)


def test_a_start_that_takes_too_long_is_ended():
    killed = threading.Event()

    def start() -> Frail:
        assert killed.wait(20)
        raise RuntimeError("killed while it started")

    runner = LateRunner(EngineStarter("it", start, kill=killed.set, patience=Patience(start_s=0.1)))
    with pytest.raises(ConnectError, match="it did not start within 100 ms"):
        runner.run([])
