"""Values as the text that PostgreSQL writes: floating-point numbers, and arrays in braces."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import struct
from collections.abc import Callable, Mapping

from headrace.model.expr import Call
from headrace.model.types import FLOAT, Array, Type, Value

_NEEDS_QUOTES = re.compile(r'[{}",\\\s]')
_MOST_PLAIN = {True: 6, False: 15}
"""From so many digits before the point on, numbers are written with an exponent: `real`, and `double precision`."""


def write_float(value: float, *, is_short: bool = False) -> str:
    """The fewest digits that tell the number from its neighbours: `1`, `0.1`, `1e+15`."""
    if math.isnan(value) or math.isinf(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = decimal.Decimal(_find_digits(value, is_short)).normalize().as_tuple()
    written, before = "".join(map(str, digits)), len(digits) + int(exponent)
    minus = "-" if sign else ""
    if value == 0:
        return f"{minus}0"
    if not -4 < before <= _MOST_PLAIN[is_short]:
        rest = f".{written[1:]}" if len(written) > 1 else ""
        return f"{minus}{written[0]}{rest}e{before - 1:+03d}"
    if before <= 0:
        return f"{minus}0.{'0' * -before}{written}"
    if before >= len(written):
        return f"{minus}{written}{'0' * (before - len(written))}"
    return f"{minus}{written[:before]}.{written[before:]}"


def _find_digits(value: float, is_short: bool) -> str:
    if not is_short:
        return repr(value)
    candidates = (f"{value:.{digits}g}" for digits in range(6, 10))
    return next(text for text in candidates if struct.pack("f", float(text)) == struct.pack("f", value))


def _write_element(value: Value, type_: Type) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "t" if value else "f"
        case float():
            return write_float(value, is_short=type_ == FLOAT)
        case tuple():
            return write_array(value, type_)
        case dt.datetime():
            return f'"{value.isoformat(" ").rstrip("0") if value.microsecond else value.isoformat(" ")}"'
    text = f"{value:f}" if isinstance(value, decimal.Decimal) else str(value)
    if text and text.upper() != "NULL" and not _NEEDS_QUOTES.search(text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def write_array(value: tuple[Value, ...], type_: Type) -> str:
    """`{a,"b c",NULL}`."""
    element = type_.element if isinstance(type_, Array) else type_
    return "{" + ",".join(_write_element(item, element) for item in value) + "}"


def _float_text(call: Call) -> Callable[..., Value]:
    is_short = call.arguments[0].type == FLOAT
    return lambda value: write_float(value, is_short=is_short)


def _array_text(call: Call) -> Callable[..., Value]:
    type_ = call.arguments[0].type
    return lambda value: write_array(value, type_)


TYPED: Mapping[str, Callable[[Call], Callable[..., Value]]] = {"array_text": _array_text, "float_text": _float_text}
"""Functions that depend on the types of the call."""
