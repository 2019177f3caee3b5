"""Where a feed's store in PostgreSQL is."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.connect.postgres.feed_reader import PostgresFeedReader
from headrace.connect.postgres.feed_store import PostgresFeedStore


@dataclass(frozen=True, slots=True)
class PostgresFeedTarget:
    """`dsn` has secrets. `meaning` identifies what the feed's logs hold."""

    dsn: str = field(repr=False)
    feed: str
    project: str
    meaning: str

    def open_store(self, epoch: int) -> PostgresFeedStore:
        return PostgresFeedStore(self.dsn, self.feed, self.project, self.meaning, epoch)

    def open_reader(self) -> PostgresFeedReader:
        return PostgresFeedReader(self.dsn, self.feed)
