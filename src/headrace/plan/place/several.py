"""Several views on the same pair share one download: a device takes its partner's feed down once, at the fastest rate
needed.

A device that runs its views from the highest own rate down then pays, for each further view of the pair, only what
that view needs beyond the pair's earlier ones. Written as such increments the shared download is a plain sum again,
and `threshold` need not know about it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headrace.plan.place.numbers import IntArray
from headrace.plan.place.pairs import Pairs


def added_downloads(pairs: Pairs) -> tuple[IntArray, IntArray]:
    """What each view adds to the downloads of its device a, and of its device b, if it runs there."""
    repeated = views_of_repeated_pairs(pairs)
    if not len(repeated):
        return pairs.rate_b, pairs.rate_a
    flipped = pairs.a[repeated] > pairs.b[repeated]
    low = np.where(flipped, pairs.b[repeated], pairs.a[repeated])
    high = np.where(flipped, pairs.a[repeated], pairs.b[repeated])
    rate_a, rate_b = pairs.rate_a[repeated], pairs.rate_b[repeated]
    rate_low, rate_high = np.where(flipped, rate_b, rate_a), np.where(flipped, rate_a, rate_b)
    added_low, added_high = _increments(low, high, rate_low, rate_high), _increments(low, high, rate_high, rate_low)
    down_a, down_b = pairs.rate_b.copy(), pairs.rate_a.copy()
    down_a[repeated] = np.where(flipped, added_high, added_low)
    down_b[repeated] = np.where(flipped, added_low, added_high)
    return down_a, down_b


def views_of_repeated_pairs(pairs: Pairs) -> NDArray[np.int64]:
    """Positions of the views whose pair has more than one."""
    key = np.minimum(pairs.a, pairs.b).astype(np.int64) << 32
    key |= np.maximum(pairs.a, pairs.b)
    ordered = np.sort(key)
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isin(key, np.unique(ordered[1:][again])))


def _increments(low: IntArray, high: IntArray, own: IntArray, partner: IntArray) -> IntArray:
    """By how much each view raises the largest partner rate among its pair's views with a higher own rate."""
    order = np.lexsort((np.argsort(np.argsort(-own, kind="stable"), kind="stable"), high, low))
    pair_start = np.concatenate([[True], (low[order][1:] != low[order][:-1]) | (high[order][1:] != high[order][:-1])])
    pair = np.cumsum(pair_start)
    largest = partner[order]
    step = 1
    while step < len(largest) and (pair[step:] == pair[:-step]).any():
        same = pair[step:] == pair[:-step]
        largest[step:] = np.where(same, np.maximum(largest[step:], largest[:-step]), largest[step:])
        step *= 2
    before = np.where(pair_start, 0, np.concatenate([largest[:1], largest[:-1]]))
    added = np.empty_like(partner)
    added[order] = largest - before
    return added
