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

SMALL = 96
"""Groups of at most this many labels are compared side by side."""

RELATIVE = 1e-12
"""Differences smaller than this share are rounding."""


def find_undominated(cost: Floats, others: Floats, total: Floats) -> Indices:
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
    """Drops the columns in which all labels agree."""
    differs = others.max(axis=0) > others.min(axis=0)
    return others if differs.all() else others[:, differs]


def _beaten_by_cheaper(order: Indices, cost: Floats, others: Floats, price_slack: float, slack: Floats) -> Indices:
    """Tells which labels cheaper ones beat.

    With one other column, a sweep in order of cost finds almost all that is beaten.
    """
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
    """Tells, for each label, whether some rival is as good in everything and comes first or is better."""
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


def find_undominated_by_group(groups: tuple[Indices, ...], cost: Floats, others: Floats, total: Floats) -> Indices:
    """Indices of the labels to keep, for every group of labels that agree in all of `groups`, in order of the groups
    (last key first).

    Small groups are compared all at once, which is what makes many of them cheap.
    """
    if len(cost) == 0:
        return np.zeros(0, dtype=np.intp)
    others = _varying(others)
    order = np.lexsort((total, *others.T[::-1], cost, *groups))
    first = np.ones(len(order), dtype=bool)
    first[1:] = np.any([np.diff(key[order]) != 0 for key in groups], axis=0)
    starts = np.flatnonzero(first)
    sizes = np.diff(np.append(starts, len(order)))
    kept = np.zeros(len(order), dtype=bool)
    small = sizes <= SMALL
    _mark_small(kept, order, starts[small], sizes[small], cost, others, total)
    for start, size in zip(starts[~small], sizes[~small], strict=True):
        rows = order[start : start + size]
        kept[start + np.sort(find_undominated(cost[rows], others[rows], total[rows]))] = True
    found: Indices = order[kept]
    return found


def _mark_small(
    kept: npt.NDArray[np.bool_],
    order: Indices,
    starts: Indices,
    sizes: Indices,
    cost: Floats,
    others: Floats,
    total: Floats,
) -> None:
    """Marks the labels to keep of groups that are laid side by side, filled up with labels that beat nothing."""
    if not len(starts):
        return
    place = np.arange(int(sizes.max()))
    real = place[None, :] < sizes[:, None]
    at = np.where(real, starts[:, None] + place[None, :], 0)
    rows = order[at]
    price, sums = np.where(real, cost[rows], np.inf), total[rows]
    price_slack, slack = RELATIVE * float(np.abs(cost).max()), RELATIVE * np.abs(others).max(axis=0, initial=0.0)
    gap = price[:, :, None] - np.where(real, price, 0.0)[:, None, :]
    beats = (gap < -price_slack) | (sums[:, :, None] <= sums[:, None, :] + RELATIVE * (1.0 + np.abs(sums[:, None, :])))
    beats &= gap <= price_slack
    for number in range(others.shape[1]):
        column = others[rows, number]
        beats &= column[:, :, None] <= column[:, None, :] + slack[number]
    beats &= ~(beats.transpose(0, 2, 1) & (place[:, None] >= place[None, :]))
    kept[at[real & ~beats.any(axis=1)]] = True


def thin_out(kept: Indices, times: Floats, most: int) -> Indices:
    """Keeps at most so many labels, spread over the range of costs; always the cheapest and the fastest.

    `kept` is in order of cost.
    """
    if len(kept) <= most:
        return kept
    spread = np.linspace(0, len(kept) - 1, most).astype(np.intp)
    spread[-2] = int(np.argmin(times[kept]))
    return kept[np.unique(spread)]
