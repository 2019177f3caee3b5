"""Exact numbers: decimals become integers by one common scale, so that no tie is lost to rounding.

A lost tie is not a small error: two devices may then both take the same view, and two engines may decide differently.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

Exact = int | Fraction
"""A number as it was written: integers stay integers because they are many and quick."""

IntArray = NDArray[Any]
"""Integers: int64 where every sum fits, Python integers (dtype object) where one might not."""

BoolArray = NDArray[np.bool_]

Index = NDArray[np.int64]
"""Positions in other arrays."""

EXACT_DOUBLE = 2.0**53
"""Integers below this, and their sums and products below this, are doubles without error."""

SAFE = 1 << 62
"""Sums below this are exact in int64."""


def common_scale(numbers: Iterable[Exact]) -> int:
    """The least integer that makes all of these integers by multiplication."""
    return math.lcm(*{number.denominator for number in numbers})


def scale_numbers(numbers: Sequence[Exact], scale: int) -> IntArray:
    """Every number times a scale that makes it an integer."""
    return int_array(numbers if scale == 1 else _times(numbers, scale))


def scale_to_objects(numbers: Sequence[Exact], scale: int) -> IntArray:
    """Numbers times a scale as Python integers in any case: products of them are exact, too."""
    array: IntArray = np.empty(len(numbers), dtype=object)
    array[:] = _times(numbers, scale)
    return array


def _times(numbers: Sequence[Exact], scale: int) -> list[int]:
    return [number.numerator * (scale // number.denominator) for number in numbers]


def int_array(values: Sequence[Exact]) -> IntArray:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        array: IntArray = np.empty(len(values), dtype=object)
        array[:] = values
        return array


def as_json(number: Exact | float) -> int | float:
    """An integer where it is one, else the nearest double."""
    if isinstance(number, float):
        return int(number) if number.is_integer() and abs(number) < EXACT_DOUBLE else number
    if number.denominator == 1:
        return number.numerator
    try:
        return float(number)
    except OverflowError:
        return round(number)


def as_json_bound(number: Exact | float) -> int | float:
    """Not above the number as the decimal that it is written as: a lower bound stays one."""
    written = as_json(number)
    if isinstance(number, Fraction) and isinstance(written, float) and shortest_decimal(written) > number:
        return math.nextafter(written, -math.inf)
    return written


def shortest_decimal(double: float) -> Fraction:
    return Fraction(Decimal(repr(double)))


def total(array: IntArray) -> int:
    """The exact sum, whatever its size: halves of 32 bits never overflow for fewer than 2**31 entries."""
    if array.dtype == object:
        return int(sum(array.tolist()))
    return (int((array >> 32).sum()) << 32) + int((array & 0xFFFFFFFF).sum())
