"""Pages that go on where a store ends: events older than those it keeps are read from the relation behind it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.model.errors import HeadraceError
from headrace.model.notes import LogKeys, read_notes
from headrace.run.feeds.enough import find_floor
from headrace.run.feeds.older import NotKnown, OlderEvents
from headrace.run.feeds.page import HIGHEST, FeedRead, PageCursor, PageEntry, PageRules, Place
from headrace.run.ports import FeedReader, Ledger, Store
from headrace.site.feeds.find import KeptFeed

log = logging.getLogger("headrace.service")

ATTEMPTS = 4
"""A part that moves on, or a file that upkeep has replaced, while a page is read: then it is read again."""
NUL = "\x00"


@dataclass(frozen=True, slots=True)
class PageAsked:
    kept: KeptFeed
    consumer: str
    rules: PageRules
    cursor: PageCursor | None


def read_with_older(
    asked: PageAsked, reader: FeedReader, ledger: Ledger, store: Store
) -> tuple[FeedRead | None, str | None]:
    """What a page is made of, and why it ends early if old events cannot be read; None while the part is filled."""
    feed, rules = asked.kept.feed, asked.rules
    # Without ids, events of one time are one in the store: it may keep fewer than there are.
    keep = 1 if feed.events.id is None else feed.keep
    cut, reason, read = HIGHEST[:2], "", None
    for attempt in range(ATTEMPTS):
        cut = HIGHEST[:2]  # of this attempt: what an earlier one has found may be above what is new
        if attempt < ATTEMPTS // 2:
            read = reader.read_page(asked.consumer, rules, asked.cursor)
            if read is None or (asked.cursor is None and rules.shown <= keep):
                return read, None  # a first page ends before the store does
            ends = reader.read_ends(asked.consumer, read.as_of, keep, find_floor(rules, read, asked.cursor))
            if ends is None:
                continue
        else:  # the part moves on faster than it is read
            found = reader.read_page_and_ends(asked.consumer, rules, asked.cursor, keep)
            if found is None:
                return None, None
            read, ends = found
        if not ends:
            return read, None
        try:
            older = _read_older(asked, ledger, store, ends, read.as_of)
            return replace(read, entries=(*read.entries, *older)), None
        except (HeadraceError, OSError) as error:
            cut, reason = max(ends.values()), str(error)
    assert read is not None
    log.warning("page of feed %s is cut short: %s", feed.name, reason)
    return replace(read, cut=cut), f"older events cannot be read now: {reason}"


def _read_older(
    asked: PageAsked, ledger: Ledger, store: Store, ends: Mapping[str, Place], t: int
) -> tuple[PageEntry, ...]:
    older = asked.kept.older
    if older is None:
        raise NotKnown("nothing keeps them at this site")
    logs = ledger.logs([older.log])
    if older.log not in logs or not _is_indexed(older, ledger):
        raise NotKnown("they are being loaded")
    below = {producer: _find_below(asked.cursor, producer) for producer in ends}
    return older.read(store, logs[older.log], below, t, asked.rules.shown)


def _is_indexed(older: OlderEvents, ledger: Ledger) -> bool:
    noted = read_notes(ledger, LogKeys).get(older.log)
    return noted is not None and older.key.columns in noted.keys


def _find_below(cursor: PageCursor | None, producer: str) -> Place:
    """The place that a producer's next entries come before: what was shown of it, or where the last page ended."""
    if cursor is None:
        return HIGHEST[:2]
    time, id_, of = cursor.ceiling
    ceiling = (time, id_ + NUL) if producer <= of else (time, id_)
    time, id_, of = cursor.find_bound(producer)
    return min(ceiling, (time, id_ + NUL) if producer < of else (time, id_))
