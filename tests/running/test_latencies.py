"""The latency by event time follows from what each push made visible."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.run.push.push import Pushed
from headrace.site.latencies import Latencies

SECOND = 1_000_000
START = 1_800_000_000 * SECOND


def test_rows_of_a_push_have_waited_since_they_were_committed() -> None:
    found = Latencies()
    found.note([Pushed("v", START, rows_out=1)], {"v"}, START + SECOND)
    assert found.find(START + SECOND) == {}, "nobody knows since when the first rows waited"
    found.note([Pushed("v", START + 4 * SECOND, rows_out=3)], {"v"}, START + 5 * SECOND)
    one = found.find(START + 5 * SECOND)["v"]
    assert one.mean_s == pytest.approx(3.0) and one.longest_s == pytest.approx(5.0)
    assert found.find(START + 66 * SECOND) == {}, "it is of the last minute"


def test_pushes_without_rows_of_others_and_failures_do_not_count() -> None:
    found = Latencies()
    for t, more in ((1, {"rows_out": 1}), (2, {"rows_out": 0}), (3, {"rows_out": 1, "error": "no"})):
        found.note([Pushed("v", START + t * SECOND, **more)], {"v"}, START + 10 * SECOND)
    found.note([Pushed("w", START + SECOND, rows_out=1), Pushed("w", START + 2 * SECOND, rows_out=1)], {"v"}, START)
    assert found.find(START + 10 * SECOND) == {}


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(0, 20)), min_size=2, max_size=20))
def test_the_mean_over_rows_that_come_evenly_is_that_of_each_of_them(pushes: list[tuple[int, int]]) -> None:
    """A row a second, each visible with the first push that reaches it."""
    found, t, waited, now = Latencies(), START, list[float](), START
    found.note([Pushed("v", t, rows_out=1)], {"v"}, t)
    for seconds, delay in pushes:
        before, t = t, t + seconds * SECOND
        now = max(now, t + delay * SECOND)
        found.note([Pushed("v", t, rows_out=seconds)], {"v"}, now)
        waited += [(now - (before + (n + 0.5) * SECOND)) / SECOND for n in range(seconds)]
        expected_now = now
    if expected_now - START <= 60 * SECOND:
        one = found.find(expected_now)["v"]
        assert one.mean_s == pytest.approx(sum(waited) / len(waited))
        assert one.longest_s >= max(waited)
