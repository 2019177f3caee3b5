"""Counts who reads feeds, and how long that takes, until somebody asks."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

MOST_TIMED = 20_000
"""Reads of which the seconds are kept; those beyond are only counted."""


@dataclass(frozen=True, slots=True)
class ReadsOfFeed:
    """Reads by consumer, and the seconds that reads took."""

    counts: Mapping[str, int]
    seconds: tuple[float, ...]

    def find_quantile(self, share: float) -> float:
        """The seconds within which a share of reads was answered; 0 if there was none."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(slots=True)
class FeedReads:
    """May be used by any thread."""

    _turn: threading.Lock = field(default_factory=threading.Lock)
    _counts: dict[str, Counter[str]] = field(default_factory=dict)
    _seconds: dict[str, list[float]] = field(default_factory=dict)

    def note(self, feed: str, consumer: str, seconds: float) -> None:
        with self._turn:
            self._counts.setdefault(feed, Counter())[consumer] += 1
            timed = self._seconds.setdefault(feed, [])
            if len(timed) < MOST_TIMED:
                timed.append(seconds)

    def take(self, feed: str) -> ReadsOfFeed:
        """What was noted since this was asked last."""
        with self._turn:
            return ReadsOfFeed(self._counts.pop(feed, Counter()), tuple(self._seconds.pop(feed, ())))
