"""What people post to a feed and whom they follow, where a feed brings its own tables for that (`events: api`).

Rows are written to the sources of the feed, which are captured like any other: a post is on pages within the freshness
of the feed, and is there once this returns, whatever ends afterwards.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.model.catalogue import Catalogue, Feed
from headrace.model.errors import UnknownName, UsageError, nearest_name
from headrace.model.feed_names import name_events, name_follows
from headrace.model.types import Row
from headrace.run.feeds.texts import LONGEST_NAME, NUL, write_json
from headrace.site.folder import Folder
from headrace.site.sources.written import write_rows


@dataclass(frozen=True, slots=True)
class Post:
    """`time` is without a zone, in UTC; the body is anything that JSON can say."""

    producer: str
    id: str
    time: dt.datetime
    body: Any = None


def post_events(folder: Folder, catalogue: Catalogue, feed: str, posts: Iterable[Post]) -> None:
    """A post with the producer and id of an earlier one takes its place."""
    rows = [(one.producer, one.time, one.id, write_json(json.dumps(one.body))) for one in posts]
    write_events(folder, catalogue, feed, rows)


def write_events(folder: Folder, catalogue: Catalogue, feed: str, rows: Sequence[Row]) -> None:
    """Writes rows of producer, time, id and body; a body is the text of some JSON, or any text."""
    check_names(str(name) for producer, _, id_, _ in rows for name in (producer, id_))
    write_rows(folder, catalogue.sources[_find_events(catalogue, feed)], rows)


def delete_events(folder: Folder, catalogue: Catalogue, feed: str, keys: Iterable[tuple[str, str]]) -> None:
    """Deletes what was posted under producers and ids; what never was is not missed."""
    rows = [(producer, None, id_, None) for producer, id_ in keys]
    write_rows(folder, catalogue.sources[_find_events(catalogue, feed)], [], rows)


def change_follows(
    folder: Folder,
    catalogue: Catalogue,
    feed: str,
    follow: Sequence[tuple[str, str]],
    unfollow: Sequence[tuple[str, str]] = (),
) -> None:
    """Has consumers follow producers, and no longer follow others, in pairs of both."""
    found = _find_feed(catalogue, feed)
    if not found.follows.is_api:
        what = f'feed "{feed}" takes whom people follow from "{found.follows.source}"'
        raise UsageError(what, "change its rows there, or declare `follows: api`")
    check_names(name for pair in follow for name in pair)
    write_rows(folder, catalogue.sources[name_follows(feed)], follow, unfollow)


def check_names(names: Iterable[str]) -> None:
    """Raises `UsageError` for a name or an id that no page could show."""
    for name in names:
        try:
            length = len(name.encode())
        except UnicodeEncodeError:
            raise UsageError("a name or an id has half a character", "send text in UTF-8") from None
        if NUL in name:
            raise UsageError("a name or an id has the character NUL", "no store can hold it")
        if length > LONGEST_NAME:
            raise UsageError(f'"{name[:20]}..." has {length} bytes', f"names and ids have at most {LONGEST_NAME}")


def read_posts(posted: Iterable[Mapping[str, Any]]) -> list[Post]:
    """Reads documents: producer, id, time (now if there is none) and body. Raises `UsageError` for another time."""
    now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
    return [
        Post(one["producer"], one["id"], now if one.get("time") is None else read_time(one["time"]), one.get("body"))
        for one in posted
    ]


def read_time(text: str) -> dt.datetime:
    """A time as people write it; without a zone it is UTC."""
    try:
        found = dt.datetime.fromisoformat(text)
        return found if found.tzinfo is None else found.astimezone(dt.UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise UsageError(f'"{text}" is not a time', "write it as 2026-03-01T12:00:00Z") from None


def _find_events(catalogue: Catalogue, feed: str) -> str:
    found = _find_feed(catalogue, feed)
    if not found.events.is_api:
        what = f'feed "{feed}" takes its events from "{found.events.source}"'
        raise UsageError(what, "change its rows there, or declare `events: api`")
    return name_events(feed)


def _find_feed(catalogue: Catalogue, feed: str) -> Feed:
    found = catalogue.feeds.get(feed)
    if found is None:
        hint = nearest_name(feed, catalogue.feeds) or f"there are {', '.join(sorted(catalogue.feeds)) or 'none'}"
        raise UnknownName(f'no feed "{feed}" runs', hint)
    return found
