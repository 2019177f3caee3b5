"""Rates of devices' streams: counted where rows come, said where they do not."""

from __future__ import annotations

import pytest

from headrace.observe.device_rates import DeviceRates


def count(rates: DeviceRates, per_s: float, seconds: int, start: tuple[float, int] = (0.0, 0)) -> tuple[float, int]:
    now_s, rows = start
    for _ in range(0, seconds, 5):
        now_s, rows = now_s + 5.0, rows + round(5 * per_s)
        rates.count("1", "location", rows, now_s, is_whole=True)
    return now_s, rows


def test_what_is_declared_counts_until_something_is_known() -> None:
    rates = DeviceRates({"location": 0.5})
    assert rates.find_rate("1", "location") == 0.5
    assert rates.find_rate("1", "pulse") == 1.0
    rates.hear("1", {"location": 2.0})
    assert rates.find_rate("1", "location") == 2.0


def test_a_count_of_some_time_replaces_what_was_said() -> None:
    rates = DeviceRates()
    rates.hear("1", {"location": 9.0})
    reached = count(rates, 2.0, 15)
    assert rates.find_rate("1", "location") == 9.0
    count(rates, 2.0, 60, reached)
    assert rates.find_rate("1", "location") == pytest.approx(2.0)


def test_a_rate_that_changes_is_seen_within_a_few_half_lives() -> None:
    rates = DeviceRates()
    reached = count(rates, 10.0, 600)
    count(rates, 2.0, 180, reached)
    assert 2.0 <= rates.find_rate("1", "location") < 3.1


def test_a_device_that_began_to_send_late_is_not_taken_for_slow() -> None:
    rates = DeviceRates()
    rates.count("1", "location", 0, 1000.0, is_whole=True)
    count(rates, 4.0, 30, (1000.0, 0))
    assert rates.find_rate("1", "location") == pytest.approx(4.0)


def test_what_was_counted_last_is_remembered_when_a_stream_is_no_longer_sent() -> None:
    rates = DeviceRates()
    rates.hear("1", {"location": 9.0})
    count(rates, 3.0, 120)
    rates.stop("1", "location")
    assert rates.find_rate("1", "location") == pytest.approx(3.0)
    rates.hear("1", {"location": 1.0})
    assert rates.find_rate("1", "location") == 1.0


def test_a_router_that_began_anew_loses_no_more_than_what_it_had_not_told() -> None:
    rates = DeviceRates()
    now_s, _ = count(rates, 4.0, 120)
    count(rates, 4.0, 60, (now_s, 0))
    assert rates.find_rate("1", "location") == pytest.approx(4.0, rel=0.1)


def test_a_stream_that_is_thinned_out_is_judged_by_its_device() -> None:
    rates = DeviceRates()
    rates.hear("1", {"location": 8.0})
    for at in range(60):
        rates.count("1", "location", at, 5.0 * at, is_whole=False)
    assert rates.find_rate("1", "location") == 8.0


def test_a_device_that_is_forgotten_is_like_a_new_one() -> None:
    rates = DeviceRates({"location": 0.5})
    rates.hear("1", {"location": 8.0})
    count(rates, 3.0, 60)
    rates.forget("1")
    assert rates.find_rate("1", "location") == 0.5


def test_a_derived_stream_is_as_fast_as_what_it_is_made_of_until_more_is_known():
    rates = DeviceRates()
    rates.declare({"location": 0.5, "speed": 2.0, "spot": 9.0}, {"spot": ("location", "speed")})
    rates.hear("1", {"location": 4.0})
    assert rates.find_rate("1", "spot") == 6.0
    rates.hear("1", {"spot": 0.01})
    assert rates.find_rate("1", "spot") == 0.01
