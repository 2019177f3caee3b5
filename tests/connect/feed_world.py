"""A feed whose whole past is known: what its logs held at every time, and what its pages must be."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from headrace.run.feeds.batch import (
    EVENT_CHANGES,
    EVENTS,
    EVENTS_PART,
    PAIRS,
    STORED,
    STORED_CHANGES,
    PartChanges,
    PartRows,
    part_of,
)
from headrace.run.feeds.page import SECOND, FeedPage, FeedRead, PageCursor, PageEntry, PageRules, make_page
from headrace.run.ports import FeedStore

CONSUMERS = ("anna", "ben", "cleo", 'd"a,\\')
PRODUCERS = ("alice", "bob", "chad", "zoë", "{x}")
IDS = tuple("abcdefghijk")
PARTS = tuple(sorted({part_of(consumer) for consumer in CONSUMERS}))
BEGIN = 1_000 * SECOND


@dataclass(frozen=True)
class Moment:
    """All there is at a time: events by (producer, id), and who follows whom, stored ahead or not."""

    events: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    follows: dict[tuple[str, str], bool] = field(default_factory=dict)


@dataclass
class FeedWorld:
    """`keep` events of a producer are in its log, `shown` of them are stored ahead.

    Without ids, events of a producer are told apart by their times.
    """

    shown: int
    keep: int
    has_ids: bool = True
    moments: list[tuple[int, Moment]] = field(default_factory=lambda: [(BEGIN, Moment())])

    @property
    def t(self) -> int:
        return self.moments[-1][0]

    def change(self, to: Moment, pause: int = 1_000) -> None:
        self.moments.append((self.t + pause, to))

    def at(self, t: int) -> Moment:
        return next(moment for when, moment in reversed(self.moments) if when <= t)

    # Logs

    def newest(self, moment: Moment) -> set[tuple[str, int, str, str]]:
        rows = set()
        for producer in {producer for producer, _ in moment.events}:
            own = [(ts, id_, body) for (who, id_), (ts, body) in moment.events.items() if who == producer]
            if not self.has_ids:
                last = {ts: body for ts, _, body in sorted(own, key=lambda row: row[:2])}
                own = [(ts, "", body) for ts, body in last.items()]
            for ts, id_, body in sorted(own, key=lambda row: row[:2], reverse=True)[: self.keep]:
                rows.add((producer, ts, id_, json.dumps(body)))
        return rows

    def stored(self, moment: Moment, parts: Iterable[int]) -> set[tuple[str, str, int, str]]:
        rows = set()
        for (consumer, producer), ahead in moment.follows.items():
            if ahead and part_of(consumer) in parts:
                own = [(ts, id_) for who, ts, id_, _ in self.newest(moment) if who == producer]
                rows |= {(consumer, producer, ts, id_) for ts, id_ in sorted(own, reverse=True)[: self.shown]}
        return rows

    def event_rows(self, t: int) -> pa.Table:
        return pa.table(_columns(sorted(self.newest(self.at(t))), 4), schema=EVENTS)

    def event_changes(self, after: int, upto: int) -> pa.Table:
        rows = []
        for when, moment in self.moments:
            if after < when <= upto:
                before, now = self.newest(self.at(when - 1)), self.newest(moment)
                rows += [(*row, when, -1) for row in before - now] + [(*row, when, 1) for row in now - before]
        return pa.table(_columns(rows, 6), schema=EVENT_CHANGES)

    def part_rows(self, part: int, t: int) -> PartRows:
        moment = self.at(t)
        pairs = [(*pair, ahead, t) for pair, ahead in moment.follows.items() if part_of(pair[0]) == part]
        stored = sorted(self.stored(moment, [part]))
        return PartRows(part, pa.table(_columns(pairs, 4), schema=PAIRS), pa.table(_columns(stored, 4), schema=STORED))

    def part_changes(self, parts: tuple[int, ...], after: int, upto: int) -> PartChanges:
        before, now = self.stored(self.at(after), parts), self.stored(self.at(upto), parts)
        stored = [(*row, -1) for row in before - now] + [(*row, 1) for row in now - before]
        pairs: dict[tuple[str, str], tuple[bool | None, int]] = {}
        for when, moment in self.moments:
            if after < when <= upto:
                earlier = self.at(when - 1).follows
                for pair in earlier.keys() | moment.follows.keys():
                    if part_of(pair[0]) in parts and earlier.get(pair) != moment.follows.get(pair):
                        pairs[pair] = (moment.follows.get(pair), when)
        rows = [(*pair, ahead, since) for pair, (ahead, since) in pairs.items()]
        return PartChanges(
            parts, pa.table(_columns(rows, 4), schema=PAIRS), pa.table(_columns(stored, 5), schema=STORED_CHANGES)
        )

    # What a service does

    def bring_events(self, store: FeedStore, upto: int) -> None:
        at = store.take_over().get(EVENTS_PART)
        if at is None or not BEGIN <= at <= upto:
            store.start_events(self.event_rows(upto), upto)
        elif at < upto:
            store.apply_events(self.event_changes(at, upto), at, upto)

    def bring_parts(self, store: FeedStore, parts: Iterable[int], upto: int) -> None:
        clocks = store.take_over()
        together: dict[int, list[int]] = {}
        for part in parts:
            if part not in clocks or not BEGIN <= clocks[part] <= upto:
                store.start(self.part_rows(part, upto), upto)
            elif clocks[part] < upto:
                together.setdefault(clocks[part], []).append(part)
        for after, some in together.items():
            store.apply(self.part_changes(tuple(some), after, upto), after, upto)

    # What a page must be

    def entries(self, consumer: str, t: int, hidden: Iterable[str] = ()) -> tuple[PageEntry, ...]:
        moment = self.at(t)
        followed = {producer for who, producer in moment.follows if who == consumer} - set(hidden)
        return tuple(
            PageEntry(producer, ts, id_, json.loads(body))
            for producer, ts, id_, body in self.newest(moment)
            if producer in followed
        )

    def page(
        self, rules: PageRules, consumer: str, t: int, cursor: PageCursor | None = None, hidden: Iterable[str] = ()
    ) -> FeedPage:
        return make_page(rules, FeedRead(t, self.entries(consumer, t, hidden)), cursor)


def _columns(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)] or [[] for _ in range(width)]


BODIES: tuple[Any, ...] = (
    {},
    {"likes": 1},
    {"likes": 3, "text": 'say "so"\n'},
    {"likes": None},
    "plain",
    None,
    ["é", 1.5],
)


def next_moment(random: Random, moment: Moment, t: int, gone: dict[tuple[str, str], tuple[int, Any]]) -> Moment:
    """People post, edit, delete, restore, follow, unfollow, and decisions change. `gone` is what was deleted.

    A few events and pairs change often.
    """
    events, follows = dict(moment.events), dict(moment.follows)
    for _ in range(random.choice([1, 1, 2, 4])):
        what = random.choice(
            ["post", "post", "edit", "move", "delete", "restore", "follow", "flip", "flip", "unfollow"]
        )
        ts, body = t + random.randint(-30, 1) * SECOND, random.choice(BODIES)
        if what == "post":
            events.setdefault((random.choice(PRODUCERS), random.choice(IDS)), (ts, body))
        elif what == "restore" and gone:
            key = random.choice(sorted(gone))
            events.setdefault(key, gone.pop(key))
        elif what in ("edit", "move", "delete") and events:
            key = random.choice(sorted(events)[: random.choice([3, 99])])
            gone[key] = events.pop(key)
            if what != "delete":
                events[key] = (gone[key][0], body) if what == "edit" else (ts, gone[key][1])
        elif what == "follow":
            follows.setdefault((random.choice(CONSUMERS), random.choice(PRODUCERS)), random.random() < 0.5)
        elif what in ("flip", "unfollow") and follows:
            pair = random.choice(sorted(follows)[: random.choice([3, 99])])
            ahead = follows.pop(pair)
            if what == "flip":
                follows[pair] = not ahead
    return Moment(events, follows)


def first_moment(random: Random, t: int) -> Moment:
    """Most people follow each other already, and have posted."""
    share = random.choice([0.0, 0.3, 0.8])
    times = {key: t + random.randint(-30, 0) * SECOND for key in itertools.product(PRODUCERS, IDS)}
    events = {key: (ts, random.choice(BODIES)) for key, ts in times.items() if random.random() < share}
    pairs = [pair for pair in itertools.product(CONSUMERS, PRODUCERS) if random.random() < share]
    return Moment(events, {pair: random.random() < 0.5 for pair in pairs})


def rank_by_likes(entry: PageEntry, age_s: float) -> float | None:
    likes = entry.body.get("likes") if isinstance(entry.body, dict) else None
    return None if likes is None else likes - age_s / 10


def rules_of_feeds() -> st.SearchStrategy[PageRules]:
    plain = st.builds(PageRules, limit=st.integers(1, 6), per_producer=st.none() | st.integers(1, 3))
    return plain.flatmap(
        lambda rules: st.sampled_from(
            [
                rules,
                replace(rules, more_than=1, within_s=10.0),
                replace(rules, more_than=2, within_s=25.0),
                replace(rules, pool=7, rank=rank_by_likes),
                replace(rules, pool=4, rank=rank_by_likes, more_than=1, within_s=25.0),
            ]
        )
    )


OpenStore = Callable[[int], FeedStore]
