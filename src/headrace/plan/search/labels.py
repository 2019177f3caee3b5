"""Which of many partial plans are worth keeping: those that no other beats in everything that matters later.

A label is one partial plan: what it uses (cost first, then scarce resources), the times at which its results arrive,
and its busiest operator. Labels that cost the same are also compared by the sum of all arrival times, which decides
between equally good plans in the end; a label that is more expensive never needs it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]

CHUNK = 256
"""Labels that are compared pairwise at once."""

RELATIVE = 1e-12
"""Differences smaller than this share are rounding."""


def undominated(cost: Floats, others: Floats, total: Floats) -> Indices:
    """Indices of the labels to keep, cheapest first. `others` has a column for everything besides cost that should be
    small.

    Of labels that are equal in everything, the first stays.
    """
    if len(cost) == 0:
        return np.zeros(0, dtype=np.intp)
    others = _varying(others)
    slack = RELATIVE * np.abs(others).max(axis=0, initial=0.0)
    price_slack = RELATIVE * float(np.abs(cost).max())
    order = np.lexsort((np.arange(len(cost)), total, *others.T[::-1], cost))
    if others.shape[1] <= 1:
        order = _beaten_by_cheaper(order, cost, others, price_slack, slack)
    kept = np.zeros(0, dtype=np.intp)
    for start in range(0, len(order), CHUNK):
        chunk = order[start : start + CHUNK]
        for rivals in (kept, chunk):
            if len(rivals) and len(chunk):
                chunk = chunk[~_beaten(chunk, rivals, cost, others, total, price_slack, slack)]
        kept = np.concatenate((kept, chunk))
    return kept


def _varying(others: Floats) -> Floats:
    """Without the columns in which all labels agree."""
    differs = others.max(axis=0) > others.min(axis=0)
    return others if differs.all() else others[:, differs]


def _beaten_by_cheaper(order: Indices, cost: Floats, others: Floats, price_slack: float, slack: Floats) -> Indices:
    """With one other column, a sweep in order of cost finds almost all that is beaten."""
    sorted_cost = cost[order]
    cheaper = np.searchsorted(sorted_cost, sorted_cost - price_slack)
    if others.shape[1] == 0:
        first: Indices = order[cheaper == 0]
        return first
    column = others[order, 0]
    best = np.concatenate(([np.inf], np.minimum.accumulate(column)))
    kept: Indices = order[best[cheaper] > column + slack[0]]
    return kept


def _beaten(
    labels: Indices, rivals: Indices, cost: Floats, others: Floats, total: Floats, price_slack: float, slack: Floats
) -> npt.NDArray[np.bool_]:
    """For each label, whether some rival is as good in everything and comes first or is better."""
    price_gap = cost[rivals][:, None] - cost[labels][None, :]
    gaps = others[rivals][:, None, :] - others[labels][None, :, :]
    total_gap = total[rivals][:, None] - total[labels][None, :]
    total_slack = RELATIVE * (1.0 + np.abs(total[labels]))
    as_good: npt.NDArray[np.bool_] = np.logical_and(price_gap <= price_slack, np.all(gaps <= slack, axis=2))
    as_good &= (price_gap < -price_slack) | (total_gap <= total_slack)
    if rivals is labels:
        # Of two labels that beat each other, the first in order stays.
        as_good &= ~(as_good.T & (np.arange(len(labels))[:, None] >= np.arange(len(labels))[None, :]))
    beaten: npt.NDArray[np.bool_] = np.any(as_good, axis=0)
    return beaten


def thinned(kept: Indices, times: Floats, most: int) -> Indices:
    """At most so many labels, spread over the range of costs; always the cheapest and the fastest.

    `kept` is in order of cost.
    """
    if len(kept) <= most:
        return kept
    spread = np.linspace(0, len(kept) - 1, most).astype(np.intp)
    spread[-2] = int(np.argmin(times[kept]))
    return kept[np.unique(spread)]
