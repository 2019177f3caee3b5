"""No consumer has more pairs stored ahead than the cap, and those that are stored save most."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.plan.feeds.adapting import FeedState, FeedWindow, next_flips
from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.cap import MOST_AHEAD, cap_pairs
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.per_pair import decide_pairs


def make_feeds(event_rate: list[float], query_rate: list[float], pairs: list[tuple[int, int]]) -> Feeds:
    consumers, producers = len(query_rate), len(event_rate)
    assert all(consumer < consumers and producer < producers for consumer, producer in pairs)
    return Feeds(
        Amounts(np.array(event_rate)),
        Amounts(np.array(query_rate)),
        Amounts.constant(Fraction(3), producers),
        Amounts.constant(Fraction(1), producers),
        np.array([consumer for consumer, _ in pairs], np.int64),
        np.array([producer for _, producer in pairs], np.int64),
        Pricing(Model.RPC, Fraction(0)),
    )


@st.composite
def some_feeds(draw: st.DrawFn) -> Feeds:
    rates = st.integers(0, 20).map(float)
    event_rate = draw(st.lists(rates, min_size=1, max_size=6))
    query_rate = draw(st.lists(rates, min_size=1, max_size=4))
    every = [(consumer, producer) for consumer in range(len(query_rate)) for producer in range(len(event_rate))]
    return make_feeds(event_rate, query_rate, draw(st.lists(st.sampled_from(every), unique=True)))


@given(feeds=some_feeds(), most=st.integers(1, 4), data=st.data())
def test_those_that_save_most_are_stored_and_no_more_than_the_cap(feeds, most, data):
    flags = st.lists(st.booleans(), min_size=len(feeds), max_size=len(feeds)).map(lambda some: np.array(some, np.bool_))
    wanted, stored = data.draw(flags), data.draw(flags)
    capped = cap_pairs(feeds, wanted, stored, most)

    def saved(pair: int) -> float:
        factor = 0.9 if stored[pair] else 1.1
        rate = feeds.event_rate.near[feeds.producer[pair]]
        return float(feeds.query_rate.near[feeds.consumer[pair]] - 3 * rate * factor)

    for consumer in set(feeds.consumer.tolist()):
        own = [pair for pair in np.flatnonzero(wanted).tolist() if feeds.consumer[pair] == consumer]
        best = sorted(own, key=lambda pair: (-saved(pair), pair))[:most]
        assert [pair for pair in own if capped[pair]] == sorted(best)
    assert not (capped & ~wanted).any()


def test_a_running_feed_stores_no_more_than_the_cap_and_then_rests():
    many = MOST_AHEAD + 200
    feeds = make_feeds(
        [1e-6 * (1 + n) for n in range(many)], [5.0, 5.0], [(0, n) for n in range(many)] + [(1, 0), (1, many - 1)]
    )
    assert decide_pairs(feeds).all(), "cost alone would store everything"
    nothing = np.zeros(len(feeds), np.bool_)
    state = FeedState(nothing, nothing, np.zeros(many), np.zeros(2))
    window = FeedWindow(np.zeros(many), 0.0, 0, 0.0)
    step = next_flips(state, feeds, window, None)
    stored = np.flatnonzero(step.state.ahead)
    assert stored.tolist() == [*range(MOST_AHEAD), many, many + 1], "the producers that write least are stored"
    again = next_flips(step.state, feeds, window, None)
    assert not len(again.flips.start_storing) and not len(again.flips.stop_storing)


def test_a_pair_that_is_stored_stays_although_another_saves_a_little_more():
    feeds = make_feeds([1.0, 0.95], [10.0], [(0, 0), (0, 1)])
    both = np.array([True, True])
    assert cap_pairs(feeds, both, np.array([True, False]), 1).tolist() == [True, False]
    assert cap_pairs(feeds, both, np.array([False, False]), 1).tolist() == [False, True]
