"""How far views are behind."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.model.log import CommitMark
from headrace.observe.lag import SECOND, DatabaseProgress, lag_s

NOON = 1_800_000_000 * SECOND


def mark(t_s: float, commit_s: float) -> CommitMark:
    return CommitMark("shop", NOON + round(t_s * SECOND), NOON + round(commit_s * SECOND))


def lag(now_s: float, lacking: CommitMark | None, last: CommitMark | None) -> float:
    return lag_s(NOON + round(now_s * SECOND), NOON, [DatabaseProgress("shop", lacking, last)])


def test_lag_counts_from_the_commit_of_the_oldest_change_that_the_view_lacks():
    assert lag(30.0, mark(1.0, 0.75), mark(29.0, 28.9)) == 29.25


def test_an_idle_healthy_source_has_a_lag_of_about_a_second():
    assert lag(0.9, None, mark(0.0, -0.01)) == 0.91


def test_a_capture_that_stands_still_shows_as_a_lag_that_grows():
    last = mark(-0.5, -0.6)
    assert [lag(now, None, last) for now in (1.0, 60.0, 600.0)] == [1.6, 60.6, 600.6]


def test_a_capture_that_catches_up_shows_how_old_what_it_brings_is():
    """Nothing was received for ten minutes; then what was committed since arrives at once."""
    stalled = lag(600.0, None, mark(-1.0, -1.0))
    arrived = lag(600.5, mark(600.2, -0.5), mark(600.4, 600.3))
    assert (stalled, arrived) == (601.0, 601.0)


def test_a_lag_is_never_negative_although_our_clock_was_put_back():
    later = mark(3601.0, 3600.5)
    assert lag(1.0, later, later) == lag(1.0, None, later) == 0.0


def test_the_most_backward_database_decides():
    fresh, late = mark(29.0, 29.0), mark(2.0, 1.5)
    found = lag_s(
        NOON + 30 * SECOND, NOON, [DatabaseProgress("shop", fresh, fresh), DatabaseProgress("depot", late, late)]
    )
    assert found == 28.5


def test_a_database_of_which_nothing_is_known_counts_from_the_time_of_the_view():
    assert lag(12.0, None, None) == 12.0


def test_a_view_without_databases_has_no_lag():
    assert lag_s(NOON + SECOND, NOON, []) == 0.0


@given(
    st.lists(st.integers(0, 10**7), min_size=1, max_size=30).map(sorted),
    st.integers(0, 10**7),
    st.integers(0, 10**6),
)
def test_lag_is_that_of_the_first_transaction_after_the_view_by_definition(
    commits: list[int], view_at: int, delay: int
):
    """Transactions are committed at known times and received in order after a delay; the oracle reads the true ones."""
    received = [commit + delay for commit in commits]
    seen = [CommitMark("shop", t, commit) for t, commit in zip(received, commits, strict=True)]
    now = 2 * 10**7
    lacking = [commit for t, commit in zip(received, commits, strict=True) if t > view_at]
    expected = now - (lacking[0] if lacking else commits[-1])
    captured = DatabaseProgress("shop", next((one for one in seen if one.t > view_at), None), seen[-1])
    assert round(lag_s(now, view_at, [captured]) * SECOND) == expected
