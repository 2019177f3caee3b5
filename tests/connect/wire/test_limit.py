"""A link never carries more than its limit, however much is to be sent and by how many."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.wire.limit import BURST_S, MOST_AT_ONCE, LinkLimits, TokenBucket

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
    assert found.take("eu", 1250) == 1.0
    assert found.take("us", 10**9) == 0.0
    assert (found.at_once("eu"), found.at_once("us")) == (250, MOST_AT_ONCE)
    now, limits["eu"] = 1.0, 10_000.0
    assert found.take("eu", 10_000) == 1.0
