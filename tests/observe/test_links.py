"""The capacity of links and the demand on them, from reports of what was sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.observe.links import LinkReport, LinkState, links_of

MB = 1e6
LINK = ("us", "eu")


def after(state: LinkState, *reports: tuple[float, float, float]) -> LinkState:
    for clock_s, sent, backlog in reports:
        state = state.seen(LinkReport(clock_s, sent, backlog))
    return state


def steady(state: LinkState, seconds: int, sent: float, grows: float = 0.0) -> LinkState:
    """A report each second, with a backlog that grows."""
    start = state.last.clock_s if state.last else -1.0
    backlog = state.last.backlog if state.last else 0.0
    return after(state, *((start + n, sent, backlog + n * grows) for n in range(1, seconds + 1)))


def test_declared_capacity_holds_until_the_link_was_full():
    state = steady(LinkState(10 * MB), 30, 2 * MB)
    assert state.capacity == 10 * MB
    assert state.load == pytest.approx(0.2)


def test_what_gets_through_while_something_waits_is_the_capacity():
    state = steady(LinkState(10 * MB), 30, 4 * MB, grows=1 * MB)
    assert state.capacity == pytest.approx(4 * MB)


def test_load_exceeds_1_when_more_is_asked_than_gets_through():
    state = steady(LinkState(None), 120, 4 * MB, grows=2 * MB)
    assert state.load == pytest.approx(1.5, rel=1e-3)


def test_capacity_is_the_most_of_the_last_minute():
    state = after(LinkState(None), (0, 0, 1), (1, 5 * MB, 1), (2, 3 * MB, 1), (3, 4 * MB, 1))
    assert state.capacity == 5 * MB
    assert after(state, (60.9, 1 * MB * 57.9, 1)).capacity == 5 * MB
    assert after(state, (61.5, 1 * MB * 58.5, 1)).capacity == 4 * MB
    assert after(state, (64, 1 * MB * 61, 1)).capacity == pytest.approx(1 * MB)


def test_the_last_known_capacity_holds_when_nothing_waits_any_more():
    state = steady(after(LinkState(None), (0, 0, 1), (1, 5 * MB, 1), (2, 5 * MB, 0)), 200, 1 * MB)
    assert state.capacity == 5 * MB
    assert state.load == pytest.approx(0.2, rel=1e-3)


def test_demand_moves_half_of_the_way_in_ten_seconds():
    state = steady(LinkState(10 * MB), 60, 2 * MB)
    assert steady(state, 10, 6 * MB).demand == pytest.approx(4 * MB, rel=1e-3)


def test_draining_a_backlog_is_not_demand():
    state = after(LinkState(10 * MB), (0, 0, 8 * MB), (1, 5 * MB, 3 * MB))
    assert state.demand == 0.0


def test_round_trips_are_averaged_over_reports_that_have_them():
    state = (
        LinkState(None).seen(LinkReport(0, 0, 0, 0.1)).seen(LinkReport(10, 0, 0, None)).seen(LinkReport(20, 0, 0, 0.2))
    )
    assert state.round_trip_s == pytest.approx(0.15)


def test_an_idle_link_is_probed_after_five_minutes_with_a_fiftieth_of_its_capacity():
    links = links_of({LINK: 10 * MB}).seen(LINK, LinkReport(0, 0, 0)).seen(LINK, LinkReport(1, 1 * MB, 0))
    assert links.probes(300) == {}
    (probe,) = links.probes(301).values()
    assert probe.seconds == 1.0
    assert probe.size == pytest.approx(0.02 * 10 * MB)
    assert links.seen(LINK, LinkReport(302, 0.2 * MB, 0)).probes(303) == {}


def test_a_link_of_which_nothing_is_known_is_neither_loaded_nor_probed():
    links = links_of({LINK: None}).seen(LINK, LinkReport(0, 0, 0)).seen(LINK, LinkReport(1000, 0, 0))
    assert links.load == {}
    assert links.probes(2000) == {}


def test_planned_rates_are_compared_with_what_the_link_can_carry():
    assert LinkState(10 * MB).planned_load(9 * MB) == pytest.approx(0.9)
    assert LinkState(None).planned_load(9 * MB) is None


REPORTS = st.lists(st.tuples(st.floats(0.1, 30), st.floats(0, 1e8), st.floats(0, 1e8)), max_size=40)


@given(steps=REPORTS)
def test_capacity_changes_only_while_the_link_was_full_within_the_last_minute(steps):
    clock, waiting, full_at = 0.0, 0.0, -1e9
    state = LinkState(7.0).seen(LinkReport(0.0, 0.0, 0.0))
    for passed, sent, backlog in steps:
        clock += passed
        before, state = state, state.seen(LinkReport(clock, sent, backlog))
        full_at = clock if waiting > 0 and backlog > 0 else full_at
        waiting = backlog
        assert state.capacity == before.capacity or clock - full_at < 60
        assert state.demand is not None
        assert state.demand >= 0


@given(steps=REPORTS)
def test_a_report_that_is_not_later_changes_nothing(steps):
    state, clock = LinkState(None), 0.0
    for passed, sent, backlog in steps:
        clock += passed
        state = state.seen(LinkReport(clock, sent, backlog))
        assert state.last is None or state.seen(LinkReport(clock, sent + 1, backlog)) == state
