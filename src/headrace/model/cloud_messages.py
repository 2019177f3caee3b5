"""What parts of the cloud tell each other about devices: topics below `hr/PROJECT/cloud/`, and bodies as JSON.

took           DeviceTook      a device runs a document, and whatever it sent before is in the inboxes of sources
rates          RouterCounts    what the router has counted since it started, in parts if there are many devices
table/NAME     [Sent]          all rows of a table that devices read (retained); `seq` counts its versions
parts/NAME/N   [Taken]         a part of one that is too large for one message (retained), as devices are sent it
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.model.device_messages import Took, read_took, write_took
from headrace.model.errors import WireError
from headrace.model.wire_values import Json

TOOK, RATES, TABLE, PARTS = "took", "rates", "table", "parts"

STREAM_KIND, RESULT_KIND, CONTROL_KIND = "s", "r", "control"
"""Kinds of messages: rows of streams, results, and all else."""


@dataclass(frozen=True, slots=True)
class DeviceTook:
    device: str
    took: Took


class CountedMessages(NamedTuple):
    """Bytes are those of MQTT's PUBLISH packets. Rows are those that were new; messages are all."""

    messages: int = 0
    rows: int = 0
    bytes: int = 0

    def add(self, other: CountedMessages) -> CountedMessages:
        return CountedMessages(self.messages + other.messages, self.rows + other.rows, self.bytes + other.bytes)


@dataclass(frozen=True, slots=True)
class RouterCounts:
    """Sums since the router started. `streams` are by device and stream; a device's results count as `r/TEMPLATE`.

    `up` and `down` are by kind. `refused` are messages that had no effect, by reason; `refused_of` by device as well,
    where one is known.
    """

    at_ms: int
    up: Mapping[str, CountedMessages] = field(default_factory=dict)
    down: Mapping[str, CountedMessages] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)
    streams: Mapping[str, Mapping[str, CountedMessages]] = field(default_factory=dict)
    refused_of: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def write_device_took(told: DeviceTook) -> bytes:
    return _dump({"device": told.device, "took": json.loads(write_took(told.took))})


def read_device_took(body: bytes) -> DeviceTook:
    told = _load(body)
    try:
        return DeviceTook(str(told["device"]), read_took(_dump(told["took"])))
    except (KeyError, TypeError) as error:
        raise WireError("a message of the router does not say which device took what") from error


def write_counts(counts: RouterCounts) -> bytes:
    return _dump(
        {
            "at_ms": counts.at_ms,
            "up": counts.up,
            "down": counts.down,
            "refused": counts.refused,
            "streams": counts.streams,
            "refused_of": counts.refused_of,
        }
    )


def read_counts(body: bytes) -> RouterCounts:
    told = _load(body)
    try:
        return RouterCounts(
            int(told["at_ms"]),
            _read_sums(told["up"]),
            _read_sums(told["down"]),
            dict(told["refused"]),
            {device: _read_sums(streams) for device, streams in told["streams"].items()},
            {device: dict(why) for device, why in told["refused_of"].items()},
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise WireError("a message of the router does not say what it has counted") from error


def _read_sums(told: Json) -> dict[str, CountedMessages]:
    return {name: CountedMessages(*map(int, sums)) for name, sums in told.items()}


def _dump(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def _load(body: bytes) -> Json:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a message of the cloud is not JSON ({error})") from error
