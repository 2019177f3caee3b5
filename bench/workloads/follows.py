"""The follow graph of Feeding Frenzy's evaluation, rebuilt from its Table 2.

Fan-out, fan-in and rates follow Zipf's law by rank: the value at rank r is proportional to r**-z, scaled to the mean.
Who has which rate is drawn at random, independent of how many follow; the paper's traces are not public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.instance import Feeds, Model, Pricing

PRODUCERS, CONSUMERS, PAIRS = 67_921, 200_000, 1_020_458
EVENTS_PER_HOUR, QUERIES_PER_HOUR = 1.0, 5.8
PUSH_THRESHOLD = 3
"""H / L that minimised load on the paper's system."""

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Skew:
    """Exponents of Zipf's law."""

    fan_out: float = 0.39
    fan_in: float = 0.62
    event_rate: float = 0.57
    query_rate: float = 0.62


def make_follows(
    rng: np.random.Generator,
    skew: Skew = Skew(),  # noqa: B008
    size: float = 1.0,
    dense: float = 1.0,
) -> Feeds:
    """Table 2, or a part of it: `size` scales producers, consumers and pairs alike, `dense` how many each follows; at
    most a third of all pairs that there can be. Prices are in units of L.
    """
    producers, consumers, pairs = (round(count * size) for count in (PRODUCERS, CONSUMERS, dense * PAIRS))
    pairs = min(pairs, producers * consumers // 3)
    keys = _distinct_pairs(rng, zipf(rng, consumers, skew.fan_in), zipf(rng, producers, skew.fan_out), pairs)
    return Feeds(
        Amounts(zipf(rng, producers, skew.event_rate) * EVENTS_PER_HOUR),
        Amounts(zipf(rng, consumers, skew.query_rate) * QUERIES_PER_HOUR),
        Amounts.constant(Fraction(PUSH_THRESHOLD), producers),
        Amounts.constant(Fraction(1), producers),
        (keys // producers).astype(np.int32),
        (keys % producers).astype(np.int32),
        Pricing(Model.RPC),
    )


def zipf(rng: np.random.Generator, count: int, exponent: float) -> Doubles:
    """Values with mean 1, in random order."""
    values = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return rng.permutation(values * (count / values.sum()))


def _distinct_pairs(rng: np.random.Generator, consumers: Doubles, producers: Doubles, pairs: int) -> NDArray[Any]:
    """Pairs drawn by weight, none twice, as consumer * producers + producer."""
    keys = np.empty(0, dtype=np.int64)
    while len(keys) < pairs:
        wanted = (pairs - len(keys)) * 11 // 10 + 16
        drawn = draw(rng, consumers, wanted) * len(producers) + draw(rng, producers, wanted)
        keys = np.union1d(keys, drawn)
    return np.sort(rng.permutation(keys)[:pairs])


def draw(rng: np.random.Generator, weights: Doubles, count: int) -> NDArray[np.int64]:
    ends = np.cumsum(weights)
    found: NDArray[np.int64] = np.searchsorted(ends, rng.random(count) * ends[-1], side="right")
    return np.minimum(found, len(weights) - 1)


def with_ratio(feeds: Feeds, queries_per_event: float) -> Feeds:
    """The same events and shape, with the query rates scaled: total queries to total events."""
    events, queries = feeds.event_rate.near.sum(), feeds.query_rate.near.sum()
    return replace(feeds, query_rate=Amounts(feeds.query_rate.near * (queries_per_event * events / queries)))


def with_flash(rng: np.random.Generator, feeds: Feeds, faster: float, share: float = 0.001, more: int = 85) -> Feeds:
    """A share of the quieter producers get `more` followers each and produce `faster` times as much."""
    count = len(feeds.event_rate)
    quiet = np.argsort(feeds.event_rate.near)[: count // 2]
    flashing = rng.choice(quiet, max(1, round(count * share)), replace=False)
    rate = feeds.event_rate.near.copy()
    rate[flashing] *= faster
    wanted = np.repeat(flashing, more)
    keys = np.unique(
        np.concatenate(
            (
                feeds.consumer.astype(np.int64) * count + feeds.producer,
                rng.integers(0, len(feeds.query_rate), len(wanted)) * count + wanted,
            )
        )
    )
    pairs = (keys // count).astype(np.int32), (keys % count).astype(np.int32)
    return replace(feeds, event_rate=Amounts(rate), consumer=pairs[0], producer=pairs[1])
