"""Checks keep within their budget, and everything has its turn."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.run.check.pace import CheckBudget, CheckCost, seconds_within
from headrace.run.check.rota import (
    UNCHANGED_FOR_S,
    CheckFinding,
    CheckKind,
    CheckRecord,
    CheckSubject,
    charge_piece,
    choose_next,
    read_records,
    write_records,
)

COSTS = st.builds(CheckCost, st.floats(0.0, 5.0), st.integers(0, 20_000_000))
BUDGET = CheckBudget()
SUBJECTS = [
    CheckSubject(CheckKind.SOURCE, "users"),
    CheckSubject(CheckKind.VIEW, "a"),
    CheckSubject(CheckKind.VIEW, "b"),
]


@given(st.lists(COSTS, min_size=1))
def test_in_any_stretch_of_time_checks_cost_their_budget_and_one_piece_more_at_most(costs: list[CheckCost]) -> None:
    starts = list(itertools.accumulate((seconds_within(BUDGET, cost) for cost in costs), initial=0.0))
    for first, last in itertools.combinations(range(len(costs) + 1), 2):
        window, within = starts[last - 1] - starts[first], costs[first:last]
        longest, largest = max(one.seconds for one in within), max(one.bytes for one in within)
        assert sum(one.seconds for one in within) <= BUDGET.cores * window + longest + 1e-6
        assert sum(one.bytes for one in within) <= BUDGET.bytes_per_s * window + largest + 1e-3


@given(st.lists(st.integers(1, 5), min_size=3, max_size=3), COSTS)
def test_every_subject_ends_a_pass_within_the_time_that_all_passes_together_take(
    pieces: list[int], cost: CheckCost
) -> None:
    """Each piece costs the same; a pass of a subject takes so many of them."""
    records = {subject: CheckRecord() for subject in SUBJECTS}
    left, now = dict(zip(SUBJECTS, pieces, strict=True)), 2e9
    for _ in range(sum(pieces)):
        subject = choose_next(records, now, CheckBudget(again_after_s=1e9))
        assert subject is not None, "what has not been checked is due"
        before = records[subject]
        after = before if before.place is not None else before.begin(now, "")
        left[subject] -= 1
        after = after.advance(("x",), 0.5, 10) if left[subject] else after.end(now, CheckFinding.EQUAL, rows=10)
        records[subject] = charge_piece(before, after, now, cost)
        now += 1.0 + seconds_within(BUDGET, cost)
    for subject, count in zip(SUBJECTS, pieces, strict=True):
        assert records[subject].finding is CheckFinding.EQUAL and records[subject].rows == 10 * count
        assert abs(records[subject].cost.seconds - count * cost.seconds) < 1e-6
    assert choose_next(records, now, CheckBudget(again_after_s=1e9)) is None


def test_a_large_subject_does_not_keep_a_small_one_waiting() -> None:
    large, small = SUBJECTS[0], SUBJECTS[1]
    records = {large: CheckRecord(place=("5",), begun_at=10.0, worked_at=50.0), small: CheckRecord()}
    assert choose_next(records, 60.0, BUDGET) == small
    records[small] = CheckRecord(begun_at=58.0, worked_at=58.0)
    assert choose_next(records, 60.0, BUDGET) == large


def test_a_subject_is_due_again_after_a_while_and_also_if_the_clock_was_put_back() -> None:
    records = {SUBJECTS[0]: CheckRecord(begun_at=100.0, worked_at=100.0)}
    assert choose_next(records, 100.0 + BUDGET.again_after_s - 1, BUDGET) is None
    assert choose_next(records, 100.0 + BUDGET.again_after_s, BUDGET) == SUBJECTS[0]
    assert choose_next(records, 50.0, BUDGET) == SUBJECTS[0]


def test_what_did_not_change_is_not_looked_at_again_for_a_day() -> None:
    record = CheckRecord().begin(100.0, "as it is").end(110.0, CheckFinding.EQUAL)
    assert record.is_unchanged(200.0, "as it is")
    assert not record.is_unchanged(200.0, "otherwise")
    assert not record.is_unchanged(110.0 + UNCHANGED_FOR_S, "as it is")
    assert not record.end(120.0, CheckFinding.DIFFERENT).is_unchanged(200.0, "as it is")
    assert record.skip(300.0).checked_at == 300.0 and record.skip(300.0).passed_at == 110.0


@given(st.floats(0, 1e10), COSTS, st.lists(st.text(max_size=5), max_size=3), st.text())
def test_records_are_read_as_they_were_written(now: float, cost: CheckCost, place: list[str], why: str) -> None:
    record = charge_piece(CheckRecord(), CheckRecord().begin(now, "m").advance(tuple(place), 0.5, 7), now, cost)
    records = {SUBJECTS[0]: record, SUBJECTS[1]: record.end(now, CheckFinding.UNCHECKED, why)}
    assert read_records(write_records(records)) == records
