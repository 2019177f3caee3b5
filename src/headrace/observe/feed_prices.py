"""What it costs to store an entry ahead and to pull a producer, learnt from processor seconds of whole windows.

    seconds = H * entries stored + L * producers pulled + L0 * reads that pull + base * reads + base * events

No single entry can be timed among thousands. Windows differ in how much of each there was, so least squares tell the
prices apart; none is negative. How far each may be off follows from what the windows do not explain: a price of which
they say little has a large error, and is shown with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from itertools import combinations

import numpy as np

FEWEST_WINDOWS = 8


@dataclass(frozen=True, slots=True)
class FeedWork:
    """What was done in a window, as prices count it."""

    entries: float
    pulls: float
    batches: float
    reads: float
    events: float


@dataclass(frozen=True, slots=True)
class FeedPrices:
    """Processor seconds: H of an entry, L of a pulled producer, L0 of a read that pulls, and the bases of a read and of
    an event; `errors` are their standard errors, in the same order.
    """

    entry: float
    pull: float
    batch: float
    read: float
    event: float
    errors: tuple[float, ...]

    @property
    def named(self) -> dict[str, tuple[float, float]]:
        """Price and error, by the names that `status` shows."""
        values = (self.entry, self.pull, self.batch, self.read, self.event)
        names = ("H", "L", "L0", "read", "event")
        return dict(zip(names, zip(values, self.errors, strict=True), strict=True))


def fit_prices(windows: Sequence[tuple[FeedWork, float]]) -> FeedPrices | None:
    """The prices that explain the seconds of all windows best; None while there are too few windows."""
    if len(windows) < FEWEST_WINDOWS:
        return None
    work = np.array([astuple(one) for one, _ in windows], dtype=np.float64)
    seconds = np.array([taken for _, taken in windows], dtype=np.float64)
    scale = np.maximum(np.sqrt((work**2).mean(axis=0)), 1e-12)
    scaled = work / scale
    used = [column for column in range(work.shape[1]) if work[:, column].any()]
    prices, left = _fit_without_negatives(scaled, seconds, used)
    freedom = max(1, len(windows) - len(used))
    spread = np.linalg.pinv(scaled[:, used].T @ scaled[:, used]) * (left / freedom)
    errors = np.full(work.shape[1], np.inf)
    errors[used] = np.sqrt(np.maximum(np.diag(spread), 0.0))
    found, off = prices / scale, errors / scale
    entry, pull, batch, read, event = found.tolist()
    return FeedPrices(entry, pull, batch, read, event, tuple(off.tolist()))


def _fit_without_negatives(
    work: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    seconds: np.ndarray[tuple[int], np.dtype[np.float64]],
    used: Sequence[int],
) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
    """The best prices of which none is negative, and the squares that they leave: the best of those for which some are
    zero and the others free. There are only five.
    """
    best, least = np.zeros(work.shape[1]), float((seconds**2).sum())
    for count in range(1, len(used) + 1):
        for free in combinations(used, count):
            some = work[:, free]
            found = np.linalg.lstsq(some, seconds, rcond=None)[0]
            left = float(((seconds - some @ found) ** 2).sum())
            if found.min() >= 0.0 and left < least:
                best, least = np.zeros(work.shape[1]), left
                best[list(free)] = found
    return best, least
