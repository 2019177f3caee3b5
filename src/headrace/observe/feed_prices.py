"""What it costs to store an entry ahead and to pull a producer, learnt from processor seconds of whole windows.

    seconds = H * entries stored + L * producers pulled + L0 * reads that pull + base * reads + base * events
              + a price of every producer that a reader finds stored ahead + a price of every step

No single entry can be timed among thousands. Windows differ in how much of each there was, so least squares tell the
prices apart; none of these is negative. What pulling a producer costs is told against one that is stored ahead, since
that is what a decision changes. Windows are compared by shares of their seconds, since a long one is off by more than a
short one, and those that do not fit with most others hardly count: something else happened in them. How far each price
may be off follows from what the windows do not explain: a price of which they say little has a large error, and is
shown with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from headrace.model.feed_prices import FeedPrices

__all__ = ["FEWEST_WINDOWS", "FeedPrices", "FeedWork", "fit_prices"]

FEWEST_WINDOWS = 8
ROUNDS = 8
"""How often windows are weighed by what the prices of the round before leave unexplained."""
BELIEVED = 1.5
"""A window that is off by more than so many times what is usual counts less: the less, the more it is off (Huber)."""
SAME_SPREAD = 1.4826
"""A standard deviation as a multiple of the median deviation, of a normal distribution."""

_Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FeedWork:
    """What was done in a window, as prices count it. `found` are producers of readers that were stored ahead; `steps`
    bring the store forward, whatever is in them.
    """

    entries: float
    pulls: float
    batches: float
    reads: float
    events: float
    found: float = 0.0
    steps: float = 0.0


ENTRIES, PULLS, BATCHES, READS, EVENTS, FOUND, STEPS = range(7)
"""Columns of work."""


def fit_prices(windows: Sequence[tuple[FeedWork, float]], follows: float = 0.0) -> FeedPrices | None:
    """The prices that explain the seconds of all windows best; None while there are too few windows.

    The price of a read is that of a reader who follows so many.
    """
    if len(windows) < FEWEST_WINDOWS:
        return None
    work = np.array([astuple(one) for one, _ in windows], dtype=np.float64)
    seconds = np.array([taken for _, taken in windows], dtype=np.float64)
    scale = np.maximum(np.sqrt((work**2).mean(axis=0)), 1e-12)
    used = [column for column in range(work.shape[1]) if work[:, column].any()]
    fitted, weights, left = _fit_by_shares(work / scale, seconds, used)
    freedom = max(1, len(windows) - len(used))
    weighed = (work / scale)[:, used] * np.sqrt(weights)[:, None]
    spread = np.zeros((len(scale), len(scale)))
    spread[np.ix_(used, used)] = np.linalg.pinv(weighed.T @ weighed) * (left / freedom)
    meaning = _say_prices(follows) / scale
    entry, pull, batch, read, event = (meaning @ fitted).tolist()
    errors = np.sqrt(np.maximum(np.diag(meaning @ spread @ meaning.T), 0.0))
    errors[[column not in used for column in range(len(errors))]] = np.inf
    found = float(fitted[FOUND] / scale[FOUND])
    return FeedPrices(entry, pull, batch, read, event, tuple(errors.tolist()), found)


def _say_prices(follows: float) -> NDArray[np.float64]:
    """Prices that people see, as sums of those that are fitted: a row for each."""
    meaning = np.eye(5, STEPS + 1)
    meaning[PULLS, FOUND] = -1.0
    meaning[READS, FOUND] = follows
    return meaning


def _fit_by_shares(work: NDArray[np.float64], seconds: _Vector, used: Sequence[int]) -> tuple[_Vector, _Vector, float]:
    """Prices, what each window weighs, and the weighed squares that the prices leave."""
    shortest = max(float(np.abs(seconds).max()) * 1e-6, 1e-12)
    expected, doubt = np.maximum(np.abs(seconds), shortest), np.ones(len(seconds))
    for _ in range(ROUNDS):
        weights = doubt / expected**2
        root = np.sqrt(weights)
        prices, left = _fit_without_negatives(work * root[:, None], seconds * root, used)
        expected = np.maximum(work @ prices, shortest)
        off = np.abs(seconds - expected) / expected
        usual = max(SAME_SPREAD * float(np.median(off)), 1e-12)
        doubt = np.minimum(1.0, BELIEVED * usual / np.maximum(off, 1e-300))
    return prices, weights, left


def _fit_without_negatives(work: NDArray[np.float64], seconds: _Vector, used: Sequence[int]) -> tuple[_Vector, float]:
    """The best prices of which none is negative, and the squares that they leave: the best of those for which some are
    zero and the others free. There are only a few.
    """
    best, least = np.zeros(work.shape[1]), float((seconds**2).sum())
    for count in range(len(used), 0, -1):
        for free in combinations(used, count):
            some = work[:, free]
            found = np.linalg.lstsq(some, seconds, rcond=None)[0]
            left = float(((seconds - some @ found) ** 2).sum())
            if found.min() >= 0.0 and left < least:
                best, least = np.zeros(work.shape[1]), left
                best[list(free)] = found
                if count == len(used):
                    return best, least  # nothing explains more than what is free in all
    return best, least
