"""Caps the pairs that are stored ahead for one consumer: those that save most are stored, and the rest is read.

A page of somebody who follows very many costs what it shows if its producers are read
(`connect/postgres/feed_pages.py`), but what is stored is looked at pair by pair. So beyond some number, storing another
pair makes pages slower, whatever rates say.
"""

from __future__ import annotations

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import FloatArray
from headrace.plan.feeds.hysteresis import TENTH, Band
from headrace.plan.feeds.instance import Feeds

MOST_AHEAD = 1_000
"""Pairs that are stored ahead for one consumer at most."""


def cap_pairs(
    feeds: Feeds, wanted: BoolArray, stored: BoolArray, most: int = MOST_AHEAD, band: Band = TENTH
) -> BoolArray:
    """Chooses at most so many of the wanted pairs for each consumer: those for which storing saves most.

    A pair that is stored counts as a little cheaper to store than one that is not, so that rates that waver move
    nothing. Equal ones go by their position.
    """
    consumers = feeds.consumer[wanted]
    if not len(consumers) or np.bincount(consumers).max() <= most:
        return wanted
    positions = np.flatnonzero(wanted)
    saved = _find_savings(feeds, stored, band)[positions]
    order = np.lexsort((positions, -saved, consumers))
    grouped = consumers[order]
    place = np.arange(len(order)) - np.searchsorted(grouped, grouped, side="left")
    capped = np.zeros_like(wanted)
    capped[positions[order[place < most]]] = True
    return capped


def _find_savings(feeds: Feeds, stored: BoolArray, band: Band) -> FloatArray:
    """What reading a pair costs, less what storing it does."""
    consumer, producer = feeds.consumer, feeds.producer
    fetched: FloatArray = feeds.query_rate.near[consumer] * feeds.fetch_price.near[producer]
    written = feeds.event_rate.near[producer] * feeds.store_price.near[producer]
    return fetched - written * np.where(stored, float(band.down), float(band.up))
