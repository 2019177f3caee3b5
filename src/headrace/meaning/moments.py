"""Variance, covariance and what is made of them, from exact sums of powers.

Doubles are integers of the smallest double (`meaning.exact_sum`), and so are their powers and products: nothing is
rounded before the last division. So the answer depends neither on the order of rows nor on rows that came and went,
and equal values have no variance at all. Engines that round on the way differ in the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from headrace.meaning.exact_sum import SMALLEST, is_special, units
from headrace.model.relation import AggregateFunction

Powers = tuple[int, int]
"""The exponents of the argument and of the other one."""

_X, _XX, _Y, _YY, _XY = (1, 0), (2, 0), (0, 1), (0, 2), (1, 1)

POWERS: Mapping[AggregateFunction, tuple[Powers, ...]] = {
    AggregateFunction.VAR_POP: (_X, _XX),
    AggregateFunction.VAR_SAMP: (_X, _XX),
    AggregateFunction.STDDEV_POP: (_X, _XX),
    AggregateFunction.STDDEV_SAMP: (_X, _XX),
    AggregateFunction.SKEWNESS: (_X, _XX, (3, 0)),
    AggregateFunction.KURTOSIS: (_X, _XX, (3, 0), (4, 0)),
    AggregateFunction.COVAR_POP: (_X, _Y, _XY),
    AggregateFunction.COVAR_SAMP: (_X, _Y, _XY),
    AggregateFunction.CORR: (_X, _Y, _XY, _XX, _YY),
}
"""The sums that each function is made of."""


def power_of(x: float, y: float, powers: Powers) -> int:
    """One row's part of a sum. NaN and the infinities are told by the plain sums alone."""
    if powers == _X:
        return units(x)
    if powers == _Y:
        return units(y)
    if not (math.isfinite(x) and math.isfinite(y)):
        return 0
    return int(units(x) ** powers[0] * units(y) ** powers[1])


def finish_moments(function: AggregateFunction, count: int, sums: Mapping[Powers, int]) -> float | None:
    """The value of a function over `count` rows; NULL where Spark has it."""
    needs_two = function in (
        AggregateFunction.VAR_SAMP,
        AggregateFunction.STDDEV_SAMP,
        AggregateFunction.COVAR_SAMP,
        AggregateFunction.CORR,
    )
    if count <= needs_two:
        return None
    if is_special(sums[_X]) or is_special(sums.get(_Y, 0)):
        return math.nan
    scale = SMALLEST * SMALLEST
    match function:
        case AggregateFunction.VAR_POP:
            return _divide(_square(count, sums, _X, _XX), count * count * scale)
        case AggregateFunction.VAR_SAMP:
            return _divide(_square(count, sums, _X, _XX), count * (count - 1) * scale)
        case AggregateFunction.STDDEV_POP:
            return math.sqrt(_divide(_square(count, sums, _X, _XX), count * count * scale))
        case AggregateFunction.STDDEV_SAMP:
            return math.sqrt(_divide(_square(count, sums, _X, _XX), count * (count - 1) * scale))
        case AggregateFunction.COVAR_POP:
            return _divide(_product(count, sums), count * count * scale)
        case AggregateFunction.COVAR_SAMP:
            return _divide(_product(count, sums), count * (count - 1) * scale)
        case AggregateFunction.CORR:
            return _correlation(_product(count, sums), _square(count, sums, _X, _XX), _square(count, sums, _Y, _YY))
        case AggregateFunction.SKEWNESS:
            return _skewness(count, sums)
        case AggregateFunction.KURTOSIS:
            return _kurtosis(count, sums)
        case _:
            raise AssertionError(f'"{function}" is not made of sums of powers')


def _square(count: int, sums: Mapping[Powers, int], plain: Powers, squares: Powers) -> int:
    """The sum of squared distances from the mean, times the number of rows."""
    return count * sums[squares] - sums[plain] * sums[plain]


def _product(count: int, sums: Mapping[Powers, int]) -> int:
    return count * sums[_XY] - sums[_X] * sums[_Y]


def _correlation(together: int, x: int, y: int) -> float | None:
    if not x or not y:
        return None
    return _signed_root(together, _divide(together * together, x * y))


def _skewness(count: int, sums: Mapping[Powers, int]) -> float | None:
    one, two, three = sums[_X], sums[_XX], sums[3, 0]
    second = _square(count, sums, _X, _XX)
    third = count * count * three - 3 * count * one * two + 2 * one**3
    if not second:
        return None
    return _signed_root(third, _divide(third * third, second**3))


def _kurtosis(count: int, sums: Mapping[Powers, int]) -> float | None:
    one, two, three, four = sums[_X], sums[_XX], sums[3, 0], sums[4, 0]
    second = _square(count, sums, _X, _XX)
    fourth = count**3 * four - 4 * count * count * one * three + 6 * count * one * one * two - 3 * one**4
    return _divide(fourth - 3 * second * second, second * second) if second else None


def _signed_root(sign: int, square: float) -> float:
    return -math.sqrt(square) if sign < 0 else math.sqrt(square)


def _divide(numerator: int, denominator: int) -> float:
    """The double nearest to a quotient."""
    try:
        return numerator / denominator
    except OverflowError:
        return math.inf if numerator > 0 else -math.inf
