"""Rates of feeds: right from the start, and they follow what changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.observe.feed_rates import FadingCounts


@given(st.floats(0.01, 1000.0), st.integers(1, 200), st.sampled_from([10.0, 3600.0]))
def test_a_steady_rate_is_known_as_soon_as_something_was_counted(rate: float, looks: int, half_life_s: float) -> None:
    counts = FadingCounts(half_life_s, at_s=5.0)
    for look in range(1, looks + 1):
        counts.add({0: rate * 10.0}, 5.0 + 10.0 * look)
    (found,) = counts.rates(1)
    # What is counted at the end of ten seconds was there, on average, five seconds before.
    assert found == pytest.approx(rate, rel=np.log(2) * 10.0 / half_life_s)


def test_half_of_a_rate_is_forgotten_in_a_half_life() -> None:
    counts = FadingCounts(60.0, at_s=0.0)
    for look in range(1, 100):
        counts.add({0: 60.0}, 60.0 * look)
    before = counts.rates(1, like_others_s=0.0)[0]
    counts.add({}, 99 * 60.0 + 60.0)
    assert counts.rates(1, like_others_s=0.0)[0] == pytest.approx(before / 2, rel=1e-6)


def test_who_was_hardly_seen_is_like_the_others_and_who_was_seen_for_long_is_not() -> None:
    counts = FadingCounts(3600.0, at_s=0.0)
    counts.add({0: 100.0}, 1.0)
    assert counts.rates(2)[1] == pytest.approx(50.0, rel=0.01), "a second says nothing"
    for look in range(1, 400):
        counts.add({0: 6000.0}, 60.0 * look)
    busy, silent = counts.rates(2)
    assert busy > 90.0 and silent < 10.0


def test_counts_go_on_where_an_earlier_service_ended() -> None:
    one, other = FadingCounts(600.0, at_s=0.0), FadingCounts(600.0, at_s=0.0)
    one.add({0: 5.0, 3: 7.0}, 100.0)
    other.resume({0: one.counts[0], 3: one.counts[3]}, one.seconds)
    other.at_s = 100.0
    for counts in (one, other):
        counts.add({0: 1.0}, 200.0)
    assert other.rates(4) == pytest.approx(one.rates(4))
    assert one.add({}, 150.0) == 0.0, "a clock that goes back stands still"
