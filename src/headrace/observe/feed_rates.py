"""How often producers say something and consumers ask, from counts that fade: what was long ago counts less.

All counts fade together, by half in each half-life. The rate is what is left of them over what is left of the time
that they were collected in, so it is right from the first minute, and not only after some half-lives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

FIRST_ROOM = 1024


@dataclass(slots=True)
class FadingCounts:
    """Counts by name since `began_s`. Times are seconds of one clock, which never goes back."""

    half_life_s: float
    began_s: float
    _at_s: float = field(init=False)
    _position: dict[str, int] = field(default_factory=dict)
    _counts: FloatArray = field(default_factory=lambda: np.zeros(FIRST_ROOM))

    def __post_init__(self) -> None:
        self._at_s = self.began_s

    def add(self, counts: Mapping[str, float], now_s: float) -> None:
        """Adds what was counted until now, since the last time."""
        self._counts *= self._left_of(now_s - self._at_s)
        self._at_s = now_s
        if not counts:
            return
        positions = [self._position.setdefault(name, len(self._position)) for name in counts]
        while len(self._position) > len(self._counts):
            self._counts = np.concatenate((self._counts, np.zeros(len(self._counts))))
        np.add.at(self._counts, positions, np.fromiter(counts.values(), np.float64, len(counts)))

    def rates(self, names: Sequence[str], now_s: float) -> FloatArray:
        """Per second; 0 of names that were never counted, and of all before any time has passed."""
        collected_s = self._mean_life_s * (1.0 - self._left_of(now_s - self.began_s))
        if collected_s <= 0.0:
            return np.zeros(len(names))
        positions = np.fromiter((self._position.get(name, -1) for name in names), np.int64, len(names))
        found = np.where(positions >= 0, self._counts[positions], 0.0)
        rates: FloatArray = found * (self._left_of(now_s - self._at_s) / collected_s)
        return rates

    @property
    def _mean_life_s(self) -> float:
        return self.half_life_s / math.log(2.0)

    def _left_of(self, passed_s: float) -> float:
        return math.exp(-max(0.0, passed_s) / self._mean_life_s)
