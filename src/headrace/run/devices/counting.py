"""Counts messages of devices: by device and stream, by kind and direction, and what was refused and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.model.cloud_messages import CONTROL_KIND, RESULT_KIND, STREAM_KIND, CountedMessages, RouterCounts

MOST_DEVICES = 5_000
"""Devices of which one message tells."""


class RefusedWhy(StrEnum):
    """Why a message, or a row of one, has no effect."""

    MALFORMED = "malformed"
    UNKNOWN_TOPIC = "unknown topic"
    UNKNOWN_STREAM = "unknown stream"
    UNKNOWN_DEVICE = "unknown device"
    TOO_LARGE = "too large"
    MISFIT = "row does not fit"
    FOREIGN_PAIR = "pair of others"
    FULL = "too much waits"
    PUBLISH = "foreign publish"
    SUBSCRIBE = "foreign subscription"
    SIGN_IN = "wrong token"


@dataclass(slots=True)
class _Sum:
    messages: int = 0
    rows: int = 0
    bytes: int = 0

    def add(self, messages: int, rows: int, bytes_: int) -> None:
        self.messages += messages
        self.rows += rows
        self.bytes += bytes_

    def tell(self) -> CountedMessages:
        return CountedMessages(self.messages, self.rows, self.bytes)


def _sums() -> dict[str, _Sum]:
    return {kind: _Sum() for kind in (STREAM_KIND, RESULT_KIND, CONTROL_KIND)}


@dataclass(slots=True)
class MessageCounts:
    """All since the router started."""

    _streams: dict[str, dict[str, _Sum]] = field(default_factory=dict)
    _up: dict[str, _Sum] = field(default_factory=_sums)
    _down: dict[str, _Sum] = field(default_factory=_sums)
    _refused: Counter[str] = field(default_factory=Counter)
    _refused_of: dict[str, Counter[str]] = field(default_factory=dict)

    def count_up(self, kind: str, bytes_: int) -> None:
        self._up[kind].add(1, 0, bytes_)

    def count_down(self, kind: str, rows: int, bytes_: int) -> None:
        self._down[kind].add(1, rows, bytes_)

    def count_rows(self, kind: str, device: str, stream: str, rows: int, bytes_: int) -> None:
        """One message of a stream, and those of its rows that were new."""
        self._streams.setdefault(device, {}).setdefault(stream, _Sum()).add(1, rows, bytes_)
        self._up[kind].add(0, rows, 0)

    def refuse(self, why: RefusedWhy, device: str | None, times: int = 1) -> None:
        self._refused[why] += times
        if device is not None:
            self._refused_of.setdefault(device, Counter())[why] += times

    @property
    def refused(self) -> int:
        return sum(self._refused.values())

    def tell(self, at_ms: int) -> Iterator[RouterCounts]:
        """Everything, in parts of so many devices; each part has the sums."""
        devices = sorted(self._streams.keys() | self._refused_of.keys())
        for begin in range(0, max(1, len(devices)), MOST_DEVICES):
            part = devices[begin : begin + MOST_DEVICES]
            yield RouterCounts(
                at_ms,
                {kind: one.tell() for kind, one in self._up.items()},
                {kind: one.tell() for kind, one in self._down.items()},
                dict(self._refused),
                {one: {name: sums.tell() for name, sums in self._streams.get(one, {}).items()} for one in part},
                {one: dict(self._refused_of[one]) for one in part if one in self._refused_of},
            )


def packet_bytes(topic: str, body: int, qos: int = 1) -> int:
    """The size of a PUBLISH packet. Our topics are ASCII."""
    rest = 2 + len(topic) + (2 if qos else 0) + body
    return 1 + (1 if rest < 128 else 2 if rest < 16_384 else 3 if rest < 2_097_152 else 4) + rest
