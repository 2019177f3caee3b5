"""What a feed's store is given: rows and changes of events and of parts, as Arrow tables of plain columns.

A part is the consumers whose names have one remainder. It has a clock of its own, and is changed all or nothing. Events
have a clock as well, and are never behind a part.

    events    producer, ts, id, body (JSON); changes also t, when, and w, +1 or -1
    pairs     consumer, producer, ahead, since; a pair that is gone has no `ahead`
    stored    consumer, producer, ts, id; changes also w
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import pyarrow as pa

PARTS = 64
EVENTS_PART = -1
"""The clock of events, beside those of parts."""

EVENTS = pa.schema([("producer", pa.string()), ("ts", pa.int64()), ("id", pa.string()), ("body", pa.string())])
EVENT_CHANGES = EVENTS.append(pa.field("t", pa.int64())).append(pa.field("w", pa.int64()))
PAIRS = pa.schema([("consumer", pa.string()), ("producer", pa.string()), ("ahead", pa.bool_()), ("since", pa.int64())])
STORED = pa.schema([("consumer", pa.string()), ("producer", pa.string()), ("ts", pa.int64()), ("id", pa.string())])
STORED_CHANGES = STORED.append(pa.field("w", pa.int64()))


def part_of(consumer: str) -> int:
    """The part that a consumer's feed is in: never another, whatever the store, process or version."""
    return zlib.crc32(consumer.encode()) % PARTS


@dataclass(frozen=True, slots=True)
class PartRows:
    """All rows of a part, as of a time."""

    part: int
    pairs: pa.Table
    stored: pa.Table


@dataclass(frozen=True, slots=True)
class PartChanges:
    """What changes in some parts, each of which is all or nothing."""

    parts: tuple[int, ...]
    pairs: pa.Table
    stored: pa.Table


@dataclass(frozen=True, slots=True)
class FeedSizes:
    """`stored_ahead` are pairs; `bytes` is what everything takes, None where the store cannot say."""

    pairs: int
    stored_ahead: int
    entries: int
    events: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Flip:
    """A decision that was committed at time `since`, which a part may not have reached yet."""

    consumer: str
    producer: str
    ahead: bool
    since: int
