"""The threshold that follows measured latency, on a feed whose latency is its share of queries that pull."""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random

import numpy as np
import pytest

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.controller import (
    REST,
    Goal,
    Threshold,
    ThresholdOutcome,
    adapt,
    apply_threshold,
    priority_threshold,
    scores,
)
from headrace.plan.feeds.cost import price
from headrace.plan.feeds.instance import Feeds, MeanPulls, Model, Pricing
from headrace.plan.feeds.latency import LatencyMethod, meet_target
from headrace.plan.feeds.per_pair import decide_pairs


def random_feeds(seed: int, fetch_prices: tuple[int, ...] = (1,)) -> Feeds:
    rng, pick = np.random.default_rng(seed), Random(seed)
    keys = np.unique(rng.integers(0, 40 * 30, 300))
    return Feeds(
        Amounts(rng.lognormal(1, 1, 30)),
        Amounts(rng.lognormal(2, 1, 40)),
        Amounts.constant(Fraction(3), 30),
        Amounts.of(Fraction(pick.choice(fetch_prices)) for _ in range(30)),
        keys // 30,
        keys % 30,
        Pricing(Model.RPC),
    )


def mean_pulls(feeds: Feeds, ahead: BoolArray) -> float:
    return float(feeds.query_rate.near[feeds.consumer[~ahead]].sum() / feeds.query_rate.near.sum())


def follow(feeds: Feeds, goal: Goal, steps: int = 60) -> tuple[BoolArray, list[ThresholdOutcome], Threshold]:
    least = decide_pairs(feeds)
    score = scores(feeds, least)
    rising = np.sort(score[np.isfinite(score)])
    state, ahead, outcomes = Threshold(), least, []
    for _ in range(steps):
        step = adapt(state, mean_pulls(feeds, ahead), goal, rising)
        state, ahead = step.threshold, apply_threshold(score, step.threshold)
        outcomes.append(step.outcome)
    return ahead, outcomes, state


def test_it_starts_at_least_cost_and_stays_there_while_reads_are_quick_enough():
    feeds = random_feeds(1)
    ahead, outcomes, state = follow(feeds, Goal(limit=100.0), steps=3)
    assert (ahead == decide_pairs(feeds)).all()
    assert outcomes == [ThresholdOutcome.HELD] * 3
    assert math.isinf(state.score)
    assert priority_threshold(state, 3, 1) == 3


def test_it_reaches_a_limit_in_steps_that_double_and_then_holds():
    feeds = random_feeds(2)
    ahead, outcomes, _ = follow(feeds, Goal(limit=0.8, slack=0.9))
    assert mean_pulls(feeds, ahead) <= 0.8
    lowered = outcomes.count(ThresholdOutcome.LOWERED)
    assert outcomes == [ThresholdOutcome.LOWERED] * lowered + [ThresholdOutcome.HELD] * (60 - lowered)
    assert lowered <= math.log2(len(feeds)) + 1


def test_it_gives_back_what_is_no_longer_needed_but_never_what_cost_alone_stores_ahead():
    feeds = random_feeds(3)
    least = decide_pairs(feeds)
    score = scores(feeds, least)
    rising = np.sort(score[np.isfinite(score)])
    state = Threshold(score=0.0)
    for _ in range(len(rising)):
        step = adapt(state, 0.0, Goal(limit=1.0, first_batch=5), rising)
        state = step.threshold
        assert apply_threshold(score, state)[least].all()
    assert (apply_threshold(score, state) == least).all()
    assert adapt(state, 0.0, Goal(limit=1.0), rising).outcome is ThresholdOutcome.HELD


def test_a_limit_that_even_storing_everything_misses_is_reported():
    feeds = random_feeds(4)
    ahead, outcomes, _ = follow(feeds, Goal(limit=-1.0))
    assert ahead.all()
    assert outcomes[-1] is ThresholdOutcome.UNREACHABLE


def test_what_is_stored_ahead_for_nothing_goes_back_and_is_tried_again_after_a_while():
    """Reads that wait for a free core get slower, the more is stored ahead."""
    feeds = random_feeds(7)
    least = decide_pairs(feeds)
    score = scores(feeds, least)
    rising = np.sort(score[np.isfinite(score)])
    state, shares = Threshold(), list[float]()
    for _ in range(100):
        ahead = apply_threshold(score, state)
        shares.append(float((ahead & ~least).sum()) / len(rising))
        state = adapt(state, 2.0 + shares[-1], Goal(), rising).threshold
    tries = [at for at in range(1, len(shares)) if shares[at - 1] == 0.0 < shares[at]]
    everything = shares.index(1.0)
    assert everything <= 8
    assert tries == [1, 1 + everything + REST, 1 + 2 * (everything + REST)]
    quick = adapt(Threshold(rest=REST), 0.5, Goal(), rising)
    assert (quick.outcome, quick.threshold.rest) == (ThresholdOutcome.HELD, 0)


def test_what_has_not_made_reads_slower_stays_though_they_are_too_slow():
    feeds = random_feeds(8)
    rising = np.sort(scores(feeds, decide_pairs(feeds)))
    rising = rising[np.isfinite(rising)]
    state, outcomes = Threshold(), list[ThresholdOutcome]()
    for _ in range(30):
        moved = len(rising) - int(np.searchsorted(rising, state.score))
        step = adapt(state, 3.0 - moved / len(rising), Goal(), rising)
        state, outcomes = step.threshold, [*outcomes, step.outcome]
    assert set(outcomes[-10:]) == {ThresholdOutcome.UNREACHABLE}
    assert state.score <= rising[0]


@pytest.mark.parametrize("fetch_prices", [(1,), (1, 2, 5)], ids=["one price", "several prices"])
def test_where_it_ends_costs_at_most_one_step_more_than_the_least(fetch_prices: tuple[int, ...]):
    feeds = random_feeds(5, fetch_prices)
    least = decide_pairs(feeds)
    score = scores(feeds, least)
    for threshold in sorted(score[np.isfinite(score)], reverse=True)[::10]:
        ahead = apply_threshold(score, Threshold(float(threshold)))
        reached = Fraction(mean_pulls(feeds, ahead)) + Fraction(1, 10**12)
        exact = meet_target(feeds, least, MeanPulls(reached), LatencyMethod.EXACT)
        assert price(feeds, ahead).paid == pytest.approx(price(feeds, exact.ahead).paid, rel=1e-9)


def test_with_one_price_the_threshold_is_one_on_the_ratio_of_rates():
    feeds = random_feeds(6)
    least = decide_pairs(feeds)
    score = scores(feeds, least)
    ratio = feeds.query_rate.near[feeds.consumer] / feeds.event_rate.near[feeds.producer]
    for value in np.sort(score[np.isfinite(score)])[::20]:
        lower = priority_threshold(Threshold(float(value) * (1 - 1e-9)), 3, 1)
        assert (apply_threshold(score, Threshold(float(value))) == (ratio >= lower)).all()


def test_pairs_of_equal_score_move_together():
    rising = np.array([1.0, 2.0, 2.0, 2.0, 3.0])
    down = adapt(Threshold(score=3.0, batch=1), 2.0, Goal(limit=1.0), rising)
    assert (down.threshold.score, down.threshold.batch) == (2.0, 2)
    up = adapt(Threshold(score=2.0, batch=4), 0.1, Goal(limit=1.0), rising)
    assert (up.threshold.score, up.threshold.batch) == (3.0, 1)
