"""Decides again and again which pairs of a running feed are stored ahead, and writes what flips.

    every window    who posted and who read is counted, and fades; how long reads took, and how late the store is
    then            `plan/feeds/adapting.py` says which pairs flip
    flips           are rows of the relation `FEED/decisions`, which is captured like any other: the feed's views
                    follow, and the store follows them. Nothing else says what is stored ahead

Counts are kept in the feed's store, so that a new service goes on with them. They are only counts: those of the last
window may be lost with a service.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.catalogue import Source
from headrace.model.feed_plan import PlannedPrices
from headrace.model.log import Log
from headrace.observe.feed_rates import FadingCounts
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.adapting import FEWEST_READS, FeedState, FeedStep, FeedWindow, find_bursts, next_flips
from headrace.plan.feeds.amounts import Amounts, Positions
from headrace.plan.feeds.controller import Goal, ThresholdOutcome
from headrace.plan.feeds.hysteresis import Changes
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.per_pair import decide_pairs
from headrace.plan.feeds.prices import have_moved
from headrace.run.feeds.logs import FeedLogs, write_names
from headrace.run.ports import FeedReader, Store
from headrace.site.feeds.reads import ReadsOfFeed

HALF_LIFE_S, BURST_HALF_LIFE_S = 3600.0, 10.0
READS, EVENTS, COLLECTED = "reads", "events", "seconds"
"""Kinds of counters in the store; the last says in how many seconds the others were collected."""
USUAL_QUANTILE = 0.95
"""Of reads, for feeds without a target."""
MEAN = "mean"


@dataclass(slots=True)
class PeopleByName:
    """Positions of names, in the order in which they came."""

    positions: dict[str, int] = field(default_factory=dict)

    def find(self, names: pa.ChunkedArray) -> Positions:
        encoded = names.combine_chunks().dictionary_encode()
        known = self.positions
        places = np.array([known.setdefault(name, len(known)) for name in encoded.dictionary.to_pylist()], np.int64)
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        return places[indices] if len(places) else np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class FeedPairs:
    """Pairs by position of their consumers and producers, and as their relation has them, to be written again."""

    consumer: Positions
    producer: Positions
    rows: pa.Table

    @property
    def keys(self) -> Positions:
        return (self.consumer << 32) | self.producer

    def choose(self, positions: Positions) -> list[tuple[Any, ...]]:
        chosen = self.rows.take(pa.array(positions))
        return list(zip(*(column.to_pylist() for column in chosen.columns), strict=True))


@dataclass(frozen=True, slots=True)
class FeedDecisions:
    """What was decided last about a feed, at which rates and prices (`feeds`) and why (`state`): of pairs, some are
    `ahead`. `started` are stored ahead since, `ended` are not any more; `flips` are all of this service. `consumers`
    and `producers` are of its pairs; `latency_s` is that of the target that is missed by most; `shed` are producers
    that are read because the store was late.
    """

    feeds: Feeds
    state: FeedState
    prices: PlannedPrices
    consumers: int
    producers: int
    started: int
    ended: int
    flips: int
    latency_s: float
    lag_s: float
    shed: tuple[str, ...]
    decided_at: float

    @property
    def pairs(self) -> int:
        return len(self.feeds)

    @property
    def ahead(self) -> int:
        return int(self.state.ahead.sum())

    @property
    def reads_s(self) -> float:
        return float(self.feeds.query_rate.near.sum())

    @property
    def events_s(self) -> float:
        return float(self.feeds.event_rate.near.sum())

    @property
    def outcome(self) -> ThresholdOutcome:
        return self.state.outcome

    @property
    def threshold(self) -> float | None:
        """The score from which pairs are stored ahead for latency (tau); None while none are."""
        score = self.state.threshold.score
        return score if math.isfinite(score) else None


@dataclass(slots=True)
class FeedController:
    """Decides about one feed. `write` writes rows that are decided to be stored ahead, and rows that no longer are."""

    name: str
    reading: FeedLogs
    decisions: Source
    freshness_s: float
    targets: Mapping[str, float]
    """Seconds that reads may take, by `mean` or a percentile such as `p95`."""
    prices: PlannedPrices
    write: Callable[[Source, Sequence[Any], Sequence[Any]], None]
    started_s: float
    consumers: PeopleByName = field(default_factory=PeopleByName)
    producers: PeopleByName = field(default_factory=PeopleByName)
    last: FeedDecisions | None = None
    flips: int = 0
    _reads: FadingCounts = field(init=False)
    _events: FadingCounts = field(init=False)
    _burst: FadingCounts = field(init=False)
    _pairs: FeedPairs | None = None
    _state: FeedState | None = None
    _seen: tuple[int, int] | None = None
    _counted_to: int | None = None

    def __post_init__(self) -> None:
        self._reads = FadingCounts(HALF_LIFE_S, self.started_s)
        self._events = FadingCounts(HALF_LIFE_S, self.started_s)
        self._burst = FadingCounts(BURST_HALF_LIFE_S, self.started_s)

    # What was counted

    def resume(self, reader: FeedReader, now_s: float) -> None:
        """Goes on with the counts of earlier services."""
        collected = reader.read_counts(COLLECTED)
        for kind, names, counts in ((READS, self.consumers, self._reads), (EVENTS, self.producers, self._events)):
            left = {
                name: _fade(count, at, now_s) for name, (count, at) in reader.read_counts(kind).items() if count > 0.0
            }
            positions = names.find(pa.chunked_array([list(left)], pa.string()))
            count, at = collected.get(kind, (0.0, now_s))
            counts.resume(dict(zip(positions.tolist(), left.values(), strict=True)), _fade(count, at, now_s))

    def count(self, newest: Log, store: Store, reads: ReadsOfFeed, now_s: float) -> dict[str, dict[str, float]]:
        """Counts reads, and events that are new in a log; what there is to be added to the store's counters, by kind.

        What a log held when this began is not new.
        """
        posted: dict[str, float] = {}
        if self._counted_to is not None and newest.start <= self._counted_to < newest.t:
            changes = self.reading.read_event_changes(store, newest, self._counted_to, newest.t)
            came = changes.filter(pc.greater(changes.column("w"), 0)).column("producer")
            posted = {one["values"]: float(one["counts"]) for one in pc.value_counts(came).to_pylist()}
        self._counted_to = newest.t
        read = {name: float(count) for name, count in reads.counts.items()}
        by_producer = self._place(self.producers, posted)
        self._burst.add(by_producer, now_s)
        seconds = {
            EVENTS: self._events.add(by_producer, now_s),
            READS: self._reads.add(self._place(self.consumers, read), now_s),
        }
        return {READS: read, EVENTS: posted, COLLECTED: seconds}

    @staticmethod
    def _place(names: PeopleByName, counts: dict[str, float]) -> dict[int, float]:
        positions = names.find(pa.chunked_array([list(counts)], pa.string()))
        return dict(zip(positions.tolist(), counts.values(), strict=True))

    @property
    def bursts(self) -> bool:
        """Whether somebody says much more than usual: then there is no time to wait."""
        count = len(self.producers)
        burst_rate = self._burst.rates(count, like_others_s=0.0)
        return bool(find_bursts(burst_rate, self._events.rates(count)).any())

    # What is decided

    def use_prices(self, prices: PlannedPrices) -> None:
        """Decides at other prices from now on; all pairs are decided again if that may matter."""
        if have_moved(self.prices, prices):
            self.prices = prices
            if self._state is not None:
                self._state = replace(self._state, event_rate=np.zeros(0), query_rate=np.zeros(0))

    def decide(self, pairs: Log, store: Store, reads: ReadsOfFeed, lag_s: float, now_s: float) -> FeedDecisions | None:
        """Decides what flips, and writes it; what was decided, None while there are no pairs."""
        self._read_pairs(pairs, store)
        assert self._pairs is not None and self._state is not None
        feeds = self._at_rates(self._pairs)
        if not len(feeds):
            return None
        latency_s, slowness = measure_latency(self.targets, reads)
        burst_rate = self._burst.rates(len(self.producers), like_others_s=0.0)
        window = FeedWindow(burst_rate, slowness, len(reads.seconds), lag_s / self.freshness_s)
        # Somebody may have posted or read since whom nobody follows, and who follows nobody.
        state = _with_room(self._state, len(self.producers), len(self.consumers))
        step = next_flips(state, feeds, window, Goal() if self.targets else None)
        self._write(step.flips)
        self._state = step.state  # only what was written is decided
        self.last = self._tell(step, feeds, latency_s, lag_s, now_s)
        return self.last

    def _at_rates(self, pairs: FeedPairs) -> Feeds:
        producers, prices = len(self.producers), self.prices
        return Feeds(
            Amounts(self._events.rates(producers)),
            Amounts(self._reads.rates(len(self.consumers))),
            Amounts.constant(Fraction(prices.store_s), producers),
            Amounts.constant(Fraction(prices.fetch_s), producers),
            pairs.consumer,
            pairs.producer,
            Pricing(Model.BATCH, Fraction(prices.batch_s)),
        )

    def _read_pairs(self, log_: Log, store: Store) -> None:
        """Reads who follows whom, if that has changed. What was decided of pairs that stay is decided."""
        seen = log_.start, max((piece.upto for piece in log_.contents), default=log_.start)
        if self._pairs is not None and seen == self._seen:
            return
        rows = self.reading.read_pairs(store, log_)
        names = [write_names(rows.column(name)) for name in ("consumer", "producer")]
        consumer, producer = self.consumers.find(names[0]), self.producers.find(names[1])
        found = FeedPairs(consumer, producer, rows.select(["consumer", "producer"]))
        ahead = rows.column("ahead").to_numpy().astype(np.bool_)
        before, state = self._pairs, self._state
        self._pairs, self._seen = found, seen
        if before is None or state is None:
            # Nothing is known of why: whatever is stored ahead stays so, until its rates say otherwise.
            self._state = FeedState(ahead, ahead, np.zeros(0), np.zeros(0))
        else:
            self._state = self._carry_over(state, before, found, ahead)

    def _carry_over(self, state: FeedState, before: FeedPairs, now: FeedPairs, ahead: BoolArray) -> FeedState:
        """What was decided of pairs that are still there; new ones are decided by cost at once."""
        order = np.argsort(before.keys)
        places = np.searchsorted(before.keys[order], now.keys)
        at = order[np.minimum(places, len(order) - 1)] if len(order) else np.zeros(len(now.keys), np.int64)
        is_old = before.keys[at] == now.keys if len(order) else np.zeros(len(now.keys), np.bool_)
        by_cost = decide_pairs(self._at_rates(now))
        by_cost[is_old] = state.by_cost[at[is_old]]
        decided = ahead.copy()
        decided[is_old] = state.ahead[at[is_old]]
        return FeedState(
            by_cost, decided, state.event_rate, state.query_rate, state.threshold, state.shed, state.calm, state.outcome
        )

    def _write(self, flips: Changes) -> None:
        assert self._pairs is not None
        if len(flips.start_storing) or len(flips.stop_storing):
            start, stop = self._pairs.choose(flips.start_storing), self._pairs.choose(flips.stop_storing)
            self.write(self.decisions, start, stop)

    def _tell(self, step: FeedStep, feeds: Feeds, latency_s: float, lag_s: float, now_s: float) -> FeedDecisions:
        names = list(self.producers.positions)
        started, ended = len(step.flips.start_storing), len(step.flips.stop_storing)
        self.flips += started + ended
        return FeedDecisions(
            feeds=feeds,
            state=step.state,
            prices=self.prices,
            consumers=len(np.unique(feeds.consumer)),
            producers=len(np.unique(feeds.producer)),
            started=started,
            ended=ended,
            flips=self.flips,
            latency_s=latency_s,
            lag_s=lag_s,
            shed=tuple(names[producer] for producer in step.state.shed),
            decided_at=now_s,
        )


def _with_room(state: FeedState, producers: int, consumers: int) -> FeedState:
    """Rates of those who are new are taken to have moved: they were never decided at any."""
    return FeedState(
        state.by_cost,
        state.ahead,
        np.concatenate((state.event_rate, np.zeros(producers - len(state.event_rate)))),
        np.concatenate((state.query_rate, np.zeros(consumers - len(state.query_rate)))),
        state.threshold,
        state.shed,
        state.calm,
        state.outcome,
    )


def _fade(count: float, at_s: float, now_s: float) -> float:
    return float(count * 0.5 ** (max(0.0, now_s - at_s) / HALF_LIFE_S))


def add_counters(reader: FeedReader, counted: dict[str, dict[str, float]], now_s: float) -> None:
    for kind, counts in counted.items():
        if counts:
            reader.add_counts(kind, counts, now_s, HALF_LIFE_S)


def measure_latency(targets: Mapping[str, float], reads: ReadsOfFeed) -> tuple[float, float]:
    """Seconds of the target that is missed by most, and how many times its limit that is; all targets are to be met.

    Without a target, those of the usual share of reads, which are never too slow.
    """
    if not targets:
        return reads.find_quantile(USUAL_QUANTILE), 0.0
    measured = {
        name: reads.mean_s if name == MEAN else reads.find_quantile(float(name.removeprefix("p")) / 100)
        for name in targets
    }
    worst = max(targets, key=lambda name: measured[name] / targets[name])
    return measured[worst], measured[worst] / targets[worst]


def keep_reads(reads: ReadsOfFeed) -> ReadsOfFeed:
    """Those that count at the next decision as well: too few say nothing, until there are more."""
    return reads if len(reads.seconds) < FEWEST_READS else ReadsOfFeed({}, ())
