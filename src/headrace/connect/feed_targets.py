"""Finds where a feed's store is, by its kind. What it needs is imported only for the kind that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from headrace.model.errors import ConnectError
from headrace.run.ports import FeedTarget

MOST_SESSIONS = 300
"""Of the project's own store: each thread of each feed server has one for every feed."""
OWN_MEMORY = "256MB"
"""Of the project's own store, for tables, taken as they grow: what is read and written again and again stays in memory.
With the 32 MB of other servers that we run, sessions that read a page had to write what others had changed first.
"""


class OwnStore(Protocol):
    """The store of a project's own, for feeds that name none."""

    def start(self) -> None:
        """Does nothing while it runs, and recovers it after it was killed."""

    def dsn(self) -> str: ...

    def stop(self) -> None: ...

    def kill(self) -> None: ...


def open_own_store(folder: Path) -> OwnStore:
    """The store in a folder, which may not be there yet; it is not started."""
    from headrace.connect.postgres.embedded import EmbeddedPostgres

    return EmbeddedPostgres(folder, {"max_connections": str(MOST_SESSIONS), "shared_buffers": OWN_MEMORY})


def watch_own_store(folder: Path) -> Callable[[], str | None]:
    """Says again and again where the store in a folder is that some other process runs; None while nobody does."""
    from headrace.connect.postgres.embedded import WatchedPostgres

    return WatchedPostgres(folder).find_address


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
