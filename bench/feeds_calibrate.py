"""Prices of a feed's store for benchmarks that compare ways to store ahead, and what is decided by them.

Windows that only read and windows that only post, with everything, nothing and half of the pairs stored ahead: so what
a read costs and what an event costs are never mixed, and least squares (`observe/feed_prices.py`) tell apart the rest.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from bench.feeds_ways import Base, Load, Say, WaysWorld, at_rates, extremes
from bench.workloads.follows import draw
from headrace.observe.feed_prices import FeedPrices, FeedWork, fit_prices
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.per_pair import decide_pairs

ROUNDS = 2
EVENTS_OF_READS = (1, 4, 16)
"""For how many reads there is an event in the windows that post: few events cost more each than many."""


def find_prices(world: WaysWorld, load: Load, reads: int, given: FeedPrices | None, say: Say) -> FeedPrices:
    """Those that are given, or else measured, and the base in any case."""
    world.measure_base(reads)
    prices = given or calibrate(world, load, reads)
    say(f"{tell_base(world.base)}\n{'given' if given else 'calibrated'}: {tell_prices(prices)}")
    return prices


def calibrate(world: WaysWorld, load: Load, reads: int) -> FeedPrices:
    """Prices of this store, from windows of the size of those that are measured with them."""
    rng = np.random.default_rng(7)
    feeds = world.feeds
    half: BoolArray = rng.random(len(feeds)) < 0.5
    windows: list[tuple[FeedWork, float]] = []
    for number in range(ROUNDS):
        ways = [*extremes(feeds).values(), half]
        for ahead in ways if number % 2 == 0 else ways[::-1]:
            world.store_ahead(ahead)
            windows.append(_read_only(world, draw(rng, load.query_rate, reads)))
            counts = [max(1, round(reads / few)) for few in EVENTS_OF_READS]
            windows += [_post_only(world, draw(rng, load.event_rate, count)) for count in counts]
    prices = fit_prices(windows)
    assert prices is not None, "there are too few windows"
    return prices


def _read_only(world: WaysWorld, readers: np.ndarray[Any, Any]) -> tuple[FeedWork, float]:
    names = [f"c{one}" for one in readers.tolist()]
    return world.count(np.zeros(0, np.int64), readers), world.time(lambda: world.read(names))


def _post_only(world: WaysWorld, events: np.ndarray[Any, Any]) -> tuple[FeedWork, float]:
    """Without what it takes to bring any events at all into the store, which does not depend on what is decided."""
    names = [f"p{one}" for one in events.tolist()]
    seconds = world.time(lambda: world.post(names)) - world.base.batch
    return world.count(events, np.zeros(0, np.int64)), max(0.0, seconds)


def read_prices(text: str) -> FeedPrices:
    """Prices as people give them, in microseconds: H=31,L=9,L0=0,read=840,event=120."""
    given = {name: 1e-6 * float(value) for name, value in (one.split("=") for one in text.split(","))}
    entry, pull, batch, read, event = (given.pop(name, 0.0) for name in ("H", "L", "L0", "read", "event"))
    if given:
        raise ValueError(f"prices are H, L, L0, read and event, not {', '.join(given)}")
    return FeedPrices(entry, pull, batch, read, event, errors=(0.0,) * 5)


def decide_by(feeds: Feeds, load: Load, prices: FeedPrices) -> BoolArray:
    """Which pairs are stored ahead under a load, by prices that were measured."""
    return decide_pairs(price_feeds(feeds, load, prices))


def price_feeds(feeds: Feeds, load: Load, prices: FeedPrices) -> Feeds:
    """The same people under a load, with these prices."""
    producers = len(feeds.event_rate)
    return replace(
        at_rates(feeds, load),
        store_price=Amounts.constant(Fraction(prices.entry), producers),
        fetch_price=Amounts.constant(Fraction(prices.pull), producers),
        pricing=Pricing(Model.BATCH, Fraction(prices.batch)),
    )


def tell_prices(prices: FeedPrices) -> str:
    return ", ".join(
        f"{name} {1e6 * price:.1f} ± {1e6 * error:.1f} us" for name, (price, error) in prices.named.items()
    )


def tell_base(base: Base) -> str:
    return (
        f"base: a page of somebody who follows nobody {1e6 * base.read:.0f} us, an event that nobody follows"
        f" {1e6 * base.event:.0f} us, a batch of events {1000 * base.batch:.0f} ms;"
        f" {1000 * base.idle:.0f} ms a second while nothing happens (not counted below)"
    )
