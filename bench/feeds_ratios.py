"""What storing everything ahead, nothing, or what is cheaper for each pair costs, as queries per event change.

Feeding Frenzy, section 5.2, figure 4, on a service and its store: the follows of the paper's Table 2 at a small size,
processor seconds of all processes. Each window posts events and reads pages, both drawn by the rates of their people;
all three ways get the same. Ways take turns, so that whatever else the machine does meets all of them. Readers call the
service in its own process, without HTTP, which would cost all ways the same.
"""

from __future__ import annotations

import datetime as dt
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from bench.cpu import cpu_since, processes
from bench.workloads.follows import draw, make_follows, with_ratio
from headrace.app.preparing import prepare
from headrace.coordinate.perform import apply_plan
from headrace.model.errors import ConnectError
from headrace.model.options import ApplyWishes
from headrace.observe.feed_prices import FeedPrices, FeedWork, fit_prices
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.per_pair import decide_pairs
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.site.feeds.pages import FeedPages
from headrace.site.folder import Folder
from headrace.site.service import Service, clock_now
from headrace.site.sources.written import write_rows

PROJECT = """\
project: ratios
sites: {us: {}}
feeds:
  home: {events: api, follows: api, limit: 10, freshness: 2 s}
"""
MARKER = "marker"
"""Follows itself: what it posts tells when a batch has arrived."""
ARRIVED_WITHIN_S, LOOK_EVERY_S = 120.0, 0.1
WAYS = ("push-all", "pull-all", "hybrid")


@dataclass(frozen=True, slots=True)
class Window:
    ratio: float
    way: str
    work: FeedWork
    cpu_s: float


@dataclass
class RatioWorld:
    """A service that keeps one feed, and which pairs are stored ahead now."""

    service: Service
    folder: Folder
    feeds: Feeds
    ahead: BoolArray
    posted: int = 0

    def __post_init__(self) -> None:
        running = self.service.running
        assert running is not None
        self.sources = running.plan.catalogue.sources
        self.pages = FeedPages(self.service.feeds, self.folder.root, clock_now)
        self.pairs = [
            (f"c{consumer}", f"p{producer}")
            for consumer, producer in zip(self.feeds.consumer.tolist(), self.feeds.producer.tolist(), strict=True)
        ]

    def begin(self) -> None:
        """Everybody follows, and everybody has posted."""
        write_rows(self.folder, self.sources["home/follows"], [*self.pairs, (MARKER, MARKER)])
        self.post([f"p{number}" for number in range(len(self.feeds.event_rate)) for _ in range(3)])

    def store_ahead(self, wanted: BoolArray) -> None:
        """Changes what is stored ahead, and returns when it is so."""
        start, stop = np.flatnonzero(wanted & ~self.ahead), np.flatnonzero(self.ahead & ~wanted)
        if len(start) or len(stop):
            chosen = [self.pairs[at] for at in start], [self.pairs[at] for at in stop]
            write_rows(self.folder, self.sources["home/decisions"], *chosen)
            self.ahead = wanted
            self._await_sizes(int(wanted.sum()))
        self.post([])

    def post(self, producers: Sequence[str]) -> None:
        """Returns when the events are in the store, for everybody."""
        now = dt.datetime.now(dt.UTC).replace(tzinfo=None)
        said = [(producer, self._next_id()) for producer in (*producers, MARKER)]
        rows = [(producer, now, f"{id_:012d}", '{"text": "a few words that somebody said"}') for producer, id_ in said]
        write_rows(self.folder, self.sources["home/events"], rows)
        self._await(lambda: self._has_arrived(rows[-1][2]), "events")

    def read(self, consumers: Sequence[int]) -> None:
        for consumer in consumers:
            self.pages.read("home", f"c{consumer}")

    def run_window(self, ratio: float, way: str, reads: int, seed: int) -> Window:
        """Posts and reads; the same for one ratio and seed."""
        rng = np.random.default_rng((seed, round(1000 * ratio)))
        events = draw(rng, self.feeds.event_rate.near, max(1, round(reads / ratio)))
        readers = draw(rng, self.feeds.query_rate.near, reads)
        before = processes()
        self.post([f"p{producer}" for producer in events.tolist()])
        self.read(readers.tolist())
        return Window(ratio, way, self._count(events, readers), cpu_since(before))

    def _count(self, events: np.ndarray[Any, Any], readers: np.ndarray[Any, Any]) -> FeedWork:
        stored = np.bincount(self.feeds.producer[self.ahead], minlength=len(self.feeds.event_rate))
        pulled = np.bincount(self.feeds.consumer[~self.ahead], minlength=len(self.feeds.query_rate))
        pulls = pulled[readers]
        return FeedWork(
            float(stored[events].sum()), float(pulls.sum()), float((pulls > 0).sum()), len(readers), len(events)
        )

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

    def _await_sizes(self, wanted: int) -> None:
        found = self.service.feeds.find("home")
        assert found is not None and found[1] is not None
        store = found[1].open_store(self.service.lease.epoch)
        try:
            self._await(lambda: store.sizes().stored_ahead == wanted, "decisions")
        finally:
            store.close()

    @staticmethod
    def _await(is_done: Callable[[], bool], what: str) -> None:
        until = time.monotonic() + ARRIVED_WITHIN_S
        while not is_done():
            if time.monotonic() > until:
                raise TimeoutError(f"{what} did not arrive within {ARRIVED_WITHIN_S:g} s")
            time.sleep(LOOK_EVERY_S)


@contextmanager
def ratio_world(size: float, seed: int) -> Iterator[RatioWorld]:
    """A feed that runs, with everybody following; nothing is stored ahead. Without a host, nobody but us decides."""
    root = Path(tempfile.mkdtemp(prefix="ratios-"))
    (root / "headrace.yml").write_text(PROJECT)
    folder = Folder(root)
    service = Service(folder, {}, HereRunner(perform), in_processes=False)
    service.open()
    try:
        loading = apply_plan(service, prepare(folder.project, {}, ApplyWishes()).plan)
        loading.done.wait()
        if loading.error is not None:
            raise RuntimeError(f"the feed could not be loaded: {loading.error}")
        RatioWorld._await(lambda: service.feeds.find("home") is not None, "the feed")
        feeds = make_follows(np.random.default_rng(seed), size=size)
        world = RatioWorld(service, folder, feeds, np.zeros(len(feeds), np.bool_))
        try:
            world.begin()
            yield world
        finally:
            world.pages.close()
    finally:
        service.close()
        shutil.rmtree(root, ignore_errors=True)


@dataclass
class Measured:
    """Windows of all ways; the first round calibrates, and is not judged."""

    prices: FeedPrices
    ahead: Mapping[float, float]
    """The share of pairs that hybrid stores ahead, by ratio."""
    windows: list[Window] = field(default_factory=list)

    def seconds(self, ratio: float, way: str) -> list[float]:
        return [one.cpu_s for one in self.windows if (one.ratio, one.way) == (ratio, way)]

    def predict(self, ratio: float, way: str) -> float:
        """Seconds that a window takes by the prices, on average."""
        works = [one.work for one in self.windows if (one.ratio, one.way) == (ratio, way)]
        prices = self.prices
        return statistics.fmean(
            prices.entry * work.entries
            + prices.pull * work.pulls
            + prices.batch * work.batches
            + prices.read * work.reads
            + prices.event * work.events
            for work in works
        )

    def shares(self, ratio: float) -> list[float]:
        """Hybrid against the better extreme, run by run: what the machine did meanwhile met both."""
        runs = zip(*(self.seconds(ratio, way) for way in WAYS), strict=True)
        better = min(WAYS[:2], key=lambda way: statistics.median(self.seconds(ratio, way)))
        at = WAYS.index(better)
        return [run[2] / run[at] for run in runs]


def measure_ratios(
    world: RatioWorld, ratios: Sequence[float], runs: int, reads: int, say: Callable[[str], None]
) -> Measured:
    everything, nothing = np.ones(len(world.feeds), np.bool_), np.zeros(len(world.feeds), np.bool_)
    first: list[Window] = []
    for seed, (way, ahead) in enumerate((("pull-all", nothing), ("push-all", everything)) * 2):
        world.store_ahead(ahead)
        first += [world.run_window(ratio, way, reads, seed) for ratio in ratios]
    prices = fit_prices([(one.work, one.cpu_s) for one in first[len(ratios) :]])  # the first ones warm up
    assert prices is not None, "there are too few windows"
    hybrid = {ratio: decide_by(world.feeds, ratio, prices) for ratio in ratios}
    measured = Measured(prices, {ratio: float(ahead.mean()) for ratio, ahead in hybrid.items()})
    say(f"calibrated: {tell_prices(prices)}")
    for run in range(runs):
        turns: list[tuple[str, BoolArray, Sequence[float]]] = [
            ("push-all", everything, ratios),
            *(("hybrid", ahead, (ratio,)) for ratio, ahead in hybrid.items()),
            ("pull-all", nothing, ratios),
        ]
        for way, ahead, which in turns if run % 2 == 0 else turns[::-1]:
            world.store_ahead(ahead)
            measured.windows += [world.run_window(ratio, way, reads, 100 + run) for ratio in which]
        say(f"run {run + 1} of {runs} is done")
    return measured


def decide_by(feeds: Feeds, ratio: float, prices: FeedPrices) -> BoolArray:
    """Which pairs are stored ahead at a ratio, by prices that were measured."""
    at_ratio = with_ratio(feeds, ratio)
    producers = len(feeds.event_rate)
    priced = replace(
        at_ratio,
        store_price=Amounts.constant(Fraction(prices.entry), producers),
        fetch_price=Amounts.constant(Fraction(prices.pull), producers),
        pricing=Pricing(Model.BATCH, Fraction(prices.batch)),
    )
    return decide_pairs(priced)


def tell_prices(prices: FeedPrices) -> str:
    return ", ".join(
        f"{name} {1e6 * price:.1f} ± {1e6 * error:.1f} us" for name, (price, error) in prices.named.items()
    )


def tell_ratios(measured: Measured, ratios: Sequence[float]) -> Iterator[str]:
    ways = "".join(f" {way:>9}" for way in WAYS)
    yield f"{'queries/event':>13}{ways} {'of the better':>14} {'spread':>13} {'ahead':>7} {'predicted':>10}"
    for ratio in ratios:
        medians = {way: statistics.median(measured.seconds(ratio, way)) for way in WAYS}
        shares = measured.shares(ratio)
        yield (
            f"{ratio:13g}"
            + "".join(f" {medians[way]:7.2f} s" for way in WAYS)
            + f" {statistics.median(shares):14.3f} {min(shares):6.3f}..{max(shares):.3f}"
            + f" {100 * measured.ahead[ratio]:5.0f} % {measured.predict(ratio, 'hybrid') / medians['hybrid']:10.2f}"
        )
