"""How often the streams of devices have rows: as the router counts them, or as devices say of what they do not send.

Counts fade, by half in each half-life, and so do the seconds that they were collected in, separately for each stream: a
device that began to send a minute ago is judged by that minute. A stream that is sent more seldom than it has rows is
judged by what its device says, since the router cannot see the rest. A stream that is derived from others has at most
as many rows as these together: that is assumed until more is known.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

HALF_LIFE_S = 60.0
SURE_AFTER_S = 20.0
"""Seconds of counting before a count says more than the device did."""

Stream = tuple[str, str]
"""A device, and the name of one of its streams."""


@dataclass(slots=True)
class _Count:
    rows: int
    at_s: float
    faded: float = 0.0
    seconds: float = 0.0

    def add(self, rows: int, now_s: float) -> None:
        passed_s = max(0.0, now_s - self.at_s)
        left = math.exp(-passed_s * math.log(2.0) / HALF_LIFE_S)
        came = rows - self.rows if rows >= self.rows else rows  # a router that began anew counts from 0
        came_s = (1.0 - left) * HALF_LIFE_S / math.log(2.0)
        self.faded = self.faded * left + (came * came_s / passed_s if passed_s > 0.0 else came)
        self.seconds = self.seconds * left + came_s
        self.rows, self.at_s = rows, max(self.at_s, now_s)

    @property
    def rate(self) -> float:
        return self.faded / self.seconds if self.seconds > 0.0 else 0.0


@dataclass(slots=True)
class DeviceRates:
    """Rows per second. Times are seconds of one clock."""

    declared: Mapping[str, float] = field(default_factory=dict)
    """By stream, for devices that nothing is known of."""
    made_of: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What derived streams are made of."""
    _said: dict[Stream, float] = field(default_factory=dict)
    _counts: dict[Stream, _Count] = field(default_factory=dict)

    def declare(self, rates: Mapping[str, float], made_of: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.declared, self.made_of = rates, made_of or {}

    def hear(self, device: str, rates: Mapping[str, float]) -> None:
        """What a device says of its streams, whether it sends them or not."""
        self._said |= {(device, stream): rate for stream, rate in rates.items()}

    def count(self, device: str, stream: str, rows: int, now_s: float, is_whole: bool) -> None:
        """The router has had so many rows since it started. Of a stream that does not come whole, nothing is learnt."""
        key = (device, stream)
        count = self._counts.get(key)
        if not is_whole:
            self.stop(device, stream)
        elif count is None:
            self._counts[key] = _Count(rows, now_s)
        else:
            count.add(rows, now_s)

    def stop(self, device: str, stream: str) -> None:
        """It is not sent any more, or not whole. What was counted last is what the device would have said."""
        count = self._counts.pop((device, stream), None)
        if count is not None and count.seconds >= SURE_AFTER_S:
            self._said[device, stream] = count.rate

    def forget(self, device: str) -> None:
        for key in [key for key in (*self._said, *self._counts) if key[0] == device]:
            self._said.pop(key, None)
            self._counts.pop(key, None)

    def find_rate(self, device: str, stream: str) -> float:
        """The rate as counted, else as said, else as that of what it is made of, else as declared; else one row a
        second, the same for everybody.
        """
        count = self._counts.get((device, stream))
        if count is not None and count.seconds >= SURE_AFTER_S:
            return count.rate
        said = self._said.get((device, stream))
        if said is None and stream in self.made_of:
            return sum(self.find_rate(device, one) for one in self.made_of[stream])
        return self.declared.get(stream, 1.0) if said is None else said
