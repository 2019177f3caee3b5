"""Decides which rows of a stream are sent up, and when: at most one every so often, only changes, the newest first.

    latest-row stream   a row that equals the one before is no change, and nobody is told. A change that comes too early
                        waits; a newer one takes its place, and one that goes back to what was sent takes it away.
    `keep` stream       every row counts, even an equal one; too early ones wait, and of those the newest is sent.

One rate serves all readers: a faster stream serves a slower one. Times are in milliseconds since 1970 by the device's
own clock, which may be set back: whatever seems to have been sent in the future was sent just now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from headrace.model.device_messages import SendStream, Sent
from headrace.model.types import Row


def rates_of(send: Iterable[SendStream]) -> dict[str, float]:
    """Seconds between rows of each stream: the shortest that anybody asks for."""
    found: dict[str, float] = {}
    for one in send:
        found[one.stream] = min(one.every_s, found.get(one.stream, math.inf))
    return found


@dataclass(slots=True)
class Sampler:
    """One stream. `every_s` may change at any time. `last` is what was sent last, as far as that is known."""

    every_s: float
    only_changes: bool
    last: tuple[Row, ...] | None = None
    last_ms: int | None = None
    waiting: Sent | None = None

    def offer(self, sent: Sent, now_ms: int) -> Sent | None:
        """What to send now that a row is there: the row itself, or nothing yet."""
        self.waiting = None if self.only_changes and sent.rows == self.last else sent
        return self.due(now_ms)

    def due(self, now_ms: int) -> Sent | None:
        """The row that waited long enough, if one did."""
        if self.waiting is None or now_ms < self.next_ms(now_ms):
            return None
        sent, self.waiting = self.waiting, None
        self.last, self.last_ms = sent.rows, now_ms
        return sent

    def next_ms(self, now_ms: int) -> int:
        """The time from which on a row may be sent."""
        if self.last_ms is None:
            return now_ms
        self.last_ms = min(self.last_ms, now_ms)
        return self.last_ms + math.ceil(self.every_s * 1000)
