"""How often producers say something and consumers ask, from counts that fade: what was long ago counts less.

Counts fade, by half in each half-life, and so do the seconds that they were collected in. The rate is one over the
other, so it is right from the first minute, and not only after some half-lives. Whoever was seen for a short time only
is taken to be like everybody, as if there had been `LIKE_OTHERS_S` more seconds of that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Positions = NDArray[np.int64]

LIKE_OTHERS_S = 600.0


@dataclass(slots=True)
class FadingCounts:
    """Counts by position. Times are seconds of one clock; one that goes back stands still."""

    half_life_s: float
    at_s: float
    seconds: float = 0.0
    counts: FloatArray = field(default_factory=lambda: np.zeros(0))

    def add(self, counts: Mapping[int, float], now_s: float) -> float:
        """Adds what was counted until now, since the last time. Returns the seconds that came with it."""
        passed_s = max(0.0, now_s - self.at_s)
        left = math.exp(-passed_s / self._mean_life_s)
        came_s = self._mean_life_s * (1.0 - left)
        self.counts *= left
        self.seconds = self.seconds * left + came_s
        self.at_s = max(self.at_s, now_s)
        self.resume(counts)
        return came_s

    def resume(self, counts: Mapping[int, float], seconds: float = 0.0) -> None:
        """Adds counts as they are at this time, with the seconds that they were collected in."""
        self.seconds += seconds
        if counts:
            positions = np.fromiter(counts, np.int64, len(counts))
            self._make_room(int(positions.max()) + 1)
            np.add.at(self.counts, positions, np.fromiter(counts.values(), np.float64, len(counts)))

    def rates(self, count: int, like_others_s: float = LIKE_OTHERS_S) -> FloatArray:
        """Per second, of the first positions; 0 before any time has passed."""
        self._make_room(count)
        found = self.counts[:count]
        if self.seconds <= 0.0 or not count:
            return np.zeros(count)
        usual = found.mean() / self.seconds
        rates: FloatArray = (found + usual * like_others_s) / (self.seconds + like_others_s)
        return rates

    def _make_room(self, count: int) -> None:
        if count > len(self.counts):
            self.counts = np.concatenate((self.counts, np.zeros(max(count, 2 * len(self.counts)) - len(self.counts))))

    @property
    def _mean_life_s(self) -> float:
        return self.half_life_s / math.log(2.0)
