"""What an assignment costs per unit of time, and what storing everything ahead or nothing would.

Sums of `rpc` and `batch` are exact when the amounts are given exactly; the other two divide, and are rounded to
doubles.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import NumberArray, Positions
from headrace.plan.feeds.coherency import on_read_and_ahead, sum_by_group
from headrace.plan.feeds.exactly import Integers, in_integers
from headrace.plan.feeds.instance import Feeds, Model
from headrace.plan.feeds.per_pair import chunks, columns_in_doubles, followed_rate, needs_followed_rate


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of an assignment, of storing everything ahead, and of pulling everything."""

    paid: Fraction | float
    all_ahead: Fraction | float
    all_on_read: Fraction | float


def price(feeds: Feeds, ahead: BoolArray) -> Costs:
    exact = feeds.event_rate.exact is not None and not needs_followed_rate(feeds)
    return _price_exactly(feeds, ahead) if exact else _price_in_doubles(feeds, ahead)


def pulls_by_consumer(feeds: Feeds, ahead: BoolArray) -> Positions:
    return np.bincount(feeds.consumer[~ahead], minlength=len(feeds.query_rate))


def _price_in_doubles(feeds: Feeds, ahead: BoolArray) -> Costs:
    followed = followed_rate(feeds)
    paid, all_ahead, all_on_read = 0.0, 0.0, 0.0
    for some in chunks(len(feeds)):
        columns = columns_in_doubles(feeds, some, followed)
        on_read, stored = on_read_and_ahead(columns, feeds.pricing.model, feeds.pricing.shown)
        paid += float(np.where(ahead[some], stored, on_read).sum())
        all_ahead += float(stored.sum())
        all_on_read += float(on_read.sum())
    if feeds.pricing.model is Model.BATCH and feeds.pricing.batch_price:
        batch = feeds.query_rate.near * float(feeds.pricing.batch_price)
        paid += float(batch[pulls_by_consumer(feeds, ahead) > 0].sum())
        all_on_read += float(batch[np.bincount(feeds.consumer, minlength=len(batch)) > 0].sum())
    return Costs(paid, all_ahead, all_on_read)


def _price_exactly(feeds: Feeds, ahead: BoolArray) -> Costs:
    amounts = in_integers(feeds, np.arange(len(feeds.query_rate)), np.arange(len(feeds.event_rate)))
    nothing, everything = np.zeros_like(ahead), np.ones_like(ahead)
    return Costs(*(amounts.cost(_units(feeds, amounts, choice)) for choice in (ahead, everything, nothing)))


def exact_cost(feeds: Feeds, ahead: BoolArray) -> Fraction:
    """Cost of an assignment under `rpc` or `batch`, without rounding."""
    amounts = in_integers(feeds, np.arange(len(feeds.query_rate)), np.arange(len(feeds.event_rate)))
    return amounts.cost(_units(feeds, amounts, ahead))


def _units(feeds: Feeds, amounts: Integers, ahead: BoolArray) -> int:
    batch_price = amounts.batch_price if feeds.pricing.model is Model.BATCH else 0
    stored_in = np.bincount(feeds.producer[ahead], minlength=len(amounts.event_rate)).astype(object)
    per_query = _fetched_per_query(feeds, amounts, ~ahead)
    per_query += batch_price * (pulls_by_consumer(feeds, ahead) > 0).astype(object)
    stored = int((amounts.event_rate * amounts.store_price * stored_in).sum())
    return stored + int((amounts.query_rate * per_query).sum())


def _fetched_per_query(feeds: Feeds, amounts: Integers, pulled: BoolArray) -> NumberArray:
    consumers = len(amounts.query_rate)
    if feeds.fetch_price.is_constant and len(amounts.fetch_price):
        pulls = np.bincount(feeds.consumer[pulled], minlength=consumers).astype(object)
        per_query: NumberArray = pulls * amounts.fetch_price[0]
        return per_query
    return sum_by_group(amounts.fetch_price[feeds.producer[pulled]], feeds.consumer[pulled], consumers)
