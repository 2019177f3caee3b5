"""Exact numbers: decimals become integers by one common scale, so that no tie is lost to rounding.

A lost tie is not a small error here: two devices may then both take the same view.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
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

SAFE = 1 << 62
"""Sums below this are exact in int64."""


def common_scale(numbers: Iterable[Exact]) -> int:
    """The least integer that makes all of these integers by multiplication."""
    return math.lcm(*{number.denominator for number in numbers})


def scaled(numbers: Sequence[Exact], scale: int) -> IntArray:
    """Every number times the scale, exactly."""
    values = numbers if scale == 1 else [int(number * scale) for number in numbers]
    return int_array(values)


def int_array(values: Sequence[Exact]) -> IntArray:
    try:
        return np.array(values, dtype=np.int64)
    except OverflowError:
        array: IntArray = np.empty(len(values), dtype=object)
        array[:] = values
        return array


def as_json(number: Exact) -> int | float:
    """An integer where it is one, else the nearest double."""
    return int(number) if number.denominator == 1 else float(number)


def total(array: IntArray) -> int:
    """The exact sum, whatever its size: halves of 32 bits never overflow for fewer than 2**31 entries."""
    if array.dtype == object:
        return int(sum(array.tolist()))
    return (int((array >> 32).sum()) << 32) + int((array & 0xFFFFFFFF).sum())
