"""How often streams are said to have rows."""

from __future__ import annotations

import random

import pytest

from headrace.run.device.rates import StreamRates


@pytest.mark.parametrize("rate", [0.001, 0.1, 50.0])
def test_a_rate_is_close_and_follows_changes(rate: float):
    rates, now, chance = StreamRates(), 1_000_000.0, random.Random(1)
    for factor in (1.0, 5.0, 0.2):
        for _ in range(60):
            now += 1000 * chance.expovariate(rate * factor)
            rates.add("location", round(now))
        assert rates.per_second(round(now))["location"] == pytest.approx(rate * factor, rel=0.5)


def test_a_moved_rate_is_worth_telling_once():
    rates = StreamRates()
    for at in range(0, 100_000, 1000):
        rates.add("location", at)
    assert rates.has_moved(100_000)
    assert rates.tell(100_000)["location"] == pytest.approx(1.0, rel=0.1)
    assert not rates.has_moved(101_000)
    assert rates.has_moved(200_000), "silence moves a rate, too"


def test_nothing_is_said_of_a_stream_that_just_began():
    rates = StreamRates()
    rates.add("location", 1_000)
    assert rates.per_second(2_000) == {} and not rates.has_moved(2_000)
    assert rates.per_second(201_000) == {"location": 0.005}
    rates.add("location", 500)
    assert rates.per_second(501) == {}
