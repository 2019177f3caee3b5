"""The relations behind a feed, by name. No name that people write has a slash.

home/newest      the newest events of each producer, with all columns of the events
home/pairs       consumer, producer, ahead: who follows whom, and whether that is stored ahead
home/stored      consumer, producer, time, id: what is stored ahead for whom
home/decisions   consumer, producer: the pairs to store ahead, which the service writes
home/events      what people post, and home/follows whom they follow, if a feed has no tables for these
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping

from headrace.model.types import STRING, TIMESTAMP, Type

API_EVENTS: Mapping[str, Type] = {"producer": STRING, "time": TIMESTAMP, "id": STRING, "body": STRING}
API_FOLLOWS: Mapping[str, Type] = {"consumer": STRING, "producer": STRING}
"""Columns of what people post through Headrace; a body is JSON."""


def name_newest(feed: str) -> str:
    return f"{feed}/newest"


def name_pairs(feed: str) -> str:
    return f"{feed}/pairs"


def name_stored(feed: str) -> str:
    return f"{feed}/stored"


def name_decisions(feed: str) -> str:
    return f"{feed}/decisions"


def is_decisions(name: str) -> bool:
    """Whether a source says which pairs of some feed are stored ahead."""
    return is_of_feed(name) and name.endswith("/decisions")


def name_events(feed: str) -> str:
    return f"{feed}/events"


def name_follows(feed: str) -> str:
    return f"{feed}/follows"


def name_trial(project: str, feed: str) -> str:
    """A feed beside another one in its store, which measures what serving costs; nobody else's has this name."""
    return f"trial~{hashlib.sha256(f'{project} {feed}'.encode()).hexdigest()[:12]}"


def is_of_feed(name: str) -> bool:
    """Whether a promise belongs to some feed."""
    return "/" in name


def feed_of(name: str, feeds: Collection[str]) -> str | None:
    """The feed that a relation or a promise belongs to; None if people declared it."""
    feed = name.partition("/")[0]
    return feed if is_of_feed(name) and feed in feeds else None
