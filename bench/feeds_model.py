"""When does deciding per pair beat storing every feed ahead, or none, and by how much?

The evaluation of Feeding Frenzy (SIGMOD 2010, section 5) in its own cost model, on its Table 2 workload rebuilt from a
seed: query:event ratios (figure 4), skew (figure 5), push threshold (figures 6 and 7), per pair or per consumer
(figure 8), fan-out (figure 9) and flash events (figure 10). Costs are in units of one pull per hour. The paper
measured CPU load, which has a base that the model leaves out, so its percentages are smaller.

    python -m bench.feeds_model [--draws 4] [--seed 1] [--size 1.0] [--plot DIR]

Every hybrid is checked to cost no more than either extreme, the threshold H / L to cost least, and every target to be
met.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np

from bench.feeds_plots import plot
from bench.feeds_results import AtThreshold, FanOut, Flash, ForLatency, Mix, Results, Spread
from bench.feeds_text import text
from bench.workloads.follows import PUSH_THRESHOLD, Skew, make_follows, with_flash, with_ratio
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.controller import scores
from headrace.plan.feeds.cost import price, pulls_by_consumer
from headrace.plan.feeds.decide import decide
from headrace.plan.feeds.instance import Feeds, Latency, MeanPulls, Percentile
from headrace.plan.feeds.latency import LatencyMethod
from headrace.plan.feeds.per_pair import decide_pairs

RATIOS = (1, 2, 4, 8, 8.8, 12, 16, 17.1, 32, 64)
SKEWS = {"z = 0.3": 0.3, "Table 2": None, "z = 0.8": 0.8, "z = 1.0": 1.0}
THRESHOLDS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 10.0)
PULLS_SAVED = (0.2, 0.6, 0.8)
SERVED = (0.8, 0.9, 0.95)
FAN_OUTS = (5, 10, 15, 30)
FASTER = (100.0, 1000.0)
SLACK = 1 + 1e-9


class Draws:
    """The same workload drawn several times, from seeds that follow each other."""

    def __init__(self, seed: int, count: int, size: float) -> None:
        self.seeds = range(seed, seed + count)
        self.size = size
        self._made: dict[tuple[int, Skew], Feeds] = {}

    def feeds(self, seed: int, skew: Skew) -> Feeds:
        if (seed, skew) not in self._made:
            self._made[seed, skew] = make_follows(np.random.default_rng(seed), skew, self.size)
        return self._made[seed, skew]

    def spread(self, measure: Callable[[Feeds, np.random.Generator], tuple[float, ...]], skew: Skew) -> list[Spread]:
        """Every number that a measure returns, over all draws."""
        rows = [measure(self.feeds(seed, skew), np.random.default_rng((seed, 1))) for seed in self.seeds]
        return [Spread.of(column) for column in zip(*rows, strict=True)]


# Figures 4 and 5: extremes and hybrid


def mix(draws: Draws, at: str, ratio: float | None, skew: Skew) -> Mix:
    def measure(feeds: Feeds, _: np.random.Generator) -> tuple[float, ...]:
        scaled = feeds if ratio is None else with_ratio(feeds, ratio)
        decision = decide(scaled)
        hybrid, ahead, on_read = map(float, (decision.cost, decision.all_ahead_cost, decision.all_on_read_cost))
        assert hybrid <= min(ahead, on_read) * SLACK
        saved = 1 - hybrid / min(ahead, on_read)
        return ahead / on_read, saved, float(decision.ahead.mean()), hybrid, ahead, on_read

    over, saving, stored, *costs = draws.spread(measure, skew)
    return Mix(at, over, saving, stored, (costs[0].mean, costs[1].mean, costs[2].mean))


def skewed(exponent: float | None) -> Skew:
    return Skew() if exponent is None else Skew(event_rate=exponent, query_rate=exponent)


# Figures 6 and 7: threshold


def at_thresholds(draws: Draws) -> tuple[AtThreshold, ...]:
    def measure(feeds: Feeds, _: np.random.Generator) -> tuple[float, ...]:
        at_16 = with_ratio(feeds, 16)
        rows = [cost_and_pulls(at_16, threshold) for threshold in THRESHOLDS]
        least = min(cost for cost, *_ in rows)
        assert rows[THRESHOLDS.index(PUSH_THRESHOLD)][0] <= least * SLACK
        return tuple(value for cost, *pulls in rows for value in (cost / least, *pulls))

    columns = draws.spread(measure, Skew())
    return tuple(
        AtThreshold(threshold, *columns[4 * number : 4 * number + 4]) for number, threshold in enumerate(THRESHOLDS)
    )


def cost_and_pulls(feeds: Feeds, threshold: float) -> tuple[float, float, float, float]:
    """Cost, mean and 95th percentile of pulls per query, and the share of queries that pull nothing."""
    ratio = feeds.query_rate.near[feeds.consumer] / feeds.event_rate.near[feeds.producer]
    ahead: BoolArray = ratio >= threshold
    pulls, queries = pulls_by_consumer(feeds, ahead), feeds.query_rate.near
    order = np.argsort(pulls)
    at_95 = np.searchsorted(np.cumsum(queries[order]), 0.95 * queries.sum())
    mean = float(queries @ pulls / queries.sum())
    return float(price(feeds, ahead).paid), mean, float(pulls[order][at_95]), share_served(feeds, ahead)


def share_served(feeds: Feeds, ahead: BoolArray) -> float:
    queries = feeds.query_rate.near
    return float(queries[pulls_by_consumer(feeds, ahead) == 0].sum() / queries.sum())


# Figure 8: per pair or per consumer


def for_latency(draws: Draws) -> Iterator[ForLatency]:
    for saved in PULLS_SAVED:
        yield _for_latency(draws, f"{saved:.0%} fewer pulls", partial(fewer_pulls, saved))
    for share in SERVED:
        yield _for_latency(draws, f"{share:.0%} of queries pull nothing", partial(pull_nothing, share))


def _for_latency(draws: Draws, name: str, target_of: Callable[[Feeds], Latency]) -> ForLatency:
    def measure(feeds: Feeds, _: np.random.Generator) -> tuple[float, ...]:
        at_8 = with_ratio(feeds, 8)
        target = target_of(at_8)
        least = float(decide(at_8).cost)
        exact = decide(at_8, target)
        assert exact.optimal
        by_pair = pair_by_pair(at_8, target)
        whole = float(decide(at_8, target, LatencyMethod.WHOLESALE).cost)
        assert float(exact.cost) <= min(by_pair, whole) * SLACK
        return tuple(cost / least - 1 for cost in (by_pair, whole, float(exact.cost)))

    return ForLatency(name, *draws.spread(measure, Skew()))


def pull_nothing(share: float, _: Feeds) -> Percentile:
    return Percentile(Fraction(str(share)), 0)


def fewer_pulls(saved: float, feeds: Feeds) -> MeanPulls:
    pulls, queries = pulls_by_consumer(feeds, decide_pairs(feeds)), feeds.query_rate.near
    return MeanPulls(Fraction(float(queries @ pulls / queries.sum()) * (1 - saved)))


def pair_by_pair(feeds: Feeds, target: Latency) -> float:
    """Cost of the paper's greedy: the pairs that save most pulls for their cost, until the target is met."""
    if isinstance(target, MeanPulls):
        return float(decide(feeds, target, LatencyMethod.GREEDY).cost)
    least = decide_pairs(feeds)
    score, queries = scores(feeds, least), feeds.query_rate.near
    # A consumer is served once the pair of its lowest score is moved.
    lowest = np.full(len(queries), np.inf)
    np.minimum.at(lowest, feeds.consumer, score)
    order = np.argsort(-lowest, kind="stable")
    enough = int(np.searchsorted(np.cumsum(queries[order]), float(target.share) * queries.sum()))
    ahead: BoolArray = score >= lowest[order[enough]]
    assert share_served(feeds, ahead) >= float(target.share) / SLACK
    return float(price(feeds, ahead).paid)


# Figures 9 and 10: fan-out, flash events


def fan_outs(draws: Draws) -> Iterator[FanOut]:
    for fan_out in FAN_OUTS:

        def measure(feeds: Feeds, rng: np.random.Generator, fan_out: int = fan_out) -> tuple[float, ...]:
            producers, consumers = len(feeds.event_rate), len(feeds.query_rate)
            keys = np.unique(rng.integers(0, producers * consumers, producers * fan_out))
            uniform = replace(feeds, consumer=keys // producers, producer=keys % producers)
            return (float(decide(with_ratio(uniform, 4)).cost),)

        yield FanOut(fan_out, *draws.spread(measure, Skew()))


def flashes(draws: Draws) -> Iterator[Flash]:
    for faster in FASTER:

        def measure(feeds: Feeds, rng: np.random.Generator, faster: float = faster) -> tuple[float, ...]:
            flashing = with_flash(rng, feeds, faster)
            calm = replace(flashing, event_rate=Amounts(feeds.event_rate.near))
            old, new = decide_pairs(calm), decide_pairs(flashing)
            before = float(price(feeds, decide_pairs(feeds)).paid)
            stale, adapted = (float(price(flashing, ahead).paid) for ahead in (old, new))
            return stale / before - 1, adapted / before - 1, float((old != new).sum())

        yield Flash(faster, *draws.spread(measure, Skew()))


def run(draws: Draws) -> Results:
    return Results(
        ratios=tuple(mix(draws, f"{ratio:g}", ratio, Skew()) for ratio in RATIOS),
        skews=tuple(mix(draws, name, 16, skewed(exponent)) for name, exponent in SKEWS.items()),
        thresholds=at_thresholds(draws),
        latencies=tuple(for_latency(draws)),
        fan_outs=tuple(fan_outs(draws)),
        flashes=tuple(flashes(draws)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4, help="how often the workload is drawn")
    parser.add_argument("--seed", type=int, default=1, help="of the first draw; the others count on")
    parser.add_argument("--size", type=float, default=1.0, help="part of the workload's size")
    parser.add_argument("--plot", type=Path, help="folder for the figures")
    options = parser.parse_args()
    results = run(Draws(options.seed, options.draws, options.size))
    print(f"{options.draws} draws from seed {options.seed}, size {options.size:g}; mean and standard deviation")
    print(text(results))
    if options.plot:
        for file in plot(results, options.plot):
            print(f"written: {file}")


if __name__ == "__main__":
    main()
