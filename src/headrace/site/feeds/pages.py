"""Pages of feeds as people get them: read from the store, made by the rules, and told in plain values."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from headrace.model.errors import ConnectError, UnknownName, UsageError
from headrace.run.feeds.batch import FeedSizes
from headrace.run.feeds.changes import FeedChanges, StreamPlace
from headrace.run.feeds.cursor import read_cursor, read_place, write_cursor, write_place
from headrace.run.feeds.hidden import BLOCKED
from headrace.run.feeds.logs import read_id, write_id
from headrace.run.feeds.page import SECOND, FeedPage, PageEntry, PageRules, make_page
from headrace.run.ports import FeedReader, FeedTarget, Ledger, Store
from headrace.site.feeds.find import KeptFeed
from headrace.site.feeds.older_pages import PageAsked, read_with_older
from headrace.site.feeds.posting import check_names, read_time
from headrace.site.feeds.reads import FeedReads, PagesTimed
from headrace.site.feeds.signing import find_key


class HiddenKind(StrEnum):
    """Why a consumer does not see a producer."""

    MUTE = "mute"
    BLOCK = "block"


_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class FeedTold:
    """How a feed does; `took_s` are the seconds of its last pages, `timed` is about all of them."""

    feed: str
    pairs: int | None
    stored_ahead: int | None
    entries: int | None
    lag_s: float | None
    took_s: tuple[float, ...]
    timed: PagesTimed

    def find_percentile_ms(self, share: float) -> float | None:
        """Milliseconds in which a share of the last pages was there; None before the first."""
        ordered = sorted(self.took_s)
        return 1000.0 * ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else None


class FeedFinder(Protocol):
    """Knows the feeds that are kept, and the relations behind them."""

    @property
    def ledger(self) -> Ledger: ...

    @property
    def store(self) -> Store: ...

    def find(self, feed: str) -> tuple[KeptFeed, FeedTarget | None] | None:
        """A feed that is kept, and where; nowhere yet while its store is brought level for the first time."""

    def progress(self) -> dict[str, tuple[int | None, FeedSizes | None]]:
        """The time that each feed has reached, and how large it was at the last look; None if not known."""


@dataclass(slots=True)
class FeedPages:
    """May be used by any thread: each has its own sessions with the stores."""

    keepers: FeedFinder
    folder: Path
    clock: Callable[[], int]
    reads: FeedReads = field(default_factory=FeedReads)
    _of_thread: threading.local = field(default_factory=threading.local)
    _opened: list[FeedReader] = field(default_factory=list)
    _rules: dict[str, tuple[KeptFeed, PageRules]] = field(default_factory=dict)
    _key: bytes | None = None

    def read(self, feed: str, consumer: str, limit: int | None = None, before: str | None = None) -> dict[str, Any]:
        """Raises `UnknownName` for a feed that is not kept, `WrongCursor`, and `ConnectError` if the store is away."""
        began = time.perf_counter()
        kept, reader = self._find(feed)
        rules = self._find_rules(kept)
        if limit is not None and not 1 <= limit <= rules.limit:
            raise UsageError(f'a page of feed "{feed}" has 1 to {rules.limit} entries, not {limit}')
        rules = rules if limit is None else replace(rules, limit=limit)
        cursor = None if before is None else read_cursor(before, feed, consumer, self.key)
        read, cut_short = read_with_older(
            PageAsked(kept, consumer, rules, cursor), reader, self.keepers.ledger, self.keepers.store
        )
        if read is None:
            raise _say_filled(feed)
        told = self._tell(kept, consumer, make_page(rules, read, cursor))
        if cut_short is not None:
            told["cut_short"] = cut_short
        took_s = time.perf_counter() - began
        self.reads.note(feed, consumer, took_s)
        return told

    def told(self) -> tuple[FeedTold, ...]:
        """What is known of all feeds that are kept."""
        now = self.clock()
        return tuple(
            FeedTold(
                name,
                None if sizes is None else sizes.pairs,
                None if sizes is None else sizes.stored_ahead,
                None if sizes is None else sizes.entries,
                None if reached is None else max(now - reached, 0) / SECOND,
                self.reads.last_seconds(name),
                self.reads.timed(name),
            )
            for name, (reached, sizes) in sorted(self.keepers.progress().items())
        )

    def count_unread(self, feed: str, consumer: str) -> int:
        """Entries that are newer than what was seen last, or all of them; 99 is 99 or more."""
        _, reader = self._find(feed)
        found = reader.count_unread(consumer)
        if found is None:
            raise _say_filled(feed)
        return found

    def mark_seen(self, feed: str, consumer: str, seen: tuple[str, str] | None = None) -> None:
        """Up to the time and id of an entry, or up to the newest one now. What was seen before stays seen."""
        kept, reader = self._find(feed)
        if seen is not None:
            check_names((seen[1],))
            reader.mark_seen(consumer, (read_micros(seen[0]), write_id(seen[1], kept.has_whole_ids)))
            return
        read = reader.read_page(consumer, PageRules(1))
        if read is None:
            raise _say_filled(feed)
        if read.entries:
            reader.mark_seen(consumer, max(entry.place for entry in read.entries))

    def read_changes(self, feed: str, asked: Sequence[tuple[str, StreamPlace]]) -> Sequence[FeedChanges | None]:
        """What changed for consumers, each after a place; None while that is not known."""
        _, reader = self._find(feed)
        return reader.read_changes(asked)

    def tell_entry(self, feed: str, entry: PageEntry) -> dict[str, Any]:
        """An entry as pages show it, but for where it comes from, which a change does not know."""
        found = self.keepers.find(feed)
        return _tell_entry(entry, found is not None and found[0].has_whole_ids)

    def write_place(self, place: StreamPlace, feed: str, consumer: str) -> str:
        return write_place(place, feed, consumer, self.key)

    def read_place(self, text: str, feed: str, consumer: str) -> StreamPlace:
        """Raises `WrongCursor`."""
        return read_place(text, feed, consumer, self.key)

    def hide(self, feed: str, consumer: str, producer: str, kind: HiddenKind, undo: bool = False) -> None:
        """Takes effect with the next page. Who is blocked does not see the consumer either. Raises `UsageError` for a
        name that nobody can have, and if there are too many.
        """
        check_names((consumer, producer))
        _, reader = self._find(feed)
        change = reader.unhide if undo else reader.hide
        change(consumer, producer, kind)
        if kind is HiddenKind.BLOCK:
            change(producer, consumer, BLOCKED)

    def close(self) -> None:
        """Ends all sessions. Nobody may read meanwhile, or afterwards."""
        for reader in self._opened:
            reader.close()

    def _tell(self, kept: KeptFeed, consumer: str, page: FeedPage) -> dict[str, Any]:
        following, is_whole = page.next, kept.has_whole_ids
        return {
            "as_of": tell_micros(page.as_of),
            "lag_s": max(self.clock() - page.as_of, 0) / SECOND,
            "entries": [
                {**_tell_entry(entry, is_whole), "origin": "stored" if entry.is_stored else "pulled"}
                for entry in page.entries
            ],
            "next": None if following is None else write_cursor(following, kept.feed.name, consumer, self.key),
            "stored": page.stored,
            "pulled": len(page.entries) - page.stored,
        }

    def _find(self, feed: str) -> tuple[KeptFeed, FeedReader]:
        found = self.keepers.find(feed)
        if found is None:
            raise UnknownName(f'no feed "{feed}" can be read', "`headrace status` says which feeds are kept")
        kept, target = found
        if target is None:
            raise _say_filled(feed)
        readers: dict[Any, FeedReader] = self._of_thread.__dict__.setdefault("readers", {})
        for other in [one for one in readers if one != target and one.feed == feed]:
            readers.pop(other).close()  # its store has moved
        if target not in readers:
            readers[target] = target.open_reader()
            self._opened.append(readers[target])
        return kept, readers[target]

    def _find_rules(self, kept: KeptFeed) -> PageRules:
        known = self._rules.get(kept.feed.name)
        if known is None or known[0] is not kept:
            known = self._rules[kept.feed.name] = (kept, kept.rules)
        return known[1]

    @property
    def key(self) -> bytes:
        """What cursors, places and tokens of this project are signed with."""
        if self._key is None:
            self._key = find_key(self.folder)
        return self._key


def _say_filled(feed: str) -> ConnectError:
    return ConnectError(f'feed "{feed}" is being filled', "try again in a moment")


def _tell_entry(entry: PageEntry, is_whole: bool) -> dict[str, Any]:
    return {
        "producer": entry.producer,
        "time": tell_micros(entry.time),
        "id": read_id(entry.id, is_whole),
        "body": entry.body,
    }


def read_micros(text: str) -> int:
    """A time as people write it, in microseconds since 1970."""
    return (read_time(text) - _EPOCH) // dt.timedelta(microseconds=1)


def tell_micros(micros: int) -> str:
    """A time in microseconds since 1970, as people read it."""
    return f"{(_EPOCH + dt.timedelta(microseconds=micros)).isoformat()}Z"
