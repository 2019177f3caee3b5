"""Feeds as they are declared: what is left out is decided as the pages say."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.model.catalogue import Feed
from headrace.model.errors import InputError
from headrace.model.expr import columns_of
from tests.declare.projects import read

SOURCES = """
  sources:
    posts: {kind: table, at: eu, key: pid, columns: {pid: bigint, author: bigint, ts: timestamp, likes: int}}
    follows: {kind: table, at: us, key: [who, whom], columns: {who: bigint, whom: bigint}}
"""
POSTS = "{source: posts, producer: author, time: ts}"
FOLLOWS = "{source: follows, consumer: who, producer: whom}"


def read_feed(tmp_path: Path, fields: str, events: str = POSTS, follows: str = FOLLOWS, **views: str) -> Feed:
    text = f"{SOURCES}\n  feeds: {{home: {{events: {events}, follows: {follows}, {fields}}}}}"
    return read(tmp_path, text, **views).feeds["home"]


def test_what_is_left_out_has_the_documented_defaults(tmp_path: Path) -> None:
    feed = read_feed(tmp_path, "")
    assert (feed.site, feed.freshness_s, feed.keep, feed.events.id) == ("eu", 5.0, 200, "pid")
    assert (feed.store, feed.address, feed.rank, feed.reads_s) == ("postgres", None, None, None)
    assert (feed.limit, feed.shown) == (20, 20)


def test_a_page_shows_as_many_entries_of_a_producer_as_its_rules_allow(tmp_path: Path) -> None:
    assert read_feed(tmp_path, "per_producer: 5").shown == 5
    assert read_feed(tmp_path, "per_producer: 50").shown == 20
    assert read_feed(tmp_path, "rank: likes").shown == 200
    assert read_feed(tmp_path, "rank: likes, pool: 40, per_producer: 30").shown == 30


def test_a_rank_reads_columns_of_the_event_and_its_age(tmp_path: Path) -> None:
    feed = read_feed(tmp_path, 'rank: "likes / (1 + age_s)", pool: 100')
    assert feed.rank is not None
    assert (columns_of(feed.rank.expression), feed.rank.pool) == (frozenset({"likes", "age_s"}), 100)


def test_events_of_a_view_have_the_columns_of_the_view(tmp_path: Path) -> None:
    liked = "SELECT author AS who, ts, pid FROM posts WHERE likes > 3"
    feed = read_feed(tmp_path, "", events="{view: liked, producer: who, time: ts, id: pid}", liked=liked)
    assert (feed.events.source, feed.site) == ("liked", "us")


def test_events_and_follows_of_the_api_are_sources_of_the_feed(tmp_path: Path) -> None:
    feed = read_feed(tmp_path, "at: us", events="api", follows="api")
    assert (feed.events.source, feed.events.is_api, feed.events.id) == ("home/events", True, "id")
    assert (feed.follows.source, feed.follows.is_api, feed.follows.producer) == ("home/follows", True, "producer")


def test_a_store_elsewhere_keeps_its_address_without_the_password(tmp_path: Path) -> None:
    feed = read_feed(tmp_path, 'store: {redis: {url: "redis://:hunter2@host:6379"}}')
    assert feed.store == "redis"
    assert feed.address is not None
    assert "hunter2" not in feed.address


def test_diversity_with_global_coherency_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not go with `coherency: global`"):
        read_feed(tmp_path, "coherency: global, diversity: {more_than: 2, within: 1 h}")
