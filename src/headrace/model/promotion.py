"""Which type a value gets when values of different types meet: Spark's ANSI rules, as functions of types alone.

Numbers widen `tinyint < smallint < int < bigint < decimal < float < double`; a date widens to a timestamp; NULL to
anything. Nothing else widens: text meets a number only through an explicit CAST.
"""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.types import (
    BIGINT,
    DATE,
    DOUBLE,
    FRACTIONS,
    INTEGERS,
    NULL,
    TIMESTAMP,
    Array,
    Decimal,
    Simple,
    Type,
    as_decimal,
    is_numeric,
)

MAX_PRECISION = 38
MIN_KEPT_SCALE = 6
"""Digits after the point that a product or quotient keeps when it needs more than 38 digits."""


def common_type(left: Type, right: Type) -> Type | None:
    """The narrowest type that holds values of both, or None when there is none."""
    if left == right:
        return left
    if NULL in (left, right):
        return right if left == NULL else left
    if is_numeric(left) and is_numeric(right):
        return _common_number(left, right)
    if {left, right} == {DATE, TIMESTAMP}:
        return TIMESTAMP
    if isinstance(left, Array) and isinstance(right, Array):
        element = common_type(left.element, right.element)
        return None if element is None else Array(element)
    return None


def common_type_of(types: Iterable[Type]) -> Type | None:
    """`common_type` of any number of types; NULL for none."""
    result: Type | None = NULL
    for type_ in types:
        result = None if result is None else common_type(result, type_)
    return result


def _common_number(left: Type, right: Type) -> Type:
    if left in INTEGERS and right in INTEGERS:
        return max((left, right), key=lambda type_: INTEGERS.index(_simple(type_)))
    if left in FRACTIONS or right in FRACTIONS:
        return DOUBLE  # also for a float and an integer: a float cannot hold every int
    return wider_decimal(as_decimal(left), as_decimal(right))


def _simple(type_: Type) -> Simple:
    assert isinstance(type_, Simple)
    return type_


def wider_decimal(left: Decimal, right: Decimal) -> Decimal:
    """Holds all digits of both; beyond 38 digits those after the point go first."""
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    excess = max(0, precision - MAX_PRECISION)
    return Decimal(precision - excess, max(0, scale - excess))


def arithmetic_type(operator: str, left: Type, right: Type) -> Type:
    """The result of `+ - * / % div` on numbers, whose operands have `operand_types`."""
    if operator == "div":
        return BIGINT
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _decimal_result(operator, left, right)
    return left


def operand_types(operator: str, left: Type, right: Type) -> tuple[Type, Type]:
    """What the operands of an arithmetic operator are converted to: one type, or two decimals of their own digits."""
    if left in FRACTIONS or right in FRACTIONS:
        # The float of two floats stays; every other mixture is a double, and so is each quotient.
        return (left, right) if left == right and operator != "/" else (DOUBLE, DOUBLE)
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        return as_decimal(left), as_decimal(right)
    if operator == "/":
        return DOUBLE, DOUBLE
    if operator == "div":
        return BIGINT, BIGINT
    common = _common_number(left, right)
    return common, common


def _decimal_result(operator: str, left: Decimal, right: Decimal) -> Decimal:
    whole_left, whole_right = left.precision - left.scale, right.precision - right.scale
    scale = max(left.scale, right.scale)
    match operator:
        case "+" | "-":
            return _fit_decimal(max(whole_left, whole_right) + scale + 1, scale)
        case "*":
            return _fit_decimal(left.precision + right.precision + 1, left.scale + right.scale)
        case "/":
            scale = max(MIN_KEPT_SCALE, left.scale + right.precision + 1)
            return _fit_decimal(whole_left + right.scale + scale, scale)
        case _:
            assert operator in ("%", "pmod"), f"no arithmetic: {operator}"
            return _fit_decimal(min(whole_left, whole_right) + scale, scale)


def _fit_decimal(precision: int, scale: int) -> Decimal:
    """A result of at most 38 digits: the whole part is kept, of the fraction at least 6 digits."""
    if precision <= MAX_PRECISION:
        return Decimal(precision, scale)
    whole = precision - scale
    return Decimal(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, MIN_KEPT_SCALE)))


def sum_type(argument: Type) -> Type:
    if isinstance(argument, Decimal):
        return Decimal(min(MAX_PRECISION, argument.precision + 10), argument.scale)
    return BIGINT if argument in INTEGERS else DOUBLE


def average_type(argument: Type) -> Type:
    if isinstance(argument, Decimal):
        return Decimal(min(MAX_PRECISION, argument.precision + 4), min(MAX_PRECISION, argument.scale + 4))
    return DOUBLE
