"""Feeds against what they read: columns that exist, types that can be compared, an expression that ranks.

Runs after views were read, since a feed may follow a view. What is left out is decided here: the site, and the column
that tells events apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.declare.document import Path
from headrace.declare.entries import Entries
from headrace.declare.project_file import EventsEntry, FeedEntry, RowsEntry
from headrace.declare.sql import read_scalar
from headrace.model.catalogue import Diversity, Events, Feed, Follows, Rank, Refusal, Source, View
from headrace.model.errors import InputError, Problem, Severity, nearest_name
from headrace.model.feed_names import API_EVENTS, API_FOLLOWS, name_events, name_follows
from headrace.model.relation import fields_of
from headrace.model.types import DOUBLE, INTEGERS, TIMESTAMP, Type, is_numeric

AGE = "age_s"
"""Seconds since an event, which a rank may use beside the event's columns."""

PAGES_IN_POOL = 10
"""Pages that are ranked together if nobody says how many entries are."""


def read_feeds(
    entries: Entries, sources: Mapping[str, Source], views: Mapping[str, View]
) -> tuple[dict[str, Feed], tuple[Problem, ...]]:
    """The feeds whose parts are all known, and the mistakes of all."""
    reader = _FeedFields(entries, sources, views)
    feeds = {name: reader.read(name, entry) for name, entry in entries.feeds.items()}
    return {name: feed for name, feed in feeds.items() if feed is not None}, tuple(reader.problems)


@dataclass(slots=True)
class _FeedFields:
    entries: Entries
    sources: Mapping[str, Source]
    views: Mapping[str, View]
    problems: list[Problem] = field(default_factory=list)

    def read(self, name: str, entry: FeedEntry) -> Feed | None:
        events, follows = entry.events, entry.follows
        event_columns, follow_columns = self.find_columns(events), self.find_columns(follows)
        path: Path = ("feeds", name)
        id_column = events.id or self.find_key(events)
        producer = self.find_type(events, event_columns, events.producer, (*path, "events", "producer"))
        time = self.find_type(events, event_columns, events.time, (*path, "events", "time"))
        if events.id is not None:
            self.find_type(events, event_columns, events.id, (*path, "events", "id"))
        self.find_type(follows, follow_columns, follows.consumer, (*path, "follows", "consumer"))
        followed = self.find_type(follows, follow_columns, follows.producer, (*path, "follows", "producer"))
        self.check_time(name, events, time)
        self.check_producers(name, entry, producer, followed)
        if id_column is None and event_columns is not None and "events" not in self.entries.lost[path]:
            what = f'events of feed "{name}" have no id: two of one producer at the same time are taken for one'
            hint = "name the column that tells events apart: `id: COLUMN`"
            self.problems.append(Problem(what, self.entries.document.key_at((*path, "events")), hint, Severity.WARNING))
        site, rank = self.find_site(name, entry), self.read_rank(name, entry, event_columns)
        return None if site is None else _build_feed(name, entry, id_column, site, rank, self.entries)

    def find_columns(self, rows: RowsEntry) -> Mapping[str, Type] | None:
        """Columns by name; None if they are not known, or are wrong elsewhere."""
        if rows.reads is None:
            return API_EVENTS if isinstance(rows, EventsEntry) else API_FOLLOWS
        view, source = self.views.get(rows.view or ""), self.sources.get(rows.source or "")
        if view is not None and not isinstance(view.query, Refusal):
            return {one.name: one.type for one in fields_of(view.query)}
        return None if source is None or source.columns is None else {one.name: one.type for one in source.columns}

    def find_key(self, events: EventsEntry) -> str | None:
        """The one column of a source's key."""
        source = self.sources.get(events.source or "")
        return source.key[0] if source is not None and len(source.key) == 1 else None

    def find_type(self, rows: RowsEntry, columns: Mapping[str, Type] | None, name: str, path: Path) -> Type | None:
        """A mistake unless the column is there. Names are matched exactly, as the database does."""
        if columns is None or path[2] in self.entries.lost[path[:2]]:
            return None
        if name not in columns:
            kind = "view" if rows.view is not None else "source"
            what = f'feed "{path[1]}" names column "{name}", which {kind} "{rows.reads}" does not have'
            listed = ", ".join(f'"{column}"' for column in list(columns)[:10])
            hint = nearest_name(name, columns) or f"its columns are {listed}"
            self.problems.append(Problem(what, self.entries.document.value_at(path), hint))
        return columns.get(name)

    def check_time(self, name: str, events: EventsEntry, type_: Type | None) -> None:
        if type_ is not None and type_ != TIMESTAMP:
            what = f'time of events of feed "{name}" is column "{events.time}" of type {type_}'
            where = self.entries.document.value_at(("feeds", name, "events", "time"))
            self.problems.append(Problem(what, where, "the time column must be a timestamp"))

    def check_producers(self, name: str, entry: FeedEntry, events: Type | None, follows: Type | None) -> None:
        """Pairs meet events by the producer, so that both sides must name producers in one way."""
        if events is None or follows is None or events == follows or {events, follows} <= set(INTEGERS):
            return
        what = (
            f'feed "{name}" has producers of type {events} in "{entry.events.reads or "api"}" and of type {follows} in '
            f'"{entry.follows.reads or "api"}"'
        )
        where = self.entries.document.value_at(("feeds", name, "follows"))
        self.problems.append(Problem(what, where, "both must be of one type; a view may cast one of them"))

    def find_site(self, name: str, entry: FeedEntry) -> str | None:
        """Where a feed is kept: where it says, else with its events, with its follows, or at the only site."""
        if entry.at is not None:
            return entry.at
        for rows in (entry.events, entry.follows):
            source = self.sources.get(rows.source or "")
            if source is not None:
                return source.site
        sites = self.entries.written["sites"]
        if len(sites) == 1:
            return sites[0]
        if sites and not {"events", "follows", "at"} & self.entries.lost["feeds", name]:
            what = f'feed "{name}" does not say at which site it is kept'
            where = self.entries.document.key_at(("feeds", name))
            self.problems.append(Problem(what, where, f"write for example `at: {sites[0]}`"))
        return None

    def read_rank(self, name: str, entry: FeedEntry, columns: Mapping[str, Type] | None) -> Rank | None:
        if entry.rank is None or columns is None:
            return None
        where = self.entries.document.value_at(("feeds", name, "rank"))
        try:
            expression = read_scalar(entry.rank, where, {AGE: DOUBLE, **columns})
        except InputError as error:
            self.problems += error.problems
            return None
        if not is_numeric(expression.type):
            what = f'rank of feed "{name}" is of type {expression.type}'
            self.problems.append(
                Problem(what, where, "write an expression that is a number, larger for what comes first")
            )
            return None
        return Rank(entry.rank, expression, entry.pool or PAGES_IN_POOL * entry.limit)


def _build_feed(
    name: str, entry: FeedEntry, id_column: str | None, site: str, rank: Rank | None, entries: Entries
) -> Feed:
    events, follows, diversity = entry.events, entry.follows, entry.diversity
    return Feed(
        name=name,
        events=Events(events.reads or name_events(name), events.producer, events.time, id_column, events.reads is None),
        follows=Follows(follows.reads or name_follows(name), follows.consumer, follows.producer, follows.reads is None),
        coherency=entry.coherency.value,
        limit=entry.limit,
        per_producer=entry.per_producer,
        diversity=None if diversity is None else Diversity(diversity.more_than, diversity.within),
        latency=dict(entry.latency),
        store=entry.store.kind,
        declared_at=entries.document.key_at(("feeds", name)),
        site=site,
        freshness_s=entry.freshness,
        keep=entry.keep,
        rank=rank,
        reads_s=entry.reads,
        address=entry.store.address,
    )
