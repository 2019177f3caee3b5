"""Commit times of a database on our clock, while clocks are wrong, drift and jump."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.log import NEVER
from headrace.run.capture.clock import DatabaseClock, Skew, measure_skew, next_time

SECOND = 1_000_000
HOUR = 3600 * SECOND
NOON = 1_800_000_000 * SECOND


def test_a_clock_that_is_an_hour_ahead_or_behind_is_known_up_to_the_time_of_an_answer():
    for ahead in (HOUR, -HOUR):
        skew = measure_skew(NOON, NOON + 300 + ahead, NOON + 1000)
        assert skew.least <= ahead <= skew.most == skew.least + 1000


def test_slow_answers_say_little_and_spoil_nothing():
    quick = measure_skew(NOON, NOON + HOUR + 500, NOON + 1000)
    slow = measure_skew(NOON + SECOND, NOON + 31 * SECOND + HOUR, NOON + 61 * SECOND)
    assert quick.and_also(slow) == quick
    assert slow.and_also(quick) == quick


def test_a_measurement_that_contradicts_all_before_it_counts_alone():
    before, after = Skew(0, 1000), Skew(HOUR, HOUR + 2000)
    assert before.and_also(after) == after
    assert after.and_also(before) == before


def test_times_rise_while_our_clock_stands_still_or_goes_back():
    assert [next_time(NOON, now) for now in (NOON - HOUR, NOON, NOON + 5)] == [NOON + 1, NOON + 1, NOON + 5]


def test_what_is_shown_after_a_jump_and_before_the_next_heartbeat_is_off_by_no_more_than_that():
    for jump in (HOUR, -HOUR):
        clock = DatabaseClock(Skew(0, 0))
        assert clock.committed_at(NOON, NOON + 1000) == NOON
        assert NOON <= clock.committed_at(NOON + 1000 + jump, NOON + 2000) <= NOON + 2000
        clock.measure(Skew(jump, jump + 10))
        assert abs(clock.committed_at(NOON + SECOND + jump, NOON + SECOND + 100) - NOON - SECOND) <= 5


def test_our_own_clock_that_was_put_back_is_believed():
    clock = DatabaseClock(Skew(0, 0), last=NOON)
    clock.measure(Skew(HOUR, HOUR))
    now = NOON - HOUR + SECOND
    assert clock.committed_at(NOON + SECOND - 10, now) == now - 10


events = st.tuples(
    st.integers(0, SECOND), st.integers(0, 100_000), st.sampled_from([0, 0, 0, HOUR, -HOUR, 40 * SECOND])
)


@given(st.integers(-HOUR, HOUR), st.integers(0, 200_000), st.lists(events, min_size=1, max_size=40))
def test_commit_times_never_go_back_and_are_right_between_heartbeats(
    ahead: int, answer: int, events: list[tuple[int, int, int]]
):
    """A transaction, then a heartbeat, for each event: (time since the last one, delay of reception, jump)."""
    at, clock = NOON, DatabaseClock(measure_skew(NOON - answer, NOON - answer // 2 + ahead, NOON))
    before = NEVER
    for pause, delay, jump in events:
        at, ahead = at + pause, ahead + jump
        found = clock.committed_at(at + ahead, at + delay)
        assert before <= found <= at + delay
        if not jump:
            assert abs(found - at) <= max(answer, delay)
        before, at = found, at + answer + delay
        clock.measure(measure_skew(at - answer, at - answer // 3 + ahead, at))
