"""Quick enough reads at the least cost: which pairs to store ahead beyond those that cost alone stores ahead.

A query is as slow as the number of producers it pulls. A target bounds that number on average over queries, or for
a share of them; queries count, not consumers. Each consumer who pulls is a class of a covering knapsack (`cover`):
storing its 1, 2, ... cheapest pairs ahead gains pulls saved, or the consumer served, for extra cost. Where a batch
has a price of its own the last pair is cheaper than it looks, because it saves the batch as well.

This is LatencyConstrainedMinCost of Feeding Frenzy (section 3.3). Its surrogate, the sum of the query rates of
moved pairs, is the target on average; for percentiles it moves pairs that serve nobody.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import assert_never

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import NumberArray, Positions
from headrace.plan.feeds.cover import NONE, Cover
from headrace.plan.feeds.cover_search import EFFORT, Covering, cover_cheaply
from headrace.plan.feeds.exactly import Integers, in_integers
from headrace.plan.feeds.instance import Feeds, Latency, MeanPulls, Model, Percentile


class LatencyMethod(StrEnum):
    """How pairs are moved to meet a target: for the least cost, cheapest per gain first, or consumers as a whole."""

    EXACT = "exact"
    GREEDY = "greedy"
    WHOLESALE = "wholesale"
    """Section 3.3.2 of the paper, with the right price of a consumer; a baseline."""


@dataclass(frozen=True, slots=True)
class MovedPairs:
    """`ahead` after moving, its extra cost, and a bound that no assignment undercuts."""

    ahead: BoolArray
    extra_cost: Fraction
    extra_bound: Fraction

    @property
    def proven(self) -> bool:
        return self.extra_cost == self.extra_bound


def meet_target(
    feeds: Feeds, ahead: BoolArray, target: Latency, method: LatencyMethod, effort: int = EFFORT
) -> MovedPairs:
    """Moves pairs from the decisions of least cost.

    Model `rpc` or `batch`; storing everything ahead meets any target.
    """
    pulls = _pulls(feeds, ahead)
    options = _options(pulls, target)
    best = cover_cheaply(_cover(pulls, options, target), effort if method is LatencyMethod.EXACT else 0)
    bound = best.bound
    if method is LatencyMethod.WHOLESALE:
        options = _whole_consumers(pulls, target)
        best = cover_cheaply(_cover(pulls, options, target), 0)
    moved = ahead.copy()
    moved[_pairs(pulls, options, best)] = True
    return MovedPairs(moved, pulls.amounts.cost(best.cost), pulls.amounts.cost(bound))


@dataclass(frozen=True, slots=True)
class _Pulls:
    """Pairs on read of consumers who ask, those of a consumer together, the cheapest to store ahead first.

    Consumer c of these has the pairs from `start[c]` to `start[c + 1]`; `cost[n]` is the extra cost of storing ahead
    pair n and those before it of the same consumer.
    """

    pair: Positions
    cost: NumberArray
    start: Positions
    query_rate: NumberArray
    all_queries: int
    amounts: Integers

    @property
    def count(self) -> Positions:
        return np.diff(self.start)


def _pulls(feeds: Feeds, ahead: BoolArray) -> _Pulls:
    amounts = in_integers(feeds, np.arange(len(feeds.query_rate)), np.arange(len(feeds.event_rate)))
    asks = (amounts.query_rate > 0).astype(np.bool_)
    pair = np.flatnonzero(~ahead & asks[feeds.consumer])
    producer, consumer = feeds.producer[pair], feeds.consumer[pair]
    stored = (amounts.event_rate * amounts.store_price)[producer]
    extra = stored - amounts.query_rate[consumer] * amounts.fetch_price[producer]
    by_extra = np.argsort(extra, kind="stable")
    order = by_extra[np.argsort(consumer[by_extra], kind="stable")]
    pair, extra, consumer = pair[order], extra[order], consumer[order]
    start = np.append(np.flatnonzero(np.diff(consumer, prepend=-1)), len(pair))
    query_rate = amounts.query_rate[consumer[start[:-1]]]
    batch_price = amounts.batch_price if feeds.pricing.model is Model.BATCH else 0
    cost = _sums_within(extra, start)
    cost[start[1:] - 1] -= query_rate * batch_price
    return _Pulls(pair, cost, start, query_rate, int(amounts.query_rate.sum()), amounts)


def _sums_within(values: NumberArray, start: Positions) -> NumberArray:
    """Running sums that start anew at each start."""
    running = np.concatenate((np.zeros(1, dtype=object), np.cumsum(values)))
    sums: NumberArray = running[1:] - np.repeat(running[start[:-1]], np.diff(start))
    return sums


@dataclass(frozen=True, slots=True)
class _Options:
    """Store ahead the first `moved` pairs of consumer `consumer`; by consumer, and more of them later."""

    consumer: Positions
    moved: Positions


def _options(pulls: _Pulls, target: Latency) -> _Options:
    count = pulls.count
    match target:
        case MeanPulls():
            consumer = np.repeat(np.arange(len(count)), count)
            moved = np.arange(len(pulls.pair)) - pulls.start[consumer] + 1
            # The last pair saves the batch, and may so cost less than fewer pairs do.
            useful = (moved == count[consumer]) | (pulls.cost < pulls.cost[pulls.start[1:] - 1][consumer])
            return _Options(consumer[useful], moved[useful])
        case Percentile(most_pulls=most):
            consumer = np.flatnonzero(count > most)
            fewest = np.where(most > 0, count[consumer] - most, count[consumer])
            cheaper = _cost(pulls, consumer, fewest) < _cost(pulls, consumer, count[consumer])
            return _Options(consumer, np.where(cheaper, fewest, count[consumer]))
        case _:
            assert_never(target)


def _whole_consumers(pulls: _Pulls, target: Latency) -> _Options:
    most = target.most_pulls if isinstance(target, Percentile) else 0
    consumer = np.flatnonzero(pulls.count > most)
    return _Options(consumer, pulls.count[consumer])


def _cost(pulls: _Pulls, consumer: Positions, moved: Positions) -> NumberArray:
    cost: NumberArray = pulls.cost[pulls.start[consumer] + moved - 1]
    return cost


def _cover(pulls: _Pulls, options: _Options, target: Latency) -> Cover:
    _, owner = np.unique(options.consumer, return_inverse=True)
    query_rate = pulls.query_rate[options.consumer]
    gain = query_rate * options.moved.astype(object) if isinstance(target, MeanPulls) else query_rate
    return Cover(owner, gain, _cost(pulls, options.consumer, options.moved), _need(pulls, target))


def _need(pulls: _Pulls, target: Latency) -> int:
    """What must be gained: pulls per unit of time to save, or queries to serve; an integer, like all gains."""
    match target:
        case MeanPulls(most):
            return math.ceil(int((pulls.query_rate * pulls.count.astype(object)).sum()) - most * pulls.all_queries)
        case Percentile(share, most_pulls):
            unserved = int(pulls.query_rate[pulls.count > most_pulls].sum())
            return math.ceil(share * pulls.all_queries) - (pulls.all_queries - unserved)
        case _:
            assert_never(target)


def _pairs(pulls: _Pulls, options: _Options, covering: Covering) -> Positions:
    """The pairs that the chosen options store ahead."""
    chosen = covering.chosen[covering.chosen != NONE]
    consumer, moved = options.consumer[chosen], options.moved[chosen]
    begin = np.repeat(pulls.start[consumer] - np.cumsum(moved) + moved, moved)
    return pulls.pair[begin + np.arange(len(begin))]


# From seconds to pulls


@dataclass(frozen=True, slots=True)
class QueryTime:
    """Seconds that a query takes: `base`, and if it pulls, `first` once and `each` for every producer pulled."""

    base: float
    first: float = 0.0
    each: float = 0.0

    def seconds(self, pulls: int) -> float:
        return self.base + (self.first if pulls else 0.0) + self.each * pulls


def most_pulls_within(times: QueryTime | tuple[float, ...], limit: float, at_most: int) -> int | None:
    """The most producers, up to `at_most`, that a query may pull and still end within the limit; None if not even none.

    `times` may be measured: seconds by number of pulls, not decreasing. What was not measured is taken to be too
    slow.
    """
    if isinstance(times, tuple):
        return max((pulls for pulls, seconds in enumerate(times[: at_most + 1]) if seconds <= limit), default=None)
    left = limit - times.base - times.first
    about = at_most if not times.each or left >= times.each * at_most else int(left / times.each)
    near = (pulls for pulls in (0, about - 1, about, about + 1) if 0 <= pulls <= at_most)  # the quotient was rounded
    return max((pulls for pulls in near if times.seconds(pulls) <= limit), default=None)
