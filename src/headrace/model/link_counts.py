"""What is counted of a link while rows arrive over it."""

from __future__ import annotations

from dataclasses import dataclass

PROBE_FOR_S = 1.0
"""How long a probe of a link takes at most."""


@dataclass(frozen=True, slots=True)
class LinkCount:
    """Up to `at_s`, on a clock that nobody sets: bytes that have arrived, and seconds in which more were on their way
    and nothing but the link held them up.
    """

    at_s: float
    arrived: int
    busy_s: float


@dataclass(frozen=True, slots=True)
class LinkProbe:
    """What came of bytes that were asked for to see how fast they come. What came whole may have come faster if there
    had been more of it: the time also has that of asking.
    """

    arrived: int
    seconds: float
    is_whole: bool

    @property
    def bytes_s(self) -> float:
        return self.arrived / self.seconds if self.seconds > 0.0 else 0.0


@dataclass(frozen=True, slots=True)
class LinkCounts:
    """The counts of about a second each, oldest first, the last one of now; what is on its way; the last round trip."""

    counts: tuple[LinkCount, ...]
    waiting_bytes: int = 0
    round_trip_s: float | None = None
