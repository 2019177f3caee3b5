"""Never sends more over a link than its `limit` says: a token bucket for each other site.

Bytes are counted as the link carries them, with what TLS and TCP add. Works everywhere, without rights. What is sent
together never exceeds a quarter of a second's worth, and neither does what was saved up while nothing was sent: over
any time, a link carries at most limit * (time + 1/4 s).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

BURST_S = 0.25
LEAST_AT_ONCE = 64
MOST_AT_ONCE = 64 * 1024
RECORD, RECORD_ADDS = 16 * 1024, 22
"""The largest record of TLS 1.3, and what each adds: its head, its kind and its checksum."""
PACKET, PACKET_ADDS = 1448, 66
"""What of an answer fits into a packet of Ethernet, and the heads of the packet: Ethernet, IP, TCP with times."""


def count_on_link(size: int) -> int:
    """Bytes that a link carries for so many that are sent together."""
    sealed = size + RECORD_ADDS * -(-size // RECORD)
    return sealed + PACKET_ADDS * -(-sealed // PACKET)


@dataclass(slots=True)
class TokenBucket:
    """`ready_at` is when all that was taken is sent, at the rate that held then; seconds on any clock."""

    ready_at: float = float("-inf")

    def take(self, size: int, rate: float, now: float) -> float:
        """Seconds to wait before so many bytes are sent. Whoever takes them sends them."""
        # Time that passed without anything being sent counts up to a burst.
        self.ready_at = max(self.ready_at, now - BURST_S) + size / rate
        return max(0.0, self.ready_at - now)


@dataclass(slots=True)
class LinkLimits:
    """`find_limit` tells how many bytes/s may be sent to a site, None if any number may. Any thread may ask."""

    find_limit: Callable[[str], float | None] = lambda _: None
    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, TokenBucket] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def follow(self, find_limit: Callable[[str], float | None]) -> None:
        """Limits are what this tells from now on."""
        self.find_limit = find_limit

    def at_once(self, site: str) -> int:
        """How many bytes to send to a site together."""
        rate = self.find_limit(site)
        return MOST_AT_ONCE if rate is None else min(MOST_AT_ONCE, max(LEAST_AT_ONCE, int(rate * BURST_S)))

    def take(self, site: str, size: int) -> float:
        """Seconds to wait before bytes are sent to a site, together."""
        rate = self.find_limit(site)
        if rate is None:
            return 0.0
        with self._turn:
            return self._buckets.setdefault(site, TokenBucket()).take(count_on_link(size), rate, self.clock())
