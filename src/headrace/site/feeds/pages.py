"""Pages of feeds as people get them: read from the store, made by the rules, and told in plain values."""

from __future__ import annotations

import datetime as dt
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from headrace.model.errors import ConnectError, UnknownName, UsageError
from headrace.run.feeds.cursor import read_cursor, write_cursor
from headrace.run.feeds.logs import read_id
from headrace.run.feeds.page import SECOND, FeedPage, make_page
from headrace.run.ports import FeedReader
from headrace.run.rows.json_rows import json_value
from headrace.site.feeds.find import KeptFeed
from headrace.site.feeds.keepers import FeedKeepers
from headrace.site.feeds.older_pages import PageAsked, read_with_older
from headrace.site.feeds.reads import FeedReads


class HiddenKind(StrEnum):
    """Why a consumer does not see a producer."""

    MUTE = "mute"
    BLOCK = "block"


BLOCKED = "blocked"
"""Noted for the other side of a block."""
KEY_FILE = "feeds.key"
KEY_BYTES = 32
PAGES_TIMED = 1000
_EPOCH = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class FeedTold:
    """How a feed does; `took_s` are the seconds of its last pages."""

    feed: str
    pairs: int | None
    stored_ahead: int | None
    lag_s: float | None
    took_s: tuple[float, ...]

    def find_percentile_ms(self, share: float) -> float | None:
        """Milliseconds in which a share of the last pages was there; None before the first."""
        ordered = sorted(self.took_s)
        return 1000.0 * ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else None


@dataclass(slots=True)
class FeedPages:
    """May be used by any thread: each has its own sessions with the stores."""

    keepers: FeedKeepers
    folder: Path
    clock: Callable[[], int]
    reads: FeedReads = field(default_factory=FeedReads)
    _of_thread: threading.local = field(default_factory=threading.local)
    _opened: list[FeedReader] = field(default_factory=list)
    _took_s: dict[str, deque[float]] = field(default_factory=dict)
    """Seconds that the last pages of each feed took."""

    def read(self, feed: str, consumer: str, limit: int | None = None, before: str | None = None) -> dict[str, Any]:
        """Raises `UnknownName` for a feed that is not kept, `WrongCursor`, and `ConnectError` if the store is away."""
        began = time.perf_counter()
        kept, reader = self._find(feed)
        rules = kept.rules
        if limit is not None and not 1 <= limit <= rules.limit:
            raise UsageError(f'a page of feed "{feed}" has 1 to {rules.limit} entries, not {limit}')
        rules = rules if limit is None else replace(rules, limit=limit)
        cursor = None if before is None else read_cursor(before, feed, consumer, self._key())
        read, cut_short = read_with_older(PageAsked(kept, consumer, rules, cursor), reader, self.keepers)
        if read is None:
            raise _say_filled(feed)
        told = self._tell(kept, consumer, make_page(rules, read, cursor))
        if cut_short is not None:
            told["cut_short"] = cut_short
        took_s = time.perf_counter() - began
        self._took_s.setdefault(feed, deque(maxlen=PAGES_TIMED)).append(took_s)
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
                None if reached is None else max(now - reached, 0) / SECOND,
                tuple(self._took_s.get(name, ())),
            )
            for name, (reached, sizes) in sorted(self.keepers.progress().items())
        )

    def hide(self, feed: str, consumer: str, producer: str, kind: HiddenKind, undo: bool = False) -> None:
        """Takes effect with the next page. Who is blocked does not see the consumer either."""
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
        following = page.next
        return {
            "as_of": _tell_time(page.as_of),
            "lag_s": max(self.clock() - page.as_of, 0) / SECOND,
            "entries": [
                {
                    "producer": entry.producer,
                    "time": _tell_time(entry.time),
                    "id": read_id(entry.id, kept.has_whole_ids),
                    "body": entry.body,
                    "origin": "stored" if entry.is_stored else "pulled",
                }
                for entry in page.entries
            ],
            "next": None if following is None else write_cursor(following, kept.feed.name, consumer, self._key()),
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

    def _key(self) -> bytes:
        return find_key(self.folder)


def find_key(folder: Path) -> bytes:
    """What cursors are signed with; made once for a project, by the first of all threads and processes that need it."""
    file = folder / KEY_FILE
    if not file.exists():
        made = file.with_suffix(f".{secrets.token_hex(8)}")
        made.touch(0o600)
        made.write_bytes(secrets.token_bytes(KEY_BYTES))
        # A link, since renaming would replace the key that somebody else has just made and signed with.
        with suppress(FileExistsError):
            file.hardlink_to(made)
        made.unlink()
    return file.read_bytes()


def _say_filled(feed: str) -> ConnectError:
    return ConnectError(f'feed "{feed}" is being filled', "try again in a moment")


def _tell_time(micros: int) -> str:
    return str(json_value(_EPOCH + dt.timedelta(microseconds=micros)))
