"""A running feed: what flips as rates, latency and lateness change, against decisions of least cost."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headrace.observe.feed_rates import FadingCounts
from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.adapting import CALM_WINDOWS, FEWEST_READS, FeedState, FeedWindow, next_flips, start_feed
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.controller import Goal, ThresholdOutcome
from headrace.plan.feeds.cost import price
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.per_pair import decide_pairs
from tests.plan.feeds.test_controller import mean_pulls, random_feeds


def quiet(feeds: Feeds, **more: float) -> FeedWindow:
    usual = {"slowness": 0.0, "reads": 0, "lateness": 0.0}
    return FeedWindow(feeds.event_rate.near, **{**usual, **more})  # type: ignore[arg-type]


def at_rates(feeds: Feeds, event: float, query: float, seed: int) -> Feeds:
    """Everybody's rates times up to a factor."""
    rng = np.random.default_rng(seed)
    events = feeds.event_rate.near * rng.uniform(1 / event, event, len(feeds.event_rate))
    queries = feeds.query_rate.near * rng.uniform(1 / query, query, len(feeds.query_rate))
    return replace(feeds, event_rate=Amounts(events), query_rate=Amounts(queries))


def stored_by(state: FeedState, feeds: Feeds, producer: int) -> int:
    return int((state.ahead & (feeds.producer == producer)).sum())


@pytest.mark.parametrize("seed", range(8))
def test_what_flips_is_all_that_changes_and_costs_little_more_than_the_least(seed: int) -> None:
    feeds = random_feeds(seed)
    state = start_feed(feeds, decide_pairs(feeds))
    for round_ in range(6):
        feeds = at_rates(feeds, 2.0, 2.0, seed=100 * seed + round_)
        step = next_flips(state, feeds, quiet(feeds), None)
        assert np.array_equal(step.flips.applied_to(state.ahead), step.state.ahead)
        state = step.state
        least = float(price(feeds, decide_pairs(feeds)).paid)
        # Each pair is decided at rates within a tenth, and with a band of a tenth: both together at most.
        assert float(price(feeds, state.ahead).paid) <= least * 1.1 / 0.9 * 1.1 / 0.9


def test_rates_that_waver_by_less_than_a_tenth_flip_nothing() -> None:
    feeds = random_feeds(3)
    state = start_feed(feeds, decide_pairs(feeds))
    for seed in range(10):
        then = at_rates(feeds, 1.05, 1.05, seed)
        step = next_flips(state, then, quiet(then), None)
        assert not len(step.flips.start_storing) and not len(step.flips.stop_storing)
        state = step.state


def test_a_burst_is_read_at_once_and_stored_again_when_it_is_over() -> None:
    feeds = random_feeds(4)
    state = start_feed(feeds, decide_pairs(feeds))
    loudest = int(np.argmax([stored_by(state, feeds, producer) for producer in range(30)]))
    before = stored_by(state, feeds, loudest)
    assert before > 0
    burst = feeds.event_rate.near.copy()
    burst[loudest] *= 1000.0
    then = next_flips(state, feeds, replace(quiet(feeds), burst_rate=burst), None)
    assert stored_by(then.state, feeds, loudest) == 0
    assert set(feeds.producer[then.flips.stop_storing].tolist()) == {loudest}
    after = next_flips(then.state, feeds, quiet(feeds), None)
    assert stored_by(after.state, feeds, loudest) == before


def test_somebody_who_says_something_once_an_hour_is_in_no_burst() -> None:
    """One event reads as one in fourteen seconds, if that is all the time one looks at."""
    usual, late = FadingCounts(3600.0, 0.0), FadingCounts(10.0, 0.0)
    usual.resume({0: 1.0}, 5000.0)
    one, pricing = np.zeros(1, np.int64), Pricing(Model.RPC)
    state, flips = None, 0
    for window in range(240):
        posts = {0: 1.0} if window in (60, 180) else {}
        for counts in (usual, late):
            counts.add(posts, 30.0 * (window + 1))
        rates, reads = Amounts(usual.rates(1)), Amounts(np.array([0.01]))
        prices = Amounts.constant(Fraction(3), 1), Amounts.constant(Fraction(1), 1)
        feeds = Feeds(rates, reads, *prices, one, one, pricing)
        state = state or start_feed(feeds, decide_pairs(feeds))
        step = next_flips(state, feeds, replace(quiet(feeds), burst_rate=late.rates(1, like_others_s=0.0)), None)
        state, flips = step.state, flips + len(step.flips.start_storing) + len(step.flips.stop_storing)
    assert flips <= 2 and state is not None and state.ahead.all()


def least(feeds: Feeds) -> BoolArray:
    return decide_pairs(feeds)


def test_a_latency_target_is_met_within_ten_windows_and_never_reads_what_cost_alone_stores() -> None:
    feeds = random_feeds(5)
    state = start_feed(feeds, least(feeds))
    goal = mean_pulls(feeds, state.ahead) / 2
    for _ in range(10):
        step = next_flips(
            state, feeds, quiet(feeds, slowness=mean_pulls(feeds, state.ahead) / goal, reads=FEWEST_READS), Goal()
        )
        state = step.state
        assert (state.ahead >= state.by_cost).all()
    assert mean_pulls(feeds, state.ahead) <= goal
    held = next_flips(state, feeds, quiet(feeds, slowness=9.0, reads=FEWEST_READS - 1), Goal())
    assert np.array_equal(held.state.ahead, state.ahead), "a handful of reads says nothing"


def test_a_target_that_storing_everything_does_not_meet_is_said_to_be_unreachable() -> None:
    feeds = random_feeds(6)
    state = start_feed(feeds, least(feeds))
    for _ in range(20):
        state = next_flips(state, feeds, quiet(feeds, slowness=2.0, reads=FEWEST_READS), Goal()).state
    assert state.outcome is ThresholdOutcome.UNREACHABLE and state.ahead.all()


def test_a_late_fan_out_sheds_who_writes_most_until_it_is_in_time_and_takes_them_back_slowly() -> None:
    feeds = random_feeds(7)
    state = start_feed(feeds, least(feeds))

    def writes(now: FeedState) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return np.bincount(feeds.producer[now.ahead], minlength=30) * feeds.event_rate.near

    first, all_writes = int(np.argmax(writes(state))), writes(state).sum()
    one = next_flips(state, feeds, quiet(feeds, lateness=2.0), None).state
    assert one.shed == (first,) and writes(one)[first] == 0.0
    late = one
    for _ in range(8):
        late = next_flips(late, feeds, quiet(feeds, lateness=1.5), None).state
    assert writes(late).sum() == 0.0, "everything is read if nothing else helps, and nothing is dropped"
    calm = late
    for _ in range(CALM_WINDOWS * 8):
        calm = next_flips(calm, feeds, quiet(feeds, lateness=0.5), None).state
    assert calm.shed == () and writes(calm).sum() == pytest.approx(all_writes)
