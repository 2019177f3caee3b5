"""An instance in integers, and the rules of `coherency` on them: for sums that must not round, and for near ties.

Rates share one scale, prices another, so that a cost counts units of `1 / (rate_scale * price_scale)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from headrace.plan.exact_numbers import BoolArray, common_scale, scale_to_objects
from headrace.plan.feeds.amounts import NumberArray, Positions
from headrace.plan.feeds.coherency import PairColumns, batch_pays, on_read_and_ahead, saved_on_read, sum_by_group
from headrace.plan.feeds.instance import Feeds, Model

PIECE = 1 << 18
"""Pairs worked out together, more or less: integers take ten times the memory of doubles."""


@dataclass(frozen=True, slots=True)
class Integers:
    """Amounts of some consumers (query rates) and some producers (all else), in the order asked for."""

    query_rate: NumberArray
    event_rate: NumberArray
    store_price: NumberArray
    fetch_price: NumberArray
    batch_price: int
    rate_scale: int
    price_scale: int

    def cost(self, units: int) -> Fraction:
        return Fraction(units, self.rate_scale * self.price_scale)


def in_integers(feeds: Feeds, consumers: Positions, producers: Positions) -> Integers:
    query, event = feeds.query_rate.exactly(consumers), feeds.event_rate.exactly(producers)
    store, fetch = feeds.store_price.exactly(producers), feeds.fetch_price.exactly(producers)
    rates = common_scale((*query, *event))
    prices = common_scale((*store, *fetch, feeds.pricing.batch_price))
    return Integers(
        scale_to_objects(query, rates),
        scale_to_objects(event, rates),
        scale_to_objects(store, prices),
        scale_to_objects(fetch, prices),
        int(feeds.pricing.batch_price * prices),
        rates,
        prices,
    )


def decide_exactly(feeds: Feeds, pairs: Positions) -> BoolArray:
    """The decisions for these pairs: all pairs of each of their consumers, unless the pricing is per pair."""
    consumers, group = np.unique(feeds.consumer[pairs], return_inverse=True)
    producers, member = np.unique(feeds.producer[pairs], return_inverse=True)
    amounts = in_integers(feeds, consumers, producers)
    columns = _make_columns(amounts, group, member)
    rest = np.flatnonzero(~_cheaper_at_full_price(columns, feeds.pricing.model))
    ahead = np.zeros(len(pairs), dtype=np.bool_)
    on_read, stored = on_read_and_ahead(_rows(columns, rest), feeds.pricing.model, feeds.pricing.shown)
    ahead[rest] = on_read >= stored
    if feeds.pricing.model is Model.BATCH and not feeds.pricing.is_per_pair:
        saved = saved_on_read(on_read, stored, group, len(consumers))
        ahead |= ~batch_pays(saved, amounts.query_rate, amounts.batch_price)[group]
    return ahead


def _make_columns(amounts: Integers, group: Positions, member: Positions) -> PairColumns:
    event_rate = amounts.event_rate[member]
    followed = sum_by_group(event_rate, group, len(amounts.query_rate))
    return PairColumns(
        amounts.query_rate[group],
        event_rate,
        amounts.store_price[member],
        amounts.fetch_price[member],
        followed[group],
    )


def _cheaper_at_full_price(columns: PairColumns, model: Model) -> BoolArray:
    """Pairs on read although an index makes calls rarer still: spares powers with a million digits."""
    if model is not Model.RECENCY:
        return np.zeros(len(columns.query_rate), dtype=np.bool_)
    stored = columns.event_rate * columns.store_price
    cheap = columns.query_rate * columns.fetch_price <= stored
    certain: BoolArray = cheap & (columns.event_rate < columns.followed_rate) & (stored > 0)
    return certain


def _rows(columns: PairColumns, rows: Positions) -> PairColumns:
    return PairColumns(
        columns.query_rate[rows],
        columns.event_rate[rows],
        columns.store_price[rows],
        columns.fetch_price[rows],
        columns.followed_rate[rows],
    )


def pieces(feeds: Feeds, unsure: BoolArray) -> Iterator[Positions]:
    """The unsure pairs in pieces of bounded size; where pairs are coupled, a consumer is never cut in two."""
    pairs = np.flatnonzero(unsure)
    if feeds.pricing.is_per_pair:
        return (pairs[start : start + PIECE] for start in range(0, len(pairs), PIECE))
    pairs = pairs[np.argsort(feeds.consumer[pairs], kind="stable")]
    consumer = feeds.consumer[pairs]
    starts = np.searchsorted(consumer, consumer[::PIECE], side="left")
    return (pairs[begin:end] for begin, end in pairwise([*np.unique(starts).tolist(), len(pairs)]))
