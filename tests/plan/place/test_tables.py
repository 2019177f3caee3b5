"""The rules for a table, over columns of view ends: an engine that holds devices apart decides as one process does."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.plan.exact_numbers import IntArray
from headrace.plan.place.pairs import Pairs, exact_in_int64, find_wanted_twice
from headrace.plan.place.several import added_downloads
from headrace.plan.place.single import decide_pairs
from headrace.plan.place.tables import EndColumns, UniformRules, uniform_star
from headrace.plan.place.threshold import Local, local_thresholds
from tests.plan.place.test_threshold import random_pairs

DEVICES = 60
CASES = {"ties": 5, "few ties": 10**6, "beyond 64 bits": 2**61}


def table(largest: int) -> Pairs:
    """Many pairs have several views, in either order."""
    pairs = random_pairs(21, DEVICES, 2000, largest)
    return Pairs(pairs.a, pairs.b, pairs.rate_a, pairs.rate_b)


def ends_of(pairs: Pairs, chosen: IntArray) -> EndColumns:
    """All view ends of some devices, mixed, with devices and partners numbered in ways that have nothing in common."""
    device = np.concatenate([pairs.a, pairs.b])
    kept = np.random.default_rng(22).permutation(np.flatnonzero(np.isin(device, chosen)))
    partner = 1000 - np.concatenate([pairs.b, pairs.a])
    own, rate = np.concatenate([pairs.rate_a, pairs.rate_b]), np.concatenate([pairs.rate_b, pairs.rate_a])
    return np.searchsorted(chosen, device[kept]), partner[kept], own[kept], rate[kept]


def all_together(pairs: Pairs, rules: UniformRules) -> Local:
    pairs, star = exact_in_int64(pairs, uniform_star(DEVICES, rules.up, rules.down)[0])
    return local_thresholds(pairs, star, *added_downloads(pairs))


@pytest.mark.parametrize("largest", CASES.values(), ids=CASES)
@pytest.mark.parametrize("rules", [UniformRules(1, 2), UniformRules(5, 1), UniformRules(0, 3)], ids=str)
def test_devices_apart_decide_what_they_decide_together(largest: int, rules: UniformRules):
    pairs = table(largest)
    expected = all_together(pairs, rules)
    present = np.unique(np.concatenate([pairs.a, pairs.b])).astype(np.int64)
    for chosen in np.array_split(present, 7):
        found = rules.own_limits(ends_of(pairs, chosen))
        assert found.limit.tolist() == expected.limit[chosen].tolist()
        assert found.cost == sum(expected.cost[chosen].tolist())
        assert found.all_cloud_cost == sum(expected.all_cloud[chosen].tolist())


@pytest.mark.parametrize("largest", CASES.values(), ids=CASES)
def test_conflicts_are_settled_as_in_one_process(largest: int):
    pairs, rules = table(largest), UniformRules(5, 1)
    limit = all_together(pairs, rules).limit
    both = find_wanted_twice(pairs, limit)
    chosen = np.unique(np.concatenate([pairs.a[both], pairs.b[both]])).astype(np.int64)
    contested = (np.searchsorted(chosen, pairs.a[both]), np.searchsorted(chosen, pairs.b[both]))
    settled = rules.settle(ends_of(pairs, chosen), (*contested, pairs.rate_a[both], pairs.rate_b[both]))
    expected = decide_pairs(pairs, uniform_star(DEVICES, 5, 1)[0])
    assert len(both)
    assert settled.limit.tolist() == expected.limit[chosen].tolist()
    elsewhere = sum(all_together(pairs, rules).cost.tolist()) - settled.own_cost
    assert elsewhere + settled.cost == expected.cost
    assert 2 * elsewhere + settled.twice_bound == expected.twice_bound
    assert settled.method == expected.method


def test_prices_of_any_size_are_exact():
    star, scale = uniform_star(2, 10**30, 1)
    pairs = Pairs(np.array([0], np.int32), np.array([1], np.int32), np.array([3]), np.array([2]))
    assert scale == 1
    assert decide_pairs(pairs, star).all_cloud_cost == 5 * 10**30
