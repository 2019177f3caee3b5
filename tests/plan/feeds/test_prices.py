"""Measured prices decide as far as they are sure."""

from __future__ import annotations

import pytest

from headrace.model.feed_plan import PlannedPrices
from headrace.model.feed_prices import FeedPrices
from headrace.plan.feeds.prices import choose_prices, have_moved

ASSUMED = PlannedPrices(24e-6, 6e-6, 0.0, 83e-6, 20e-6, 3e-3, 1e-4)
ENGINE_S = 20e-6


def measured(**errors: float) -> FeedPrices:
    sure = dict.fromkeys(("H", "L", "L0", "read", "event"), 0.1e-6)
    return FeedPrices(30e-6, 9e-6, 2e-6, 500e-6, 40e-6, tuple((sure | errors).values()))


def test_sure_prices_are_used_and_an_entry_also_passes_the_engine() -> None:
    found = choose_prices(ASSUMED, measured(), ENGINE_S)
    assert (found.store_s, found.fetch_s, found.batch_s) == pytest.approx((50e-6, 9e-6, 2e-6))
    assert (found.read_s, found.event_s, found.calibrated) == (500e-6, 40e-6, True)


def test_a_price_that_nobody_knows_keeps_its_assumed_share_of_storing() -> None:
    found = choose_prices(ASSUMED, measured(L=700e-6, L0=900e-6), ENGINE_S)
    assert found.fetch_s / found.store_s == pytest.approx(ASSUMED.fetch_s / ASSUMED.store_s)
    assert found.batch_s == ASSUMED.batch_s


def test_a_price_that_is_known_to_be_small_is_not_taken_for_large() -> None:
    small = FeedPrices(30e-6, 0.2e-6, 0.0, 500e-6, 40e-6, (1e-6, 0.5e-6, 1e-6, 1e-6, 1e-6))
    assert choose_prices(ASSUMED, small, ENGINE_S).fetch_s == pytest.approx(1.2e-6), "two errors above what was seen"
    dearer = FeedPrices(30e-6, -4e-6, 0.0, 500e-6, 40e-6, (1e-6, 1e-6, 1e-6, 1e-6, 1e-6))
    assert choose_prices(ASSUMED, dearer, ENGINE_S).fetch_s == 0.0, "finding it stored ahead costs more than fetching"


def test_only_prices_that_moved_are_worth_another_decision() -> None:
    assert not have_moved(ASSUMED, choose_prices(ASSUMED, measured(H=1.0, L=1.0, L0=1.0), ENGINE_S))
    assert have_moved(ASSUMED, choose_prices(ASSUMED, measured(), ENGINE_S))
