"""Amounts twice: as doubles, quick enough for a hundred million pairs, and exactly, for the few where doubles
cannot tell.

A decision is the sign of a difference. Doubles settle it when the difference is larger than their error; what is
left is worked out again in integers. So no decision depends on rounding, and none waits for fractions it does not
need.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.plan.exact_numbers import shortest_decimal

FloatArray = NDArray[np.float64]

Positions = NDArray[Any]
"""In other arrays; int32 or int64."""

NumberArray = NDArray[Any]
"""Doubles, or Python integers (dtype object) on one common scale."""

ROUNDING = 2.0**-50
"""Error of a product of three inputs, each rounded to a double itself, relative to the product; eight times over."""

TINY = 1e-290
"""Below this doubles lose digits, and a relative error says nothing."""

MOST_DIGITS = 300
"""Of an amount: beyond, doubles end, and integers take gigabytes."""

MOST_DECIMALS = 6
SHORT_DECIMAL = 1e15
"""Integers of at most 15 digits: a decimal that has no more survives being a double."""

SAMPLE = 1000
"""Amounts looked at before all are."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """Non-negative numbers. Without `exact`, each double stands for its shortest decimal: 0.1 is a tenth.

    One number in `exact` stands for all entries.
    """

    near: FloatArray
    exact: tuple[Fraction, ...] | None = None

    @classmethod
    def of(cls, numbers: Iterable[Fraction]) -> Amounts:
        exact = tuple(numbers)
        return cls(np.array([float(number) for number in exact], dtype=np.float64), exact)

    @classmethod
    def constant(cls, number: Fraction, count: int) -> Amounts:
        return cls(np.broadcast_to(np.float64(float(number)), (count,)), (number,))

    def __len__(self) -> int:
        return len(self.near)

    @property
    def is_constant(self) -> bool:
        return self.exact is not None and len(self.exact) == 1

    def exactly(self, positions: Positions) -> list[Fraction]:
        if self.exact is None:
            known = {double: shortest_decimal(double) for double in set(self.near[positions].tolist())}
            return [known[double] for double in self.near[positions].tolist()]
        if self.is_constant:
            return list(self.exact) * len(positions)
        return [self.exact[position] for position in positions.tolist()]

    def is_whole_times(self, scale: int) -> bool:
        """Whether all of them times a power of ten are integers of few digits."""
        if self.exact is not None:
            return all(
                scale % number.denominator == 0 and number.numerator * scale < SHORT_DECIMAL * number.denominator
                for number in self.exact
            )
        whole = np.rint(self.near * scale)
        # A double that dividing gives back is the decimal with so few digits, and no other decimal is as short.
        return bool((whole < SHORT_DECIMAL).all() and (whole / scale == self.near).all())

    def whole_times(self, scale: int) -> Amounts:
        """These integers, as doubles without error."""
        if self.is_constant and self.exact:
            return Amounts.constant(self.exact[0] * scale, len(self))
        return Amounts(np.rint(self.near * scale))


def scale_to_whole(*amounts: Amounts) -> int | None:
    """The least power of ten that makes integers of them all, if they have few decimals."""
    samples = tuple(
        Amounts(some.near[:SAMPLE], None if some.exact is None else some.exact[:SAMPLE]) for some in amounts
    )
    for decimals in range(MOST_DECIMALS + 1):
        scale = int(10**decimals)
        if all(some.is_whole_times(scale) for some in samples) and all(some.is_whole_times(scale) for some in amounts):
            return scale
    return None
