"""People who post, edit, delete, follow and leave, and people who read; all of it is written down.

What is written is tried again until it is done, and every change is one that can be done twice. Each consumer is read
by one thread, which also mutes and blocks for it: so it is known whom a consumer does not want to see.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any, TypeAlias
from urllib.parse import quote, urlencode

import psycopg

from bench.beside import Beside
from bench.feeds_world import FeedWorld
from headrace.model.catalogue import Source
from headrace.site.sources.written import write_rows

FEEDS = ("home", "wall")
RELATIONS = ("home/events", "home/follows", "wall/events", "wall/follows")
PEOPLE = (*(f"p{number}" for number in range(36)), "Zoë", "a b", "ß%", "東")
FOLLOWED = 9
"""By each at first."""
EPOCH = dt.datetime(1970, 1, 1)
AGAIN_AFTER_S = 0.2
ASK_WITHIN_S = 20.0
HIDE_WITHIN_S = 120.0
LATEST_S = 7200
"""Events are posted as of the last two hours."""

Key: TypeAlias = tuple[str, ...]
Change: TypeAlias = tuple[Key, tuple[Any, ...] | None]
"""A row that comes under a key, or None if it goes."""


@dataclass
class Writing(Beside):
    """Changes two feeds at random, `per_s` times a second. `changes` are by relation, in the order of writing."""

    world: FeedWorld
    per_s: float
    seed: int
    changes: dict[str, list[Change]] = field(default_factory=lambda: {name: [] for name in RELATIONS})
    counts: Counter[str] = field(default_factory=Counter)
    error: Exception | None = None
    sources: dict[str, Source] = field(default_factory=dict)
    """Those that the service writes, once the project runs."""
    _chance: random.Random = field(init=False)
    _there: dict[str, dict[Key, tuple[Any, ...]]] = field(init=False)
    _session: psycopg.Connection[Any] | None = None
    _last_id: int = 0

    def __post_init__(self) -> None:
        super().__init__("people")
        self._chance = random.Random(self.seed)
        self._there = {name: {} for name in self.changes}

    def begin(self, feed: str) -> None:
        """Whom everybody follows at first, and some posts."""
        for who in PEOPLE:
            for whom in self._chance.sample(PEOPLE, FOLLOWED):
                self._write(feed, "follows", (who, whom), (who, whom))
        for _ in range(4 * len(PEOPLE)):
            self._post(feed)
        if feed == "wall":
            self._execute("ANALYZE", ())

    def run(self) -> None:
        due = time.monotonic()
        try:
            while not self.stopping.is_set():
                self._change_something()
                due = max(due + 1 / self.per_s, time.monotonic() - 1.0)
                self.stopping.wait(max(0.0, due - time.monotonic()))
        except Exception as error:  # whoever waits for this thread tells it
            self.error = error

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _change_something(self) -> None:
        feed, chance = self._chance.choice(FEEDS), self._chance
        doing: dict[str, tuple[int, Callable[[str], None]]] = {
            "posts": (8, self._post),
            "edits": (3, self._edit),
            "deletes": (3, self._delete),
            "follows": (3, self._follow),
            "unfollows": (3, self._unfollow),
            "flips": (6, self._flip),
        }
        (what,) = chance.choices(list(doing), [weight for weight, _ in doing.values()])
        doing[what][1](feed)
        self.counts[what] += 1

    # What people do

    def _post(self, feed: str) -> None:
        """Mostly now; sometimes at a full minute of the past, at which others have posted too."""
        chance, now = self._chance, dt.datetime.now(dt.UTC).replace(tzinfo=None)
        minute = now.replace(second=0, microsecond=0) - dt.timedelta(seconds=60 * chance.randint(1, LATEST_S // 60))
        self._last_id += 1
        producer = chance.choice(PEOPLE[: len(PEOPLE) // 2]) if chance.random() < 0.7 else chance.choice(PEOPLE)
        time_ = now if chance.random() < 0.6 else minute
        id_ = str(self._last_id) if feed == "wall" else f"{producer}-{self._last_id}"
        self._write_event(feed, (producer, time_, id_))

    def _edit(self, feed: str) -> None:
        event = self._choose(feed, "events")
        if event is not None:
            moved = event[1] - dt.timedelta(minutes=self._chance.choice((0, 0, 7)))
            self._write_event(feed, (event[0], moved, event[2]))

    def _delete(self, feed: str) -> None:
        event = self._choose(feed, "events")
        if event is not None:
            self._write(feed, "events", self._key_event(feed, event), None)

    def _follow(self, feed: str) -> None:
        who, whom = self._chance.sample(PEOPLE, 2)
        self._write(feed, "follows", (who, whom), (who, whom))

    def _unfollow(self, feed: str) -> None:
        pair = self._choose(feed, "follows")
        if pair is not None:
            self._write(feed, "follows", (pair[0], pair[1]), None)

    def _flip(self, feed: str) -> None:
        """Some pairs, whether they follow or not."""
        pairs = [tuple(self._chance.sample(PEOPLE, 2)) for _ in range(5)]
        pairs += [pair for pair in (self._choose(feed, "follows") for _ in range(20)) if pair is not None]
        ahead = self._chance.random() < 0.75
        self._put(f"{feed}/decisions", *((pairs, []) if ahead else ([], pairs)))

    def _choose(self, feed: str, what: str) -> tuple[Any, ...] | None:
        there = self._there[f"{feed}/{what}"]
        return self._chance.choice(list(there.values())) if there else None

    # How it is written

    def _write_event(self, feed: str, event: tuple[str, dt.datetime, str]) -> None:
        said = {"text": f"{self._chance.random()}", "likes": self._chance.randint(0, 99)}
        self._write(feed, "events", self._key_event(feed, event), (*event, json.dumps(said)))

    @staticmethod
    def _key_event(feed: str, event: tuple[Any, ...]) -> Key:
        return (event[2],) if feed == "wall" else (event[0], event[2])

    def _write(self, feed: str, what: str, key: Key, row: tuple[Any, ...] | None) -> None:
        name = f"{feed}/{what}"
        before = self._there[name].get(key)
        if row is None and before is None:
            return
        if feed == "home":
            self._put(name, *(([row], []) if row is not None else ([], [before])))
        else:
            self._execute(*_say_in_sql(what, key, row))
        self.changes[name].append((key, row))
        if row is None:
            del self._there[name][key]
        else:
            self._there[name][key] = row

    def _put(self, name: str, upserts: list[Any], deletes: list[Any]) -> None:
        write_rows(self.world.folder, self.sources[name], upserts, deletes)

    def _execute(self, statement: str, values: tuple[Any, ...]) -> None:
        while True:
            try:
                if self._session is None or self._session.closed:
                    self._session = psycopg.connect(self.world.source_dsn, autocommit=True)
                self._session.execute(statement.encode(), values)
                return
            except psycopg.OperationalError:
                if self._session is not None:
                    self._session.close()
                time.sleep(AGAIN_AFTER_S)


def _say_in_sql(what: str, key: Key, row: tuple[Any, ...] | None) -> tuple[str, tuple[Any, ...]]:
    match what, row:
        case "events", None:
            return "DELETE FROM posts WHERE id = %s", (int(key[0]),)
        case "events", (author, ts, id_, said):
            body = json.loads(said)
            return (
                "INSERT INTO posts VALUES (%s, %s, %s, %s, %s) ON CONFLICT (id) DO UPDATE"
                " SET author = excluded.author, ts = excluded.ts, text = excluded.text, likes = excluded.likes",
                (int(id_), author, ts, body["text"], body["likes"]),
            )
        case _, None:
            return "DELETE FROM follows WHERE who = %s AND whom = %s", key
        case _:
            return "INSERT INTO follows VALUES (%s, %s) ON CONFLICT DO NOTHING", key


@dataclass(frozen=True, slots=True)
class SeenEntry:
    producer: str
    time: int
    id: str
    body: Any = field(hash=False)


@dataclass(frozen=True, slots=True)
class SeenPage:
    """`before` is the cursor that was sent; `hidden` are producers that the consumer did not want to see."""

    feed: str
    consumer: str
    as_of: int
    entries: tuple[SeenEntry, ...]
    hidden: frozenset[str]
    before: str | None
    stored: int
    earlier: tuple[SeenEntry, ...] = ()
    """On the pages before, if this is one that follows."""
    is_cut: bool = False
    """Whether it ended before older events because these could not be read."""


@dataclass
class Reading(Beside):
    """Reads pages of some consumers, one after the other, and keeps them."""

    world: FeedWorld
    consumers: tuple[str, ...]
    seed: int
    pause_s: float
    pages: list[SeenPage] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    """Answers that are neither a page nor a store that is away."""
    _hidden: set[tuple[str, str, str, str]] = field(default_factory=set)
    _connection: HTTPConnection | None = None
    _token: str = ""

    def __post_init__(self) -> None:
        super().__init__("reader")
        self._chance = random.Random(self.seed)

    def run(self) -> None:
        try:
            while not self.stopping.wait(self.pause_s):
                feed, consumer = self._chance.choice(FEEDS), self._chance.choice(self.consumers)
                if self._chance.random() < 0.03:
                    self._hide_somebody(feed, consumer)
                self.read(feed, consumer, self._chance.choice((1, 1, 1, 2, 3, 6)))
        except Exception as error:  # whoever waits for this thread tells it
            self.wrong.append(f"a reader ended: {error!r}")

    def read(self, feed: str, consumer: str, pages: int) -> None:
        """A page and some that follow it."""
        before: str | None = None
        earlier: tuple[SeenEntry, ...] = ()
        for _ in range(pages):
            began = time.perf_counter()
            answer = self._ask("GET", f"/feeds/{feed}/{quote(consumer, safe='')}", before)
            if answer is None:
                return
            self.seconds.append(time.perf_counter() - began)
            entries = tuple(
                SeenEntry(one["producer"], _read_time(one["time"]), one["id"], one["body"]) for one in answer["entries"]
            )
            hidden = frozenset(whom for of, who, whom, _ in self._hidden if (of, who) == (feed, consumer))
            as_of = _read_time(answer["as_of"])
            is_cut = "cut_short" in answer
            seen = SeenPage(feed, consumer, as_of, entries, hidden, before, answer["stored"], earlier, is_cut)
            self.pages.append(seen)
            before, earlier = answer["next"], (*earlier, *entries)
            if before is None:
                return

    def _hide_somebody(self, feed: str, consumer: str) -> None:
        """Mutes or blocks one of its own consumers, or takes that back; tries until it is done."""
        mine = [(whom, kind) for of, who, whom, kind in sorted(self._hidden) if (of, who) == (feed, consumer)]
        asked = [one for one in mine if one[1] != "blocked"]
        undo = bool(asked) and self._chance.random() < 0.7
        whom, what = self._chance.choice(asked) if undo else self._choose_hidden(consumer)
        rows = {(feed, consumer, whom, what)} | ({(feed, whom, consumer, "blocked")} if what == "block" else set())
        path = f"/feeds/{feed}/{what}s/{quote(consumer, safe='')}/{quote(whom, safe='')}"
        until = time.monotonic() + HIDE_WITHIN_S
        while self._ask("DELETE" if undo else "PUT", path) is None:
            if time.monotonic() > until:
                raise TimeoutError(f"{path} was not done")
        self._hidden = self._hidden - rows if undo else self._hidden | rows
        self.counts["unhidden" if undo else what + "s"] += 1

    def _choose_hidden(self, consumer: str) -> tuple[str, str]:
        others = [one for one in self.consumers if one != consumer]
        return self._chance.choice(others), self._chance.choice(("mute", "block"))

    def _ask(self, method: str, path: str, before: str | None = None) -> Any | None:
        """None while nobody answers, or the store is away."""
        asked = path if before is None else f"{path}?{urlencode({'before': before})}"
        try:
            connection = self._connect()
            if connection is None:
                self.counts["no service"] += 1
                time.sleep(AGAIN_AFTER_S)
                return None
            connection.request(method, asked, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, HTTPException):
            self._forget()
            self.counts["no service"] += 1
            time.sleep(AGAIN_AFTER_S)
            return None
        if answer.status == 200:
            return json.loads(said)
        self.counts[f"status {answer.status}"] += 1
        is_starting = answer.status == 404 and b"can be read" in said
        if answer.status != 503 and not is_starting:
            self.wrong.append(f"{method} {asked[:200]}: {answer.status} {said[:300].decode(errors='replace')}")
        if answer.status in (401, 404):
            self._forget()
        time.sleep(AGAIN_AFTER_S)
        return None

    def _connect(self) -> HTTPConnection | None:
        if self._connection is None:
            door = self.world.door
            if door is None:
                return None
            port, self._token = door
            self._connection = HTTPConnection("127.0.0.1", port, timeout=ASK_WITHIN_S)
        return self._connection

    def close(self) -> None:
        self._forget()

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _read_time(text: str) -> int:
    moment = dt.datetime.fromisoformat(text.removesuffix("Z"))
    return (moment.replace(tzinfo=None) - EPOCH) // dt.timedelta(microseconds=1)
