"""Builds what `status` and `feeds calibrate` tell of feeds that run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from headrace.coordinate.feeds.controller import FeedDecisions
from headrace.model.catalogue import Feed
from headrace.model.feed_plan import PlannedPrices
from headrace.model.feed_prices import PRICES, FeedCalibration
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.per_pair import decide_pairs
from headrace.plan.feeds.prices import is_sure
from headrace.site.feeds.pages import FeedTold

UNITS: Mapping[str, str] = {
    "H": "s of a core to store an event for one consumer",
    "L": "s of a core to fetch a producer, beyond finding it stored ahead",
    "L0": "s of a core for a read that fetches anything",
    "read": "s of a core for a read of which everything is stored ahead",
    "event": "s of a core for an event that is stored for nobody",
}


def feed_document(
    feed: Feed, told: FeedTold, last: FeedDecisions | None, prices: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A feed as `status` shows it. Rates are per second, times in seconds since 1970."""
    return {
        "id": feed.name,
        "at": feed.site,
        "pairs": told.pairs if last is None else last.pairs,
        "stored_ahead": told.stored_ahead if last is None else last.ahead,
        "lag_s": told.lag_s,
        "freshness_s": feed.freshness_s,
        "p50_ms": told.find_percentile_ms(0.5),
        "p95_ms": told.find_percentile_ms(0.95),
        "target_ms": {name: 1000.0 * limit_s for name, limit_s in feed.latency.items()},
        "reads_s": None if last is None else last.reads_s,
        "events_s": None if last is None else last.events_s,
        "flips": None if last is None else last.flips,
        "decided": None if last is None else last.decided_at,
        "outcome": None if last is None else last.outcome.value,
        "tau": None if last is None else last.threshold,
        "shed": [] if last is None else list(last.shed),
        "prices": prices,
    }


def price_document(used: PlannedPrices, found: FeedCalibration | None, engine_s: float) -> dict[str, Any]:
    """Prices by name: `seconds` as measured or assumed, with the standard `error` of what was measured, whether they
    are `sure`, and what is `used`. H has `engine_s`, which is what operators took.
    """
    taken = dict(zip(PRICES, (used.store_s, used.fetch_s, used.batch_s, used.read_s, used.event_s), strict=True))
    if found is None:
        prices: dict[str, Any] = {
            name: {"seconds": price, "error": None, "sure": False, "used": price, "unit": UNITS[name]}
            for name, price in taken.items()
        }
        prices["H"]["engine_s"] = engine_s
        return {**prices, "measured": False, "at": None, "counted": None}
    more = {"H": {"engine_s": engine_s}, "L": {"stored_s": found.prices.found}}
    on_top = {"H": engine_s}
    prices = {
        name: {
            "seconds": price + on_top.get(name, 0.0),
            "error": error,
            "sure": is_sure(price, error),
            "used": taken[name],
            "unit": UNITS[name],
            **more.get(name, {}),
        }
        for name, (price, error) in found.prices.named.items()
    }
    return {**prices, "measured": True, "at": found.at_s, "counted": found.counted.value}


def read_prices(told: Mapping[str, Any], assumed: PlannedPrices) -> PlannedPrices:
    """Prices that were measured, from what `price_document` tells; how long readers wait is assumed."""
    store_s, fetch_s, batch_s, read_s, event_s = (told[name]["used"] for name in PRICES)
    engine_s = told["H"]["engine_s"]
    waits = assumed.page_s, assumed.pull_s
    return PlannedPrices(store_s, fetch_s, batch_s, read_s, event_s, *waits, calibrated=True, engine_s=engine_s)


def count_flips(feeds: Feeds, before: PlannedPrices, after: PlannedPrices) -> int:
    """How many pairs cost less the other way at other prices."""
    return int((decide_pairs(_at_prices(feeds, before)) != decide_pairs(_at_prices(feeds, after))).sum())


def _at_prices(feeds: Feeds, prices: PlannedPrices) -> Feeds:
    producers = len(feeds.event_rate)
    return replace(
        feeds,
        store_price=Amounts.constant(Fraction(prices.store_s), producers),
        fetch_price=Amounts.constant(Fraction(prices.fetch_s), producers),
        pricing=Pricing(Model.BATCH, Fraction(prices.batch_s)),
    )
