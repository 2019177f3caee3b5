"""Yes/no choices with penalties and conflicts: cuts and searches against trying all of them."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import numpy as np
import pytest

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.place.cut import (
    FOREVER,
    Choices,
    half_integral_cut,
    minimum_cut,
    restrict,
    two_coloured_cut,
    two_colours,
)
from headrace.plan.place.effort import Effort
from headrace.plan.place.infeasible import Infeasible
from headrace.plan.place.rows import Row, obeys
from headrace.plan.place.search import solve

LARGEST = (5, 1000, 2**33, 2**70)
"""Costs up to these: from HiGHS's range through SciPy's 32 bits to beyond 64 bits."""


def random_choices(rng: random.Random, conflicts: int) -> Choices:
    count, largest = rng.randint(1, 7), rng.choice(LARGEST)
    arcs = [(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(0, 10))]
    arcs = [(tail, head) for tail, head in arcs if tail != head]
    clashes = [tuple(rng.sample(range(count), 2)) for _ in range(rng.randint(0, conflicts))] if count > 1 else []

    def costs(number: int, forever: bool = False) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
        found = [FOREVER if forever and rng.random() < 0.3 else rng.randint(0, largest) for _ in range(number)]
        return np.array([*found, None], dtype=object)[:-1] if largest > 2**60 else np.array(found, dtype=np.int64)

    return Choices(
        costs(count),
        costs(count),
        np.array([tail for tail, _ in arcs], dtype=np.int64),
        np.array([head for _, head in arcs], dtype=np.int64),
        costs(len(arcs), forever=True),
        np.array(clashes, dtype=np.int64).reshape(-1, 2),
        rng.randint(0, 9),
    )


def least_cost(choices: Choices, rows: tuple[Row, ...] = ()) -> int | None:
    all_choices = (np.array(bits, dtype=np.bool_) for bits in itertools.product((False, True), repeat=choices.count))
    return min((choices.cost(c) for c in all_choices if choices.allows(c) and obeys(rows, c)), default=None)


def random_rows(rng: random.Random, count: int) -> tuple[Row, ...]:
    rows = []
    for _ in range(rng.choice([0, 0, 1, 2])):
        variables = rng.sample(range(count), rng.randint(1, count))
        rows.append(Row(tuple(variables), tuple(rng.randint(0, 5) for _ in variables), rng.randint(0, 8)))
    if count > 2 and rng.random() < 0.2:
        rows.append(Row((0, 1, 2), (1, -1, -1), 0))
    if rng.random() < 0.1:
        rows.append(Row((0,), (-1,), -1))
    return tuple(rows)


def check_cuts(choices: Choices) -> None:
    best = least_cost(choices)
    assert best is not None
    if not len(choices.conflicts):
        _check(choices, minimum_cut(choices), best)
    colour, odd = two_colours(choices)
    if not odd.any():
        _check(choices, two_coloured_cut(choices, colour), best)
    half = half_integral_cut(choices)
    assert choices.allows(half.chosen)
    assert half.twice_bound <= 2 * best <= 2 * choices.cost(half.chosen)
    if half.open.any():
        assert least_cost(restrict(choices, half.open, half.chosen)) == best, "what the copies agree on stays optimal"
    else:
        assert choices.cost(half.chosen) == best


def _check(choices: Choices, chosen: BoolArray, best: int) -> None:
    assert choices.allows(chosen)
    assert choices.cost(chosen) == best


def test_cuts_find_the_cheapest_choices_or_a_true_bound():
    rng = random.Random(1)
    for _ in range(250):
        check_cuts(random_choices(rng, conflicts=4))


def test_the_search_finds_the_cheapest_choices_that_obey_all_rows():
    rng = random.Random(2)
    methods: Counter[str] = Counter()
    for _ in range(150):
        choices = random_choices(rng, conflicts=8)
        rows = random_rows(rng, choices.count)
        best = least_cost(choices, rows)
        if best is None:
            with pytest.raises(Infeasible):
                solve(choices, rows)
            continue
        solved = solve(choices, rows)
        assert choices.allows(solved.chosen)
        assert obeys(rows, solved.chosen)
        assert solved.cost == choices.cost(solved.chosen) == best
        assert solved.twice_bound == 2 * best
        methods.update(solved.methods)
    assert methods.keys() == {"minimum cut", "bipartite cut", "half-integral cut", "MILP", "exact branching"}


def test_a_search_that_is_cut_short_gives_a_true_bound():
    rng = random.Random(3)
    for _ in range(100):
        choices = random_choices(rng, conflicts=8)
        best = least_cost(choices)
        assert best is not None
        solved = solve(choices, effort=Effort(0, rng.randint(0, 3)))
        assert choices.allows(solved.chosen)
        assert solved.twice_bound <= 2 * best <= 2 * solved.cost


def test_flows_beyond_32_bits_are_exact():
    """Two paths whose capacities differ in the last of 50 bits: rounding to 32 bits would not tell them apart."""
    large = 1 << 50
    choices = Choices(
        out_cost=np.array([large + 1, 0]),
        in_cost=np.array([0, large]),
        tail=np.array([0]),
        head=np.array([1]),
        arc_cost=np.array([large * 2]),
        conflicts=np.empty((0, 2), dtype=np.int64),
    )
    assert minimum_cut(choices).tolist() == [True, True]
    assert choices.cost(minimum_cut(choices)) == large
