"""What a feed will take: which share of its pairs to store ahead, and what that costs its store.

Rates of single producers and consumers are known only once a feed runs. Until then the plan takes all producers to post
alike often, and all consumers to read alike often. If nobody says how often pages are read, it provides for the most
that can happen: everything is stored ahead.

    least share    what the latency target asks for: a page may pull so many producers, and no more
    wanted share   what costs least (lemma 1 of Feeding Frenzy), at least the least
    share          the wanted one, or less if the store has no room for it
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.catalogue import Catalogue, Feed, OperatorTime, Refusal
from headrace.model.feed_plan import FeedStatistics, PlannedPrices
from headrace.model.plan import BlockFacts, Operator
from headrace.model.rate import Rate
from headrace.model.statistics import distinct_of, rate_of, rows_of, width_of
from headrace.plan.cores import cores_of
from headrace.plan.feeds.latency import QueryTime, most_pulls_within
from headrace.plan.outputs import block_facts
from headrace.plan.views import blocks_of_view

STORE_S = 15e-6
FETCH_S = 6e-6
READ_S = 360e-6
EVENT_S = 27e-6
"""Seconds of a core until a feed was calibrated, in PostgreSQL: between those of producers with 3 and with 20 events
that `bench/feeds_layouts.py` measured (docs/decisions/0081).
"""

PAGE_S = 3e-3
PULL_S = 1e-4
"""Seconds that a reader waits, until a feed was calibrated."""

ENTRY_BYTES = 24.0
"""Time and id of an entry of a pair."""
ROW_BYTES = 64.0
"""What PostgreSQL adds to a row and its key."""


def find_statistics(feed: Feed, catalogue: Catalogue) -> FeedStatistics:
    """Raises no error for views that are not maintained: their feed is refused anyway."""
    events = _facts_of(catalogue, feed.events.source)
    follows = _facts_of(catalogue, feed.follows.source)
    columns = (feed.follows.consumer, feed.follows.producer)
    return FeedStatistics(
        pairs=follows.rows,
        consumers=max(1.0, min(follows.distinct.get(columns[0], follows.rows), follows.rows)),
        producers=max(1.0, events.distinct.get(feed.events.producer, events.rows)),
        events=events.rows,
        events_s=events.rate.at(1.0),
        reads_s=feed.reads_s,
        event_width=sum(events.widths.values()),
        pair_width=sum(follows.widths.get(column, 0.0) for column in columns),
    )


def _facts_of(catalogue: Catalogue, name: str) -> BlockFacts:
    if name in catalogue.sources:
        source = catalogue.sources[name]
        columns = source.columns or ()
        return BlockFacts(
            rows_of(source),
            Rate(rate_of(source)),
            {one.name: width_of(one) for one in columns},
            {one.name: distinct_of(source, one) for one in columns},
        )
    blocks = blocks_of_view(catalogue, name)
    return (
        BlockFacts(0.0, Rate(), {}, {}) if isinstance(blocks, Refusal) else block_facts(cores_of(blocks, catalogue)[-1])
    )


def find_prices(feed: Feed, catalogue: Catalogue) -> PlannedPrices:
    """Those that were calibrated on the feed, else those that are assumed."""
    return feed.prices or assume_prices(catalogue)


def assume_prices(catalogue: Catalogue) -> PlannedPrices:
    """Prices before a feed was calibrated. An entry passes the engine, whose times are known, and then the store."""
    engine_s = price_engine(catalogue.operator_times)
    return PlannedPrices(STORE_S + engine_s, FETCH_S, 0.0, READ_S, EVENT_S, PAGE_S, PULL_S, engine_s=engine_s)


def price_engine(times: Mapping[str, OperatorTime]) -> float:
    """What an entry takes in the engine before it reaches the store: it is joined, and kept in a log."""
    return sum(times[one].per_in + times[one].per_out for one in (Operator.JOIN, Operator.APPLY))


@dataclass(frozen=True, slots=True)
class FeedLoad:
    """What a share of pairs stored ahead means: entries stored per second, producers pulled by a read, how long a page
    takes, and cores and bytes of the store.
    """

    ahead: float
    entries_s: float
    pulls: float
    page_s: float
    cpu: float
    size: float


def find_most_pulls(feed: Feed, prices: PlannedPrices, at_most: int) -> int | None:
    """Producers that a page may pull within the latency targets, up to so many; None if it takes too long even when
    everything is stored ahead.

    To the plan all pages are alike: the smallest target counts, whether it is of the mean or of a percentile.
    """
    times = QueryTime(prices.page_s, each=prices.pull_s)
    return most_pulls_within(times, min(feed.latency.values(), default=math.inf), at_most)


def choose_share(feed: Feed, now: FeedStatistics, prices: PlannedPrices, room: float | None) -> tuple[float, float]:
    """The share of pairs to store ahead, and the least one that keeps the latency targets. `room` are bytes that the
    store may take, None if nobody limits it.
    """
    pulls = find_most_pulls(feed, prices, max(1, math.ceil(now.follows)))
    least = min(1.0, max(0.0, 1.0 - (pulls or 0) / max(now.follows, 1e-9)))
    wanted = max(least, _cheapest_share(now, prices))
    if room is None or measure_load(feed, now, prices, wanted).size <= room:
        return wanted, least
    empty, full = (measure_load(feed, now, prices, share).size for share in (0.0, 1.0))
    fits = (room - empty) / (full - empty) if full > empty else 0.0
    return max(least, min(wanted, max(0.0, fits))), least


def _cheapest_share(now: FeedStatistics, prices: PlannedPrices) -> float:
    """Everything, or nothing: to the mean all pairs are alike."""
    if now.reads_s is None or not now.pairs:
        return 1.0
    pulled = now.reads_s / now.consumers * (prices.fetch_s + prices.batch_s / now.follows)
    return 1.0 if pulled >= now.events_s / now.producers * prices.store_s else 0.0


def measure_load(feed: Feed, now: FeedStatistics, prices: PlannedPrices, ahead: float) -> FeedLoad:
    per_producer = now.events / now.producers
    pulls = now.follows * (1.0 - ahead)
    reads_s, entries_s = now.reads_s or 0.0, now.events_s * now.followers * ahead
    read_s = prices.read_s + pulls * prices.fetch_s + (prices.batch_s if pulls > 0.0 else 0.0)
    events = now.producers * min(feed.keep, per_producer) * (now.event_width + ROW_BYTES)
    pairs = now.pairs * (now.pair_width + ROW_BYTES)
    entries = now.pairs * ahead * (now.pair_width + ROW_BYTES + min(feed.shown, per_producer) * ENTRY_BYTES)
    return FeedLoad(
        ahead=ahead,
        entries_s=entries_s,
        pulls=pulls,
        page_s=prices.page_s + pulls * prices.pull_s,
        cpu=entries_s * (prices.store_s - prices.engine_s) + reads_s * read_s + now.events_s * prices.event_s,
        size=events + pairs + entries,
    )
