"""Whether promises were kept."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.events import ContractKeptAgain, ContractLate, Event
from headrace.observe.audit import INTERVAL, INTERVAL_S, SECOND, Record, apply_rows, count_late, look, tell_breach

FRESHNESS_S = 20.0


def looked(lags: list[float], start: Record | None = None) -> Record:
    """A look every five seconds."""
    record = start or look(Record(), 0, 0.0, FRESHNESS_S)
    for lag_s in lags:
        assert record.looked_at is not None
        record = look(record, record.looked_at + INTERVAL, lag_s, FRESHNESS_S)
    return record


def test_an_interval_is_judged_by_the_look_at_its_end():
    record = looked([19.0, 21.0, 26.0, 3.0, 20.0, 20.5])
    assert (record.intervals, record.bad_intervals, record.violated_s, record.watched_s) == (6, 3, 15.0, 30.0)


def test_a_violation_is_an_episode_however_long_it_lasts():
    assert looked([21.0, 26.0, 3.0, 20.5]).episodes == 2
    assert looked([21.0, 26.0, 3.0, 20.5]).episodes_per_hour == 360.0


def test_looks_within_an_interval_change_nothing_while_the_promise_is_kept():
    record = looked([19.0])
    assert look(record, (record.looked_at or 0) + INTERVAL - 1, 18.0, FRESHNESS_S) == record


def test_a_broken_promise_is_an_episode_as_soon_as_anyone_can_see_it():
    record = looked([19.0])
    seen = look(record, (record.looked_at or 0) + 1, 20.8, FRESHNESS_S)
    assert (seen.episodes, seen.worst_lag_s, seen.violated_s) == (1, 20.8, 0.0)
    assert look(seen, (record.looked_at or 0) + 2, 21.0, FRESHNESS_S).episodes == 1
    assert look(seen, (record.looked_at or 0) + INTERVAL, 25.0, FRESHNESS_S).episodes == 1
    assert looked([3.0, 21.0], seen).episodes == 2


def test_after_a_clock_is_put_back_promises_are_watched_from_there():
    record = looked([19.0] * 720)
    back = look(record, 0, 100.0, FRESHNESS_S)
    assert (back.looked_at, back.intervals, back.bad_intervals) == (0, 720, 0)
    assert looked([21.0, 3.0], back).bad_intervals == 1


def test_late_rows_are_counted_and_paid_for():
    times = np.array([0, 70 * SECOND, 80 * SECOND, 81 * SECOND])
    rows, late = count_late(times, np.array([1, -1, 2, 1]), 100 * SECOND, FRESHNESS_S)
    assert (rows, late) == (5, 2), "a row that arrives exactly when promised is in time"
    record = apply_rows(apply_rows(Record(), rows, late, 0.25), rows, late, 0.25)
    assert (record.rows, record.late_rows, record.penalty) == (10, 4, 1.0)


def test_a_pause_is_judged_by_what_lags_must_have_been():
    """Down for a minute with a lag of 5 s before: the promise was broken for the last 45 s."""
    before = looked([5.0])
    after = look(before, (before.looked_at or 0) + 60 * SECOND, 65.0, FRESHNESS_S)
    assert (after.intervals - before.intervals, after.bad_intervals, after.episodes) == (12, 9, 1)


@given(st.lists(st.floats(0.0, 60.0), max_size=30))
def test_figures_are_those_of_the_definition(lags: list[float]):
    record, bad = looked(lags), [lag_s > FRESHNESS_S for lag_s in lags]
    starts = sum(now and not before for before, now in zip([False, *bad], bad, strict=False))
    assert (record.bad_intervals, record.episodes) == (sum(bad), starts)


@given(st.floats(0.0, 40.0), st.integers(1, 40), st.booleans())
def test_a_pause_counts_as_if_somebody_had_looked_at_lags_that_only_grow(lag_s: float, missed: int, was_broken: bool):
    start = looked([21.0 if was_broken else 0.0])
    growing = [lag_s + INTERVAL_S * number for number in range(missed)]
    at_once = look(start, (start.looked_at or 0) + missed * INTERVAL, growing[-1], FRESHNESS_S)
    one_by_one = looked(growing, start)
    close = any(abs(lag - FRESHNESS_S) < 1e-6 for lag in growing)
    assert close or at_once == one_by_one


@given(st.lists(st.floats(0.0, 60.0), max_size=10), st.lists(st.floats(0.0, 60.0), max_size=10))
def test_a_record_goes_on_after_a_restart_as_if_there_had_been_none(before: list[float], after: list[float]):
    restarted = Record.from_json(looked(before).to_json())
    assert looked(after, restarted) == looked([*before, *after])


LOOKS = st.lists(st.tuples(st.integers(0, 4 * INTERVAL), st.floats(0.0, 60.0), st.booleans()), max_size=30)


@given(LOOKS)
def test_events_tell_of_each_episode_once_and_end_it_before_the_next(looks: list[tuple[int, float, bool]]):
    """Looks at any times and restarts between them; what is counted and what is told are the same history."""
    record, now, told = Record(), 0, list[Event]()
    for passed, lag_s, restarted in looks:
        before, now = Record.from_json(record.to_json()) if restarted else record, now + passed
        record = look(before, now, lag_s, FRESHNESS_S)
        told += tell_breach("sales", before, record, now, (lag_s, FRESHNESS_S))
    kinds = [type(event) for event in told]
    assert kinds == [ContractLate, ContractKeptAgain] * (len(kinds) // 2) + [ContractLate] * (len(kinds) % 2)
    assert kinds.count(ContractLate) == record.episodes
    assert (len(kinds) % 2 == 1) == record.is_broken
    assert all(event.late_s is not None and event.late_s >= 0 for event in told if isinstance(event, ContractKeptAgain))
