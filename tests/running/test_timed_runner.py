"""Jobs in this process end, whatever their items do."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from headrace.run.push.here_jobs import HereJobs
from headrace.run.schedule.deadlines import Patience
from headrace.site.engine.timed_runner import TimedRunner, ask, ends_within

SHORT = Patience(least_s=0.2, end_s=0.2)
never = threading.Event()
done: list[str] = []


@dataclass(frozen=True)
class Act:
    name: str
    hangs: bool = False
    weight: float = 1.0


def perform(item: Act) -> str:
    if item.hangs:
        never.wait()
    done.append(item.name)
    return item.name


@pytest.fixture(autouse=True)
def _nothing_hangs_afterwards():
    never.clear()
    done.clear()
    yield
    never.set()


def test_an_item_that_hangs_is_left_behind_and_named_and_the_rest_may_be_tried_again():
    first, second, third = TimedRunner(HereJobs(perform), SHORT).run([Act("a"), Act("b", hangs=True), Act("c")])
    assert (second.error, second.harmful, second.retryable) == (
        "it took longer than 200 ms, and was ended",
        True,
        False,
    )
    assert first.retryable and third.retryable
    assert done == ["a"]


def test_an_item_that_hung_and_goes_on_later_begins_no_other():
    jobs = HereJobs(perform)
    TimedRunner(jobs, SHORT).run([Act("b", hangs=True), Act("c")])
    never.set()
    assert TimedRunner(jobs, SHORT).run([Act("d")])[0].value == "d"
    assert "c" not in done


def wait_for_ever() -> None:
    never.wait()


def test_an_answer_that_does_not_come_is_none():
    assert ask(lambda: 7, 5.0) == 7
    assert ask(lambda: never.wait(), 0.05) is None
    assert not ends_within(wait_for_ever, 0.05)
