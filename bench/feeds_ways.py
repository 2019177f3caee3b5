"""One feed of a running service, what is stored ahead in it, and what windows of posts and reads cost.

For comparing ways to store ahead in processor seconds: ways are written to the relation of the feed's decisions, and
nobody else decides, because the service runs in this process without a host. Readers call it without HTTP, which would
cost all ways the same, so the seconds are those of the service, its engine and its store; drawing who posts and who
reads is done before, and not counted. Each window posts events and reads pages, both drawn by the rates of their
people, and all ways get the same. Ways take turns, so that whatever else the machine does meets all of them.
Some pages of every window are compared with what must be on them.
"""

from __future__ import annotations

import datetime as dt
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from bench.cpu import cpu_since, processes
from bench.feeds_said import LIMIT, Said, name_pairs
from bench.feeds_world import declare_store, start_store
from bench.workloads.follows import draw, with_ratio
from headrace.app.preparing import prepare
from headrace.coordinate.perform import apply_plan
from headrace.model.errors import ConnectError
from headrace.model.options import ApplyWishes
from headrace.observe.feed_prices import FeedPrices, FeedWork
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.instance import Feeds
from headrace.run.feeds.batch import FeedSizes
from headrace.run.feeds.page import SECOND
from headrace.run.ports import FeedTarget
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.feeds.find import KeptFeed
from headrace.site.feeds.pages import FeedPages
from headrace.site.folder import Folder
from headrace.site.service import Service, clock_now
from headrace.site.sources.written import write_rows

PROJECT = """\
project: ways
sites: {{us: {{}}}}
feeds:
  home: {{events: api, follows: api, limit: {limit}, keep: {keep}, freshness: 2 s, store: {store}}}
"""
MARKER = "marker"
"""Follows itself: what it posts tells when a batch has arrived."""
NOBODY = "nobody"
"""Consumers and producers whose names begin so have no pairs: what they do costs the base."""
SAID = '{"text": "a few words that somebody said"}'
ARRIVED_WITHIN_S, LOOK_EVERY_S = 300.0, 0.1
IDLE_S, BASE_RUNS = 3.0, 3
QUIET_S, QUIET_WITHIN_S = 0.1, 20.0
"""Processor seconds of a second in which nothing is left to be done, and how long that is waited for."""
MERGED_AFTER = 8
"""Batches after which what has flipped is merged: what is merged later is what came later."""
COMPARED = 20
"""Pages of a window that are compared."""
WARMING = 99
"""The seed of windows that are not counted."""
PACING = 500
"""Pages that tell how fast the machine is just now."""
FIRST_EVENTS = 5 * LIMIT
"""Of every producer, before anything is measured: the store keeps no more, so that pages cost the same from then on."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Load:
    """Who posts and who reads, by rates, and how many reads there are for each event. `at` says which load it is."""

    at: str
    event_rate: np.ndarray[Any, Any]
    query_rate: np.ndarray[Any, Any]
    ratio: float


@dataclass(frozen=True, slots=True)
class Base:
    """Processor seconds that are spent however entries are found: of a page of somebody who follows nobody, of an event
    that nobody follows, of bringing any events at all into the store once, and of a second in which nothing happens.
    """

    read: float = 0.0
    event: float = 0.0
    batch: float = 0.0
    idle: float = 0.0

    def of(self, work: FeedWork) -> float:
        """What it takes of a window."""
        return self.read * work.reads + self.event * work.events + self.batch


@dataclass(frozen=True, slots=True)
class Window:
    """`cpu_s` is without what is spent while nothing happens. `pace` is how many times as long as at first the machine
    took for the same pages just before and after. `wrong` pages differ from what they must show.
    """

    at: str
    way: str
    work: FeedWork
    cpu_s: float
    reads_s: tuple[float, ...] = ()
    wrong: int = 0
    pace: float = 1.0

    @property
    def even_s(self) -> float:
        """Processor seconds on a machine that is always as fast as when the base was measured."""
        return self.cpu_s / self.pace


@dataclass(frozen=True, slots=True)
class Turn:
    """A way, what it stores ahead, and the loads under which it is measured."""

    way: str
    ahead: BoolArray
    loads: tuple[Load, ...]


@dataclass
class WaysWorld:
    """A service that keeps one feed, and which pairs are stored ahead now."""

    service: Service
    folder: Folder
    feeds: Feeds
    ahead: BoolArray
    said: Said = field(default_factory=Said)
    base: Base = Base()
    posted: int = 0

    def __post_init__(self) -> None:
        running = self.service.running
        assert running is not None
        self.catalogue = running.plan.catalogue
        self.sources = self.catalogue.sources
        self.pages = FeedPages(self.service.feeds, self.folder.root, clock_now)
        self.pairs = name_pairs(self.feeds)

    def begin(self) -> None:
        """Everybody follows, and everybody has posted."""
        pairs = [*self.pairs, (MARKER, MARKER)]
        self.said.follow(pairs)
        write_rows(self.folder, self.sources["home/follows"], pairs)
        self.post([f"p{number}" for number in range(len(self.feeds.event_rate)) for _ in range(FIRST_EVENTS)])

    def store_ahead(self, wanted: BoolArray) -> None:
        """Changes what is stored ahead, and returns when it is so."""
        start, stop = np.flatnonzero(wanted & ~self.ahead), np.flatnonzero(self.ahead & ~wanted)
        if len(start) or len(stop):
            chosen = [self.pairs[at] for at in start], [self.pairs[at] for at in stop]
            write_rows(self.folder, self.sources["home/decisions"], *chosen)
            self.ahead = wanted
            self._await(lambda: self.sizes().stored_ahead == int(wanted.sum()), "decisions")
            for _ in range(MERGED_AFTER):  # the engine merges what has flipped with what comes after it
                self.post([f"p{number}" for number in range(len(self.feeds.event_rate))])
                self.service.housekeeping.finish()
        self.post([])
        self.tidy()

    def tidy(self) -> None:
        """Has the engine merge its logs, PostgreSQL forget deleted rows and know its sizes, and Valkey write its file
        anew, as all do by themselves now and then, and waits until nothing works any more. A feed flips few pairs at a
        time; here all flip at once, and what that leaves to be done must not be paid for by the windows that follow.
        """
        self.service.housekeeping.finish()
        target = self.find_kept()[1]
        if (url := getattr(target, "url", None)) is not None:
            self._rewrite_file(url)
        if (dsn := getattr(target, "dsn", None)) is not None:
            with psycopg.connect(dsn, autocommit=True) as session:
                session.execute("ALTER SYSTEM SET autovacuum = off")
                session.execute("SELECT pg_reload_conf()")
                session.execute("VACUUM (ANALYZE)")
        until = time.monotonic() + QUIET_WITHIN_S
        while self.time(lambda: time.sleep(1.0)) > QUIET_S and time.monotonic() < until:
            pass

    def _rewrite_file(self, url: str) -> None:
        """Has Valkey write its file anew now, and not by itself."""
        import redis  # which comes with an extra

        def is_rewriting() -> bool:
            told: Any = client.info("persistence")
            return bool(told["aof_rewrite_in_progress"] or told["aof_rewrite_scheduled"])

        with closing(redis.Redis.from_url(url, decode_responses=True)) as client:
            client.config_set("auto-aof-rewrite-percentage", 0)
            client.bgrewriteaof()
            self._await(lambda: not is_rewriting(), "the file of Valkey")

    def sizes(self) -> FeedSizes:
        with closing(self.find_kept()[1].open_store(self.service.lease.epoch)) as store:
            return store.sizes()

    def find_kept(self) -> tuple[KeptFeed, FeedTarget]:
        found = self.service.feeds.find("home")
        assert found is not None and found[1] is not None
        return found[0], found[1]

    def count_follows(self, load: Load) -> float:
        """Producers that a reader follows, on average over reads."""
        follows = np.bincount(self.feeds.consumer, minlength=len(load.query_rate))
        return float(follows @ load.query_rate / load.query_rate.sum())

    def post(self, producers: Sequence[str]) -> None:
        """Returns when the events are in the store, for everybody."""
        last = self.write_events([*producers, MARKER])
        self._await(lambda: self._has_arrived(last), "events")

    def write_events(self, producers: Sequence[str]) -> str:
        """Returns at once; the last event's id."""
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        rows = [
            (producer, now + dt.timedelta(microseconds=number), f"{self._next_id():012d}", SAID)
            for number, producer in enumerate(producers)  # nobody posts at the same moment as others
        ]
        self.said.post(rows)
        write_rows(self.folder, self.sources["home/events"], rows)
        return rows[-1][2]

    @property
    def lag_s(self) -> float:
        """How far the store is behind now."""
        reached, _ = self.service.feeds.progress()["home"]
        return float("inf") if reached is None else (clock_now() - reached) / SECOND

    def read(self, consumers: Sequence[str]) -> list[float]:
        """The seconds that each page took."""
        took = []
        for consumer in consumers:
            began = time.perf_counter()
            self.pages.read("home", consumer)
            took.append(time.perf_counter() - began)
        return took

    def run_window(self, load: Load, way: str, reads: int, seed: int) -> Window:
        """Posts and reads; the same for one load and seed."""
        rng = np.random.default_rng((seed, round(1000 * load.ratio)))
        events = draw(rng, load.event_rate, max(1, round(reads / load.ratio)))
        readers = draw(rng, load.query_rate, reads)
        reading = [f"c{one}" for one in readers.tolist()]
        reads_s: list[float] = []

        def post_and_read() -> None:
            self.post([f"p{one}" for one in events.tolist()])
            reads_s.extend(self.read(reading))
            self.service.housekeeping.finish()  # what a window leaves to be done is part of its cost

        before = self.measure_pace()
        cpu_s = self.time(post_and_read)
        pace = (before + self.measure_pace()) / 2
        wrong = self.compare(reading)
        return Window(load.at, way, self.count(events, readers), cpu_s, tuple(reads_s), wrong, pace)

    def time(self, run: Callable[[], object]) -> float:
        """Processor seconds of all processes, without those that would have been spent if nothing had happened."""
        before, began = processes(), time.perf_counter()
        run()
        return max(0.0, cpu_since(before) - self.base.idle * (time.perf_counter() - began))

    def compare(self, consumers: Sequence[str]) -> int:
        """How many of the first pages are not what they must be."""
        some = consumers[:COMPARED]
        return sum(not self.said.is_right(one, self.pages.read("home", one)) for one in some)

    def count(self, events: np.ndarray[Any, Any], readers: np.ndarray[Any, Any]) -> FeedWork:
        """What there is to be done for events and reads, with what is stored ahead now."""
        stored = np.bincount(self.feeds.producer[self.ahead], minlength=len(self.feeds.event_rate))
        pulled = np.bincount(self.feeds.consumer[~self.ahead], minlength=len(self.feeds.query_rate))
        follows = np.bincount(self.feeds.consumer, minlength=len(self.feeds.query_rate))
        pulls = pulled[readers]
        return FeedWork(
            entries=float(stored[events].sum()),
            pulls=float(pulls.sum()),
            batches=float((pulls > 0).sum()),
            reads=len(readers),
            events=len(events),
            found=float((follows[readers] - pulls).sum()),
            steps=1.0,
        )

    def measure_base(self, count: int) -> None:
        """Measures what so many reads and events cost that find nothing and that nobody sees."""
        nobody = _name_nobody(count)
        self.base = Base()
        idle = self.time(lambda: time.sleep(IDLE_S)) / IDLE_S
        self.base = Base(idle=idle)
        batch = statistics.median(self.time(lambda: self.post([])) for _ in range(BASE_RUNS))
        read = statistics.median(self.time(lambda: self.read(nobody)) for _ in range(BASE_RUNS))
        event = statistics.median(self.time(lambda: self.post(nobody)) for _ in range(BASE_RUNS))
        self.base = Base(read / count, max(0.0, event - batch) / count, batch, idle)

    def measure_pace(self) -> float:
        """How many times as long pages of people who follow nobody take now as when the base was measured.

        The same work takes up to half as many processor seconds again while others use the machine that this one is a
        part of. Nothing here can see them, so some work that never changes is timed beside what is measured.
        """
        nobody = _name_nobody(PACING)
        return self.time(lambda: self.read(nobody)) / PACING / self.base.read

    def _next_id(self) -> int:
        self.posted += 1
        return self.posted

    def _has_arrived(self, id_: str) -> bool:
        try:
            page = self.pages.read("home", MARKER, limit=1)
        except ConnectError:  # while it is filled for the first time
            return False
        reached, _ = self.service.feeds.progress()["home"]
        as_of = dt.datetime.fromisoformat(page["as_of"].removesuffix("Z")) - dt.datetime(1970, 1, 1)
        is_there = any(entry["id"] == id_ for entry in page["entries"])
        return is_there and reached is not None and reached >= as_of // dt.timedelta(microseconds=1)

    @staticmethod
    def _await(is_done: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + ARRIVED_WITHIN_S
        while not is_done():
            if time.monotonic() > until:
                raise TimeoutError(f"{what} did not arrive within {ARRIVED_WITHIN_S:g} s")
            time.sleep(LOOK_EVERY_S)


def _name_nobody(count: int) -> list[str]:
    return [f"{NOBODY}{number}" for number in range(count)]


@contextmanager
def ways_world(feeds: Feeds, store: str = "postgres") -> Iterator[WaysWorld]:
    """A feed that runs, with everybody following; nothing is stored ahead. Without a host, nobody but us decides."""
    root = Path(tempfile.mkdtemp(prefix="ways-"))
    valkey = start_store(root, store)
    folder = Folder(root)
    service = Service(folder, {}, HereRunner(perform), in_processes=False)
    try:
        (root / "headrace.yml").write_text(PROJECT.format(limit=LIMIT, keep=FIRST_EVENTS, store=declare_store(valkey)))
        service.open()
        loading = apply_plan(service, prepare(folder.project, {}, ApplyWishes()).plan)
        loading.done.wait()
        if loading.error is not None:
            raise RuntimeError(f"the feed could not be loaded: {loading.error}")
        WaysWorld._await(lambda: service.feeds.find("home") is not None, "the feed")
        world = WaysWorld(service, folder, feeds, np.zeros(len(feeds), np.bool_))
        try:
            world.begin()
            yield world
        finally:
            world.pages.close()
    finally:
        service.close()
        if valkey is not None:
            valkey.stop()
        shutil.rmtree(root, ignore_errors=True)


@dataclass
class Measured:
    """Windows of all ways under all loads."""

    windows: list[Window] = field(default_factory=list)

    def find(self, at: str, way: str) -> list[Window]:
        return [one for one in self.windows if (one.at, one.way) == (at, way)]

    def seconds(self, at: str, way: str) -> list[float]:
        return [one.even_s for one in self.find(at, way)]

    def median(self, at: str, way: str) -> float:
        return statistics.median(self.seconds(at, way))

    def without_base(self, at: str, way: str, base: Base) -> float:
        """What is left of the median window."""
        return self.median(at, way) - base.of(self.find(at, way)[0].work)

    def compare(self, at: str, way: str, others: Sequence[str]) -> tuple[str, list[float]]:
        """The better of other ways, and a way against it, run by run: what the machine did meanwhile met both."""
        better = min(others, key=lambda one: self.median(at, one))
        runs = zip(self.seconds(at, way), self.seconds(at, better), strict=True)
        return better, [ours / theirs for ours, theirs in runs]

    def latency_s(self, at: str, way: str, share: float) -> float:
        every = sorted(seconds for one in self.find(at, way) for seconds in one.reads_s)
        return every[min(len(every) - 1, int(share * len(every)))]

    def predict(self, at: str, way: str, prices: FeedPrices, base: Base) -> float:
        """Seconds that a window takes by prices, on average."""
        return base.batch + statistics.fmean(pay(prices, one.work) for one in self.find(at, way))

    def tell_windows(self) -> list[str]:
        """How even the machine was, and whether pages were right."""
        paces = sorted(one.pace for one in self.windows)
        compared = sum(min(COMPARED, len(one.reads_s)) for one in self.windows)
        return [
            f"seconds are divided by the pace of the machine: the same pages, read before and after each window, took"
            f" {paces[0]:.2f}..{paces[-1]:.2f} of what they took at first (median {statistics.median(paces):.2f})",
            f"{compared} pages were compared with what must be on them, {self._wrong} differ",
        ]

    @property
    def wrong(self) -> tuple[str, ...]:
        return (f"{self._wrong} pages differ from what must be on them",) if self._wrong else ()

    @property
    def _wrong(self) -> int:
        return sum(one.wrong for one in self.windows)


def pay(prices: FeedPrices, work: FeedWork) -> float:
    """Processor seconds of some work, by prices."""
    return (
        prices.entry * work.entries
        + prices.pull * work.pulls
        + prices.batch * work.batches
        + prices.read * work.reads
        + prices.event * work.events
    )


def measure_turns(world: WaysWorld, turns: Sequence[Turn], runs: int, reads: int, say: Say) -> Measured:
    """All ways in turn, so many times; the other way round every other time.

    The first window after a flip is run and not counted. Some ways are measured once after each flip and others several
    times, so otherwise caches that the flip has emptied would count more against some than against others.
    """
    measured = Measured()
    for run in range(runs):
        for turn in turns if run % 2 == 0 else turns[::-1]:
            world.store_ahead(turn.ahead)
            world.run_window(turn.loads[0], turn.way, reads, WARMING)
            measured.windows += [world.run_window(load, turn.way, reads, 100 + run) for load in turn.loads]
        say(f"run {run + 1} of {runs} is done")
    return measured


def extremes(feeds: Feeds) -> Mapping[str, BoolArray]:
    return {"push-all": np.ones(len(feeds), np.bool_), "pull-all": np.zeros(len(feeds), np.bool_)}


def at_rates(feeds: Feeds, load: Load) -> Feeds:
    """The same people at the rates of a load, with as many reads for each event as it says."""
    rated = replace(feeds, event_rate=Amounts(load.event_rate), query_rate=Amounts(load.query_rate))
    return with_ratio(rated, load.ratio)
