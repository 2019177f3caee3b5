"""Sums of doubles without any rounding, as one integer each: adding and taking away leaves no residue.

The integer counts the smallest double, 2**-1074. NaN and the infinities are counted far above the largest finite sum of
2**64 doubles, so that they too can be taken away again.
"""

from __future__ import annotations

import math

SMALLEST = 1 << 1074
"""How many of the smallest double make 1."""

_SPECIAL = 1 << 2200
_COUNT = 1 << 64
_NAN, _INFINITE, _MINUS_INFINITE = _SPECIAL, _SPECIAL * _COUNT, _SPECIAL * _COUNT * _COUNT


def units(value: float) -> int:
    """A double as an integer that adds up."""
    if math.isfinite(value):
        numerator, denominator = value.as_integer_ratio()
        return numerator * (SMALLEST // denominator)
    if math.isnan(value):
        return _NAN
    return _INFINITE if value > 0 else _MINUS_INFINITE


def is_special(total: int) -> bool:
    """Whether NaN or an infinity is in a sum."""
    return bool((total + _SPECIAL // 2) // _SPECIAL)


def round_sum(total: int) -> float:
    """The double nearest to a sum. What overflows is infinite; NaN and infinities add as they do one by one."""
    special = (total + _SPECIAL // 2) // _SPECIAL
    if special:
        return _special(special)
    try:
        return total / SMALLEST
    except OverflowError:
        return math.inf if total > 0 else -math.inf


def _special(counts: int) -> float:
    below, nans = divmod(counts, _COUNT)
    minus, plus = divmod(below, _COUNT)
    return math.nan if nans or (minus and plus) else math.inf if plus else -math.inf


def text_of(total: int) -> str:
    """Short where the sum is: hexadecimal digits without trailing zero bits, and how many bits these are."""
    if not total:
        return "0"
    zeros = (total & -total).bit_length() - 1
    return f"{total >> zeros:x}:{zeros}"


def total_of(text: str) -> int:
    digits, _, zeros = text.partition(":")
    return int(digits, 16) << int(zeros or 0)
