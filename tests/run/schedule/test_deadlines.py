"""When a job is ended, by a clock that is turned by hand."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from headrace.run.schedule.deadlines import End, Kill, Patience, begin_watch, judge, limit_s, look

PATIENCE = Patience(least_s=60.0, load_s=120.0, idle_s=300.0, answer_s=20.0)
STEPS = st.lists(st.floats(0.1, 5.0), min_size=1, max_size=60)


@dataclass(frozen=True)
class Plain:
    name: str = "plain"
    weight: float = 1.0


def test_an_item_of_which_nothing_is_known_may_take_a_minute():
    assert limit_s(Plain(), PATIENCE) == 60.0


@given(steps=STEPS)
def test_an_item_is_overdue_when_its_mark_is_as_old_as_its_limit_and_not_before(steps: list[float]):
    watched, now = begin_watch(0.0), 0.0
    watched = look(watched, now, {1: "begun"}, answered=True)
    for step in steps:
        now += step
        watched = look(watched, now, {1: "begun"}, answered=True)
        verdict = judge(watched, [1.0, 60.0], PATIENCE)
        assert verdict == (End(frozenset({1}), "it took longer than 60 s") if now > 60.0 else None)


@given(steps=STEPS)
def test_an_item_that_moves_on_is_never_overdue(steps: list[float]):
    watched, now = begin_watch(0.0), 0.0
    for number, step in enumerate(steps):
        now += step
        watched = look(watched, now, {0: number}, answered=True)
        assert judge(watched, [5.0], PATIENCE) is None


@given(steps=STEPS)
def test_whatever_does_not_answer_is_killed(steps: list[float]):
    watched, now = begin_watch(0.0), 0.0
    for step in steps:
        now += step
        watched = look(watched, now, {}, answered=False)
        assert isinstance(judge(watched, [], PATIENCE), Kill) == (now > 20.0)


def test_a_job_of_which_nothing_runs_is_ended_and_nobody_is_named():
    watched, now = begin_watch(0.0), 0.0
    while now < 300.0:
        assert judge(watched, [1.0], PATIENCE) is None
        now += 1.0
        watched = look(watched, now, {}, answered=True)
    verdict = judge(look(watched, now + 1.0, {}, answered=True), [1.0], PATIENCE)
    assert verdict == End(frozenset(), "nothing of the job ran for 5.017 min")


@given(gaps=st.lists(st.floats(5.1, 1e6), min_size=1, max_size=5))
def test_time_for_which_we_stood_still_ourselves_is_nobodys_fault(gaps: list[float]):
    watched, now = look(begin_watch(0.0), 0.0, {0: "begun"}, answered=True), 0.0
    for gap in gaps:
        now += gap
        watched = look(watched, now, {0: "begun"}, answered=False)
        assert judge(watched, [60.0], PATIENCE) is None
