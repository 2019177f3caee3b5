"""Rates of feeds: right from the start, and they follow what changes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.observe.feed_rates import FadingCounts


@given(st.floats(0.01, 1000.0), st.integers(1, 200), st.sampled_from([10.0, 3600.0]))
def test_a_steady_rate_is_known_as_soon_as_something_was_counted(rate: float, looks: int, half_life_s: float) -> None:
    counts = FadingCounts(half_life_s, began_s=5.0)
    for look in range(1, looks + 1):
        counts.add({"bob": rate * 10.0}, 5.0 + 10.0 * look)
    (found,) = counts.rates(["bob"], 5.0 + 10.0 * looks)
    # What is counted at the end of ten seconds was there, on average, five seconds before.
    assert found == pytest.approx(rate, rel=np.log(2) * 10.0 / half_life_s)


def test_half_of_a_rate_is_forgotten_in_a_half_life() -> None:
    counts = FadingCounts(60.0, began_s=0.0)
    counts.add({"bob": 100.0}, 6000.0)
    before, after = (counts.rates(["bob"], now_s)[0] for now_s in (6000.0, 6060.0))
    assert after == pytest.approx(before / 2)


def test_names_that_were_never_counted_have_no_rate_and_more_names_than_room_find_theirs() -> None:
    counts = FadingCounts(60.0, began_s=0.0)
    assert counts.rates(["bob"], 0.0).tolist() == [0.0]
    counts.add({str(number): float(number) for number in range(3000)}, 1.0)
    rates = counts.rates(["0", "1", "2999", "nobody"], 1.0)
    assert rates[0] == rates[3] == 0.0
    assert rates[2] == pytest.approx(2999 * rates[1])
