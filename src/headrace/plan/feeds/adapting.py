"""Which pairs of a running feed to store ahead from now on, as rates, prices and latency change.

    rates that moved        their pairs are decided again, with hysteresis             `hysteresis`
    a producer that bursts  is decided again at once, at the rate of its burst
    reads too slow          more pairs are stored ahead than cost alone asks for       `controller`
    fan-out too late        the producers that write most go on read until it is not:
                            nothing is dropped, reads only become dearer
    very many pairs         of one consumer are stored ahead up to a number            `cap`

Decisions are values: whoever runs the feed measures, asks here, and writes only what flips. What is stored for latency
or read for lateness is counted apart from what cost alone says, so each goes back when its reason is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts, FloatArray, Positions
from headrace.plan.feeds.cap import cap_pairs
from headrace.plan.feeds.controller import Goal, Threshold, ThresholdOutcome, adapt, apply_threshold, scores
from headrace.plan.feeds.hysteresis import Changes, reconsider, touched_pairs
from headrace.plan.feeds.instance import Feeds

MOVED = 0.1
"""By which share a rate has to move before its pairs are decided again."""

BURST = 5.0
"""How many times its usual rate a producer says something in a burst."""

LEAST_RATE = 0.1
"""Events per second below which nobody bursts, however little they said before: over seconds, a single event reads as
many times the rate of somebody who says little.
"""

FEWEST_READS = 200
"""In a window, before its latency says anything."""

CALM_WINDOWS = 3
"""Windows in which the fan-out was in time before producers that were shed come back, the smallest first."""


@dataclass(frozen=True, slots=True)
class FeedWindow:
    """What was measured: events per second of late (`burst_rate`, over seconds; the rates of `feeds` are over an hour),
    how many times its limit the latency took that misses its limit by most (above 1 is too slow) and in how many reads,
    and how many times its freshness the fan-out was late at most (above 1 is too late).
    """

    burst_rate: FloatArray
    slowness: float
    reads: int
    lateness: float


@dataclass(frozen=True, slots=True)
class FeedState:
    """What was decided, and why. `by_cost` is what cost alone says, `shed` the producers on read because of lateness.

    `event_rate` and `query_rate` are those that pairs were last decided at.
    """

    by_cost: BoolArray
    ahead: BoolArray
    event_rate: FloatArray
    query_rate: FloatArray
    threshold: Threshold = field(default_factory=Threshold)
    shed: tuple[int, ...] = ()
    calm: int = 0
    outcome: ThresholdOutcome = ThresholdOutcome.HELD


@dataclass(frozen=True, slots=True)
class FeedStep:
    state: FeedState
    flips: Changes


def start_feed(feeds: Feeds, by_cost: BoolArray) -> FeedState:
    """Decisions of least cost, at the rates of the feed."""
    return FeedState(by_cost, by_cost, feeds.event_rate.near.copy(), feeds.query_rate.near.copy())


def next_flips(state: FeedState, feeds: Feeds, window: FeedWindow, goal: Goal | None) -> FeedStep:
    """What flips after one more window. `feeds` has the pairs of `state`, at the rates of today."""
    feeds = _with_bursts(feeds, window)
    event_rate, query_rate = feeds.event_rate.near, feeds.query_rate.near
    producers, consumers = _find_moved(state.event_rate, event_rate), _find_moved(state.query_rate, query_rate)
    by_cost = state.by_cost
    if len(producers) or len(consumers):
        by_cost = reconsider(feeds, by_cost, touched_pairs(feeds, producers, consumers)).applied_to(by_cost)
    threshold, outcome, quick = _follow_latency(state, feeds, by_cost, window, goal)
    shed, calm = _follow_lateness(state, feeds, by_cost | quick, window)
    ahead = cap_pairs(feeds, (by_cost | quick) & ~np.isin(feeds.producer, shed), state.ahead)
    start, stop = np.flatnonzero(ahead & ~state.ahead), np.flatnonzero(~ahead & state.ahead)
    decided = _decided_at(state.event_rate, event_rate, producers), _decided_at(state.query_rate, query_rate, consumers)
    return FeedStep(FeedState(by_cost, ahead, *decided, threshold, shed, calm, outcome), Changes(start, stop))


def _with_bursts(feeds: Feeds, window: FeedWindow) -> Feeds:
    usual = feeds.event_rate.near
    bursts = find_bursts(window.burst_rate, usual)
    return replace(feeds, event_rate=Amounts(np.where(bursts, window.burst_rate, usual))) if bursts.any() else feeds


def find_bursts(burst_rate: FloatArray, usual: FloatArray) -> BoolArray:
    """Which producers say much more than usual."""
    bursts: BoolArray = burst_rate > BURST * np.maximum(usual, LEAST_RATE)
    return bursts


def _find_moved(before: FloatArray, now: FloatArray) -> Positions:
    return np.flatnonzero(np.abs(now - before) > MOVED * before)


def _decided_at(before: FloatArray, now: FloatArray, moved: Positions) -> FloatArray:
    rates = before.copy()
    rates[moved] = now[moved]
    return rates


def _follow_latency(
    state: FeedState, feeds: Feeds, by_cost: BoolArray, window: FeedWindow, goal: Goal | None
) -> tuple[Threshold, ThresholdOutcome, BoolArray]:
    """The threshold, what happened to it, and the pairs that it stores ahead."""
    if goal is None:
        return Threshold(), ThresholdOutcome.HELD, np.zeros(len(feeds), dtype=np.bool_)
    score = scores(feeds, by_cost)
    threshold, outcome = state.threshold, state.outcome  # of when there were last enough reads
    if window.reads >= FEWEST_READS:
        step = adapt(threshold, window.slowness, goal, np.sort(score[np.isfinite(score)]))
        threshold, outcome = step.threshold, step.outcome
    return threshold, outcome, apply_threshold(score, threshold)


def _follow_lateness(
    state: FeedState, feeds: Feeds, wanted: BoolArray, window: FeedWindow
) -> tuple[tuple[int, ...], int]:
    """The producers on read because of lateness, those that write most first, and how long it has been calm.

    As many more as there are, while it is late; half of them come back after it was in time for a while.
    """
    if window.lateness > 1.0:
        stored = np.bincount(feeds.producer[wanted], minlength=len(feeds.event_rate))
        writes = stored * feeds.event_rate.near
        writes[list(state.shed)] = 0.0
        heaviest = np.argsort(-writes, kind="stable")[: max(1, len(state.shed))]
        return (*state.shed, *heaviest[writes[heaviest] > 0.0].tolist()), 0
    if not state.shed or state.calm + 1 < CALM_WINDOWS:
        return state.shed, state.calm + 1
    return state.shed[: len(state.shed) // 2], 0
