"""Rows are wrong only if what the source showed was never held: concurrent changes are no difference."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.run.check.judge_rows import RowChange, Wrong, judge_rows, say_wrong

STEPS = st.lists(st.dictionaries(st.integers(0, 2), st.sampled_from([None, "a", "b"]), max_size=2), max_size=6)
Table = dict[int, str]


def play(steps: list[dict[int, str | None]]) -> list[Table]:
    """A table with a key after each step: a step sets values, or removes the row."""
    states: list[Table] = [{0: "a"}]
    for step in steps:
        now = {**states[-1], **{key: value for key, value in step.items() if value is not None}}
        states.append({key: value for key, value in now.items() if key not in step or step[key] is not None})
    return states


def changes_of(states: list[Table]) -> list[RowChange]:
    found: list[RowChange] = []
    for time, (before, after) in enumerate(itertools.pairwise(states), start=1):
        found += [(time, row, -1) for row in before.items() if row not in after.items()]
        found += [(time, row, 1) for row in after.items() if row not in before.items()]
    return found


@given(STEPS, st.data())
def test_what_a_snapshot_shows_between_two_times_is_never_wrong(
    steps: list[dict[int, str | None]], data: st.DataObject
) -> None:
    """Each key as of a time of its own: transactions of different keys need not become visible in their order."""
    states = play(steps)
    shown = [
        (key, state[key]) for key in range(3) if key in (state := states[data.draw(st.integers(0, len(states) - 1))])
    ]
    held = [(row, 1) for row in states[-1].items()]
    assert judge_rows([(key,) for key in range(3)], [0], shown, held, changes_of(states)) == []


@given(STEPS, st.integers(0, 2), st.sampled_from([None, "x"]))
def test_what_was_never_held_is_wrong(steps: list[dict[int, str | None]], key: int, shown: str | None) -> None:
    states = play(steps)
    held_once = {state.get(key) for state in states}
    rows = [] if shown is None else [(key, shown)]
    held = [(row, 1) for row in states[-1].items()]
    found = judge_rows([(key,)], [0], rows, held, changes_of(states))
    assert bool(found) == (shown not in held_once)


def test_rows_without_a_key_are_wrong_if_they_never_occurred_as_often() -> None:
    held, changes = [(("a",), 3)], [(5, ("a",), 1)]
    for count, wrong in ((3, False), (2, False), (1, True), (4, True)):
        assert bool(judge_rows([("a",)], [0], [("a",)] * count, held, changes)) == wrong


def test_what_is_wrong_is_told_with_an_example() -> None:
    found = judge_rows([(1,), (2,), (3,)], [0], [(1, "a"), (2, "b")], [((2, "x"), 1), ((3, "c"), 1)], [])
    assert [one.how for one in found] == [Wrong.MISSING, Wrong.DIFFERENT, Wrong.EXTRA]
    assert say_wrong(found, ["uid"]) == "1 missing, 1 extra, 1 different (for example uid = 1: missing)"
