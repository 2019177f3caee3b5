"""Several views on the same pair share one download: a device takes its partner's feed down once, at the fastest rate
needed.

A device that runs its views from the highest own rate down then pays, for each further view of the pair, only what
that view needs beyond the pair's earlier ones. Written as such increments the shared download is a plain sum again,
and `threshold` need not know about it.
"""

from __future__ import annotations

import numpy as np

from headrace.plan.exact_numbers import Index, IntArray
from headrace.plan.place.pairs import Pairs


def added_downloads(pairs: Pairs) -> tuple[IntArray, IntArray]:
    """What each view adds to the downloads of its device a, and of its device b, if it runs there."""
    repeated = find_repeated(np.minimum(pairs.a, pairs.b), np.maximum(pairs.a, pairs.b))
    if not len(repeated):
        return pairs.rate_b, pairs.rate_a
    a, b, rate_a, rate_b = (column[repeated] for column in (pairs.a, pairs.b, pairs.rate_a, pairs.rate_b))
    both_ends = (np.concatenate(columns) for columns in ((a, b), (b, a), (rate_a, rate_b), (rate_b, rate_a)))
    down_a, down_b = pairs.rate_b.copy(), pairs.rate_a.copy()
    down_a[repeated], down_b[repeated] = np.split(_find_increments(*both_ends), 2)
    return down_a, down_b


def added_at_ends(device: Index, partner: Index, own: IntArray, rate: IntArray) -> IntArray:
    """What each view adds to the downloads of the device at one end of it, given all ends of these devices.

    `own` is the rate of the device's feed that the view needs, `rate` that of its partner's.
    """
    repeated = find_repeated(device, partner)
    if not len(repeated):
        return rate
    added = rate.copy()
    added[repeated] = _find_increments(device[repeated], partner[repeated], own[repeated], rate[repeated])
    return added


def find_repeated(one: IntArray, other: IntArray) -> Index:
    """Positions of the pairs that are there more than once."""
    key = one.astype(np.int64) << 32
    key |= other
    ordered = np.sort(key)
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isin(key, np.unique(ordered[1:][again])))


def _find_increments(device: Index, partner: Index, own: IntArray, rate: IntArray) -> IntArray:
    """Finds by how much each view raises the largest partner rate among its pair's views with a higher own rate."""
    order = np.lexsort((np.argsort(np.argsort(-own, kind="stable"), kind="stable"), partner, device))
    one, other = device[order], partner[order]
    pair_start = np.concatenate([[True], (one[1:] != one[:-1]) | (other[1:] != other[:-1])])
    pair = np.cumsum(pair_start)
    largest = rate[order]
    step = 1
    while step < len(largest) and (pair[step:] == pair[:-step]).any():
        same = pair[step:] == pair[:-step]
        largest[step:] = np.where(same, np.maximum(largest[step:], largest[:-step]), largest[step:])
        step *= 2
    before = np.where(pair_start, 0, np.concatenate([largest[:1], largest[:-1]]))
    added = np.empty_like(rate)
    added[order] = largest - before
    return added
