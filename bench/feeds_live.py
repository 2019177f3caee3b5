"""A feed of `headrace up` under load over HTTP, as people and apps use it, and what all its processes cost.

The load comes from this process, whose processor seconds are not counted; those of the service, its engine, its feed
servers and its store are. Reads and posts are due at times that do not depend on answers, so that a slow answer delays
nobody else, and a page's time counts from when it was due.

Every page is looked at: it must be in order, without duplicates, and of those who are followed. When all is quiet, some
pages are compared with what must be on them, and no event may be missing.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from bench.cpu import Process, cpu_since, processes
from bench.feeds_said import LIMIT, Said, name_pairs
from bench.feeds_ways import SAID, Say
from bench.feeds_world import FeedWorld, declare_store, start_store
from bench.workloads.follows import draw
from headrace.connect.feed_targets import find_target
from headrace.connect.free_port import free_port
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.plan.feeds.instance import Feeds
from headrace.run.feeds.batch import FeedSizes

STORE = "feeds"
PROJECT = """\
project: live
sites: {{us: {{}}}}
feeds:
  home: {{events: api, follows: api, limit: {limit}, freshness: {freshness_s:g} s, store: {store}{more}}}
"""
FRESHNESS_S = 5.0
MARKER = "marker"
"""Follows itself: when its posts can be read tells how long events take."""
MARK_EVERY_S, LOOK_EVERY_S, POST_EVERY_S = 1.0, 0.1, 0.1
STARTED_WITHIN_S, LOADED_WITHIN_S, SETTLED_WITHIN_S = 120.0, 900.0, 300.0
ASK_WITHIN_S = 30.0
READERS = 12
SESSIONS = "300"
"""Of the store at most. How many are open is told: a service that opens ever more is to be seen, not to end here."""
COMPARED = 300
FIRST_EVENTS = 3


@dataclass(frozen=True, slots=True)
class Rates:
    """Events and reads per second of everybody together, and who posts and reads how often."""

    events_s: float
    reads_s: float
    event_rate: np.ndarray[Any, Any]
    query_rate: np.ndarray[Any, Any]


@dataclass
class Segment:
    """What was seen while a load ran for a while. `reads_s` are seconds of each page, `lags_s` what pages say that they
    are behind, `arrived_s` how long marked events took until they could be read.
    """

    seconds: float
    reads_s: list[float] = field(default_factory=list)
    lags_s: list[float] = field(default_factory=list)
    arrived_s: list[float] = field(default_factory=list)
    posted: int = 0
    pulled: int = 0
    entries: int = 0
    cpu_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    def latency_ms(self, share: float) -> float:
        return 1000 * quantile(self.reads_s, share)

    @property
    def kept(self) -> float:
        """The share of pages that were no further behind than promised."""
        return sum(lag <= FRESHNESS_S for lag in self.lags_s) / max(1, len(self.lags_s))

    @property
    def arrived_in_time(self) -> float:
        return sum(one <= FRESHNESS_S for one in self.arrived_s) / max(1, len(self.arrived_s))

    @property
    def pulled_share(self) -> float:
        return self.pulled / max(1, self.entries)

    @property
    def cores(self) -> float:
        return self.cpu_s / self.seconds


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def join_segments(segments: Sequence[Segment]) -> Segment:
    """Several as one."""
    found = Segment(sum(one.seconds for one in segments))
    for one in segments:
        found.reads_s += one.reads_s
        found.lags_s += one.lags_s
        found.arrived_s += one.arrived_s
        found.wrong += one.wrong
        found.posted += one.posted
        found.pulled += one.pulled
        found.entries += one.entries
        found.cpu_s += one.cpu_s
    return found


class Asking:
    """One connection with the service."""

    def __init__(self, world: LiveWorld) -> None:
        service = world.reachable
        assert service is not None, "the service does not run"
        self._headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/json"}
        self._connection = HTTPConnection("127.0.0.1", service.port, timeout=ASK_WITHIN_S)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, or its text if it is an error; raises `OSError` and `HTTPException` if there is none."""
        said = None if body is None else json.dumps(body)
        try:
            self._connection.request(method, path, said, self._headers)
            answer = self._connection.getresponse()
            read = answer.read()
        except (OSError, HTTPException):
            self._connection.close()
            raise
        if answer.status >= 300:
            raise HTTPException(f"{method} {path}: {answer.status} {read[:200].decode(errors='replace')}")
        return json.loads(read)

    def read(self, consumer: str) -> Any:
        return self.ask("GET", f"/feeds/home/{consumer}")

    def close(self) -> None:
        self._connection.close()


@dataclass
class LiveWorld(FeedWorld):
    """A project with one feed, `home`, and what people have posted to it."""

    said: Said = field(default_factory=Said)
    posted: int = 0
    marked: int = 0

    @property
    def tops(self) -> tuple[int, ...]:
        """Processes that serve the feed, with everything below them."""
        assert self.up is not None
        store = self.find("store" if self.valkey is not None else f"database {STORE}")
        return self.up.pid, *store

    def measure(self) -> dict[int, Process]:
        return processes(*self.tops)

    def cpu_since(self, before: dict[int, Process]) -> float:
        return cpu_since(before, *self.tops)

    def sizes(self) -> FeedSizes:
        kind, address = ("postgres", self.servers[STORE].dsn()) if self.valkey is None else ("redis", self.valkey.url)
        with closing(find_target(kind, address, "home", "live", "").open_store(0)) as store:
            return store.sizes()

    def count_ahead(self, producers: Sequence[str]) -> int:
        """Pairs of some producers that are stored ahead; 0 where the store is not a PostgreSQL."""
        asked = "SELECT count(*) FROM headrace_feeds.home_pairs WHERE ahead AND producer = ANY (%s)"
        return self._count(asked, [list(producers)])

    def count_sessions(self) -> int:
        """Sessions that the service has with its store; 0 where that is not a PostgreSQL."""
        asked = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = %s AND pid <> pg_backend_pid()"
        return self._count(asked, ["client backend"])

    def _count(self, asked: LiteralString, given: list[Any]) -> int:
        if self.valkey is not None:
            return 0
        with psycopg.connect(self.servers[STORE].dsn()) as session:
            found = session.execute(asked, given).fetchone()
        return 0 if found is None else int(found[0])

    def begin(self) -> float:
        """Starts the service; the seconds until it can be asked."""
        began = time.monotonic()
        self.start()
        self._await(
            lambda: self.reachable is not None and self.folder.running() is not None, STARTED_WITHIN_S, "the service"
        )
        return time.monotonic() - began

    def load(self, feeds: Feeds) -> float:
        """Everybody follows, and everybody has posted; the seconds until that can be read."""
        pairs = [*name_pairs(feeds), (MARKER, MARKER)]
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        names = [f"p{number}" for number in range(len(feeds.event_rate))] * FIRST_EVENTS
        rows = [(name, now, self._next_id(), SAID) for name in (*names, MARKER)]
        self.said.follow(pairs)
        self.said.post(rows)
        follows, events = self.root / "follows.parquet", self.root / "events.parquet"
        pq.write_table(pa.table(dict(zip(("consumer", "producer"), zip(*pairs, strict=True), strict=True))), follows)
        columns = dict(zip(("producer", "time", "id", "body"), zip(*rows, strict=True), strict=True))
        pq.write_table(pa.table(columns), events)
        began = time.monotonic()
        done = self.command(
            "feeds", "import", "home", str(self.project), "--follows", str(follows), "--events", str(events)
        )
        if done.returncode:
            raise RuntimeError(f"nothing could be imported: {done.stderr}")
        self.settle(LOADED_WITHIN_S)
        return time.monotonic() - began

    def settle(self, within_s: float = SETTLED_WITHIN_S) -> None:
        """Returns when everything that was posted and followed until now can be read."""
        with closing(Asking(self)) as asking:
            self.post(asking, [MARKER])
            wanted = self.said.expect(MARKER)[0][1]
            self._await(lambda: _shows(asking, wanted), within_s, "events")
            reached = asking.read(MARKER)["as_of"]
            some = list(self.said.follows)[:: max(1, len(self.said.follows) // 64)]
            self._await(lambda: all(asking.read(one)["as_of"] >= reached for one in some), within_s, "parts")

    def follow(self, pairs: Sequence[tuple[str, str]]) -> None:
        """More follows, in bulk."""
        self.said.follow(pairs)
        file = self.root / "more.parquet"
        pq.write_table(pa.table(dict(zip(("consumer", "producer"), zip(*pairs, strict=True), strict=True))), file)
        done = self.command("feeds", "import", "home", str(self.project), "--follows", str(file))
        if done.returncode:
            raise RuntimeError(f"nobody could follow: {done.stderr}")

    def post(self, asking: Asking, producers: Sequence[str]) -> None:
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        rows = [(producer, now, self._next_id()) for producer in producers]
        said = [
            {"producer": producer, "time": time_.isoformat(), "id": id_, "body": {"text": "a few words"}}
            for producer, time_, id_ in rows
        ]
        asking.ask("POST", "/feeds/home/events", said)
        self.said.post(rows)

    def run(self, rates: Rates, seconds: float, seed: int, posts: Sequence[tuple[float, str]] | None = None) -> Segment:
        """Reads and posts for a while. `posts` are seconds from the start on and producers, in place of drawn ones."""
        return _Run(self, rates, seconds, seed, posts).run()

    def compare(self, consumers: Sequence[str]) -> list[str]:
        """What is wrong with pages after all has settled."""
        self.settle()
        with closing(Asking(self)) as asking:
            found = [one for one in consumers if not self.said.is_right(one, asking.read(one))]
        return [f"the page of {one} is not what it must be" for one in found]

    def _next_id(self) -> str:
        self.posted += 1
        return f"{self.posted:012d}"

    @staticmethod
    def _await(is_done: Any, within_s: float, what: str) -> None:
        until = time.monotonic() + within_s
        while not is_done():
            if time.monotonic() > until:
                raise TimeoutError(f"{what} did not arrive within {within_s:g} s")
            time.sleep(LOOK_EVERY_S)


def _shows(asking: Asking, id_: str) -> bool:
    try:
        return any(entry["id"] == id_ for entry in asking.read(MARKER)["entries"])
    except (OSError, HTTPException):  # while it is filled for the first time
        return False


class _Run:
    """One segment: threads that read, one that posts, and one that marks events and looks for them."""

    def __init__(
        self, world: LiveWorld, rates: Rates, seconds: float, seed: int, posts: Sequence[tuple[float, str]] | None
    ) -> None:
        self.world, self.seconds = world, seconds
        self.found = Segment(seconds)
        rng = np.random.default_rng(seed)
        self._turn, self._post_turn = threading.Lock(), threading.Lock()
        self._reads = _draw_due(rng, rates.query_rate, rates.reads_s, seconds, "c")
        drawn = _draw_due(rng, rates.event_rate, rates.events_s, seconds, "p")
        self._posts = drawn if posts is None else iter(posts)

    def run(self) -> Segment:
        before, self._began = self.world.measure(), time.monotonic()
        threads = [threading.Thread(target=self._guard, args=(self._read_on,)) for _ in range(READERS)]
        threads += [threading.Thread(target=self._guard, args=(one,)) for one in (self._post_on, self._mark_on)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.found.seconds = time.monotonic() - self._began
        self.found.cpu_s = self.world.cpu_since(before)
        return self.found

    def _guard(self, run: Any) -> None:
        try:
            with closing(Asking(self.world)) as asking:
                run(asking)
        except Exception as error:  # it is told with the rest of what is wrong
            self.found.wrong.append(f"somebody had to end: {error!r}")

    def _read_on(self, asking: Asking) -> None:
        while True:
            with self._turn:
                due, consumer = next(self._reads, (self.seconds, ""))
            if not consumer:
                return
            self._wait(due)
            try:
                page = asking.read(consumer)
            except (OSError, HTTPException) as error:
                self.found.wrong.append(f"no page: {error!r}")
                continue
            self._note(consumer, page, time.monotonic() - self._began - due)

    def _note(self, consumer: str, page: Any, seconds: float) -> None:
        found = self.found
        found.reads_s.append(seconds)
        found.lags_s.append(page["lag_s"])
        found.pulled += page["pulled"]
        found.entries += len(page["entries"])
        if not self.world.said.may_be_right(consumer, page):
            found.wrong.append(f"the page of {consumer} cannot be right")

    def _post_on(self, asking: Asking) -> None:
        waiting: list[str] = []
        tick = POST_EVERY_S
        for due, producer in self._posts:
            while due > tick:
                self._post(asking, waiting, tick)
                waiting, tick = [], tick + POST_EVERY_S
            waiting.append(producer)
        self._post(asking, waiting, min(tick, self.seconds))

    def _post(self, asking: Asking, producers: Sequence[str], due: float) -> None:
        self._wait(due)
        if producers:
            with self._post_turn:
                self.world.post(asking, producers)
            self.found.posted += len(producers)

    def _mark_on(self, asking: Asking) -> None:
        """Marks an event every second, and looks until it can be read; one that cannot be when all ends is late."""
        while self._left_s > MARK_EVERY_S:
            with self._post_turn:
                self.world.post(asking, [MARKER])
                wanted = self.world.said.expect(MARKER)[0][1]
            began = time.monotonic()
            while not (shown := _shows(asking, wanted)) and self._left_s > 0:
                time.sleep(LOOK_EVERY_S)
            took_s = time.monotonic() - began
            if shown or took_s > FRESHNESS_S:
                self.found.arrived_s.append(took_s)
            time.sleep(max(0.0, min(MARK_EVERY_S, self._left_s)))

    @property
    def _left_s(self) -> float:
        return self._began + self.seconds - time.monotonic()

    def _wait(self, due: float) -> None:
        time.sleep(max(0.0, self._began + due - time.monotonic()))


def _draw_due(
    rng: np.random.Generator, weights: np.ndarray[Any, Any], per_s: float, seconds: float, letter: str
) -> Iterator[tuple[float, str]]:
    """Times from the start on, and who."""
    count = int(rng.poisson(per_s * seconds))
    times = np.sort(rng.random(count) * seconds)
    return zip(times.tolist(), (f"{letter}{one}" for one in draw(rng, weights, count).tolist()), strict=True)


@contextmanager
def live_world(engine: str, store: str, more: str = "") -> Iterator[LiveWorld]:
    """A project whose feed does not run yet; nothing of it is left afterwards. `more` are fields of the feed."""
    root = Path(tempfile.mkdtemp(prefix="live-"))
    port = free_port()
    server = EmbeddedPostgres(root / STORE, {"max_connections": SESSIONS}, find_port=lambda: port)
    made = LiveWorld(root, {STORE: server} if store == "postgres" else {}, engine)
    made.valkey = start_store(root, store)
    try:
        if made.valkey is None:
            server.start()
        made.project.mkdir()
        declared = f'{{postgres: {{dsn: "${{{STORE.upper()}_DSN}}"}}}}'
        declared = declared if made.valkey is None else declare_store(made.valkey)
        text = PROJECT.format(limit=LIMIT, freshness_s=FRESHNESS_S, store=declared, more=more)
        (made.project / "headrace.yml").write_text(text)
        yield made
    finally:
        made.stop()
        if made.valkey is not None:
            made.valkey.stop()
        server.stop()
        for folder in (server.folder, root):
            shutil.rmtree(folder, ignore_errors=True)


def start_loaded(world: LiveWorld, feeds: Feeds, say: Say) -> tuple[float, FeedSizes]:
    """Starts the service and loads everybody; the seconds that took, and how large it became."""
    started_s = world.begin()
    loaded_s = world.load(feeds)
    sizes = world.sizes()
    say(
        f"the service started in {started_s:.1f} s; {sizes.pairs:,} pairs and {sizes.events:,} events could be read"
        f" {loaded_s:.1f} s after their import began; {(sizes.bytes or 0) / 1e6:,.0f} MB in the store"
    )
    return loaded_s, sizes
