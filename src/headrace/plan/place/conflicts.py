"""One level, uploads dearer than downloads: two devices may both want a view; the cheapest way out, per connected
component.

Raising a device's upload limit never breaks a view that is settled, so only conflict views constrain:

    min  sum_i G_i(x_i)     with x_i >= r_ij or x_j >= r_ji for every conflict view {i, j}
                            and  G_i(t) = min{ g_i(y) : y >= t }

G counts what going on past t may save. A tree of conflicts is solved by dynamic programming, one with two colours by
a minimum cut, any other by the half-integral cut and, where that leaves something open, by search. (RACE section 3.7
reduces this to vertex cover, which is right only when a device's views all need the same rate.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.plan.exact_numbers import BoolArray, Index, IntArray, int_array
from headrace.plan.place.effort import Effort
from headrace.plan.place.forest import Chain, Joint, cheapest_levels
from headrace.plan.place.pairs import Pairs, Star
from headrace.plan.place.threshold import Curves, Ends, cost_curves

TREE = "tree dynamic program"


@dataclass(frozen=True, slots=True)
class Clashes:
    """Views that both their devices want: devices `one` and `other` (positions among the devices in conflict) and their
    own rates.
    """

    one: Index
    other: Index
    rate_one: IntArray
    rate_other: IntArray


@dataclass(frozen=True, slots=True)
class Resolved:
    """New upload limits of the devices in conflict, what these devices pay, and twice a lower bound of that."""

    limit: IntArray
    cost: int
    twice_bound: int
    methods: frozenset[str]


def devices_of(pairs: Pairs, views: Index) -> Index:
    """The devices of some views, rising."""
    return np.unique(np.concatenate([pairs.a[views], pairs.b[views]])).astype(np.int64)


def clashes(pairs: Pairs, views: Index, devices: Index) -> Clashes:
    return Clashes(
        np.searchsorted(devices, pairs.a[views]),
        np.searchsorted(devices, pairs.b[views]),
        pairs.rate_a[views],
        pairs.rate_b[views],
    )


def curves_of(pairs: Pairs, star: Star, devices: Index, down_a: IntArray, down_b: IntArray) -> Curves:
    """The cost curves of some devices, which are renumbered 0, 1, ... in the given (rising) order."""
    number = np.full(len(star), -1, dtype=np.int64)
    number[devices] = np.arange(len(devices))
    at_a, at_b = np.flatnonzero(number[pairs.a] >= 0), np.flatnonzero(number[pairs.b] >= 0)
    ends = Ends(
        np.concatenate([number[pairs.a[at_a]], number[pairs.b[at_b]]]),
        np.concatenate([pairs.rate_a[at_a], pairs.rate_b[at_b]]),
        np.concatenate([down_a[at_a], down_b[at_b]]),
        None if pairs.load is None else np.concatenate([pairs.load[at_a], pairs.load[at_b]]),
    )
    capacity = None if star.capacity is None else star.capacity[devices]
    return cost_curves(ends, Star(star.up[devices], star.down[devices], star.cloud[devices], capacity), 0, len(devices))


def resolve(curves: Curves, limit: IntArray, between: Clashes, effort: Effort) -> Resolved:
    """The cheapest limits that settle all clashes.

    `limit` holds each device's own optimum; curves are numbered alike.
    """
    chains = _chains(curves, limit, between)
    joints = _joints(chains, between)
    in_tree = _in_trees(len(chains), between)
    level = np.zeros(len(chains), dtype=np.int64)
    trees, others = np.flatnonzero(in_tree), np.flatnonzero(~in_tree)
    chosen = cheapest_levels(chains, trees.tolist(), [joint for joint in joints if in_tree[joint.one]])
    level[trees] = [chosen[vertex] for vertex in trees.tolist()]
    cost = sum(chains[vertex].cost[at] for vertex, at in chosen.items())
    twice_bound, methods = 2 * cost, frozenset({TREE} if chosen else ())
    if len(others):
        # Loads SciPy, which takes longer than most decisions, and most conflicts are trees.
        from headrace.plan.place.level_choices import cheapest_by_search

        solved, level[others] = cheapest_by_search(
            chains, others, [joint for joint in joints if not in_tree[joint.one]], effort
        )
        cost, twice_bound, methods = cost + solved.cost, twice_bound + solved.twice_bound, methods | solved.methods
    limits = int_array([chains[vertex].limit[at] for vertex, at in enumerate(level.tolist())])
    return Resolved(limits, cost, twice_bound, methods)


def _chains(curves: Curves, limit: IntArray, between: Clashes) -> list[Chain]:
    """Each device's own optimum and the rates that its clashes ask for, with G at each."""
    asked: list[set[int]] = [{int(own)} for own in limit]
    for device, rate in zip(between.one.tolist(), between.rate_one.tolist(), strict=True):
        asked[device].add(rate)
    for device, rate in zip(between.other.tolist(), between.rate_other.tolist(), strict=True):
        asked[device].add(rate)
    starts, limits, costs = curves.start.tolist(), curves.limit.tolist(), curves.cost.tolist()
    tops = zip(curves.fastest.tolist(), curves.all_cloud.tolist(), strict=True)
    return [
        _chain(sorted(levels), [fastest, *limits[first:last]], [all_cloud, *costs[first:last]])
        for levels, (fastest, all_cloud), first, last in zip(asked, tops, starts[:-1], starts[1:], strict=True)
    ]


def _chain(levels: list[int], limits: list[int], costs: list[int]) -> Chain:
    """G(t) = min{ g(y) : y >= t } at rising levels t, from g at falling limits y; among equals the largest y."""
    best_cost: list[int] = []
    best_limit: list[int] = []
    at, cost, limit = 0, costs[0], limits[0]
    for level in reversed(levels):
        while at < len(limits) and limits[at] >= level:
            if costs[at] < cost:
                cost, limit = costs[at], limits[at]
            at += 1
        best_cost.append(cost)
        best_limit.append(limit)
    return Chain(tuple(levels), tuple(best_cost[::-1]), tuple(best_limit[::-1]))


def _joints(chains: list[Chain], between: Clashes) -> list[Joint]:
    """Lists joints in an order that does not depend on that of the views: ties are then broken alike, whatever engine
    found them.
    """
    columns = (between.one, between.other, between.rate_one, between.rate_other)
    found = (
        (one, other, rate_one, rate_other) if one < other else (other, one, rate_other, rate_one)
        for one, other, rate_one, rate_other in zip(*(column.tolist() for column in columns), strict=True)
    )
    return [
        Joint(one, other, chains[one].position(rate_one), chains[other].position(rate_other))
        for one, other, rate_one, rate_other in sorted(found)
    ]


def _in_trees(count: int, between: Clashes) -> BoolArray:
    """Whether each device's component of clashes is a tree; several clashes of one pair are one edge."""
    low, high = np.minimum(between.one, between.other), np.maximum(between.one, between.other)
    parent = list(range(count))
    circular = [False] * count

    def root(vertex: int) -> int:
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex

    for edge in sorted(set((low * count + high).tolist())):
        one, other = root(edge // count), root(edge % count)
        circular[one] |= circular[other] or one == other
        parent[other] = one
    return np.array([not circular[root(vertex)] for vertex in range(count)], dtype=np.bool_)
