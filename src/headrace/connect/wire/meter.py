"""Counts what arrives over a link as it arrives: bytes, how many are still on their way, and how long some were."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPResponse, IncompleteRead

from headrace.model.link_counts import LinkCount, LinkCounts, LinkProbe

AT_ONCE = 64 * 1024
COUNT_EVERY_S = 1.0
COUNTS = 64
"""A minute, and some: what is older says nothing any more."""


@dataclass(slots=True)
class LinkMeter:
    """Several threads may receive at once: while any of them does, the link is busy."""

    clock: Callable[[], float] = time.monotonic
    _arrived: int = 0
    _waiting: int = 0
    _receiving: int = 0
    _busy_s: float = 0.0
    _busy_until: float = 0.0
    _round_trip_s: float | None = None
    _counts: deque[LinkCount] = field(default_factory=lambda: deque(maxlen=COUNTS))
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def read_body(self, answer: HTTPResponse) -> bytes:
        """All that an answer holds; raises IncompleteRead if it ends before.

        Each piece is counted when it is there: a slow link may take minutes.
        """
        left = answer.length or 0
        self._begin(left)
        pieces: list[bytes] = []
        try:
            while piece := answer.read1(AT_ONCE):
                left -= len(piece)
                self._count(len(piece))
                pieces.append(piece)
        finally:
            self._end(max(0, left))
        if left > 0:  # read1 does not say so
            raise IncompleteRead(b"".join(pieces), left)
        answer.read()  # nothing: but only this tells the connection that it may be asked again
        return b"".join(pieces)

    def read_for(self, answer: HTTPResponse, seconds: float, asked_s: float) -> LinkProbe:
        """Counts what arrives of an answer within some seconds, and keeps nothing of it. It was asked for at `asked_s`,
        by the meter's clock.
        """
        began, arrived, whole = self.clock(), 0, answer.length or 0
        self._begin(whole)
        try:
            while self.clock() < began + seconds and (piece := answer.read1(AT_ONCE)):
                arrived += len(piece)
                self._count(len(piece))
        finally:
            self._end(max(0, whole - arrived))
        is_whole = arrived >= whole
        return LinkProbe(arrived, self.clock() - (asked_s if is_whole else began), is_whole)

    def note_round_trip(self, seconds: float) -> None:
        self._round_trip_s = seconds

    def look(self) -> LinkCounts:
        with self._turn:
            now = self._pass_time()
            counts = (*self._counts, LinkCount(now, self._arrived, self._busy_s))
            return LinkCounts(counts, self._waiting, self._round_trip_s)

    def _begin(self, size: int) -> None:
        with self._turn:
            self._pass_time()
            self._receiving += 1
            self._waiting += size

    def _count(self, size: int) -> None:
        with self._turn:
            self._arrived += size
            self._waiting = max(0, self._waiting - size)
            self._pass_time()

    def _end(self, missing: int) -> None:
        with self._turn:
            self._pass_time()
            self._receiving -= 1
            self._waiting = max(0, self._waiting - missing) if self._receiving else 0

    def _pass_time(self) -> float:
        """Notes how long the link was busy, and every second a count."""
        now = self.clock()
        if self._receiving:
            self._busy_s += now - self._busy_until
        self._busy_until = now
        if not self._counts or now - self._counts[-1].at_s >= COUNT_EVERY_S:
            self._counts.append(LinkCount(now, self._arrived, self._busy_s))
        return now
