"""Arithmetic and mathematics under ANSI rules: what does not fit its type, and division by zero, is an error.

Integers are checked against the range of the result type. Decimals are computed exactly and then rounded half up to the
result type (a quotient first to 39 digits after the point, as Spark does). Floating point follows Java: overflow is
infinity, a missing answer is NaN; FLOAT results are rounded to 32 bits. Logarithms of numbers that have none are NULL.
"""

from __future__ import annotations

import decimal
import math
import operator
import struct
from collections.abc import Callable, Mapping
from typing import Any

from headrace.model.errors import EvaluationError
from headrace.model.expr import Call
from headrace.model.types import BIGINT, FLOAT, INTEGERS, Decimal, Simple, Type, Value, integer_range

EXACT = decimal.Context(prec=900, rounding=decimal.ROUND_HALF_UP, Emin=-9999, Emax=9999)
"""Digits for any product of decimals and for any double. Never use operators on decimals: those round to 28 digits."""

_JAVA_128 = decimal.Context(prec=34, rounding=decimal.ROUND_HALF_EVEN)
"""Spark changes the sign of a decimal in this arithmetic, so that one of more than 34 digits is rounded."""

_ZERO = decimal.Decimal(0)

EARTH_RADIUS_M = 6371008.8


def fit_integer(value: int, type_: Simple) -> int:
    low, high = integer_range(type_)
    if not low <= value <= high:
        raise EvaluationError(f"{value} is out of the range of {type_}")
    return value


def fit_decimal(value: decimal.Decimal, type_: Decimal) -> decimal.Decimal:
    """Rounded half up to the type's scale."""
    # First: what is far too large, or as good as zero, cannot be rounded with the digits that we have.
    if value and value.adjusted() >= type_.precision - type_.scale:
        raise EvaluationError(f"{value:.40g} does not fit {type_}")
    rounded = round_half_up(value if value.adjusted() >= -type_.scale - 1 else _ZERO, type_.scale)
    if rounded.adjusted() >= type_.precision - type_.scale and rounded:
        raise EvaluationError(f"{value} does not fit {type_}")
    return rounded if rounded else rounded.copy_abs()


def fit_float(value: float, type_: Type) -> float:
    """Rounded to 32 bits when the type is FLOAT."""
    if type_ != FLOAT or value != value:
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def round_half_up(value: decimal.Decimal, digits: int) -> decimal.Decimal:
    return value.quantize(decimal.Decimal(1).scaleb(-digits), context=EXACT)


def to_decimal(value: int | decimal.Decimal) -> decimal.Decimal:
    return value if isinstance(value, decimal.Decimal) else decimal.Decimal(value)


def arithmetic(call: Call) -> Callable[..., Value]:
    """`+ - * / %` and `pmod` of numbers, by the type of the result; operands may be of narrower types."""
    type_ = call.type
    if isinstance(type_, Decimal):
        exact = _DECIMAL[call.function]
        return lambda a, b: fit_decimal(exact(to_decimal(a), to_decimal(b)), type_)
    if type_ in INTEGERS:
        whole = _INTEGER[call.function]
        return lambda a, b: fit_integer(whole(a, b), type_)
    real = _FLOAT[call.function]
    return lambda a, b: fit_float(real(float(a), float(b)), type_)


def _nonzero(divisor: Any) -> None:
    if not divisor:
        raise EvaluationError("division by zero")


def _integer_remainder(a: int, b: int) -> int:
    """The sign is the dividend's."""
    _nonzero(b)
    return abs(a) % abs(b) * (-1 if a < 0 else 1)


def _float_divide(a: float, b: float) -> float:
    _nonzero(b)
    return a / b


def _float_remainder(a: float, b: float) -> float:
    _nonzero(b)
    return math.nan if math.isinf(a) else math.fmod(a, b)


def divide_decimal(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal:
    _nonzero(b)
    return round_half_up(EXACT.divide(a, b), 39)


def _decimal_remainder(a: decimal.Decimal, b: decimal.Decimal) -> decimal.Decimal:
    _nonzero(b)
    return EXACT.remainder(a, b)


def _positive(remainder: Callable[[Any, Any], Any], plus: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """`pmod`: a negative remainder is moved up by the divisor once."""

    def pmod(a: Any, b: Any) -> Any:
        rest = remainder(a, b)
        return remainder(plus(rest, b), b) if rest < 0 else rest

    return pmod


_INTEGER: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": _integer_remainder,
    "pmod": _positive(_integer_remainder, operator.add),
}
_FLOAT: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _float_divide,
    "%": _float_remainder,
    "pmod": _positive(_float_remainder, operator.add),
}
_DECIMAL: Mapping[str, Callable[[decimal.Decimal, decimal.Decimal], decimal.Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
    "/": divide_decimal,
    "%": _decimal_remainder,
    "pmod": _positive(_decimal_remainder, EXACT.add),
}


def _integral_divide(a: int | decimal.Decimal, b: int | decimal.Decimal) -> int:
    """`div`: the quotient without its fraction, a BIGINT."""
    _nonzero(b)
    return fit_integer(int(EXACT.divide_int(to_decimal(a), to_decimal(b))), BIGINT)


def _make_sized(
    call: Call, change: Callable[[Any], Any], exact: Callable[[decimal.Decimal], decimal.Decimal]
) -> Callable[[Any], Value]:
    """A function of one number whose result has the argument's type, which may not hold it."""
    type_ = call.type
    if isinstance(type_, Decimal):
        return lambda value: fit_decimal(exact(value), type_)
    if isinstance(type_, Simple) and type_ in INTEGERS:
        return lambda value: fit_integer(change(value), type_)
    return change


def _round(call: Call) -> Callable[..., Value]:
    """Half up, away from zero. A double is rounded as the decimal number that it prints as."""
    type_ = call.type
    if isinstance(type_, Decimal):
        return lambda value, digits=0: fit_decimal(round_half_up(to_decimal(value), digits), type_)
    if isinstance(type_, Simple) and type_ in INTEGERS:
        return lambda value, digits=0: fit_integer(int(round_half_up(decimal.Decimal(value), min(digits, 0))), type_)
    return lambda value, digits=0: fit_float(_round_float(value, max(-400, min(digits, 400))), type_)


def _round_float(value: float, digits: int) -> float:
    return float(round_half_up(decimal.Decimal(repr(value)), digits)) if math.isfinite(value) else value


def _whole(rounding: str) -> Callable[[Call], Callable[[Any], Value]]:
    """`ceil` and `floor`; of NaN they are 0."""

    def make(call: Call) -> Callable[[Any], Value]:
        type_ = call.type
        if isinstance(type_, Decimal):
            return lambda value: fit_decimal(to_decimal(value).to_integral_value(rounding, context=EXACT), type_)
        return lambda value: fit_integer(_whole_float(value), BIGINT) if isinstance(value, float) else value

    toward = math.ceil if rounding == decimal.ROUND_CEILING else math.floor

    def _whole_float(value: float) -> int:
        if math.isinf(value):
            raise EvaluationError(f"{value} is out of the range of {BIGINT}")
        return 0 if value != value else toward(value)

    return make


def _real(function: Callable[..., float]) -> Callable[..., float]:
    """A function of doubles where Java answers NaN or infinity and Python raises."""

    def answer(*arguments: Any) -> float:
        try:
            return function(*map(float, arguments))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return answer


def _power(base: float, exponent: float) -> float:
    if base == 0 and exponent < 0:
        odd = exponent % 2 == 1
        return math.copysign(math.inf, base) if odd else math.inf
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and exponent % 2 == 1 else math.inf


def _logarithm(function: Callable[[float], float]) -> Callable[[Any], float | None]:
    return lambda value: None if float(value) <= 0 else function(float(value))


def _sign(value: Any) -> float:
    number = float(value)
    return number if number != number or number == 0 else math.copysign(1.0, number)


def find_distance(latitude: float, longitude: float, other_latitude: float, other_longitude: float) -> float:
    """Metres on a sphere, by the haversine formula; arguments are degrees."""
    phi, other_phi = math.radians(latitude), math.radians(other_latitude)
    across = math.sin((other_phi - phi) / 2) ** 2
    along = math.sin(math.radians(other_longitude - longitude) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(across + math.cos(phi) * math.cos(other_phi) * along)))


def find_decimal15(value: float) -> decimal.Decimal:
    """A double by its first 15 digits, as PostgreSQL makes a numeric of it; what is after 18 places is rounded off."""
    if not math.isfinite(value):
        raise EvaluationError(f"{value} is not a number that decimal(38,18) holds")
    return fit_decimal(decimal.Decimal(f"{value:.14e}"), Decimal(38, 18))


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "decimal15": find_decimal15,
    "rint": _real(lambda value: float(round(value)) if math.isfinite(value) else value),
    "div": _integral_divide,
    "sign": _sign,
    "sqrt": _real(math.sqrt),
    "power": _real(_power),
    "exp": _real(math.exp),
    "ln": _logarithm(math.log),
    "log10": _logarithm(math.log10),
    "log2": _logarithm(math.log2),
    "sin": _real(math.sin),
    "cos": _real(math.cos),
    "tan": _real(math.tan),
    "asin": _real(math.asin),
    "acos": _real(math.acos),
    "atan": _real(math.atan),
    "atan2": _real(math.atan2),
    "radians": _real(math.radians),
    "degrees": _real(math.degrees),
    "distance": _real(find_distance),
}
"""Functions of values that are not NULL."""

TYPED: Mapping[str, Callable[[Call], Callable[..., Value]]] = {
    "+": arithmetic,
    "-": arithmetic,
    "*": arithmetic,
    "/": arithmetic,
    "%": arithmetic,
    "pmod": arithmetic,
    "negate": lambda call: _make_sized(call, operator.neg, _JAVA_128.minus),
    "abs": lambda call: _make_sized(call, abs, lambda value: _JAVA_128.minus(value) if value < 0 else value),
    "round": _round,
    "ceil": _whole(decimal.ROUND_CEILING),
    "floor": _whole(decimal.ROUND_FLOOR),
}
"""Functions that depend on the types of the call."""
