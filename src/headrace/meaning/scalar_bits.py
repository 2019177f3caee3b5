"""Bits, digits of other bases, and mathematics that people call less often. Nothing here fails but `conv`, `bit_get`
and `bround`: where Java has NaN or infinity, so have we, and Spark's NULLs are ours.
"""

from __future__ import annotations

import decimal
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from headrace.meaning.number_functions import TRIED
from headrace.meaning.scalar_number import arithmetic, fit_decimal, fit_float, fit_integer, to_decimal
from headrace.model.errors import EvaluationError
from headrace.model.expr import Call
from headrace.model.types import INT, INTEGERS, Decimal, Simple, Type, Value

_HALF_EVEN = decimal.Context(prec=900, rounding=decimal.ROUND_HALF_EVEN, Emin=-9999, Emax=9999)
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_ALL_BITS = 2**64 - 1
LARGEST_FACTORIAL = 20


def _wrap(value: int, bits: int) -> int:
    """The number whose last bits are those of the value."""
    kept = value & ((1 << bits) - 1)
    return kept - (1 << bits) if kept >> (bits - 1) else kept


def _count_bits(type_: Type) -> int:
    return {INTEGERS[0]: 8, INTEGERS[1]: 16, INT: 32}.get(type_, 64) if isinstance(type_, Simple) else 64


def _shift(call: Call) -> Callable[[int, int], Value]:
    """Java shifts by the last bits of the distance."""
    bits = _count_bits(call.type)
    match call.function:
        case "shiftleft":
            return lambda value, distance: _wrap(value << (distance % bits), bits)
        case "shiftright":
            return lambda value, distance: value >> (distance % bits)
        case _:
            return lambda value, distance: _wrap((value & ((1 << bits) - 1)) >> (distance % bits), bits)


def _bit_get(call: Call) -> Callable[[int, int], Value]:
    bits = _count_bits(call.arguments[0].type)

    def get(value: int, position: int) -> int:
        if not 0 <= position < bits:
            raise EvaluationError(f"bit_get: there is no bit {position} among {bits}")
        return value >> position & 1

    return get


def convert_base(text: str, source: int, target: int) -> str | None:
    """Digits in another base, as numbers of 64 bits; a negative base has a sign. Stops at the first other character."""
    trimmed = text.strip(" ")
    if not 2 <= source <= 36 or not 2 <= abs(target) <= 36 or not trimmed:
        return None
    negative, number = trimmed.startswith("-"), 0
    for character in trimmed.removeprefix("-").upper():
        digit = _DIGITS.find(character)
        if not 0 <= digit < source:
            break
        number = number * source + digit
        if number > _ALL_BITS:
            raise EvaluationError(f"conv: '{text[:100]}' has more than 64 bits")
    signed = _wrap(number, 64)
    if negative and target > 0:
        signed = -1 if signed < 0 else -signed
    if target < 0 and signed < 0:
        signed, negative = -signed, True
    made = _write_base(signed & _ALL_BITS, abs(target))
    return f"-{made}" if negative and target < 0 else made


def _write_base(number: int, base: int) -> str:
    digits = []
    while number:
        number, digit = divmod(number, base)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"


def find_bucket(value: float, low: float, high: float, count: int) -> int | None:
    """Which of `count` buckets of equal width holds the value; 0 and count + 1 are before and after all of them."""
    unfit = count <= 0 or count == 2**63 - 1 or low == high
    if unfit or value != value or not math.isfinite(low) or not math.isfinite(high):
        return None
    if low > high:
        value, low, high = -value, -low, -high
    if value < low:
        return 0
    if value >= high:
        return count + 1
    return int(count * (value - low) / (high - low)) + 1


def _bround(call: Call) -> Callable[..., Value]:
    """`round`, but halves go to the even digit."""
    type_ = call.type
    if isinstance(type_, Decimal):
        return lambda value, digits=0: fit_decimal(_round_even(to_decimal(value), digits), type_)
    if isinstance(type_, Simple) and type_ in INTEGERS:
        return lambda value, digits=0: fit_integer(int(_round_even(decimal.Decimal(value), min(digits, 0))), type_)
    return lambda value, digits=0: fit_float(_round_float(value, max(-400, min(digits, 400))), type_)


def _round_even(value: decimal.Decimal, digits: int) -> decimal.Decimal:
    return value.quantize(decimal.Decimal(1).scaleb(-digits), context=_HALF_EVEN)


def _round_float(value: float, digits: int) -> float:
    return float(_round_even(decimal.Decimal(repr(value)), digits)) if math.isfinite(value) else value


def _try_arithmetic(call: Call) -> Callable[..., Value]:
    compute = arithmetic(Call(TRIED[call.function], call.arguments, call.type))

    def attempt(left: Any, right: Any) -> Value:
        try:
            return compute(left, right)
        except EvaluationError:
            return None

    return attempt


def _curve(function: Callable[[float], float], beyond: Callable[[float], float]) -> Callable[[float], float]:
    """A function of doubles, and what it is where Python raises because the answer is infinite."""

    def answer(value: float) -> float:
        try:
            return function(value)
        except ValueError:
            return math.nan
        except (OverflowError, ZeroDivisionError):
            return beyond(value)

    return answer


def _infinite(value: float) -> float:
    return math.inf


def _signed_infinite(value: float) -> float:
    return math.copysign(math.inf, value)


def _log1p(value: float) -> float | None:
    return None if value <= -1 else math.log1p(value)


def _logarithm(base: float, value: float) -> float | None:
    if base <= 0 or value <= 0:
        return None
    below = math.log(base)
    above = math.log(value)
    if below == 0:
        return math.nan if above == 0 or above != above else math.copysign(math.inf, above)
    return above / below


def _atanh(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) == 1 else math.atanh(value)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "~": operator.invert,
    "bit_count": lambda value: (value & _ALL_BITS).bit_count(),
    "bin": lambda value: f"{value & _ALL_BITS:b}",
    "conv": convert_base,
    "factorial": lambda value: math.factorial(value) if 0 <= value <= LARGEST_FACTORIAL else None,
    "sinh": _curve(math.sinh, _signed_infinite),
    "cosh": _curve(math.cosh, _infinite),
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": _curve(math.acosh, _infinite),
    "atanh": _curve(_atanh, _signed_infinite),
    "cot": _curve(lambda value: 1 / math.tan(value), _signed_infinite),
    "csc": _curve(lambda value: 1 / math.sin(value), _signed_infinite),
    "sec": _curve(lambda value: 1 / math.cos(value), _infinite),
    "cbrt": math.cbrt,
    "expm1": _curve(math.expm1, _infinite),
    "log1p": _log1p,
    "hypot": math.hypot,
    "log": _logarithm,
    "width_bucket": find_bucket,
}
"""Functions of values that are not NULL."""

TYPED: Mapping[str, Callable[[Call], Callable[..., Value]]] = {
    **dict.fromkeys(("shiftleft", "shiftright", "shiftrightunsigned"), _shift),
    "bit_get": _bit_get,
    "bround": _bround,
    **dict.fromkeys(TRIED, _try_arithmetic),
}
"""Functions that depend on the types of the call."""
