"""Every device's own optimum, for many devices at once, is what each would decide alone."""

from __future__ import annotations

import numpy as np
import pytest

from headrace.plan.exact_numbers import IntArray
from headrace.plan.place.device import cheapest_limit
from headrace.plan.place.instance import Device, PairView
from headrace.plan.place.pairs import Pairs, Star, exact_in_int64
from headrace.plan.place.several import added_downloads
from headrace.plan.place.single import decide_pairs, where_views_run
from headrace.plan.place.threshold import RANGE_DEVICES, RANGE_ENDS, local_thresholds


def random_pairs(seed: int, devices: int, count: int, largest: int) -> Pairs:
    numbers = np.random.default_rng(seed)
    # Few devices have many views, as people have friends.
    a, b = (np.minimum(numbers.pareto(1.0, count) * 3, devices - 1).astype(np.int32) for _ in range(2))
    b = np.where(a == b, (b + 1) % devices, b).astype(np.int32)
    rates = numbers.integers(0, largest, (2, count))
    return Pairs(a, b, rates[0], rates[1], numbers.integers(0, 3, count))


def random_star(seed: int, devices: int) -> Star:
    numbers = np.random.default_rng(seed)
    up, down = numbers.integers(0, 5, (2, devices))
    return Star(up, down, numbers.random(devices) < 0.01, numbers.integers(0, 50, devices))


def views_of(pairs: Pairs, device: int) -> list[PairView]:
    assert pairs.load is not None
    rows = np.flatnonzero((pairs.a == device) | (pairs.b == device)).tolist()
    columns = (pairs.a, pairs.b, pairs.rate_a, pairs.rate_b, pairs.load)
    found = []
    for row in rows:
        a, b, rate_a, rate_b, load = (int(column[row]) for column in columns)
        found.append(PairView(str(row), str(a), str(b), rate_a, rate_b, load))
    return found


@pytest.mark.parametrize(
    ("devices", "count", "largest"), [(50, 400, 20), (300, 3000, 5), (200, 2000, 10**12), (40, 300, 2**62)]
)
def test_all_devices_at_once_decide_what_each_decides_alone(devices: int, count: int, largest: int):
    pairs, star = exact_in_int64(random_pairs(1, devices, count, largest), random_star(2, devices))
    local = local_thresholds(pairs, star, *added_downloads(pairs))
    assert star.capacity is not None
    for device in range(devices):
        if not star.cloud[device]:
            kind = Device(int(star.up[device]), int(star.down[device]), int(star.capacity[device]))
            assert local.limit[device] == cheapest_limit(str(device), kind, views_of(pairs, device)), device


def test_devices_in_several_ranges_decide_as_in_one():
    """More view ends and more devices than one range holds."""
    devices, count = RANGE_DEVICES + 1000, RANGE_ENDS
    pairs, star = random_pairs(3, devices, count, 1000), random_star(4, devices)
    local = local_thresholds(pairs, star, *added_downloads(pairs))
    assert star.capacity is not None
    numbers = np.random.default_rng(5)
    for device in numbers.choice(np.unique(pairs.a), 200, replace=False).tolist():
        if not star.cloud[device]:
            kind = Device(int(star.up[device]), int(star.down[device]), int(star.capacity[device]))
            assert local.limit[device] == cheapest_limit(str(device), kind, views_of(pairs, device)), device


def test_the_order_of_the_views_does_not_matter():
    pairs, star = random_pairs(6, 100, 2000, 50), random_star(7, 100)
    decided = decide_pairs(pairs, star)
    where = where_views_run(pairs, decided.limit)
    order = np.random.default_rng(8).permutation(len(pairs))
    mixed = Pairs(pairs.a[order], pairs.b[order], pairs.rate_a[order], pairs.rate_b[order], _load(pairs)[order])
    again = decide_pairs(mixed, star)
    assert again.cost == decided.cost
    assert where_views_run(mixed, again.limit).tolist() == where[order].tolist()


def test_which_device_is_called_a_does_not_matter():
    pairs, star = random_pairs(9, 100, 2000, 50), random_star(10, 100)
    turned = Pairs(pairs.b, pairs.a, pairs.rate_b, pairs.rate_a, pairs.load)
    assert decide_pairs(turned, star).limit.tolist() == decide_pairs(pairs, star).limit.tolist()


def test_no_view_runs_on_both_of_its_devices():
    pairs, star = random_pairs(11, 200, 5000, 1000), random_star(12, 200)
    limit = decide_pairs(pairs, star).limit
    both = (pairs.rate_a > limit[pairs.a]) & (pairs.rate_b > limit[pairs.b])
    assert not both.any()


def _load(pairs: Pairs) -> IntArray:
    assert pairs.load is not None
    return pairs.load
