"""Casts under ANSI rules: text that does not parse, or a value that does not fit, is an error and never NULL.

Text is trimmed of white space first. Numbers cut their fraction when they become integers, and round half up when they
become decimals. The one cast that Spark answers with NULL in ANSI mode is NaN or infinity to a decimal.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import zoneinfo
from collections.abc import Callable
from typing import Any

from headrace.meaning.scalar_number import EXACT, fit_decimal, fit_float, fit_integer, to_decimal
from headrace.meaning.scalar_time import from_micros, make_date, micros, midnight
from headrace.model.errors import EvaluationError
from headrace.model.types import FRACTIONS, INTEGERS, Array, Decimal, Kind, Simple, Type, Value

LONGEST_TEXT = 200
"""Characters of a text that are shown; and more digits than any number that we have."""

Cast = Callable[[Any], Value]
"""A conversion of values of one type that are not NULL; which one the caller knows."""


def cast(source: Type, target: Type) -> Cast:
    """How values of one type become values of another."""
    if source == target or source == Simple(Kind.NULL):
        return lambda value: value
    if isinstance(source, Array):
        return _of_array(source, target)
    if isinstance(target, Decimal):
        return _to_decimal(source, target)
    assert isinstance(target, Simple), f"no cast from {source} to {target}"
    if target in INTEGERS:
        return _to_integer(source, target)
    if target in FRACTIONS:
        return _to_float(source, target)
    casts = {
        Kind.STRING: _to_string,
        Kind.BOOLEAN: _to_boolean,
        Kind.DATE: _to_date,
        Kind.TIMESTAMP: _to_timestamp,
        Kind.BINARY: _to_binary,
    }
    assert target.kind in casts, f"no cast from {source} to {target}"
    return casts[target.kind](source)


def _of_array(source: Array, target: Type) -> Cast:
    """Element by element; as text in brackets."""
    if isinstance(target, Array):
        convert = cast(source.element, target.element)
        return lambda array: tuple(None if item is None else convert(item) for item in array)
    write = cast(source.element, Simple(Kind.STRING))
    return lambda array: f"[{', '.join('null' if item is None else str(write(item)) for item in array)}]"


def _kind(type_: Type) -> Kind | None:
    return type_.kind if isinstance(type_, Simple) else None


def _say_malformed(text: str, target: Type | str) -> EvaluationError:
    return EvaluationError(f"'{_shorten(text)}' cannot be cast to {target}")


def _shorten(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}..."


_WHITE = "".join(map(chr, range(0x21))) + "\x7f"
"""What Spark trims: space and the ASCII control characters."""


def _to_integer(source: Type, target: Simple) -> Cast:
    if _kind(source) == Kind.STRING:
        return lambda text: fit_integer(_parse_integer(text, target), target)
    if _kind(source) == Kind.TIMESTAMP:
        return lambda time: fit_integer(micros(time) // 1_000_000, target)
    if source in FRACTIONS:
        return lambda value: fit_integer(_cut(value, target), target)
    return lambda value: fit_integer(int(value), target)


def _cut(value: float, target: Type | str) -> int:
    if not math.isfinite(value):
        raise EvaluationError(f"{value} is out of the range of {target}")
    return int(value)


def _parse_integer(text: str, target: Type) -> int:
    found = re.fullmatch(r"([+-]?)0*([0-9]*)", trimmed := text.strip(_WHITE))
    if found is None or not trimmed.strip("+-"):
        raise _say_malformed(text, target)
    sign, digits = found.groups()
    if len(digits) > LONGEST_TEXT:  # Python refuses to read numbers of thousands of digits
        raise EvaluationError(f"{_shorten(trimmed)} is out of the range of {target}")
    return int(f"{sign}{digits or 0}")


def _to_float(source: Type, target: Simple) -> Cast:
    if _kind(source) == Kind.STRING:
        return lambda text: fit_float(_parse_float(text, target), target)
    if _kind(source) == Kind.TIMESTAMP:
        return lambda time: fit_float(micros(time) / 1e6, target)
    return lambda value: fit_float(float(value), target)


_SPECIAL = {"inf": math.inf, "infinity": math.inf, "nan": math.nan}
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def _parse_float(text: str, target: Type) -> float:
    """Java's syntax: a trailing `d` or `f` is allowed; `inf` may have a sign, `nan` may not. No hexadecimal floats."""
    trimmed = text.strip(_WHITE)
    unsigned = trimmed.lstrip("+-").lower() if trimmed[1:2] not in ("+", "-") else ""
    if unsigned in _SPECIAL and (unsigned != "nan" or trimmed.lower() == "nan"):
        return -_SPECIAL[unsigned] if trimmed[0] == "-" else _SPECIAL[unsigned]
    number = trimmed[:-1] if trimmed[-1:] in ("d", "D", "f", "F") else trimmed
    if _FLOAT.fullmatch(number) is None:
        raise _say_malformed(text, target)
    return float(number)


def _to_decimal(source: Type, target: Decimal) -> Cast:
    if _kind(source) == Kind.STRING:
        return lambda text: fit_decimal(_parse_decimal(text, target), target)
    if _kind(source) == Kind.TIMESTAMP:
        return lambda time: fit_decimal(decimal.Decimal(repr(micros(time) / 1e6)), target)
    if source in FRACTIONS:
        return lambda value: fit_decimal(decimal.Decimal(repr(value)), target) if math.isfinite(value) else None
    return lambda value: fit_decimal(to_decimal(value), target)


_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def _parse_decimal(text: str, target: Type) -> decimal.Decimal:
    """Java takes the digits of any script here, unlike for other numbers."""
    trimmed = text.strip(_WHITE)
    if _DECIMAL.fullmatch(trimmed) is None:
        raise _say_malformed(text, target)
    return decimal.Decimal(trimmed)


def _to_boolean(source: Type) -> Cast:
    return _parse_boolean if _kind(source) == Kind.STRING else lambda value: value != 0


_TRUE = ("t", "true", "y", "yes", "1")
_FALSE = ("f", "false", "n", "no", "0")


def _parse_boolean(text: str) -> bool:
    word = text.strip(_WHITE).lower()
    if word not in _TRUE + _FALSE:
        raise _say_malformed(text, "boolean")
    return word in _TRUE


def _to_binary(source: Type) -> Cast:
    assert _kind(source) == Kind.STRING, f"no cast from {source} to binary"
    return str.encode


def _to_string(source: Type) -> Cast:
    if isinstance(source, Decimal):
        return lambda value: f"{value:f}"
    writers: dict[Kind | None, Cast] = {
        Kind.BOOLEAN: lambda value: "true" if value else "false",
        Kind.DOUBLE: double_text,
        Kind.FLOAT: float_text,
        Kind.DATE: dt.date.isoformat,
        Kind.TIMESTAMP: timestamp_text,
        Kind.BINARY: lambda value: value.decode("utf-8", "replace"),
    }
    return writers.get(_kind(source), str)


def timestamp_text(time: dt.datetime) -> str:
    """Fractions without trailing zeros."""
    fraction = f".{time.microsecond:06d}".rstrip("0") if time.microsecond else ""
    return time.strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0") + fraction


def double_text(value: float) -> str:
    """A double as Java 19 and later print it: the fewest digits that read back as the same number, but at least two."""
    digits = repr(value) if len(repr(value).strip("-0.").replace(".", "").split("e")[0]) > 1 else f"{value:.1e}"
    return _java_float(value, digits)


def float_text(value: float) -> str:
    """A float of 32 bits as Java 19 and later print it."""
    candidates = (f"{value:.{digits}e}" for digits in range(1, 9))
    shortest = next((text for text in candidates if fit_float(float(text), Simple(Kind.FLOAT)) == value), repr(value))
    return _java_float(value, shortest)


def _java_float(value: float, text: str) -> str:
    """Plain between 1e-3 and 1e7, else with an exponent."""
    if not math.isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "-0.0" if math.copysign(1, value) < 0 else "0.0"
    number = decimal.Decimal(text).normalize()
    sign, digits, _ = number.as_tuple()
    if 1e-3 <= abs(value) < 1e7:
        plain = f"{number:f}"
        return plain if "." in plain else plain + ".0"
    first, *rest = map(str, digits)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{number.adjusted()}"


def _to_date(source: Type) -> Cast:
    return parse_date if _kind(source) == Kind.STRING else lambda time: time.date()


def _to_timestamp(source: Type) -> Cast:
    match _kind(source):
        case Kind.STRING:
            return parse_timestamp
        case Kind.DATE:
            return midnight
        case Kind.DOUBLE | Kind.FLOAT:
            return lambda value: from_micros(_cut(value * 1e6, "timestamp"))
        case _:
            return lambda value: from_micros(int(EXACT.multiply(to_decimal(value), 1_000_000)))


_DATE = re.compile(r"([+-]?[0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?[0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?(.*))?)?)?)?)?",
    re.DOTALL,
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?(?::?([0-9]{2}))?")


def parse_date(text: str) -> dt.date:
    """`2024`, `2024-2`, `2024-2-3`, and the last followed by a space or T and anything."""
    found = _DATE.fullmatch(text.strip(_WHITE))
    if found is None:
        raise _say_malformed(text, "date")
    year, month, day = found.groups()
    return make_date(int(year), int(month or 1), int(day or 1))


def parse_timestamp(text: str) -> dt.datetime:
    """A date, then hours, minutes, seconds, fraction (cut to microseconds), zone; the last parts may be left out."""
    found = _TIMESTAMP.fullmatch(text.strip(_WHITE))
    if found is None:
        raise _say_malformed(text, "timestamp")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    date = make_date(int(year), int(month or 1), int(day or 1))
    microsecond = int((fraction or "")[:6].ljust(6, "0"))
    try:
        time = dt.time(int(hour or 0), int(minute or 0), int(second or 0), microsecond)
        return _to_utc(dt.datetime.combine(date, time), (zone or "").strip(_WHITE))
    except (ValueError, OverflowError, zoneinfo.ZoneInfoNotFoundError) as error:
        raise _say_malformed(text, "timestamp") from error


def _to_utc(time: dt.datetime, zone: str) -> dt.datetime:
    if zone in ("", "Z", "UTC", "GMT", "UT"):
        return time
    offset = _OFFSET.fullmatch(zone)
    if offset is None:
        return time.replace(tzinfo=zoneinfo.ZoneInfo(zone)).astimezone(dt.UTC).replace(tzinfo=None)
    sign, hours, minutes, seconds = offset.groups()
    shift = dt.timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    if shift > dt.timedelta(hours=18):
        raise ValueError(f"offset {zone}")
    return time - shift if sign == "+" else time + shift
