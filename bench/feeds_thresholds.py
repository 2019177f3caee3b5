"""What a push threshold does to latency and cost: Feeding Frenzy, section 5.3, figures 6 and 7, on a running store.

A pair is stored ahead if its consumer reads so many times as often as its producer posts. Least cost is at H / L, which
is measured as well; below it more is stored than pays, and pages get quicker.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from bench.feeds_calibrate import find_prices
from bench.feeds_figures import Figure, Found
from bench.feeds_ratios import MEDIAN_RATIO
from bench.feeds_ways import Load, Measured, Say, Turn, WaysWorld, at_rates, measure_turns
from headrace.observe.feed_prices import FeedPrices
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.instance import Feeds

NEAR = 0.3
"""How far the threshold of least cost may be from H / L."""
AS_CHEAP = 1.03


def sweep_thresholds(
    world: WaysWorld, thresholds: Sequence[float], runs: int, reads: int, given: FeedPrices | None, say: Say
) -> Found:
    feeds = world.feeds
    load = Load("16", feeds.event_rate.near, feeds.query_rate.near, MEDIAN_RATIO)
    prices = find_prices(world, load, reads, given, say, len(thresholds) + 1)
    balance = prices.entry / prices.pull if prices.pull else math.inf
    every = sorted({*thresholds, *([balance] if math.isfinite(balance) else [])})
    ways = {one: store_above(feeds, load, one) for one in every}
    turns = [Turn(f"{one:g}", ahead, (load,)) for one, ahead in ways.items()]
    measured = measure_turns(world, turns, runs, reads, say)
    lines = [*_tell(measured, load, ways, feeds, prices, world)]
    return Found(
        (*lines, "paper: latency falls with the threshold, cost is least at 3", *measured.tell_windows()),
        tuple(_judge(measured, load, every, balance)),
        (_draw(measured, load, ways, feeds),),
        measured.wrong,
    )


def store_above(feeds: Feeds, load: Load, threshold: float) -> BoolArray:
    """The pairs whose consumer reads at least so many times as often as the producer posts."""
    rated = at_rates(feeds, load)
    ratio = rated.query_rate.near[feeds.consumer] / rated.event_rate.near[feeds.producer]
    ahead: BoolArray = ratio >= threshold
    return ahead


def share_of_pages(feeds: Feeds, load: Load, ahead: BoolArray, stored: float) -> float:
    """The share of queries of which at least such a share of producers is stored ahead (figure 7)."""
    follows = np.bincount(feeds.consumer, minlength=len(feeds.query_rate))
    ready = np.bincount(feeds.consumer[ahead], minlength=len(feeds.query_rate))
    return float(load.query_rate[ready >= stored * follows].sum() / load.query_rate.sum())


def _tell(
    measured: Measured,
    load: Load,
    ways: dict[float, BoolArray],
    feeds: Feeds,
    prices: FeedPrices,
    world: WaysWorld,
) -> Iterator[str]:
    yield f"{'threshold':>9} {'cpu':>8} {'spread':>12} {'predicted':>9} {'p50':>8} {'p95':>8}" + "".join(
        f" {name:>6}" for name in ("ahead", "half", "whole")
    )
    for one, ahead in ways.items():
        way = f"{one:g}"
        seconds = measured.seconds(load.at, way)
        shares = [ahead.mean(), *(share_of_pages(feeds, load, ahead, share) for share in (0.5, 1.0))]
        yield (
            f"{one:9.3g} {measured.median(load.at, way):6.2f} s {min(seconds):5.2f}..{max(seconds):.2f}"
            f" {measured.predict(load.at, way, prices, world.base):7.2f} s"
            + "".join(f" {1000 * measured.latency_s(load.at, way, share):5.2f} ms" for share in (0.5, 0.95))
            + "".join(f" {100 * share:4.0f} %" for share in shares)
        )
    yield "half, whole: queries of which half, or all, of the producers are stored ahead"


def _judge(measured: Measured, load: Load, every: Sequence[float], balance: float) -> Iterator[tuple[str, bool]]:
    costs = {one: measured.median(load.at, f"{one:g}") for one in every}
    p95 = [1000 * measured.latency_s(load.at, f"{one:g}", 0.95) for one in (every[0], every[-1])]
    yield (
        f"p95 falls with the threshold: {p95[1]:.2f} ms at {every[-1]:g}, {p95[0]:.2f} ms at {every[0]:g}",
        p95[0] < p95[1],
    )
    cheapest = min(costs, key=lambda one: costs[one])
    if math.isfinite(balance):
        near = costs[balance] <= AS_CHEAP * costs[cheapest] or abs(cheapest / balance - 1) <= NEAR
        yield f"cost is least near H / L = {balance:.2g}: it is at {cheapest:.2g}", near
    else:
        yield f"a pull was not found to cost anything, so that nothing should be ahead: least at {cheapest:.2g}", False


def _draw(measured: Measured, load: Load, ways: dict[float, BoolArray], feeds: Feeds) -> Figure:
    names = [(one, f"{one:g}") for one in ways]
    least = min(measured.median(load.at, way) for _, way in names)
    return Figure(
        "threshold",
        "push threshold",
        "ms, and shares",
        {
            "p95, ms": [(one, 1000 * measured.latency_s(load.at, way, 0.95)) for one, way in names],
            "cost / least cost": [(one, measured.median(load.at, way) / least) for one, way in names],
            "queries all stored": [(one, share_of_pages(feeds, load, ahead, 1.0)) for one, ahead in ways.items()],
        },
        "latency falls with the threshold;\ncost is least at 3 (figures 6 and 7)",
    )
