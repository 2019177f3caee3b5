"""How long rows take from their commit at a source until readers of a view have them: the latency by event time.

A push from one time to another makes all rows visible that were committed in between: the oldest has waited since the
first, the newest since the second. Only pushes that brought rows count. What is said is of the last minute.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from headrace.run.push.push import Pushed

OVER = 60_000_000
"""Microseconds."""


@dataclass(frozen=True, slots=True)
class EventLatency:
    """Seconds: the mean over rows, if these came evenly, and the longest."""

    mean_s: float
    longest_s: float


@dataclass(frozen=True, slots=True)
class _ShownRows:
    """Rows of (`after`, `upto`] could be read from `at` on; microseconds."""

    at: int
    after: int
    upto: int


@dataclass(slots=True)
class Latencies:
    """Latencies of vertices that contracts read. One thread notes at a time; what is read is a copy."""

    _times: dict[str, int] = field(default_factory=dict)
    _shown: dict[str, deque[_ShownRows]] = field(default_factory=dict)

    def note(self, pushed: Iterable[Pushed], views: Collection[str], now: int) -> None:
        for one in pushed:
            if one.vertex not in views or one.error is not None:
                continue
            after = self._times.get(one.vertex)
            self._times[one.vertex] = one.t
            if after is not None and one.rows_out and one.t > after:
                self._shown.setdefault(one.vertex, deque(maxlen=4096)).append(_ShownRows(now, after, one.t))

    def find(self, now: int) -> Mapping[str, EventLatency]:
        """Latencies of vertices that got rows within a minute, by vertex."""
        found = {}
        for vertex, shown in list(self._shown.items()):
            recent = [one for one in list(shown) if now - one.at <= OVER]
            span = sum(one.upto - one.after for one in recent)
            if span > 0:
                waited = sum((one.at - (one.after + one.upto) / 2) * (one.upto - one.after) for one in recent)
                longest = max(one.at - one.after for one in recent)
                found[vertex] = EventLatency(waited / span / 1e6, longest / 1e6)
        return found
