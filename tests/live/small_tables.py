"""A few rows for the sources of `headrace.testing.SCHEMA`, with NULLs, duplicates and ties to trip over."""

from __future__ import annotations

import datetime as dt
import decimal
import math

from headrace.meaning.zset import ZSet

D = decimal.Decimal
LEAP, MARCH = dt.date(2024, 2, 29), dt.date(2024, 3, 1)
NOON, LATER = dt.datetime(2024, 2, 29, 12, 0), dt.datetime(2024, 2, 29, 12, 25, 30, 500_000)

TABLES = {
    "r": ZSet.of(
        [
            (1, 1, 10, 1.5, D("1.00"), "a", LEAP, NOON, True),
            (1, 1, 10, 1.5, D("1.00"), "a", LEAP, NOON, True),
            (2, 1, 20, math.nan, D("2.50"), "b", MARCH, LATER, False),
            (3, 2, None, -0.0, D("-1.50"), "", None, LATER, None),
            (4, 2, 20, math.inf, None, "é", LEAP, None, True),
            (
                5,
                None,
                3_000_000_000,
                0.1,
                D("12.34"),
                None,
                dt.date(1969, 12, 31),
                dt.datetime(1969, 12, 31, 23),
                False,
            ),
            (None, 3, -2, None, D("99.99"), "日本", MARCH, dt.datetime(2024, 3, 1, 0, 0, 0, 1), True),
        ]
    ),
    "s": ZSet.of(
        [
            (1, 10, D("1.00"), "a", NOON),
            (1, 20, D("3.00"), "x", LATER),
            (2, None, None, "b", None),
            (None, 20, D("12.34"), None, LATER),
            (7, 7, D("0.05"), "", dt.datetime(2024, 2, 29, 13)),
        ]
    ),
    "t": ZSet.of(
        [
            (1, 1.5, "a", LEAP, True),
            (1, math.nan, "a", LEAP, None),
            (2, 0.0, None, MARCH, False),
            (None, None, "日本", None, True),
        ]
    ),
}
