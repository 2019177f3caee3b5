"""How often streams of a device have rows, as the cloud is told: placement is decided by it.

A rate is that of the last rows, however long they took: so it follows a fast stream quickly, and a slow one calmly.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

LAST = 32
"""Rows that count: chance moves a rate by a sixth or so."""
MOVED = 2.0
"""A rate that moved by this factor is worth telling."""
LEAST_MS = 60_000
"""How long a single row is watched before its rate is told."""


@dataclass(slots=True)
class StreamRates:
    """Times of the last rows of each stream, ms since 1970, and the rates that were told last."""

    _times: dict[str, deque[int]] = field(default_factory=dict)
    _told: dict[str, float] = field(default_factory=dict)

    def add(self, stream: str, now_ms: int) -> None:
        times = self._times.setdefault(stream, deque(maxlen=LAST))
        if times and times[-1] > now_ms:  # the clock was set back
            times.clear()
        times.append(now_ms)

    def per_second(self, now_ms: int) -> dict[str, float]:
        """The rates of streams of which one can say it."""
        found = {stream: _rate(times, now_ms) for stream, times in self._times.items()}
        return {stream: rate for stream, rate in found.items() if rate is not None}

    def tell(self, now_ms: int) -> dict[str, float]:
        self._told = self.per_second(now_ms)
        return dict(self._told)

    def has_moved(self, now_ms: int) -> bool:
        """Whether a rate is not what was told."""
        return any(
            not 1 / MOVED < rate / self._told.get(stream, rate * 2 * MOVED) < MOVED
            for stream, rate in self.per_second(now_ms).items()
        )


def _rate(times: deque[int], now_ms: int) -> float | None:
    passed_ms = now_ms - times[0]
    if len(times) < 2 and passed_ms < LEAST_MS:
        return None
    return 1000.0 * max(1, len(times) - 1) / max(1, passed_ms)
