"""One view per pair of devices: from columns of pairs to a decided column, and from a `Single` instance to a
`PlacementDecision`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.plan.exact_numbers import Exact, IntArray, common_scale, scale_numbers, total
from headrace.plan.place.conflicts import clashes, curves_of, devices_of, resolve
from headrace.plan.place.effort import Effort
from headrace.plan.place.instance import CLOUD, Device, PlacementDecision, Single
from headrace.plan.place.pairs import AT_A, AT_B, Pairs, Star, Where, exact_in_int64, find_wanted_twice, runs_on_device
from headrace.plan.place.several import added_downloads
from headrace.plan.place.threshold import Local, local_thresholds

LOCAL = "local thresholds"


@dataclass(frozen=True, slots=True)
class PairsDecision:
    """Every device's upload limit and cost, in integers. `twice_bound` / 2 is a lower bound of `cost`."""

    limit: IntArray
    cost: int
    twice_bound: int
    all_cloud_cost: int
    methods: frozenset[str]

    @property
    def method(self) -> str:
        return name_method(self.methods)


def name_method(used: Iterable[str]) -> str:
    """What decided, in words: every device alone, then whatever settled conflicts."""
    return " + ".join([LOCAL, *sorted(used)])


def decide_pairs(pairs: Pairs, star: Star, effort: Effort = Effort()) -> PairsDecision:  # noqa: B008
    """The cheapest upload limits of all devices; views whose feed is needed faster than its device uploads it run
    there.
    """
    pairs, star = exact_in_int64(pairs, star)
    down_a, down_b = added_downloads(pairs)
    local = local_thresholds(pairs, star, down_a, down_b)
    cost = total(local.cost)
    found = find_wanted_twice(pairs, local.limit)
    if not len(found):
        return PairsDecision(local.limit, cost, 2 * cost, total(local.all_cloud), frozenset())
    return _without_conflicts(pairs, star, (down_a, down_b), local, found, effort)


def _without_conflicts(
    pairs: Pairs, star: Star, added: tuple[IntArray, IntArray], local: Local, found: NDArray[np.int64], effort: Effort
) -> PairsDecision:
    """Settles the views that both their devices want (`found`); other devices keep their own optimum."""
    devices = devices_of(pairs, found)
    curves = curves_of(pairs, star, devices, *added)
    resolved = resolve(curves, local.limit[devices], clashes(pairs, found, devices), effort)
    elsewhere = total(local.cost) - total(local.cost[devices])
    limit = local.limit.copy()
    limit[devices] = resolved.limit
    return PairsDecision(
        limit,
        elsewhere + resolved.cost,
        2 * elsewhere + resolved.twice_bound,
        total(local.all_cloud),
        resolved.methods,
    )


def where_views_run(pairs: Pairs, limit: IntArray) -> Where:
    """The place of each view, given every device's upload limit."""
    where = np.zeros(len(pairs), dtype=np.uint8)
    where[runs_on_device(pairs.rate_a, limit[pairs.a])] = AT_A
    where[runs_on_device(pairs.rate_b, limit[pairs.b])] = AT_B
    return where


@dataclass(frozen=True, slots=True)
class Columns:
    """A `Single` in integers: rates times `rate_scale`, prices times `price_scale`; devices by their numbers."""

    names: tuple[str, ...]
    pairs: Pairs
    star: Star
    rate_scale: int
    price_scale: int

    def exact(self, cost: int, halves: bool = False) -> Exact:
        amount = Fraction(cost, self.rate_scale * self.price_scale * (2 if halves else 1))
        return int(amount) if amount.denominator == 1 else amount


def decide_single(instance: Single, columns: Columns, effort: Effort) -> PlacementDecision:
    decided = decide_pairs(columns.pairs, columns.star, effort)
    where = where_views_run(columns.pairs, decided.limit)
    return PlacementDecision(
        placement={
            view.id: (CLOUD, view.a, view.b)[at] for view, at in zip(instance.views, where.tolist(), strict=True)
        },
        cost=columns.exact(decided.cost),
        all_cloud_cost=columns.exact(decided.all_cloud_cost),
        lower_bound=columns.exact(decided.twice_bound, halves=True),
        method=decided.method,
    )


def as_columns(instance: Single) -> Columns:
    """Numbers the devices by name, so that ties do not depend on the order of the views, and scales all numbers to
    integers.
    """
    views = instance.views
    names = tuple(sorted({name for view in views for name in (view.a, view.b)}))
    number = {name: position for position, name in enumerate(names)}
    kinds = [instance.devices.get(name, instance.default) for name in names]
    rates = [view.rate_a for view in views], [view.rate_b for view in views]
    rate_scale = common_scale((*rates[0], *rates[1]))
    price_scale = common_scale(price for kind in kinds for price in (kind.up, kind.down))
    load, capacity = _loads([view.load for view in views], kinds)
    pairs = Pairs(
        np.array([number[view.a] for view in views], dtype=np.int32),
        np.array([number[view.b] for view in views], dtype=np.int32),
        scale_numbers(rates[0], rate_scale),
        scale_numbers(rates[1], rate_scale),
        load,
    )
    star = Star(
        scale_numbers([kind.up for kind in kinds], price_scale),
        scale_numbers([kind.down for kind in kinds], price_scale),
        np.array([name in instance.cloud_sources for name in names], dtype=np.bool_),
        capacity,
    )
    return Columns(names, pairs, star, rate_scale, price_scale)


def _loads(loads: list[Exact], kinds: Iterable[Device]) -> tuple[IntArray | None, IntArray | None]:
    """Loads and capacities as integers; both None where no device has a capacity.

    No capacity is one that everything fits into.
    """
    limits = [kind.capacity for kind in kinds]
    if all(limit is None for limit in limits):
        return None, None
    scale = common_scale([*loads, *(limit for limit in limits if limit is not None)])
    everything = sum(loads)
    return scale_numbers(loads, scale), scale_numbers(
        [everything if limit is None else limit for limit in limits], scale
    )
