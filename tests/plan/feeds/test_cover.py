"""The covering knapsack by itself: against all choices, and on problems larger than any table of choices."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest

from headrace.plan.feeds.cover import NONE, Cover
from headrace.plan.feeds.cover_search import cover_cheaply


def cover(classes: list[list[tuple[int, int]]], need: int) -> Cover:
    """Classes of (gain, cost)."""
    owner = np.array([number for number, options in enumerate(classes) for _ in options])
    gains, costs = (
        np.array([option[side] for options in classes for option in options], dtype=object) for side in (0, 1)
    )
    return Cover(owner, gains, costs, need)


def random_classes(random: Random, classes: int, options: int, largest: int) -> list[list[tuple[int, int]]]:
    made = []
    for _ in range(classes):
        count = random.randint(1, options)
        gains, costs = (sorted(random.sample(range(1, largest), count)) for _ in range(2))
        made.append(list(zip(gains, costs, strict=True)))
    return made


def least_cost(classes: list[list[tuple[int, int]]], need: int) -> int:
    choices = itertools.product(*([(0, 0), *options] for options in classes))
    return min(sum(c for _, c in chosen) for chosen in choices if sum(g for g, _ in chosen) >= need)


@pytest.mark.parametrize("largest", [12, 10**6, 10**40], ids=["ties", "int64", "beyond int64"])
def test_the_cheapest_cover_equals_all_choices_tried(largest: int):
    random = Random(largest)
    for _ in range(300):
        classes = (
            random_classes(random, random.randint(1, 5), 3, largest) if largest < 10**9 else scaled(random, largest)
        )
        need = random.randint(1, sum(options[-1][0] for options in classes))
        found = cover_cheaply(cover(classes, need))
        taken = [option for option in found.chosen.tolist() if option != NONE]
        flat = [option for options in classes for option in options]
        assert sum(flat[option][0] for option in taken) >= need
        assert sum(flat[option][1] for option in taken) == found.cost == found.bound == least_cost(classes, need)


def scaled(random: Random, by: int) -> list[list[tuple[int, int]]]:
    small = random_classes(random, random.randint(1, 5), 3, 1000)
    return [[(gain * by + 1, cost * by + 7) for gain, cost in options] for options in small]


def test_a_hundred_thousand_options_are_proven():
    rng = np.random.default_rng(5)
    gains, costs = (rng.integers(1, 10**6, 100_000).astype(object) for _ in range(2))
    found = cover_cheaply(Cover(np.arange(100_000), gains, costs, int(gains.sum()) // 3))
    assert found.proven
    assert int(gains[found.chosen[found.chosen != NONE]].sum()) >= int(gains.sum()) // 3


def test_without_enough_effort_there_is_a_bound_and_no_claim():
    # Equal gain per cost, so the bound never rules anything out, and even gains, so an odd need is never met exactly.
    rng = np.random.default_rng(6)
    gains = 2 * rng.integers(10**11, 10**12, 60).astype(object)
    found = cover_cheaply(Cover(np.arange(60), gains, gains * 3, int(gains.sum()) // 4 * 2 + 1), effort=10_000)
    assert not found.proven
    assert found.bound < found.cost
    assert int(gains[found.chosen[found.chosen != NONE]].sum()) >= int(gains.sum()) // 4 * 2 + 1


def test_nothing_needed_costs_nothing():
    assert cover_cheaply(cover([[(1, 1)]], 0)).cost == 0
