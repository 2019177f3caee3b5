"""What a feed costs as each producer gets more followers: Feeding Frenzy, section 5.4, figure 9, on a running store.

The people, their rates and four queries for each event stay the same, and everybody has as many followers as everybody
else, drawn evenly. Prices are measured once, at the fan-out in the middle: what is decided about a pair does not depend
on how many others there are. Each fan-out has a service and a store of its own, one after the other, so they do not
take turns; seconds are divided by the pace of the machine as everywhere (`bench/feeds_ways.py`).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.feeds_calibrate import decide_by, find_prices
from bench.feeds_figures import Figure, Found
from bench.feeds_ways import Load, Say, Turn, measure_turns, ways_world
from headrace.observe.feed_prices import FeedPrices
from headrace.plan.feeds.instance import Feeds

RATIO = 4.0
WAY = "hybrid"
ALIKE = 0.1
"""By how much the shares of pairs that are stored ahead may differ, and still count as the same."""


@dataclass(frozen=True, slots=True)
class AtFanOut:
    """`seconds` are of each window, `base_s` what of the median one does not depend on whom people follow."""

    fan_out: float
    pairs: int
    ahead: float
    seconds: tuple[float, ...]
    median_s: float
    base_s: float
    predicted_s: float


def sweep_fan_outs(
    people: Feeds,
    fan_outs: Sequence[float],
    store: str,
    runs: int,
    reads: int,
    seed: int,
    given: FeedPrices | None,
    say: Say,
) -> Found:
    found: dict[float, AtFanOut] = {}
    wrong: list[str] = []
    told: list[str] = []
    middle = sorted(fan_outs)[len(fan_outs) // 2]
    for fan_out in (middle, *(one for one in sorted(fan_outs) if one != middle)):
        feeds = follow_evenly(np.random.default_rng((seed, 9)), people, round(fan_out))
        load = Load(f"{fan_out:g}", feeds.event_rate.near, feeds.query_rate.near, RATIO)
        say(f"fan-out {fan_out:g}: {len(feeds):,} pairs")
        with ways_world(feeds, store) as world:
            given = find_prices(world, load, reads, given, say)
            ahead = decide_by(feeds, load, given)
            measured = measure_turns(world, [Turn(WAY, ahead, (load,))], runs, reads, say)
            median_s = measured.median(load.at, WAY)
            found[fan_out] = AtFanOut(
                fan_out,
                len(feeds),
                float(ahead.mean()),
                tuple(measured.seconds(load.at, WAY)),
                median_s,
                median_s - measured.without_base(load.at, WAY, world.base),
                measured.predict(load.at, WAY, given, world.base),
            )
        wrong += measured.wrong
        told += [f"fan-out {fan_out:g}: {line}" for line in measured.tell_windows()]
    rows = [found[one] for one in sorted(found)]
    return Found((*_tell(rows), *told), tuple(_judge(rows)), (_draw(rows),), tuple(wrong))


def follow_evenly(rng: np.random.Generator, people: Feeds, fan_out: int) -> Feeds:
    """The same people, each producer with so many followers, or all consumers if there are no more."""
    producers, consumers = len(people.event_rate), len(people.query_rate)
    followers = [rng.permutation(consumers)[: min(fan_out, consumers)] for _ in range(producers)]
    consumer = np.concatenate(followers).astype(np.int32)
    producer = np.repeat(np.arange(producers, dtype=np.int32), [len(one) for one in followers])
    return replace(people, consumer=consumer, producer=producer)


def _tell(rows: Sequence[AtFanOut]) -> Iterator[str]:
    columns = (("fan-out", 7), ("pairs", 8), ("ahead", 6), ("cpu", 8), ("spread", 11), ("of first", 8), ("base", 8))
    yield " ".join(f"{name:>{width}}" for name, width in (*columns, ("predicted", 9)))
    for row in rows:
        yield (
            f"{row.fan_out:7g} {row.pairs:8,} {100 * row.ahead:4.0f} % {row.median_s:6.2f} s"
            f" {min(row.seconds):5.2f}..{max(row.seconds):.2f} {row.median_s / rows[0].median_s:8.2f}"
            f" {row.base_s:6.2f} s {row.predicted_s:7.2f} s"
        )
    yield f"paper: cost grows with fan-out at {RATIO:g} queries per event; what is decided about a pair stays the same"


def _judge(rows: Sequence[AtFanOut]) -> Iterator[tuple[str, bool]]:
    grows = all(one.median_s < other.median_s for one, other in itertools.pairwise(rows))
    yield f"cost grows with fan-out: {rows[-1].median_s / rows[0].median_s:.2f} times from first to last", grows
    shares = [row.ahead for row in rows]
    told = f"{100 * min(shares):.0f} to {100 * max(shares):.0f} %"
    yield f"the same share of pairs is stored ahead at every fan-out: {told}", max(shares) - min(shares) <= ALIKE


def _draw(rows: Sequence[AtFanOut]) -> Figure:
    return Figure(
        "fan_out",
        "followers of each producer",
        "processor seconds of a window",
        {
            WAY: [(row.fan_out, row.median_s) for row in rows],
            "base": [(row.fan_out, row.base_s) for row in rows],
        },
        "cost grows with fan-out, with the hybrid\n(figure 9, no numbers)",
    )
