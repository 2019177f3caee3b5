"""A link never carries more than its limit, however much is to be sent and by how many."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.wire.limit import (
    BURST_S,
    MOST_AT_ONCE,
    PACKET_ADDS,
    RECORD_ADDS,
    LinkLimits,
    TokenBucket,
    count_on_link,
)

SIZES = st.lists(st.tuples(st.integers(1, 500), st.floats(0.0, 2.0)), max_size=50)


@given(SIZES, st.floats(100.0, 10_000.0))
def test_no_stretch_of_time_carries_more_than_the_limit_and_a_burst(sent: list[tuple[int, float]], rate: float) -> None:
    bucket, now, times = TokenBucket(), 0.0, list[tuple[float, int]]()
    for size, pause in sent:
        now += pause
        times.append((now + bucket.take(size, rate, now), size))
    for first, (start, _) in enumerate(times):
        for last in range(first, len(times)):
            carried = sum(size for _, size in times[first : last + 1])
            largest = max(size for _, size in times[first : last + 1])
            assert carried <= rate * (times[last][0] - start + BURST_S) + largest + 1e-6


@given(st.lists(st.integers(1, 500), min_size=1, max_size=50), st.floats(100.0, 10_000.0))
def test_a_link_with_enough_to_send_is_never_idle(sizes: list[int], rate: float) -> None:
    bucket = TokenBucket()
    waits = [bucket.take(size, rate, 0.0) for size in sizes]
    assert abs(waits[-1] - max(0.0, sum(sizes) / rate - BURST_S)) < 1e-6


def test_a_limit_that_changes_holds_from_then_on_and_other_sites_have_their_own() -> None:
    limits = {"eu": 1000.0}
    now = 0.0
    found = LinkLimits(limits.get, lambda: now)
    carried = count_on_link(1250)
    assert found.take("eu", 1250) == carried / 1000.0 - BURST_S
    assert found.take("us", 10**9) == 0.0
    assert (found.at_once("eu"), found.at_once("us")) == (250, MOST_AT_ONCE)
    now, limits["eu"] = carried / 1000.0 - BURST_S, 10_000.0
    assert found.take("eu", 10_000) == pytest.approx(count_on_link(10_000) / 10_000.0)


@given(st.integers(1, 10_000_000))
def test_a_link_carries_a_twentieth_more_than_large_answers_and_much_more_than_small_ones(size: int) -> None:
    found = count_on_link(size)
    assert size + RECORD_ADDS + PACKET_ADDS <= found <= 1.05 * size + RECORD_ADDS + PACKET_ADDS
    assert count_on_link(size + 1) > found
