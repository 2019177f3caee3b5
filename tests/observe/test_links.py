"""Rates of links follow from what arrives while more is on its way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.link_counts import LinkCount, LinkProbe
from headrace.observe.links import (
    ENOUGH_BUSY_S,
    LinkBelief,
    LinkRates,
    believe,
    believe_probe,
    choose_probe_bytes,
    is_worth_another,
    measure_rates,
)


def counts_of(seconds: list[tuple[int, float]], start: float = 1000.0) -> list[LinkCount]:
    """Counts a second apart: bytes that arrived in each, and which share of it was busy."""
    found = [LinkCount(start, 0, 0.0)]
    for arrived, busy in seconds:
        last = found[-1]
        found.append(LinkCount(last.at_s + 1.0, last.arrived + arrived, last.busy_s + busy))
    return found


def test_a_link_that_becomes_slower_is_known_to_be_within_ten_seconds() -> None:
    fast, slow = [(12_500_000, 1.0)] * 20, [(1_250_000, 1.0)] * 4
    assert measure_rates(counts_of(fast)) == LinkRates(12.5e6, 12.5e6)
    assert measure_rates(counts_of(fast + slow)) == LinkRates(1.25e6, 1.25e6)


def test_a_link_on_which_nothing_waits_says_nothing_about_its_capacity() -> None:
    assert measure_rates(counts_of([(40_000, 0.1)] * 10)) == LinkRates(40_000.0, None)
    assert measure_rates([]) == measure_rates(counts_of([])) == LinkRates(0.0, None)


def test_what_was_measured_is_forgotten_after_a_minute() -> None:
    busy = counts_of([(1000, 1.0)] * 5)
    quiet = LinkCount(busy[-1].at_s + 70.0, busy[-1].arrived, busy[-1].busy_s)
    assert measure_rates(busy).capacity_bytes_s == 1000.0
    assert measure_rates([*busy, quiet]) == LinkRates(0.0, None)


def test_a_burst_at_the_beginning_does_not_count_for_long() -> None:
    assert measure_rates(counts_of([(90_000, 1.0), (1000, 1.0), (1000, 1.0)])).capacity_bytes_s == 1000.0


@given(st.lists(st.tuples(st.integers(0, 10**9), st.floats(0.0, 1.0)), max_size=80))
def test_no_rate_is_above_the_fastest_second_or_below_nothing(seconds: list[tuple[int, float]]) -> None:
    found, fastest = measure_rates(counts_of(seconds)), max((arrived for arrived, _ in seconds), default=0)
    busiest = max((arrived / busy for arrived, busy in seconds if busy >= ENOUGH_BUSY_S), default=0.0)
    assert 0.0 <= found.bytes_s <= fastest + 1e-6
    assert found.capacity_bytes_s is None or 0.0 <= found.capacity_bytes_s <= max(fastest, busiest) * (1 + 1e-9)


def test_a_second_that_was_busy_for_a_part_tells_how_fast_that_part_was() -> None:
    assert measure_rates(counts_of([(3_000_000, 0.3)] * 3)).capacity_bytes_s == pytest.approx(10e6)
    assert measure_rates(counts_of([(3_000_000, 0.3)] * 3), round_trip_s=0.1).capacity_bytes_s is None
    assert measure_rates(counts_of([(200, 0.3)] * 3)).capacity_bytes_s is None


def test_pushes_some_seconds_apart_show_within_ten_that_a_link_became_slower() -> None:
    quiet = [(0, 0.0)] * 4
    fast, slow = [*quiet, (2_500_000, 0.25)], [*quiet, (1_000_000, 0.95)]
    assert measure_rates(counts_of(fast * 4 + slow * 2)).capacity_bytes_s == pytest.approx(1e6)


def test_a_process_that_waited_once_for_its_processor_is_no_slow_link() -> None:
    assert measure_rates(counts_of([(0, 0.0), (300, 1.0), (0, 0.0)])).capacity_bytes_s is None


# What is believed, and when it is worth a probe


def test_what_was_known_last_is_believed_for_an_hour() -> None:
    known = believe(None, 1e6, 100.0)
    assert known == LinkBelief(1e6, 100.0)
    assert believe(known, None, 3600.0) == known
    assert believe(known, None, 3701.0) is None
    assert believe(known, 2e6, 200.0) == LinkBelief(2e6, 200.0)


@given(
    st.one_of(st.none(), st.floats(1.0, 1e9)),
    st.one_of(st.none(), st.floats(1.0, 1e9)),
    st.floats(0.0, 1e4),
    st.one_of(st.none(), st.floats(1.0, 1e9)),
)
def test_a_probe_comes_after_silence_alone_and_takes_little(
    known: float | None, declared: float | None, silent_s: float, limit: float | None
) -> None:
    belief = None if known is None else LinkBelief(known, 0.0)
    size = choose_probe_bytes(belief, declared, silent_s, limit)
    if size is None:
        return
    assert silent_s >= 300.0 and declared is not None
    assert size <= declared * 1.0, "a second of what is declared"
    assert size <= max(1024.0, 0.02 * silent_s * (known or declared)), "a small part of what passes meanwhile"
    assert known is None or known < declared, "a link that is as declared is left alone"


def test_a_link_that_is_believed_slow_is_probed_and_one_that_is_well_is_not() -> None:
    assert choose_probe_bytes(LinkBelief(1.25e6, 0.0), 12.5e6, 300.0) == 7_500_000
    assert choose_probe_bytes(LinkBelief(1.25e6, 0.0), 12.5e6, 299.0) is None
    assert choose_probe_bytes(LinkBelief(12e6, 0.0), 12.5e6, 9999.0) is None
    assert choose_probe_bytes(LinkBelief(0.95e6, 0.0), 12.5e6, 9999.0, limit_bytes_s=1e6) is None


def probe_until_known(known: float, carries: float, declared: float, round_trip_s: float) -> list[LinkBelief]:
    """What is believed after each of the probes that follow each other."""
    beliefs = [LinkBelief(known, 0.0)]
    while (size := choose_probe_bytes(beliefs[-1], declared, 300.0)) is not None:
        takes_s = size / carries
        probe = LinkProbe(size, round_trip_s + takes_s, True) if takes_s <= 1.0 else LinkProbe(int(carries), 1.0, False)
        before = beliefs[-1]
        beliefs.append(believe_probe(before, probe, 0.0))
        if not is_worth_another(before, probe):
            break
    return beliefs


@given(st.floats(0.0, 1e6), st.floats(1e5, 1e9), st.floats(0.0, 0.3))
def test_a_link_that_is_well_again_is_found_well_however_slow_it_was(
    known: float, declared: float, round_trip_s: float
) -> None:
    found = probe_until_known(min(known, declared / 2), declared, declared, round_trip_s)
    assert found[-1].bytes_s >= 0.5 * declared
    assert len(found) <= 40


@given(st.floats(0.0, 1e6), st.floats(1e5, 1e9), st.floats(0.001, 0.5))
def test_no_probe_finds_more_than_a_link_carries(known: float, declared: float, share: float) -> None:
    carries = declared * share
    found = probe_until_known(min(known, carries), carries, declared, 0.05)
    assert all(one.bytes_s <= carries * 1.001 for one in found)


def test_a_probe_that_does_not_come_whole_lowers_what_is_believed_and_one_that_does_never() -> None:
    known = LinkBelief(1e6, 0.0)
    assert believe_probe(known, LinkProbe(200_000, 1.0, False), 5.0) == LinkBelief(200_000.0, 5.0)
    assert believe_probe(known, LinkProbe(200_000, 1.0, True), 5.0) == LinkBelief(1e6, 5.0)
