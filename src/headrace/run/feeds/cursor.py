"""Cursors and places in streams as texts, signed for one feed and one consumer."""

from __future__ import annotations

import json
import zlib

from headrace.model.errors import UsageError
from headrace.run.feeds.changes import StreamPlace
from headrace.run.feeds.page import PageCursor
from headrace.run.feeds.signed import read_signed, write_signed

WORTH_SHORTENING = 1000
"""Bytes. Most cursors are shorter; that of a ranked or diverse feed has a place for each producer of whom something was
shown below an entry that is still to come, and a request has no room for any number of them.
"""


class WrongCursor(UsageError):
    """A text is no cursor that was given out for this consumer."""


def write_cursor(cursor: PageCursor, feed: str, consumer: str, key: bytes) -> str:
    said = json.dumps([cursor.as_of, cursor.ceiling, cursor.shown], separators=(",", ":"), ensure_ascii=False).encode()
    if len(said) > WORTH_SHORTENING:
        said = zlib.compress(said)
    return write_signed(said, ("cursor", feed, consumer), key)


def read_cursor(text: str, feed: str, consumer: str, key: bytes) -> PageCursor:
    """Raises `WrongCursor`."""
    said = read_signed(text, ("cursor", feed, consumer), key)
    if said is None:
        what = "this is no cursor of this feed and consumer"
        raise WrongCursor(what, "leave it out to begin at the newest entry, or send `next` as given")
    as_of, (time, id_, producer), shown = json.loads(said if said.startswith(b"[") else zlib.decompress(said))
    return PageCursor(as_of, (time, id_, producer), {name: (last[0], last[1]) for name, last in shown.items()})


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
