"""Prices of a feed, learnt from the processor seconds of whole windows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from headrace.observe.feed_prices import FEWEST_WINDOWS, FeedWork, fit_prices

TRUE = np.array([4e-6, 7e-6, 5e-5, 8e-5, 2e-5])


def windows(count: int, noise: float, seed: int = 1) -> list[tuple[FeedWork, float]]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        work = rng.uniform((0, 0, 0, 100, 10), (50_000, 20_000, 900, 1000, 900))
        found.append((FeedWork(*work.tolist()), float(work @ TRUE) * rng.uniform(1 - noise, 1 + noise)))
    return found


def test_prices_are_what_they_were_and_errors_say_how_far_they_may_be_off() -> None:
    assert fit_prices(windows(FEWEST_WINDOWS - 1, 0.0)) is None
    exact = fit_prices(windows(FEWEST_WINDOWS, 0.0))
    assert exact is not None
    assert (exact.entry, exact.pull, exact.batch, exact.read, exact.event) == pytest.approx(tuple(TRUE), rel=1e-6)
    rough = fit_prices(windows(60, 0.2))
    assert rough is not None
    for true, (price, error) in zip(TRUE, rough.named.values(), strict=True):
        assert price == 0.0 or abs(price - true) < 4 * error
    assert max(rough.errors[:2]) < min(TRUE[:2]), "entries and pulls are most of the work, and are told apart"


def test_what_never_happened_has_no_price_and_nobody_knows_its_error() -> None:
    without = [(FeedWork(one.entries, 0.0, 0.0, one.reads, one.events), taken) for one, taken in windows(20, 0.05)]
    found = fit_prices(without)
    assert found is not None
    assert found.pull == found.batch == 0.0 and math.isinf(found.named["L"][1])


@pytest.mark.parametrize("seed", range(5))
def test_no_price_is_negative_whatever_is_measured(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = fit_prices([(one, float(rng.uniform(0, 1))) for one, _ in windows(12, 0.0, seed)])
    assert found is not None
    assert min(price for price, _ in found.named.values()) >= 0.0
