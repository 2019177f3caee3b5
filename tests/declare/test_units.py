from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.declare import units
from headrace.declare.units import Dimension, Unreadable, read_amount, read_count, read_share
from headrace.model import amounts


@pytest.mark.parametrize(
    ("written", "dimension", "expected"),
    [
        ("100 Mbps", units.BANDWIDTH, 12.5e6),
        ("100Mbit/s", units.BANDWIDTH, 12.5e6),
        ("1e6 B/s", units.BANDWIDTH, 1e6),
        ("1.25e+08 B/s", units.BANDWIDTH, 1.25e8),
        ("10 MB/s", units.BANDWIDTH, 1e7),
        ("1 GiB/s", units.BANDWIDTH, 2**30),
        ("40 ms", units.LATENCY, 0.04),
        ("0.0005 s", units.LATENCY, 0.0005),
        ("0", units.LATENCY, 0),
        ("30 s", units.DURATION, 30),
        (30, units.DURATION, 30),
        ("5s", units.DURATION, 5),
        ("5 min", units.DURATION, 300),
        ("1 h", units.DURATION, 3600),
        ("7 days", units.DURATION, 604800),
        ("0.01 $/GB", units.TRAFFIC_PRICE, 0.01),
        ("$0.01/GB", units.TRAFFIC_PRICE, 0.01),
        ("10 $/TB", units.TRAFFIC_PRICE, 0.01),
        (0.02, units.TRAFFIC_PRICE, 0.02),
        ("0.34 $/core-hour", units.CPU_PRICE, 0.34),
        ("0.34 USD / core-hour", units.CPU_PRICE, 0.34),
        ("0.11 $/GB-month", units.DISK_PRICE, 0.11),
        ("110 $/TB/month", units.DISK_PRICE, 0.11),
        ("0.001 $/row", units.PENALTY, 0.001),
        ("7M rows", units.ROWS, 7e6),
        ("1 row", units.ROWS, 1),
        ("1_000_000", units.ROWS, 1e6),
        (700000, units.ROWS, 700000),
        ("100 /s", units.RATE, 100),
        ("2k rows/s", units.RATE, 2000),
        ("6 rows / min", units.RATE, 0.1),
        (3, units.RATE, 3),
        ("500 GB", units.CAPACITY, 5e11),
        ("20 GiB", units.CAPACITY, 20 * 2**30),
        ("2 cores", units.CORES, 2),
    ],
)
def test_amounts_are_read_as_people_write_them(written: object, dimension: Dimension, expected: float) -> None:
    assert read_amount(written, dimension) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("written", "dimension", "message", "hint"),
    [
        (100, units.BANDWIDTH, '"100" has no unit', 'write a bandwidth such as "100 Mbps"'),
        ("40", units.LATENCY, '"40" has no unit', 'write a time such as "40 ms"'),
        ("100 mbps", units.BANDWIDTH, '"mbps" is not a unit', 'did you mean "Mbps"? upper and lower case differ'),
        ("500 Gb", units.CAPACITY, '"Gb" is not a unit', 'did you mean "GB"? upper and lower case differ'),
        ("30 MB", units.DURATION, '"30 MB" is a size, not a time', 'write a time such as "30 s"'),
        ("5 parsecs", units.SECONDS, '"5 parsecs" is not a time', 'write a time such as "30 s"'),
        ("soon", units.DURATION, '"soon" is not a time', 'write a time such as "30 s"'),
        ("-1 s", units.SECONDS, '"-1 s" is negative', 'write a time such as "30 s"'),
        ("0 s", units.DURATION, '"0 s" is zero', 'write a time above 0 such as "30 s"'),
        (math.nan, units.ROWS, '"nan" is not a number of rows', 'write a number of rows such as "7M rows"'),
        (math.inf, units.ROWS, '"inf" is not a number of rows', 'write a number of rows such as "7M rows"'),
        ("1e300 PB", units.CAPACITY, '"1e300 PB" is too large', 'write a size such as "500 GB"'),
        (True, units.ROWS, "true or false is not a number of rows", 'write a number of rows such as "7M rows"'),
        ([1], units.ROWS, "a list is not a number of rows", 'write a number of rows such as "7M rows"'),
        ({}, units.RATE, "a mapping is not a rate of changed rows", 'write a rate of changed rows such as "100 /s"'),
        ("", units.RATE, '"" is not a rate of changed rows', 'write a rate of changed rows such as "100 /s"'),
        ("1 $/GB", units.CPU_PRICE, '"1 $/GB" is a price per GB, not a price per core and hour', None),
        (10**400, units.ROWS, '"1000000000000000000000000000000000000..." is not a number', None),
    ],
)
def test_a_wrong_amount_says_what_is_expected_with_an_example(
    written: object, dimension: Dimension, message: str, hint: str | None
) -> None:
    with pytest.raises(Unreadable) as caught:
        read_amount(written, dimension)
    assert caught.value.message == message
    assert hint is None or caught.value.hint == hint


def test_a_share_is_between_zero_and_one() -> None:
    assert read_share("40 %") == pytest.approx(0.4)
    assert read_share(1) == 1
    with pytest.raises(Unreadable, match="more than the whole"):
        read_share(40)


@pytest.mark.parametrize("written", [0, -1, 2.5, "20", True, None])
def test_a_count_is_a_whole_number_from_one(written: object) -> None:
    assert read_count(20) == 20
    with pytest.raises(Unreadable):
        read_count(written)


SIZES = st.floats(min_value=1e-9, max_value=1e18)


@given(SIZES)
def test_what_is_formatted_is_read_back(amount: float) -> None:
    formats = (
        (amounts.format_seconds, units.SECONDS),
        (amounts.format_bytes, units.CAPACITY),
        (amounts.format_bandwidth, units.BANDWIDTH),
        (amounts.format_rows, units.ROWS),
        (amounts.format_rate, units.RATE),
        (amounts.format_number, units.WEIGHT),
        (lambda price: amounts.format_price(price, "GB"), units.TRAFFIC_PRICE),
        (lambda price: amounts.format_price(price, "core-hour"), units.CPU_PRICE),
        (lambda price: amounts.format_price(price, "GB-month"), units.DISK_PRICE),
    )
    for write, dimension in formats:
        assert read_amount(write(amount), dimension) == pytest.approx(amount, rel=1e-3), write(amount)


@given(st.one_of(st.text(), st.floats(), st.integers(), st.booleans(), st.none(), st.lists(st.integers())))
def test_whatever_is_written_is_an_amount_or_a_unit_error(written: object) -> None:
    for dimension in (units.SECONDS, units.BANDWIDTH, units.ROWS, units.TRAFFIC_PRICE):
        try:
            amount = read_amount(written, dimension)
        except Unreadable:
            continue
        assert math.isfinite(amount)
        assert amount >= 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (amounts.format_seconds(0), "0 s"),
        (amounts.format_seconds(0.04), "40 ms"),
        (amounts.format_seconds(90), "90 s"),
        (amounts.format_seconds(300), "5 min"),
        (amounts.format_seconds(604800), "7 days"),
        (amounts.format_bandwidth(12.5e6), "12.5 MB/s"),
        (amounts.format_rows(700000), "700k rows"),
        (amounts.format_rows(1), "1 row"),
        (amounts.format_rate(0.01), "0.01 rows/s"),
        (amounts.format_price(0.001, "row"), "0.001 $/row"),
        (amounts.format_money(1234.567), "1235 $"),
        (amounts.format_share(0.4), "40 %"),
    ],
)
def test_amounts_are_short_with_their_unit(text: str, expected: str) -> None:
    assert text == expected
