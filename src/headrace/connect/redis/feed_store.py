"""Keeps a feed in one Valkey or Redis, by scripts that are all or nothing (`feed_scripts.py`).

A part is one script, its time included. Events are several if there are many: their time moves with the last, and one
that is done again changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import redis
from redis.exceptions import RedisError

from headrace.connect.redis import feed_read_scripts as reading
from headrace.connect.redis import feed_scripts as scripts
from headrace.connect.redis.feed_meter import RedisFeedMeter
from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced, NotOurs
from headrace.run.feeds.batch import EVENTS_PART, PARTS, FeedSizes, Flip, PartChanges, PartRows, part_of
from headrace.run.feeds.changes import KEPT_AFTER_END, MOST_CHANGES, FeedChange, FeedChanges, StreamPlace
from headrace.run.feeds.enough import MOST_FEW, STEPS
from headrace.run.feeds.hidden import BLOCKED, MOST_HIDDEN, say_emptied, say_too_many
from headrace.run.feeds.page import (
    MOST_UNREAD,
    SECOND,
    FeedRead,
    PageCursor,
    PageEntry,
    PageRules,
    Place,
    count_enough,
)

EVENTS_AT_ONCE, PRODUCERS_AT_ONCE, PURGED_AT_ONCE = 5_000, 1_000, 1_000
ANSWER_WITHIN_S = 30.0
EVENTS_NAME = "events"
LAYOUT = 2
"""The layout of keys has this number: what was filled with another one is filled anew."""


class RedisFeed:
    """One feed: how scripts are called, and what their errors mean."""

    def __init__(self, url: str, feed: str) -> None:
        self._url = url
        self._feed = feed
        self._prefix = f"headrace:{feed}"
        self._client: redis.Redis | None = None
        self._known: dict[str, Any] = {}

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
            self._known = {}

    def _run(self, script: str, **said: object) -> Any:
        with self._errors():
            if script not in self._known:
                self._known[script] = self._connect().register_script(script)
            return self._known[script](keys=[self._prefix], args=[json.dumps(said, ensure_ascii=False)])

    def _connect(self) -> redis.Redis:
        if self._client is None:
            self._client = redis.Redis.from_url(
                self._url, decode_responses=True, socket_timeout=ANSWER_WITHIN_S, socket_connect_timeout=10.0
            )
        return self._client

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (RedisError, ValueError) as error:
            hint = "is the server running, and the address right?"
            raise ConnectError(f'the store of feed "{self._feed}" does not answer: {error}', hint) from error

    def _part_key(self, consumer: str, kind: str) -> str:
        return f"{self._prefix}:{{{name_part(part_of(consumer))}}}:{kind}:{consumer}"


class RedisFeedStore(RedisFeed):
    """What the service writes."""

    def __init__(self, url: str, feed: str, project: str, meaning: str, epoch: int) -> None:
        super().__init__(url, feed)
        self._project = project
        self._meaning = f"{meaning} {LAYOUT}"
        self._epoch = str(epoch)

    def take_over(self) -> Mapping[int, int]:
        parts = [EVENTS_PART, *range(PARTS)]
        said = {"project": self._project, "meaning": self._meaning, "epoch": self._epoch}
        how, *times = self._run(scripts.TAKE_OVER, **said, parts=[name_part(part) for part in parts])
        if how == "owner":
            raise NotOurs(
                f'feed "{self._feed}" in this store belongs to project "{times[0]}"',
                hint="give one of the feeds another name, or a store of its own",
            )
        self._check([how, *times], None)
        return {part: int(t) for part, t in zip(parts, times, strict=True) if t}

    def start_events(self, events: pa.Table, t: int) -> None:
        rows = [(*row[:1], str(row[1]), *row[2:], str(t), True) for row in _rows(events)]
        self._change_events(rows, None, t)

    def apply_events(self, changes: pa.Table, after: int, upto: int) -> None:
        rows = [(who, str(ts), id_, body, str(t), weight > 0) for who, ts, id_, body, t, weight in _rows(changes)]
        self._change_events(sorted(rows, key=lambda row: (int(row[4]), row[5])), after, upto)

    def _change_events(self, rows: Sequence[tuple[Any, ...]], after: int | None, upto: int) -> None:
        starts = range(0, max(len(rows), 1), EVENTS_AT_ONCE)
        for start in starts:
            said: dict[str, object] = {
                "rows": rows[start : start + EVENTS_AT_ONCE],
                "upto": str(upto),
                "epoch": self._epoch,
            }
            said |= {} if after is None else {"after": str(after)}
            said |= {"first": start == 0, "last": start == starts[-1]}
            self._check(self._run(scripts.EVENTS, **said), after)

    def start(self, rows: PartRows, t: int) -> None:
        stored = dict.fromkeys(_rows(rows.stored), 1)
        self._change_part(rows.part, _rows(rows.pairs), stored, None, t)

    def apply(self, changes: PartChanges, after: int, upto: int) -> None:
        pairs: dict[int, list[tuple[Any, ...]]] = {part: [] for part in changes.parts}
        stored: dict[int, dict[tuple[Any, ...], int]] = {part: {} for part in changes.parts}
        for row in _rows(changes.pairs):
            pairs[part_of(row[0])].append(row)
        for *entry, weight in _rows(changes.stored):
            of_part, key = stored[part_of(entry[0])], tuple(entry)
            of_part[key] = of_part.get(key, 0) + weight
        for part in changes.parts:
            self._change_part(part, pairs[part], stored[part], after, upto)

    def _change_part(
        self,
        part: int,
        pairs: Sequence[tuple[Any, ...]],
        stored: Mapping[tuple[Any, ...], int],
        after: int | None,
        upto: int,
    ) -> None:
        said: dict[str, object] = {"part": name_part(part), "upto": str(upto), "epoch": self._epoch}
        said |= {} if after is None else {"after": str(after)}
        said |= {"pairs": [(*pair[:3], str(pair[3])) for pair in pairs]}
        said |= {"come": _by_consumer(stored, 1), "gone": _by_consumer(stored, -1)}
        is_odd = any(abs(weight) > 1 for weight in stored.values())
        self._check(("changed",) if is_odd else self._run(scripts.PARTS, **said), after)

    def flip(self, flips: Sequence[Flip]) -> None:
        by_part: dict[int, list[tuple[Any, ...]]] = {}
        for flip in flips:
            row = (flip.consumer, flip.producer, flip.ahead, str(flip.since))
            by_part.setdefault(part_of(flip.consumer), []).append(row)
        for part, rows in by_part.items():
            self._run(scripts.FLIP, part=name_part(part), epoch=self._epoch, flips=rows)

    def purge(self) -> int:
        """Some at a time: nobody waits for all of it."""
        purged, some = 0, PURGED_AT_ONCE
        while some == PURGED_AT_ONCE:
            some = int(self._run(scripts.PURGE, parts=_all_parts(), kept=KEPT_AFTER_END, most=PURGED_AT_ONCE))
            purged += some
        return purged

    def sizes(self) -> FeedSizes:
        """Counts part by part: nobody waits for all of it. What changes meanwhile may be counted or not."""
        parts = [self._run(scripts.SIZES_OF_PART, part=name_part(part)) for part in range(PARTS)]
        pairs, ahead, entries = (sum(map(int, column)) for column in zip(*parts, strict=True))
        events, cursor = 0, ""
        while cursor != "0":
            cursor, some = self._run(scripts.SIZES_OF_EVENTS, cursor=cursor or "0", count=PRODUCERS_AT_ONCE)
            events += int(some)
        return FeedSizes(pairs, ahead, entries, events, None)

    def find_since(self, consumer: str, producer: str) -> int | None:
        with self._errors():
            held: Any = self._connect().hget(self._part_key(consumer, "p"), producer)
        return None if held is None else int(held.partition(":")[2])

    def drop(self) -> None:
        with self._errors():
            client = self._connect()
            key_of_owner = f"{self._prefix}:{{events}}:owner"
            owner: Any = client.get(key_of_owner)
            if owner is not None and owner != self._project:
                raise NotOurs(f'feed "{self._feed}" in this store belongs to project "{owner}"')
            # The owner goes last: whoever is interrupted is still known to be the one who may go on.
            for key in client.scan_iter(match=f"{self._prefix}:*", count=1000) if owner is not None else ():
                if key != key_of_owner:
                    client.unlink(key)
            client.unlink(key_of_owner)

    def _check(self, answer: Sequence[Any], after: int | None) -> None:
        match answer[0]:
            case "fenced" if not answer[1]:
                raise CopyChanged(say_emptied(self._feed))
            case "fenced":
                raise Fenced(f'another service has taken over the store of feed "{self._feed}"')
            case "conflict":
                raise Conflict(f'part {answer[1]} of feed "{self._feed}" is at {answer[2]}, not at {after}')
            case "changed":
                raise CopyChanged(
                    f'what is stored ahead for feed "{self._feed}" was changed by someone else',
                    hint="the service fills it again; whoever changes it should use other keys",
                )


class RedisFeedReader(RedisFeed):
    """What a feed server reads, and what consumers say of themselves.

    Who follows more than `most_few` has newest events of all walked, at most so many `steps`.
    """

    def __init__(self, url: str, feed: str, most_few: int = MOST_FEW, steps: int = STEPS) -> None:
        super().__init__(url, feed)
        self.most_few, self.steps = most_few, steps

    def read_page(self, consumer: str, rules: PageRules, cursor: PageCursor | None = None) -> FeedRead | None:
        return _make_read(self._run(reading.PAGE, **self._ask_page(consumer, rules, cursor)))

    def _ask_page(self, consumer: str, rules: PageRules, cursor: PageCursor | None) -> dict[str, object]:
        said: dict[str, object] = {
            "part": name_part(part_of(consumer)),
            "consumer": consumer,
            "shown": rules.shown,
            "enough": count_enough(rules),
            "most_few": self.most_few,
            "steps": self.steps,
        }
        if rules.more_than is not None:
            said |= {"k": rules.more_than, "within": int(rules.within_s * SECOND)}
        if cursor is not None:
            time, id_, producer = cursor.ceiling
            below = {name: (str(place[0]), *place[1:]) for name, place in cursor.below.items()}
            said |= {"as_of": str(cursor.as_of), "ceiling": (str(time), id_, producer), "below": below}
            if cursor.floor is not None:
                said["floor"] = (str(cursor.floor[0]), *cursor.floor[1:])
        return said

    def read_ends(self, consumer: str, t: int, keep: int, floor: Place | None = None) -> Mapping[str, Place] | None:
        said = {"part": name_part(part_of(consumer)), "consumer": consumer, "t": str(t), "keep": keep}
        said |= {} if floor is None else {"floor": (str(floor[0]), floor[1])}
        return _make_ends(self._run(reading.ENDS, **said))

    def read_page_and_ends(
        self, consumer: str, rules: PageRules, cursor: PageCursor | None, keep: int
    ) -> tuple[FeedRead, Mapping[str, Place]] | None:
        ends = {"part": name_part(part_of(consumer)), "consumer": consumer, "keep": keep}
        with self._errors(), self._connect().pipeline(transaction=True) as pipeline:
            for script, said in ((reading.PAGE, self._ask_page(consumer, rules, cursor)), (reading.ENDS, ends)):
                pipeline.eval(script, 1, self._prefix, json.dumps(said, ensure_ascii=False))
            found = pipeline.execute()
        read, ended = _make_read(found[0]), _make_ends(found[1])
        return None if read is None or ended is None else (read, ended)

    def read_changes(self, asked: Sequence[tuple[str, StreamPlace]]) -> Sequence[FeedChanges | None]:
        places = [(who, name_part(part_of(who)), str(one.t), *_tell_place(one)) for who, one in asked]
        found = self._run(reading.CHANGES, asked=places, kept=KEPT_AFTER_END)
        return [_read_changes(one) for one in found]

    def read_newest(self, producers: Sequence[str], limit: int) -> Sequence[PageEntry]:
        return [_entry(row) for row in self._run(reading.NEWEST, producers=list(producers), limit=limit)]

    def count_unread(self, consumer: str) -> int | None:
        part = name_part(part_of(consumer))
        walked = {"most_few": self.most_few, "steps": self.steps}
        found = self._run(reading.UNREAD, part=part, consumer=consumer, most=MOST_UNREAD, **walked)
        return int(found[0]) if found else None

    def mark_seen(self, consumer: str, place: Place) -> None:
        part = name_part(part_of(consumer))
        self._run(scripts.MARK_SEEN, part=part, consumer=consumer, ts=str(place[0]), id=place[1])

    def hide(self, consumer: str, producer: str, kind: str) -> None:
        said = {"part": name_part(part_of(consumer)), "consumer": consumer, "producer": producer, "kind": kind}
        if not self._run(scripts.HIDE, **said, blocked=BLOCKED, most=MOST_HIDDEN):
            raise say_too_many(consumer)

    def unhide(self, consumer: str, producer: str, kind: str) -> None:
        with self._errors():
            self._connect().srem(self._part_key(consumer, "h"), f"{producer}\0{kind}")

    def read_hidden(self, consumer: str) -> Sequence[tuple[str, str]]:
        with self._errors():
            found: Any = self._connect().smembers(self._part_key(consumer, "h"))
        return sorted((row.split("\0")[0], row.split("\0")[1]) for row in found)

    def add_counts(self, kind: str, counts: Mapping[str, float], at: float, half_life_s: float) -> None:
        if counts:
            self._run(scripts.ADD_COUNTS, kind=kind, counts=dict(counts), at=at, half_life=half_life_s)

    def read_counts(self, kind: str) -> Mapping[str, tuple[float, float]]:
        with self._errors():
            held: Any = self._connect().hgetall(f"{self._prefix}:r:{kind}")
        return {name: (float(text.split(":")[0]), float(text.split(":")[1])) for name, text in held.items()}


@dataclass(frozen=True, slots=True)
class RedisFeedTarget:
    """`url` has secrets. `meaning` identifies what the feed's logs hold."""

    url: str = field(repr=False)
    feed: str
    project: str
    meaning: str

    def open_store(self, epoch: int) -> RedisFeedStore:
        return RedisFeedStore(self.url, self.feed, self.project, self.meaning, epoch)

    def open_reader(self) -> RedisFeedReader:
        return RedisFeedReader(self.url, self.feed)

    def make_trial(self, feed: str) -> RedisFeedTarget:
        return replace(self, feed=feed)

    def open_meter(self) -> RedisFeedMeter:
        return RedisFeedMeter(redis.Redis.from_url(self.url, decode_responses=True, socket_timeout=ANSWER_WITHIN_S))


def name_part(part: int) -> str:
    return EVENTS_NAME if part == EVENTS_PART else f"p{part}"


def _by_consumer(stored: Mapping[tuple[Any, ...], int], weight: int) -> dict[str, list[str]]:
    """Time, id and producer of each entry that comes (1) or goes (-1), one after the other."""
    found: dict[str, list[str]] = {}
    for (who, whom, ts, id_), change in stored.items():
        if change == weight:
            found.setdefault(who, []).extend((str(ts), id_, whom))
    return found


def _all_parts() -> list[str]:
    return [name_part(part) for part in (EVENTS_PART, *range(PARTS))]


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _tell_place(place: StreamPlace) -> Sequence[str]:
    return () if place.told is None else (str(place.told[0]), *place.told[1:])


def _read_changes(found: Sequence[Any]) -> FeedChanges | None:
    if not found:
        return None
    t, is_complete, *rows = found
    changes = [
        FeedChange(int(at), PageEntry(who, int(time), id_, json.loads(body or "null")), bool(is_gone))
        for at, is_gone, who, time, id_, body in rows
    ]
    if not is_complete or len(changes) > MOST_CHANGES:
        return FeedChanges(int(t), (), is_complete=False)
    return FeedChanges(int(t), tuple(sorted(changes, key=lambda one: one.order)))


def _make_read(found: Sequence[Any]) -> FeedRead | None:
    t, *rows = found or [None]
    return None if t is None else FeedRead(int(t), tuple(map(_entry, rows)))


def _make_ends(found: Sequence[Any]) -> Mapping[str, Place] | None:
    return {producer: (int(ts), id_) for producer, ts, id_ in found[1:]} if found else None


def _entry(row: Sequence[Any]) -> PageEntry:
    producer, time, id_, body, is_stored = row
    return PageEntry(producer, int(time), id_, json.loads(body), bool(is_stored))
