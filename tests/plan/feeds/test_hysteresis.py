"""Rates change: only pairs of those whose rates changed are looked at, and only clear cases flip."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from headrace.plan.feeds.amounts import Amounts
from headrace.plan.feeds.hysteresis import Changes, reconsider, touched_pairs
from headrace.plan.feeds.instance import Feeds, Model, Pricing
from headrace.plan.feeds.per_pair import decide_pairs


def one_pair(query_rate: str, event_rate: str = "1") -> Feeds:
    return Feeds(
        Amounts.of([Fraction(event_rate)]),
        Amounts.of([Fraction(query_rate)]),
        Amounts.constant(Fraction(3), 1),
        Amounts.constant(Fraction(1), 1),
        np.array([0]),
        np.array([0]),
        Pricing(Model.RPC),
    )


@pytest.mark.parametrize(
    ("query_rate", "stored", "flips"),
    [("3.29", False, False), ("3.3", False, True), ("2.7", True, False), ("2.69", True, True), ("0", True, True)],
)
def test_a_pair_flips_beyond_ten_percent_on_either_side_of_the_threshold(query_rate: str, stored: bool, flips: bool):
    changes = reconsider(one_pair(query_rate), np.array([stored]))
    assert (len(changes.start_storing), len(changes.stop_storing)) == (flips and not stored, flips and stored)


def test_a_rate_that_wavers_around_the_threshold_moves_nothing():
    for stored in (True, False):
        for query_rate in ("2.9", "3", "3.1", "2.95"):
            changes = reconsider(one_pair(query_rate), np.array([stored]))
            assert not len(changes.start_storing)
            assert not len(changes.stop_storing)


def test_a_silent_producer_is_stored_and_a_consumer_who_left_is_not():
    assert len(reconsider(one_pair("0", "0"), np.array([False])).start_storing) == 1
    assert len(reconsider(one_pair("0"), np.array([True])).stop_storing) == 1


def random_feeds(model: Model) -> Feeds:
    rng = np.random.default_rng(3)
    keys = np.unique(rng.integers(0, 50 * 40, 400))
    prices = Amounts.constant(Fraction(3), 40), Amounts.constant(Fraction(1), 40)
    rates = Amounts(rng.lognormal(1, 1, 40)), Amounts(rng.lognormal(2, 1, 50))
    return Feeds(*rates, *prices, keys // 40, keys % 40, Pricing(model, Fraction(2)))


@pytest.mark.parametrize("model", Model)
def test_looking_at_touched_pairs_finds_what_looking_at_all_finds(model: Model):
    before = random_feeds(model)
    ahead = decide_pairs(before)
    rates, queries = before.event_rate.near.copy(), before.query_rate.near.copy()
    rates[[3, 7]] *= 100
    queries[11] /= 50
    after = replace(before, event_rate=Amounts(rates), query_rate=Amounts(queries))
    touched = touched_pairs(after, np.array([3, 7]), np.array([11]))
    some, everything = reconsider(after, ahead, touched), reconsider(after, ahead)
    assert (some.start_storing.tolist(), some.stop_storing.tolist()) == (
        everything.start_storing.tolist(),
        everything.stop_storing.tolist(),
    )
    assert len(some.stop_storing), "a hundredfold rate must move something"
    assert len(touched) < len(after)


def test_changes_can_be_applied_twice():
    changes = Changes(np.array([0]), np.array([2]))
    once = changes.applied_to(np.array([False, True, True]))
    assert once.tolist() == changes.applied_to(once).tolist() == [True, True, False]
