"""What a feed maintains, as relations of our algebra: ordinary views, of which the engine knows nothing special.

    newest   the newest `keep` events of each producer, with all columns of the events: what is read on read
    pairs    consumer, producer, ahead: every pair once, stored ahead if there is a decision for it
    stored   consumer, producer, time, id: pairs stored ahead JOIN the newest `shown` events of each producer

Events are ranked per producer before they meet pairs. Ranked per pair, the state would hold every event of everybody.
Before that, events that no page can show are left out: those without an id, or where events have no ids, all but one
of those that a producer has at one time.
A pair that has no decision is on read: that is always right, if perhaps not cheap. So a new follow is served at once,
and a decision about a pair that nobody follows (any more) does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.catalogue import Catalogue, Feed, Refusal
from headrace.model.expr import Call, Column, Expr
from headrace.model.feed_names import name_decisions
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Order,
    Output,
    Projection,
    Relation,
    Scan,
    TopK,
    fields_of,
)
from headrace.model.types import BIGINT, BOOLEAN, INTEGERS, Type

CONSUMER, PRODUCER, AHEAD, TIME, ID = "consumer", "producer", "ahead", "time", "id"


@dataclass(frozen=True, slots=True)
class FeedRelations:
    """`events` and `follows` are what the feed reads."""

    newest: Relation
    pairs: Relation
    stored: Relation


def relations_of(feed: Feed, catalogue: Catalogue) -> FeedRelations | Refusal:
    """A refusal, if the feed follows a view that is not maintained. Sources have columns, those of the feed as well."""
    events, follows = read_rows(catalogue, feed.events.source), read_rows(catalogue, feed.follows.source)
    if isinstance(events, Refusal):
        return events
    if isinstance(follows, Refusal):
        return follows
    events = _tell_apart(feed, events, catalogue)
    decisions = read_rows(catalogue, name_decisions(feed.name))
    assert not isinstance(decisions, Refusal)
    joined = _join_decisions(feed, follows, decisions)
    every = Projection(joined, (*_name_pair(feed, follows), Output(AHEAD, _is_ahead(decisions))))
    ahead = Projection(Filter(joined, _is_ahead(decisions)), _name_pair(feed, follows))
    return FeedRelations(
        newest=Projection(_rank_events(feed, events, feed.keep), _keep_names(events)),
        pairs=Distinct(every),
        stored=_join_newest(feed, Distinct(ahead), events),
    )


def read_rows(catalogue: Catalogue, name: str) -> Relation | Refusal:
    """Rows of a source or a view; fields are called `NAME.column`, so that two relations can be joined."""
    if name in catalogue.sources:
        columns = catalogue.sources[name].columns or ()
        return Scan(name, name, tuple(one.name for one in columns), tuple(one.type for one in columns))
    query = catalogue.views[name].query
    if isinstance(query, Refusal):
        return query
    return Projection(
        query, tuple(Output(f"{name}.{one.name}", Column(one.name, one.type)) for one in fields_of(query))
    )


def _tell_apart(feed: Feed, events: Relation, catalogue: Catalogue) -> Relation:
    """The events that pages can show. Others must not be ranked with them, and take places of some that are shown:
    what is stored ahead would have a gap.
    """
    source = catalogue.sources.get(feed.events.source)
    key = set() if source is None else set(source.key)
    if feed.events.id is None:
        is_one = key and key <= {feed.events.producer, feed.events.time}
        return events if is_one else _take_one_of_each_time(feed, events)
    if feed.events.id in key:
        return events
    return Filter(events, _is_there(_column(events, feed.events.id)))


def _take_one_of_each_time(feed: Feed, events: Relation) -> Relation:
    """The first event of a producer at each time, as rows are ordered: without ids, all of one time are one."""
    producer, time = _column(events, feed.events.producer), _column(events, feed.events.time)
    if _is_grouped_by(events, {producer.name, time.name}):
        return events
    return TopK(events, (producer, time), (Order(time, descending=True, nulls_first=False),), 1)


def _is_grouped_by(rows: Relation, names: set[str]) -> bool:
    """Whether rows are an aggregate with at most one row for each value of some columns."""
    if isinstance(rows, Projection):
        read = {one.name: one.expr.name for one in rows.outputs if isinstance(one.expr, Column)}
        return _is_grouped_by(rows.input, {read[name] for name in names if name in read})
    if isinstance(rows, Filter):
        return _is_grouped_by(rows.input, names)
    return isinstance(rows, Aggregate) and {one.name for one in rows.keys} <= names


def _column(rows: Relation, name: str) -> Column:
    """A column by the name that its source or view gives it."""
    found = next(one for one in fields_of(rows) if one.name.rpartition(".")[2] == name)
    return Column(found.name, found.type)


def _keep_names(rows: Relation) -> tuple[Output, ...]:
    return tuple(Output(one.name.rpartition(".")[2], Column(one.name, one.type)) for one in fields_of(rows))


def _rank_events(feed: Feed, events: Relation, limit: int) -> Relation:
    """Newest first; of one time, the largest id first."""
    keys = dict.fromkeys((feed.events.time, feed.events.id or feed.events.time))
    order = tuple(Order(_column(events, key), descending=True, nulls_first=False) for key in keys)
    return TopK(events, (_column(events, feed.events.producer),), order, limit)


def _join_decisions(feed: Feed, follows: Relation, decisions: Relation) -> Relation:
    consumer = _equal(_column(follows, feed.follows.consumer), _column(decisions, CONSUMER))
    producer = _equal(_column(follows, feed.follows.producer), _column(decisions, PRODUCER))
    return Join(JoinKind.LEFT, follows, decisions, Call("and", (consumer, producer), BOOLEAN))


def _name_pair(feed: Feed, follows: Relation) -> tuple[Output, Output]:
    consumer, producer = _column(follows, feed.follows.consumer), _column(follows, feed.follows.producer)
    return Output(CONSUMER, consumer), Output(PRODUCER, producer)


def _is_ahead(decisions: Relation) -> Expr:
    return _is_there(_column(decisions, CONSUMER))


def _is_there(column: Column) -> Expr:
    return Call("not", (Call("is_null", (column,), BOOLEAN),), BOOLEAN)


def _join_newest(feed: Feed, ahead: Relation, events: Relation) -> Relation:
    # Not the first of `newest`, although these are the same rows: that needs another index of all newest events, which
    # was measured to cost more than ranking the events once more.
    newest = _rank_events(feed, events, min(feed.shown, feed.keep))
    producer, time = _column(newest, feed.events.producer), _column(newest, feed.events.time)
    id_ = _column(newest, feed.events.id or feed.events.time)
    types: Mapping[str, Type] = {one.name: one.type for one in fields_of(ahead)}
    consumer, followed = Column(CONSUMER, types[CONSUMER]), Column(PRODUCER, types[PRODUCER])
    joined = Join(JoinKind.INNER, ahead, newest, _equal(followed, producer))
    named = (Output(CONSUMER, consumer), Output(PRODUCER, followed), Output(TIME, time), Output(ID, id_))
    return Projection(joined, named)


def _equal(one: Column, other: Column) -> Expr:
    """Integers of any size are compared as the largest."""
    if one.type == other.type or one.type not in INTEGERS or other.type not in INTEGERS:
        return Call("=", (one, other), BOOLEAN)
    wide = [column if column.type == BIGINT else Call("cast", (column,), BIGINT) for column in (one, other)]
    return Call("=", tuple(wide), BOOLEAN)
