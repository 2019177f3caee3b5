"""When pushes stand still, by a clock that is turned by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.site.engine.standstill import (
    StandstillLimits,
    Stillness,
    Verdict,
    Waiting,
    judge_standstill,
    look_again,
    note_replacement,
)

LIMITS = StandstillLimits()


def waiting(reached: int | None = 5, captured: int = 9, freshness_s: float = 5.0, excused: bool = False) -> Waiting:
    return Waiting("sales", freshness_s, reached, captured, excused)


def watch(contract: Waiting, seconds: int, seen: Stillness | None = None) -> tuple[Stillness, Verdict, int]:
    """A look every second at a contract that does not change, acted on; the last verdict, and how often it replaced."""
    seen = seen or Stillness(0.0)
    replaced, start, verdict = 0, seen.looked, Verdict({})
    for second in range(1, seconds + 1):
        seen = look_again(seen, start + second, [contract], LIMITS)
        verdict = judge_standstill(seen, [contract], LIMITS)
        if verdict.replace:
            replaced, seen = replaced + 1, note_replacement(seen)
    return seen, verdict, replaced


@given(freshness_s=st.floats(0.5, 120.0))
def test_a_contract_is_stuck_after_thirty_seconds_or_twice_its_freshness_and_not_before(freshness_s: float):
    limit = max(30.0, 2 * freshness_s)
    contract = waiting(freshness_s=freshness_s)
    for seconds in (int(limit), int(limit) + 3):
        _, verdict, replaced = watch(contract, seconds)
        assert bool(verdict.stuck) is (seconds - 1 > limit)
        assert not replaced


def test_the_engine_is_replaced_after_twice_as_long_and_three_times_an_hour_at_most():
    assert [watch(waiting(), seconds)[2] for seconds in (60, 63, 110, 3000)] == [0, 1, 1, 3]
    _, verdict, _ = watch(waiting(), 3000)
    assert verdict.gave_up
    assert watch(waiting(), 3000 + 3600)[2] > 3


def test_an_engine_is_not_replaced_under_something_that_may_take_longer():
    seen, _, _ = watch(waiting(), 50)
    seen = look_again(seen, 64.0, [waiting()], StandstillLimits(gap_s=100.0))
    assert judge_standstill(seen, [waiting()], LIMITS).replace
    assert not judge_standstill(seen, [waiting()], LIMITS, allowed_s=90.0).replace


@given(
    st.sampled_from(
        [waiting(excused=True), waiting(reached=None), waiting(reached=9, captured=9), waiting(reached=9, captured=5)]
    )
)
def test_what_is_excused_not_loaded_or_has_nothing_to_push_is_not_stuck(contract: Waiting):
    assert watch(contract, 500)[1:] == (Verdict({}), 0)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3)), min_size=1, max_size=200))
def test_a_view_that_moves_on_often_enough_is_never_stuck(steps: list[tuple[int, int]]):
    seen, now, reached, moved = Stillness(0.0), 0.0, 5, 0.0
    for seconds, on in steps:
        now += seconds
        on = 1 if now - moved > 20 else on
        reached, moved = reached + on, now if on else moved
        contract = waiting(reached, captured=10**9)
        seen = look_again(seen, now, [contract], LIMITS)
        assert judge_standstill(seen, [contract], LIMITS) == Verdict({})


@given(st.lists(st.floats(5.1, 1e7), min_size=1, max_size=20))
def test_a_machine_that_was_asleep_trips_nothing(gaps: list[float]):
    seen, now = Stillness(0.0), 0.0
    for gap in gaps:
        now += gap
        seen = look_again(seen, now, [waiting()], LIMITS)
        assert judge_standstill(seen, [waiting()], LIMITS) == Verdict({})
