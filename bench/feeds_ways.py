"""One feed of a running service, what is stored ahead in it, and what windows of posts and reads cost.

For comparing ways to store ahead in processor seconds: ways are written to the relation of the feed's decisions, and
nobody else decides, because the service runs in this process without a host. Readers call it without HTTP, which would
cost all ways the same, so the seconds are those of the service, its engine and its store; drawing who posts and who
reads is done before, and not counted.

Each way has a *crowd* of its own: all people of the workload once more, under other names, who follow, post and read
like those of the others, in the same feed and the same tables. So nothing has to flip between windows, tables and
caches are the same for all ways, and ways take turns within seconds: in a window, each way posts the same events, and
then they read the same pages, some pages at a time. Whatever else the machine does meets all of them.
Some pages of every window are compared with what must be on them.
"""

from __future__ import annotations

import datetime as dt
import math
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psycopg

from bench.cpu import Clocks, cpu_since, processes
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
MARKS = ("", *"abcdefghijklmnopqrstuvwxyz")
"""What the names of a crowd end with."""
PACING = 50
"""How often such pages are read to find out what one takes."""
AT_ONCE = 20
"""Pages that are read one after the other before somebody else's turn: of each way, and of people who follow nobody,
which tell how fast the machine is just now. Where a thousand pages of a kind follow each other, those that look at more
get cheaper than they are anywhere else, because all that they look at stays in the nearest cache. A trial reads as many
at once (`run/feeds/trial.py`).
"""
FIRST_EVENTS = 5 * LIMIT
"""Of every producer, before anything is measured: the store keeps no more, so that pages cost the same from then on."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
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
    """`cpu_s` is without what is spent while nothing happens, `posted_s` the part of it for posting. `pace` is how many
    times as long as at first the machine took meanwhile for the same pages. `wrong` pages differ from what they must
    show.
    """

    at: str
    way: str
    work: FeedWork
    cpu_s: float
    reads_s: tuple[float, ...] = ()
    wrong: int = 0
    pace: float = 1.0
    posted_s: float = 0.0

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
class Crowd:
    """Everybody once, under names of their own; what is stored ahead for them, and how many entries that is."""

    mark: str
    ahead: BoolArray
    entries: int = 0

    def name_consumers(self, numbers: np.ndarray[Any, Any]) -> list[str]:
        return [f"c{one}{self.mark}" for one in numbers.tolist()]

    def name_producers(self, numbers: np.ndarray[Any, Any]) -> list[str]:
        return [f"p{one}{self.mark}" for one in numbers.tolist()]


@dataclass
class WaysWorld:
    """A service that keeps one feed, and its crowds. The first is there from the beginning."""

    service: Service
    folder: Folder
    feeds: Feeds
    said: Said = field(default_factory=Said)
    base: Base = Base()
    posted: int = 0
    upkeep_s: float = 0.0
    """Processor seconds of what is done between windows for all ways together."""
    merged_s: float = 0.0
    """Those of the upkeep of the engine's logs."""

    def __post_init__(self) -> None:
        running = self.service.running
        assert running is not None
        self.catalogue = running.plan.catalogue
        self.sources = self.catalogue.sources
        self.pages = FeedPages(self.service.feeds, self.folder.root, clock_now)
        self.pairs = name_pairs(self.feeds)
        self.crowds: list[Crowd] = []
        self.service.feeds.purge_every_s = math.inf  # it is done between windows

    def begin(self) -> None:
        self._follow([(MARKER, MARKER)])
        self.gather(1)

    def gather(self, crowds: int) -> None:
        """So many crowds, in each of which everybody follows and has posted: the newest events one after the other, as
        people do. What a producer posts at once is found side by side in the store, which makes pulling it cheaper.
        """
        first = len(self.crowds)
        for number in range(first, crowds):
            self.crowds.append(Crowd(MARKS[number], np.zeros(len(self.feeds), np.bool_)))
            self._follow(self._name_pairs(self.crowds[-1]))
        everybody = np.arange(len(self.feeds.event_rate))
        for some in (FIRST_EVENTS - LIMIT, *[1] * LIMIT):
            self.post([one for crowd in self.crowds[first:] for one in crowd.name_producers(np.tile(everybody, some))])

    def _follow(self, pairs: Sequence[tuple[str, str]]) -> None:
        self.said.follow(pairs)
        write_rows(self.folder, self.sources["home/follows"], pairs)

    def _name_pairs(self, crowd: Crowd) -> list[tuple[str, str]]:
        return [(consumer + crowd.mark, producer + crowd.mark) for consumer, producer in self.pairs]

    def store_ahead(self, *wanted: BoolArray) -> None:
        """Changes what is stored ahead for so many crowds, and returns when it is so."""
        self.gather(len(wanted))
        flipped = [self._flip(crowd, ahead) for crowd, ahead in zip(self.crowds, wanted, strict=False)]
        if any(flipped):
            everybody = np.arange(len(self.feeds.event_rate))
            for _ in range(MERGED_AFTER):  # the engine merges what has flipped with what comes after it
                self.post([one for crowd in self.crowds for one in crowd.name_producers(everybody)])
                self.service.housekeeping.finish()
        self.post([])
        self.tidy()
        self.upkeep_s = self.merged_s = 0.0

    def _flip(self, crowd: Crowd, wanted: BoolArray) -> bool:
        """Returns when nothing is left to flip; whether something was."""
        start, stop = np.flatnonzero(wanted & ~crowd.ahead), np.flatnonzero(crowd.ahead & ~wanted)
        if not len(start) and not len(stop):
            return False
        pairs, before = self._name_pairs(crowd), self.sizes().entries
        write_rows(self.folder, self.sources["home/decisions"], [pairs[at] for at in start], [pairs[at] for at in stop])
        crowd.ahead = wanted
        stored = sum(int(one.ahead.sum()) for one in self.crowds)
        self._await(lambda: self.sizes().stored_ahead == stored, "decisions")
        crowd.entries += self.sizes().entries - before
        return True

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
                self.upkeep_s += self.time(lambda: session.execute("VACUUM (ANALYZE)"))
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

    def run_windows(self, load: Load, ways: Sequence[tuple[str, Crowd]], reads: int, seed: int) -> list[Window]:
        """Posts and reads, the same for each way. Ways take turns, in the order that is given."""
        rng = np.random.default_rng((seed, round(1000 * load.ratio)))
        events = draw(rng, load.event_rate, max(1, round(reads / load.ratio)))
        readers = draw(rng, load.query_rate, reads)
        posted = [self.time(partial(self.post, crowd.name_producers(events))) for _, crowd in ways]
        self.merged_s += self.time(self.service.housekeeping.finish)
        read, took, nobody_s = [0.0] * len(ways), [list[float]() for _ in ways], list[float]()
        clocks = Clocks.find()
        for start in range(0, reads, AT_ONCE):
            for at, (_, crowd) in enumerate(ways):
                names = crowd.name_consumers(readers[start : start + AT_ONCE])
                read[at] += self.time(partial(self._read_into, took[at], names), clocks)
            nobody_s.append(self._time_nobody(clocks))
        pace = statistics.fmean(nobody_s) / AT_ONCE / self.base.read
        return [
            Window(
                load.at, way, self.count(crowd.ahead, events, readers), posted[at] + read[at], tuple(took[at]),
                self.compare(crowd.name_consumers(readers[:COMPARED])), pace, posted[at],
            )
            for at, (way, crowd) in enumerate(ways)
        ]  # fmt: skip

    def purge(self) -> None:
        """Forgets events that ended, and looks how large the store is, as the service does every minute: with all that
        was posted at once, that takes as long as a part of a window, of whichever way it happens to meet.
        """
        with closing(self.find_kept()[1].open_store(self.service.lease.epoch)) as store:
            self.upkeep_s += self.time(lambda: (store.purge(), store.sizes()))

    def _read_into(self, took: list[float], consumers: Sequence[str]) -> None:
        took += self.read(consumers)

    def _time_nobody(self, clocks: Clocks) -> float:
        return self.time(partial(self.read, _name_nobody(AT_ONCE)), clocks)

    def time(self, run: Callable[[], object], clocks: Clocks | None = None) -> float:
        """Processor seconds of all processes, without those that would have been spent if nothing had happened. With
        `clocks`, of the processes that were there when these were found.
        """
        before = processes() if clocks is None else {}
        began, known = time.perf_counter(), 0.0 if clocks is None else clocks.read()
        run()
        spent = cpu_since(before) if clocks is None else clocks.read() - known
        return max(0.0, spent - self.base.idle * (time.perf_counter() - began))

    def compare(self, consumers: Sequence[str]) -> int:
        """How many pages are not what they must be."""
        return sum(not self.said.is_right(one, self.pages.read("home", one)) for one in consumers)

    def count(self, ahead: BoolArray, events: np.ndarray[Any, Any], readers: np.ndarray[Any, Any]) -> FeedWork:
        """What there is to be done for events and reads, with what is stored ahead."""
        stored = np.bincount(self.feeds.producer[ahead], minlength=len(self.feeds.event_rate))
        pulled = np.bincount(self.feeds.consumer[~ahead], minlength=len(self.feeds.query_rate))
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
        read = self._time_page_of_nobody()
        event = statistics.median(self.time(lambda: self.post(nobody)) for _ in range(BASE_RUNS))
        self.base = Base(read, max(0.0, event - batch) / count, batch, idle)

    def measure_pace(self) -> float:
        """How many times as long pages of people who follow nobody take now as when the base was measured.

        The same work takes up to half as many processor seconds again while others use the machine that this one is a
        part of. Nothing here can see them, so some work that never changes is timed beside what is measured.
        """
        return self._time_page_of_nobody() / self.base.read

    def _time_page_of_nobody(self) -> float:
        """Between pages of people who follow some, as in a window."""
        clocks, found, some = Clocks.find(), list[float](), np.arange(PACING * AT_ONCE) % len(self.feeds.query_rate)
        for start in range(0, len(some), AT_ONCE):
            self.read(self.crowds[0].name_consumers(some[start : start + AT_ONCE]))
            found.append(self._time_nobody(clocks))
        return statistics.fmean(found) / AT_ONCE

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
        world = WaysWorld(service, folder, feeds)
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
    upkeep_s: float = 0.0
    """Processor seconds of a run that are no way's: vacuuming, and forgetting events that ended."""
    merged_entry_s: float = 0.0
    """What the upkeep of logs took for an entry; windows have their shares of it."""

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
            f"vacuuming and forgetting events that ended took {self.upkeep_s:.2f} s a run for all ways together, of"
            f" {self._run_s:.1f} s, and is not counted above",
            f"upkeep of the engine's logs took {1e6 * self.merged_entry_s:.1f} us for an entry, and counts by entries",
            f"{compared} pages were compared with what must be on them, {self._wrong} differ",
        ]

    def share_upkeep(self, merged_s: float) -> Measured:
        """Adds the upkeep of logs to windows by how many entries each has brought. It is due now and then, and takes as
        long as a window, of whichever way it happens to meet; entries are nearly all that is merged.
        """
        entry_s = merged_s / max(1.0, sum(one.work.entries for one in self.windows))
        windows = [replace(one, cpu_s=one.cpu_s + entry_s * one.work.entries) for one in self.windows]
        return replace(self, windows=windows, merged_entry_s=entry_s)

    @property
    def _run_s(self) -> float:
        runs = max(len(self.find(one.at, one.way)) for one in self.windows)
        return sum(one.cpu_s for one in self.windows) / runs

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
    """All ways beside each other, so many times, each time in another order. The first windows are run and not counted,
    since everything is read for the first time there.
    """
    world.store_ahead(*(turn.ahead for turn in turns))
    measured = Measured()
    loads = list(dict.fromkeys(load for turn in turns for load in turn.loads))
    for run in range(-1, runs):
        world.tidy()
        for load in loads:
            ways = [(turn.way, crowd) for turn, crowd in zip(turns, world.crowds, strict=False) if load in turn.loads]
            first = max(run, 0) % len(ways)
            windows = world.run_windows(load, [*ways[first:], *ways[:first]], reads, WARMING + 1 + run)
            measured.windows += windows if run >= 0 else []
            world.purge()
        say(f"run {run + 1} of {runs} is done" if run >= 0 else "warmed up")
        if run < 0:
            world.upkeep_s = world.merged_s = 0.0
    measured.upkeep_s = world.upkeep_s / runs
    return measured.share_upkeep(world.merged_s)


def extremes(feeds: Feeds) -> Mapping[str, BoolArray]:
    return {"push-all": np.ones(len(feeds), np.bool_), "pull-all": np.zeros(len(feeds), np.bool_)}


def at_rates(feeds: Feeds, load: Load) -> Feeds:
    """The same people at the rates of a load, with as many reads for each event as it says."""
    rated = replace(feeds, event_rate=Amounts(load.event_rate), query_rate=Amounts(load.query_rate))
    return with_ratio(rated, load.ratio)
