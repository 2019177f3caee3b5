"""Turns are taken in one order, and whoever comes the other way is told no instead of being kept waiting."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.site.turns import Turns


@pytest.fixture
def other() -> Iterator[ThreadPoolExecutor]:
    """Another thread."""
    with ThreadPoolExecutor(1) as found:
        yield found


def try_plan(turns: Turns) -> bool:
    with turns.try_plan() as ours:
        return ours


def test_upkeep_is_told_no_while_somebody_goes_over_to_a_plan(other: ThreadPoolExecutor):
    turns = Turns()
    with turns.plan:
        assert other.submit(try_plan, turns).result(10) is False
    assert other.submit(try_plan, turns).result(10) is True
    assert other.submit(try_plan, turns).result(10) is True, "it has given the turn back"


def test_whoever_was_told_no_does_not_give_back_the_turn_of_another(other: ThreadPoolExecutor):
    turns = Turns()
    with turns.plan:
        other.submit(try_plan, turns).result(10)
        assert other.submit(try_plan, turns).result(10) is False


def test_whoever_changes_what_is_pushed_may_push_within(other: ThreadPoolExecutor):
    turns = Turns()
    with turns.plan, turns.upkeep_and_pushing():
        with turns.pushing:
            pass
        waiting = other.submit(push, turns)
        with pytest.raises(TimeoutError):
            waiting.result(0.1)  # whoever else pushes waits
    waiting.result(10)


def push(turns: Turns) -> None:
    with turns.pushing:
        pass


def test_the_end_waits_for_a_push_but_not_for_ever(other: ThreadPoolExecutor):
    turns = Turns()
    with turns.pushing:
        other.submit(turns.wait_for_pushes, 0.01).result(10)
    other.submit(turns.wait_for_pushes, 10.0).result(10)
