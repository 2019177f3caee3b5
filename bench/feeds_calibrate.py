"""Prices of a feed's store for benchmarks that compare ways to store ahead, and what is decided by them.

Prices are measured as a running feed does it (`coordinate/feeds/calibrating.py`): by a trial on its own store, and by
what operators of the engine were seen to take for an entry, after a while of posts that are stored ahead. Entries pass
more than that, events the engine, and pages the service, which a trial does not see: where what the benchmark measures
on the feed itself is larger, it counts. Both are told.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from bench.feeds_ways import Base, Load, Say, WaysWorld, at_rates
from bench.workloads.follows import draw
from headrace.coordinate.feeds.calibrating import measure_prices
from headrace.model.feed_names import name_trial
from headrace.model.feed_prices import FeedShape
from headrace.observe.feed_prices import FeedPrices
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.load import assume_prices, price_engine
from headrace.plan.feeds.per_pair import decide_pairs
from headrace.plan.feeds.prices import choose_prices

TAUGHT = (1, 2, 5, 10, 20, 50, 100, 200) * 2
"""Events of batches by which the engine learns."""
SERVED = 1000
"""Pages by which it is measured what one takes that is stored ahead."""


def find_prices(
    world: WaysWorld, load: Load, reads: int, given: FeedPrices | None, say: Say, crowds: int = 1
) -> FeedPrices:
    """Those that are given, or else measured, and the base in any case; with so many crowds, as when ways are compared:
    fetching takes longer in larger tables.
    """
    world.gather(crowds)
    world.tidy()  # PostgreSQL does not know yet how large its tables have become
    world.measure_base(reads)
    say(tell_base(world.base))
    if given is not None:
        say(f"given: {tell_prices(given)}")
        return given
    paces = [world.measure_pace()]
    taught = teach_engine(world, load)
    paces.append(world.measure_pace())
    measured, chosen = calibrate(world, load, taught)
    paces.append(world.measure_pace())
    say(f"calibrated: {tell_prices(measured)}; a producer that is found stored {1e6 * measured.found:.1f} us")
    pace = statistics.fmean(paces)
    say(f"an entry of the batches that taught the engine took {1e6 * taught.entry:.1f} us")
    say(f"decided by: {tell_prices(chosen)}; the machine took {pace:.2f} times as long as for the base")
    say(f"a batch that reaches people in all parts of the store takes {1000 * world.base.batch:.0f} ms")
    return scale_prices(chosen, 1 / pace)


def scale_prices(prices: FeedPrices, factor: float) -> FeedPrices:
    """Prices on a machine that takes so many times as long. What is decided by them stays the same."""
    entry, pull, batch, read, event = (factor * price for price, _ in prices.named.values())
    errors = tuple(factor * error for error in prices.errors)
    return FeedPrices(entry, pull, batch, read, event, errors, factor * prices.found)


@dataclass(frozen=True, slots=True)
class Taught:
    """Processor seconds of a page of which everything is stored ahead, and of an entry in all that it passes."""

    served: float = 0.0
    entry: float = 0.0


def teach_engine(world: WaysWorld, load: Load) -> Taught:
    """Posts events in batches of many sizes while everything is stored ahead, as a feed has run when it is calibrated:
    the engine learns what entries take.

    The base of a batch becomes that of one which reaches people in all parts of the store, as batches of a feed do.
    """
    rng = np.random.default_rng(1)
    world.store_ahead(np.ones(len(world.feeds), np.bool_))
    batches = [_time_batch(world, draw(rng, load.event_rate, events)) for events in TAUGHT]
    (batch, entry), *_ = np.linalg.lstsq([(1.0, entries) for entries, _ in batches], [taken for _, taken in batches])
    world.base = replace(world.base, batch=max(world.base.batch, float(batch)))
    merged_s, entries = world.time(world.service.housekeeping.finish), sum(entries for entries, _ in batches)
    world.tidy()
    readers = [f"c{one}" for one in draw(rng, load.query_rate, SERVED).tolist()]
    return Taught(world.time(lambda: world.read(readers)) / SERVED, float(entry) + merged_s / entries)


def _time_batch(world: WaysWorld, events: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Entries of a batch, and the seconds that it took beyond what its events would take if nobody followed them."""
    taken = world.time(lambda: world.post([f"p{one}" for one in events.tolist()]))
    return world.count(world.crowds[0].ahead, events, events[:0]).entries, taken - world.base.event * len(events)


def calibrate(world: WaysWorld, load: Load, taught: Taught = Taught()) -> tuple[FeedPrices, FeedPrices]:  # noqa: B008
    """What a trial measures, and the prices that follow from it as a running feed takes them, or from what batches and
    pages of the feed itself took, where that is more.
    """
    kept, target = world.find_kept()
    sizes = world.sizes()
    producers = len(world.crowds) * len(world.feeds.event_rate)
    followers = len(world.feeds) / len(world.feeds.event_rate)
    shape = FeedShape(max(1, round(sizes.events / producers)), producers, world.count_follows(load), followers)
    measured, _ = measure_prices(target.make_trial(name_trial(kept.project, "home")), kept.rules, shape)
    state, catalogue = world.service.rounds.state, world.catalogue
    assert state is not None
    times = {**catalogue.operator_times, **state.learning.operator_times()}
    chosen = choose_prices(assume_prices(replace(catalogue, operator_times=times)), measured, price_engine(times))
    event_s = max(chosen.event_s, world.base.event)
    read_s, store_s = max(chosen.read_s, taught.served), max(chosen.store_s, taught.entry)
    priced = (store_s, chosen.fetch_s, chosen.batch_s, read_s, event_s)
    return measured, FeedPrices(*priced, errors=measured.errors, found=measured.found)


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
