"""Finds where a feed's store is, by its kind. What it needs is imported only for the kind that is asked for."""

from __future__ import annotations

from headrace.model.errors import ConnectError
from headrace.run.ports import FeedTarget


def find_target(kind: str, address: str, feed: str, project: str, meaning: str) -> FeedTarget:
    """`kind` is postgres or redis; `address` has secrets."""
    if kind == "postgres":
        from headrace.connect.postgres.feed_target import PostgresFeedTarget

        return PostgresFeedTarget(address, feed, project, meaning)
    try:
        from headrace.connect.redis.feed_store import RedisFeedTarget
    except ImportError as error:
        hint = "install Headrace with it: pip install 'headrace[redis]'"
        raise ConnectError("the library that talks to Valkey and Redis is not installed", hint) from error
    return RedisFeedTarget(address, feed, project, meaning)
