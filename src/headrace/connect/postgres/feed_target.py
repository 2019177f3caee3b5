"""Where a feed's store in PostgreSQL is."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from psycopg.conninfo import conninfo_to_dict, make_conninfo

from headrace.connect.postgres.feed_meter import PostgresFeedMeter
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

    def make_trial(self, feed: str) -> PostgresFeedTarget:
        return replace(self, dsn=make_conninfo(self.dsn, application_name=f"headrace {feed}"), feed=feed)

    def open_meter(self) -> PostgresFeedMeter | None:
        application = conninfo_to_dict(self.dsn).get("application_name")
        return PostgresFeedMeter.find(make_conninfo(self.dsn, application_name="headrace feeds"), str(application))
