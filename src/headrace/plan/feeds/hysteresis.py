"""Decides again when rates change, but moves a pair only when that is clearly worth it.

A pair on read is stored ahead once that would pay even if storing cost a little more, and goes back once reading
would pay even if storing cost a little less. In between it stays, so that a rate that wavers around the threshold
moves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts, Positions
from headrace.plan.feeds.instance import Feeds
from headrace.plan.feeds.per_pair import decide_pairs


@dataclass(frozen=True, slots=True)
class Band:
    """A pair on read moves ahead at `up` times the price of storing, a stored one back at `down` times the price."""

    up: Fraction = Fraction(11, 10)
    down: Fraction = Fraction(9, 10)


TENTH = Band()


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do about the pairs that flip, and no others.

    To start storing, write the pair's latest events to the feed once (one pull), then add events as they happen. To
    stop storing, drop the pair's events from the feed. Doing either twice leaves the same feed.
    """

    start_storing: Positions
    stop_storing: Positions

    def applied_to(self, ahead: BoolArray) -> BoolArray:
        changed = ahead.copy()
        changed[self.start_storing], changed[self.stop_storing] = True, False
        return changed


def touched_pairs(feeds: Feeds, producers: Positions, consumers: Positions) -> Positions:
    """The pairs whose decision may change when the rates of these do: their own.

    Where a consumer's pairs are priced together, all pairs of consumers who follow one of the producers.
    """
    by_producer, by_consumer = np.isin(feeds.producer, producers), np.isin(feeds.consumer, consumers)
    if not feeds.pricing.is_per_pair:
        by_consumer |= np.isin(feeds.consumer, feeds.consumer[by_producer])
    return np.flatnonzero(by_producer | by_consumer)


def reconsider(feeds: Feeds, ahead: BoolArray, pairs: Positions | None = None, band: Band = TENTH) -> Changes:
    """Flips among these pairs (of all, if not given) under the rates in `feeds`, which are the new ones."""
    chosen = np.arange(len(feeds)) if pairs is None else pairs
    some = replace(feeds, consumer=feeds.consumer[chosen], producer=feeds.producer[chosen])
    clearly_ahead = decide_pairs(_with_storing_at(some, band.up))
    clearly_on_read = ~decide_pairs(_with_storing_at(some, band.down))
    return Changes(chosen[clearly_ahead & ~ahead[chosen]], chosen[clearly_on_read & ahead[chosen]])


def _with_storing_at(feeds: Feeds, factor: Fraction) -> Feeds:
    price = feeds.store_price
    exact = None if price.exact is None else tuple(number * factor for number in price.exact)
    return replace(feeds, store_price=Amounts(price.near * float(factor), exact))
