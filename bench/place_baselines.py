"""The same placement by minimum cuts: one cut of the whole graph per device, or one cut of all devices' own graphs
together.

The paper compares with the first (4.75 hours for 20,000 devices and 186,000 views). What makes that slow is not the
cut but looking at the whole graph 20,000 times.
"""

from __future__ import annotations

import time

import numpy as np

from bench.place_results import Baseline
from headrace.plan.place.cut import Choices, minimum_cut
from headrace.plan.place.networks import DemandGraph, Places, network
from headrace.plan.place.pairs import Pairs
from headrace.plan.place.several import added_downloads
from headrace.plan.place.tables import uniform_star
from headrace.plan.place.threshold import local_thresholds


def compare(pairs: Pairs, devices: int, sample: int, seed: int) -> tuple[Baseline, ...]:
    """Up and down cost the same. Every answer is checked against the devices' own limits."""
    star, _ = uniform_star(devices, 1, 1)
    started = time.perf_counter()
    local = local_thresholds(pairs, star, *added_downloads(pairs))
    ours = time.perf_counter() - started
    total = int(local.cost.sum())
    graph = as_graph(pairs, devices)
    some = np.random.default_rng(seed).choice(np.unique(pairs.a), sample, replace=False)
    return (
        Baseline("thresholds, all devices", devices, ours / devices, ours, False, True),
        _one_cut_for_all(graph, pairs, devices, total),
        _one_cut_per_device(graph, pairs, devices, some.tolist(), local.cost.tolist()),
    )


def as_graph(pairs: Pairs, devices: int) -> DemandGraph:
    """Streams are the devices' feeds, then the views."""
    views = devices + np.arange(len(pairs))
    count = devices + len(pairs)
    return DemandGraph(
        count,
        np.concatenate([pairs.a, pairs.b]).astype(np.int64),
        np.concatenate([views, views]),
        np.concatenate([pairs.rate_a, pairs.rate_b]),
        np.zeros(count, dtype=np.bool_),
    )


def _one_cut_for_all(graph: DemandGraph, pairs: Pairs, devices: int, expected: int) -> Baseline:
    started = time.perf_counter()
    views = devices + np.arange(len(pairs))
    every = np.arange(devices)
    prices = np.ones(devices, dtype=np.int64)
    both = np.concatenate([pairs.a, pairs.b]).astype(np.int64)
    problem = network(graph, Places(prices, prices, every, every, both, np.concatenate([views, views])))
    same = _least(problem) == expected
    seconds = time.perf_counter() - started
    return Baseline("one cut, all devices' own graphs", devices, seconds / devices, seconds, False, same)


def _one_cut_per_device(
    graph: DemandGraph, pairs: Pairs, devices: int, some: list[int], expected: list[int]
) -> Baseline:
    views = devices + np.arange(len(pairs))
    price = np.ones(1, dtype=np.int64)
    here = np.zeros(len(views), dtype=np.int64)
    same = True
    started = time.perf_counter()
    for device in some:
        places = Places(price, price, np.zeros(1, dtype=np.int64), np.array([device]), here, views)
        same &= _least(network(graph, places)) == expected[device]
    each = (time.perf_counter() - started) / len(some)
    return Baseline("one cut of the whole graph per device", len(some), each, each * devices, True, same)


def _least(problem: Choices) -> int:
    return problem.cost(minimum_cut(problem))
