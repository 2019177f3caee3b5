"""Sets of values against Python's own sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.canonical.value_sets import ALL_VALUES, END, START, Cut, ValueSet, after, before

SAMPLE = (*range(-2, 8), *(number + 0.5 for number in range(-2, 8)), None)


def cuts() -> st.SearchStrategy[Cut]:
    numbers = st.integers(0, 5)
    return st.one_of(numbers.map(before), numbers.map(after), st.just(START), st.just(END))


@st.composite
def value_sets(draw: st.DrawFn) -> ValueSet:
    pairs = draw(st.lists(st.tuples(cuts(), cuts()), max_size=3))
    spans = (ValueSet(((low, high),)) for low, high in pairs if low < high)
    result = ValueSet((), draw(st.booleans()))
    for span in spans:
        result = result | span
    return result


def members(found: ValueSet) -> set[float | None]:
    inside = {
        v for v in SAMPLE if v is not None and any(low <= before(v) and after(v) <= high for low, high in found.spans)
    }
    return inside | ({None} if found.null else set())


@given(value_sets(), value_sets())
def test_union_intersection_and_difference_are_those_of_sets(left, right):
    assert members(left | right) == members(left) | members(right)
    assert members(left & right) == members(left) & members(right)
    assert members(left - right) == members(left) - members(right)


@given(value_sets(), value_sets())
def test_containment_and_emptiness_are_those_of_sets(left, right):
    assert bool(left) == bool(members(left))
    assert (left <= right) == (members(left) <= members(right))


@given(value_sets(), value_sets())
def test_equal_members_mean_equal_sets(left, right):
    assert (left == right) == (members(left) == members(right))


def test_single_values_are_told_from_intervals():
    assert ValueSet.of((3, 1)).values == (1, 3)
    assert ALL_VALUES.values is None
    assert (ALL_VALUES - ValueSet.of((1,))).values is None
