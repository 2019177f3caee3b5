"""Amounts as people read them: `40 ms`, `12.5 MB/s`, `7M rows`, `0.01 $/GB`.

Four significant digits, in a unit that keeps the number short. What is written here, `declare.units` reads.
"""

from __future__ import annotations

from math import ceil, floor, isfinite, log10

Scale = tuple[tuple[float, str, float], ...]
"""(amount from which a unit is used, the unit, its size), smallest first."""

# 90 s reads better than 1.5 min, and 36 h than 1.5 days: minutes, hours and days start at two.
SECONDS: Scale = (
    (0.0, "us", 1e-6),
    (1e-3, "ms", 1e-3),
    (1.0, "s", 1.0),
    (120.0, "min", 60.0),
    (7200.0, "h", 3600.0),
    (172800.0, "days", 86400.0),
)
BYTES: Scale = (
    (0.0, "B", 1.0),
    (1e3, "kB", 1e3),
    (1e6, "MB", 1e6),
    (1e9, "GB", 1e9),
    (1e12, "TB", 1e12),
    (1e15, "PB", 1e15),
)
COUNTS: Scale = ((0.0, "", 1.0), (1e4, "k", 1e3), (1e6, "M", 1e6), (1e9, "B", 1e9))


def format_seconds(seconds: float) -> str:
    return "0 s" if seconds == 0 else _scale_amount(seconds, SECONDS)


def format_seconds_up(seconds: float) -> str:
    """The least time that can be promised, rounded up to the digits that are shown: a smaller one would be refused."""
    step = 10.0 ** (floor(log10(seconds)) - 3)
    return format_seconds(ceil(seconds / step) * step)


def format_bytes(size: float) -> str:
    return _scale_amount(size, BYTES)


def format_bandwidth(bytes_per_second: float) -> str:
    return f"{format_bytes(bytes_per_second)}/s"


def format_count(count: float) -> str:
    """A number of things: `950`, `7M`, `15k`."""
    return _scale_amount(count, COUNTS).replace(" ", "")


def format_rows(rows: float) -> str:
    return f"{format_count(rows)} {'row' if rows == 1 else 'rows'}"


def format_rate(rows_per_second: float) -> str:
    return f"{format_count(rows_per_second)} {'row' if rows_per_second == 1 else 'rows'}/s"


def format_price(dollars: float, per: str) -> str:
    """`format_price(0.01, "GB")` is `0.01 $/GB`."""
    return f"{format_number(dollars)} $/{per}"


def format_money(dollars: float) -> str:
    return f"{format_number(dollars)} $"


def format_share(share: float) -> str:
    return f"{format_number(100 * share)} %"


def format_number(number: float) -> str:
    """Four significant digits, without an exponent where digits do as well."""
    if not isfinite(number):
        return str(number)
    short = f"{number:.4g}"
    if number == 0 or not 1e-6 <= abs(number) < 1e15:
        return short
    text = f"{float(short):.12f}".rstrip("0")
    return text.rstrip(".")


def _scale_amount(amount: float, scale: Scale) -> str:
    _, unit, size = next((step for step in reversed(scale) if abs(amount) >= step[0]), scale[0])
    return f"{format_number(amount / size)} {unit}"
