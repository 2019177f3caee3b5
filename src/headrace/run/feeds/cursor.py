"""Cursors and places in streams as texts, signed for one feed and one consumer."""

from __future__ import annotations

import json
import zlib
from typing import Any

from headrace.model.errors import UsageError
from headrace.run.feeds.changes import StreamPlace
from headrace.run.feeds.page import HIGHEST, FeedPlace, PageCursor
from headrace.run.feeds.signed import read_signed, write_signed

WORTH_SHORTENING = 1000
"""Bytes. Most cursors are shorter; that of a ranked or diverse feed has a place for each producer of whom something was
shown below an entry that is still to come, and a request has no room for any number of them.
"""


class WrongCursor(UsageError):
    """A text is no cursor that was given out for this consumer."""


def write_cursor(cursor: PageCursor, feed: str, consumer: str, key: bytes) -> str:
    below = {producer: _shorten(place, producer, cursor.ceiling) for producer, place in cursor.below.items()}
    parts = [cursor.as_of, cursor.ceiling, below] + ([] if cursor.floor is None else [cursor.floor])
    said = json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode()
    if len(said) > WORTH_SHORTENING:
        said = zlib.compress(said, 9)
    return write_signed(said, ("cursor", feed, consumer), key)


def read_cursor(text: str, feed: str, consumer: str, key: bytes) -> PageCursor:
    """Raises `WrongCursor`."""
    said = read_signed(text, ("cursor", feed, consumer), key)
    if said is None:
        what = "this is no cursor of this feed and consumer"
        raise WrongCursor(what, "leave it out to begin at the newest entry, or send `next` as given")
    return decode_cursor(said)


def decode_cursor(said: bytes) -> PageCursor:
    """What is signed."""
    as_of, (time, id_, producer), below, *floor = json.loads(said if said.startswith(b"[") else zlib.decompress(said))
    ceiling = (time, id_, producer)
    bounds = {name: _lengthen(place, name, ceiling) for name, place in below.items()}
    return PageCursor(as_of, ceiling, bounds, (floor[0][0], floor[0][1], floor[0][2]) if floor else None)


def _shorten(place: FeedPlace, producer: str, ceiling: FeedPlace) -> Any:
    time, id_, of = place
    if place == HIGHEST:
        return None
    if of != producer:
        return place
    return (time, id_) if id_ else ceiling[0] - time  # of numbers, a difference has fewer digits


def _lengthen(place: Any, producer: str, ceiling: FeedPlace) -> FeedPlace:
    if place is None:
        return HIGHEST
    if isinstance(place, int):
        return ceiling[0] - place, "", producer
    return place[0], place[1], place[2] if len(place) > 2 else producer


def write_place(place: StreamPlace, feed: str, consumer: str, key: bytes) -> str:
    """The id of an event of a stream."""
    said = json.dumps([place.t, place.told], separators=(",", ":"), ensure_ascii=False).encode()
    return write_signed(said, ("stream", feed, consumer), key)


def read_place(text: str, feed: str, consumer: str, key: bytes) -> StreamPlace:
    """Raises `WrongCursor`."""
    said = read_signed(text, ("stream", feed, consumer), key)
    if said is None:
        what = "this is no event of a stream of this feed and consumer"
        raise WrongCursor(what, "leave `Last-Event-ID` out to begin now, or send the last `id` as given")
    t, told = json.loads(said)
    return StreamPlace(t, None if told is None else (told[0], told[1], told[2]))
