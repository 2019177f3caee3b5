"""Counts who reads feeds, and how long that takes, until somebody asks; also what feed servers have counted."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

MOST_TIMED = 20_000
"""Reads of which the seconds are kept; those beyond are only counted."""
PAGES_TIMED = 1000
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds of the classes in which seconds of pages are counted; one more is for all beyond."""


@dataclass(frozen=True, slots=True)
class ReadsOfFeed:
    """Reads by consumer, and the seconds that reads took."""

    counts: Mapping[str, int]
    seconds: tuple[float, ...]

    @property
    def mean_s(self) -> float:
        """0 if there was no read."""
        return sum(self.seconds) / len(self.seconds) if self.seconds else 0.0

    def find_quantile(self, share: float) -> float:
        """The seconds within which a share of reads was answered; 0 if there was none."""
        ordered = sorted(self.seconds)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


@dataclass(frozen=True, slots=True)
class PagesTimed:
    """All pages of a feed since this process began: how many, the seconds of those that were timed, and how many of
    these fall into each class of `BUCKETS_S`.
    """

    pages: int = 0
    seconds: float = 0.0
    buckets: tuple[int, ...] = (0,) * (len(BUCKETS_S) + 1)

    def add(self, pages: int, seconds: Sequence[float]) -> PagesTimed:
        buckets = list(self.buckets)
        for one in seconds:
            buckets[bisect_left(BUCKETS_S, one)] += 1
        return PagesTimed(self.pages + pages, self.seconds + sum(seconds), tuple(buckets))


@dataclass(slots=True)
class FeedReads:
    """May be used by any thread."""

    _turn: threading.Lock = field(default_factory=threading.Lock)
    _counts: dict[str, Counter[str]] = field(default_factory=dict)
    _seconds: dict[str, list[float]] = field(default_factory=dict)
    _last: dict[str, deque[float]] = field(default_factory=dict)
    _timed: dict[str, PagesTimed] = field(default_factory=dict)
    _not_timed: dict[str, tuple[int, list[float]]] = field(default_factory=dict)
    """Pages that are not added up yet: nobody has asked since."""

    def note(self, feed: str, consumer: str, seconds: float) -> None:
        with self._turn:
            self._add(feed, {consumer: 1}, (seconds,))

    def add(self, feed: str, more: ReadsOfFeed) -> None:
        """Adds what somebody else has counted."""
        with self._turn:
            self._add(feed, more.counts, more.seconds)

    def take(self, feed: str) -> ReadsOfFeed:
        """What was noted since this was asked last."""
        with self._turn:
            return ReadsOfFeed(self._counts.pop(feed, Counter()), tuple(self._seconds.pop(feed, ())))

    def take_all(self) -> dict[str, ReadsOfFeed]:
        return {feed: self.take(feed) for feed in list(self._counts)}

    def last_seconds(self, feed: str) -> tuple[float, ...]:
        """Seconds that the last pages took."""
        with self._turn:
            return tuple(self._last.get(feed, ()))

    def timed(self, feed: str) -> PagesTimed:
        """Every page since the beginning."""
        with self._turn:
            pages, seconds = self._not_timed.pop(feed, (0, []))
            self._timed[feed] = self._timed.get(feed, PagesTimed()).add(pages, seconds)
            return self._timed[feed]

    def _add(self, feed: str, counts: Mapping[str, int], seconds: Sequence[float]) -> None:
        """The caller has the turn."""
        self._counts.setdefault(feed, Counter()).update(counts)
        timed = self._seconds.setdefault(feed, [])
        timed.extend(seconds[: MOST_TIMED - len(timed)])
        self._last.setdefault(feed, deque(maxlen=PAGES_TIMED)).extend(seconds)
        pages, waiting = self._not_timed.get(feed, (0, []))
        if len(waiting) >= MOST_TIMED:
            self._timed[feed] = self._timed.get(feed, PagesTimed()).add(pages, waiting)
            pages, waiting = 0, []
        waiting.extend(seconds)
        self._not_timed[feed] = pages + sum(counts.values()), waiting
