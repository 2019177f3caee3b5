"""Store ahead or on read, for every pair: the least cost there is, whatever the number of pairs.

    ahead  iff  query_rate * L >= event_rate * H            a tie stores ahead: the same cost, and quicker to read

for the models that price a pair by itself (lemma 1 of Feeding Frenzy), its like for the others (`coherency`), and
for batches once more per consumer. Written with products, the rule needs no case for zero rates: a producer that
says nothing is stored ahead for nothing, and a consumer who never asks pulls for nothing.

Doubles decide what they can, in chunks, so that memory beyond the input stays bounded. Pairs within rounding of a
tie are decided again in integers (`exactly`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from headrace.plan.exact_numbers import EXACT_DOUBLE, BoolArray
from headrace.plan.feeds.amounts import ROUNDING, TINY, Amounts, FloatArray, Positions, scale_to_whole
from headrace.plan.feeds.coherency import PairColumns, on_read_and_ahead, saved_on_read, sum_by_group
from headrace.plan.feeds.exactly import decide_exactly, pieces
from headrace.plan.feeds.instance import Feeds, Model

CHUNK = 1 << 21
"""Pairs looked at together: about 200 MB of doubles."""


def decide_pairs(feeds: Feeds) -> BoolArray:
    """Which pairs to store ahead, so that the cost is least."""
    feeds = in_whole_units(feeds)
    ahead, unsure = _decide_in_doubles(feeds)
    for some in pieces(feeds, unsure):
        ahead[some] = decide_exactly(feeds, some)
    return ahead


def in_whole_units(feeds: Feeds) -> Feeds:
    """Writes an instance in smaller units of rates and of prices, if these make integers of all: then ties are exact.

    No rule changes when all rates, or all prices, are multiplied by one number.
    """
    batch_price = Amounts.constant(feeds.pricing.batch_price, 1)
    rate_scale = scale_to_whole(feeds.query_rate, feeds.event_rate)
    price_scale = scale_to_whole(feeds.store_price, feeds.fetch_price, batch_price)
    if rate_scale is None or price_scale is None:
        return feeds
    return replace(
        feeds,
        query_rate=feeds.query_rate.whole_times(rate_scale),
        event_rate=feeds.event_rate.whole_times(rate_scale),
        store_price=feeds.store_price.whole_times(price_scale),
        fetch_price=feeds.fetch_price.whole_times(price_scale),
        pricing=replace(feeds.pricing, batch_price=feeds.pricing.batch_price * price_scale),
    )


def chunks(count: int) -> Iterator[slice]:
    return (slice(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK))


def followed_rate(feeds: Feeds) -> FloatArray:
    """The event rate of everyone that a consumer follows, by consumer; empty where the model does not ask for it."""
    if not needs_followed_rate(feeds):
        return np.zeros(0)
    rate = np.zeros(len(feeds.query_rate))
    for some in chunks(len(feeds)):
        rate += sum_by_group(feeds.event_rate.near[feeds.producer[some]], feeds.consumer[some], len(rate))
    return rate


def columns_in_doubles(feeds: Feeds, some: slice | Positions, followed: FloatArray) -> PairColumns:
    """What the rules read, for some pairs; `followed` is the followed rate of all consumers."""
    consumer, producer = feeds.consumer[some], feeds.producer[some]
    return PairColumns(
        feeds.query_rate.near[consumer],
        feeds.event_rate.near[producer],
        feeds.store_price.near[producer],
        feeds.fetch_price.near[producer],
        followed[consumer] if len(followed) else followed,
    )


def needs_followed_rate(feeds: Feeds) -> bool:
    return feeds.pricing.model in (Model.AMORTISED, Model.RECENCY)


def _decide_in_doubles(feeds: Feeds) -> tuple[BoolArray, BoolArray]:
    """Decisions, and the pairs for which doubles were not sure: all of a consumer where its pairs are coupled."""
    ahead, unsure = np.empty(len(feeds), dtype=np.bool_), np.zeros(len(feeds), dtype=np.bool_)
    followed = followed_rate(feeds)
    error = _relative_error(feeds)
    batches = _Batches.none(feeds)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        for some in chunks(len(feeds)):
            columns = columns_in_doubles(feeds, some, followed)
            on_read, stored = on_read_and_ahead(columns, feeds.pricing.model, feeds.pricing.shown)
            ahead[some] = on_read >= stored
            free = (columns.event_rate == 0) | (columns.store_price == 0)
            unsure[some] = ~free & ~error.clear(on_read, stored, feeds.consumer[some])
            batches = batches.with_pairs(on_read, stored, feeds.consumer[some])
        if not feeds.pricing.is_per_pair:
            _settle_consumers(feeds, ahead, unsure, batches, error)
    return ahead, unsure


def _settle_consumers(feeds: Feeds, ahead: BoolArray, unsure: BoolArray, batches: _Batches, error: _Error) -> None:
    """Store ahead for consumers whose batches would not pay, and be unsure of all pairs of a consumer if of one."""
    doubtful = np.zeros(len(feeds.query_rate), dtype=np.bool_)
    doubtful[feeds.consumer[unsure]] = True
    if feeds.pricing.model is Model.BATCH:
        price = feeds.query_rate.near * float(feeds.pricing.batch_price)
        ahead |= (batches.saved <= price)[feeds.consumer]
        clear = error.clear_sum(batches.saved - price, batches.traded + price)
        doubtful |= ~clear
    unsure[:] = doubtful[feeds.consumer]


@dataclass(frozen=True, slots=True)
class _Error:
    """How wrong a cost in doubles may be, relative to it: by consumer, or one number where pairs are not coupled."""

    relative: FloatArray
    exact: bool = False

    def clear(self, on_read: FloatArray, stored: FloatArray, consumer: Positions) -> BoolArray:
        """Whether each difference is larger than its error."""
        if self.exact:
            return np.ones(len(on_read), dtype=np.bool_)
        relative = self.relative if self.relative.ndim == 0 else self.relative[consumer]
        return np.abs(on_read - stored) > relative * (on_read + stored) + TINY

    def clear_sum(self, difference: FloatArray, size: FloatArray) -> BoolArray:
        if self.exact:
            return np.ones(len(difference), dtype=np.bool_)
        return np.abs(difference) > 2 * self.relative * size + TINY


def _relative_error(feeds: Feeds) -> _Error:
    if feeds.pricing.is_per_pair:
        return _Error(np.asarray(ROUNDING), exact=_integers_fit(feeds, 1))
    follows = np.bincount(feeds.consumer, minlength=len(feeds.query_rate))
    if feeds.pricing.model is Model.BATCH and _integers_fit(feeds, int(follows.max(initial=1))):
        return _Error(np.zeros(()), exact=True)
    terms = feeds.pricing.shown if feeds.pricing.model is Model.RECENCY else 1
    return _Error(np.multiply(ROUNDING, follows + 1.0 + terms, dtype=np.float64))


def _integers_fit(feeds: Feeds, most_follows: int) -> bool:
    """Whether all amounts are integers, so small that doubles add up a consumer's costs without error."""
    batch_price = Amounts.constant(feeds.pricing.batch_price, 1)
    amounts = (feeds.query_rate, feeds.event_rate, feeds.store_price, feeds.fetch_price, batch_price)
    query, event, store, fetch, batch = (float(some.near.max(initial=0.0)) for some in amounts)
    fit = most_follows * (query * (fetch + batch) + event * store) < EXACT_DOUBLE
    return fit and all(some.is_whole_times(1) for some in amounts)


@dataclass(frozen=True, slots=True)
class _Batches:
    """Batches by consumer: what pulling saves (`saved`), and the size of the numbers that went into it (`traded`)."""

    saved: FloatArray
    traded: FloatArray

    @classmethod
    def none(cls, feeds: Feeds) -> _Batches:
        wanted = feeds.pricing.model is Model.BATCH and not feeds.pricing.is_per_pair
        count = len(feeds.query_rate) if wanted else 0
        return cls(np.zeros(count), np.zeros(count))

    def with_pairs(self, on_read: FloatArray, stored: FloatArray, consumer: Positions) -> _Batches:
        if not len(self.saved):
            return self
        saved = saved_on_read(on_read, stored, consumer, len(self.saved))
        return _Batches(self.saved + saved, self.traded + sum_by_group(on_read + stored, consumer, len(self.traded)))
