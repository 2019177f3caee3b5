"""Times from text by Spark's patterns, as Java's strict parser reads them.

    yyyy, MM, dd, HH, hh, mm, ss    that many digits         y, M, d, H, h, m, s    one digit or more
    S...                            up to that many digits   MMM, MMMM, a           names, in any case
    X, XXX, Z                       an offset                [...]                  may be missing

What a pattern does not name is as on 1970-01-01 at midnight.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.meaning.scalar_format import MONTHS
from headrace.model.errors import EvaluationError
from headrace.model.types import Value

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']|'", re.DOTALL)
_NAMES = {"y": "year", "M": "month", "L": "month", "d": "day", "H": "hour", "h": "half", "m": "minute", "s": "second"}
_OFFSETS = {"X": r"Z|[+-]\d\d(?:\d\d)?", "XX": r"Z|[+-]\d\d\d\d", "XXX": r"Z|[+-]\d\d:\d\d", "Z": r"[+-]\d\d\d\d"}
_LONGEST_FRACTION = 9
_SHORT = "|".join(name[:3] for name in MONTHS)
_LONG = "|".join(MONTHS)


@dataclass(frozen=True, slots=True)
class _Pattern:
    expression: re.Pattern[str]
    short_year: bool


def unknown_token(pattern: str) -> str | None:
    """The first part of a pattern that is not read; None if all are."""
    seen: set[str] = set()
    for token in _TOKEN.finditer(pattern):
        part = token.group()
        if part[0].isascii() and part[0].isalpha():
            name = _name_of(part)
            if _expression_of(part) is None or name in seen:
                return part
            seen.add(name)
        elif part in ("'", "{", "}", "#"):
            return part
    if pattern.count("[") != pattern.count("]"):
        return "["
    return "a" if "clock" in seen and "half" not in seen else None


def _name_of(token: str) -> str:
    letter = token[0]
    return {"S": "fraction", "a": "clock", "X": "offset", "Z": "offset"}.get(letter) or _NAMES.get(letter, letter)


def _expression_of(token: str) -> str | None:
    """What a run of one letter matches."""
    letter, length = token[0], len(token)
    if token in ("MMM", "LLL"):
        return _SHORT
    if token in ("MMMM", "LLLL"):
        return _LONG
    if token in _OFFSETS:
        return _OFFSETS[token]
    if token == "a":
        return "[AP]M"
    if letter == "S" and length <= _LONGEST_FRACTION:
        return rf"\d{{1,{length}}}"
    if letter == "y" and length in (2, 4):
        return rf"\d{{{length}}}"
    if letter in _NAMES and length <= 2 and token != "yy":
        return r"\d\d" if length == 2 else r"\d{1,9}"
    return None


@functools.lru_cache(maxsize=256)
def _compile(pattern: str) -> _Pattern:
    unknown = unknown_token(pattern)
    if unknown is not None:
        raise EvaluationError(f'"{unknown}" is not a part of a pattern that we read')
    parts = []
    for token in _TOKEN.finditer(pattern):
        part = token.group()
        if part[0] == "'":
            parts.append(re.escape(part[1:-1].replace("''", "'") or "'"))
        elif part in "[]":
            parts.append("(?:" if part == "[" else ")?")
        elif part[0].isascii() and part[0].isalpha():
            parts.append(f"(?P<{_name_of(part)}>{_expression_of(part)})")
        else:
            parts.append(re.escape(part))
    short_year = re.search(r"(?<!y)yy(?!y)", pattern) is not None
    return _Pattern(re.compile("".join(parts), re.IGNORECASE | re.ASCII), short_year)


def read_time(text: str, pattern: str) -> dt.datetime:
    compiled = _compile(pattern)
    found = compiled.expression.fullmatch(text)
    if found is None:
        raise EvaluationError(f"'{text[:100]}' is not a time written as {pattern}")
    parts = {name: value for name, value in found.groupdict().items() if value is not None}
    try:
        return _make_time(parts, short_year=compiled.short_year)
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"'{text[:100]}' is not a time: {error}") from error


def _make_time(parts: Mapping[str, str], *, short_year: bool) -> dt.datetime:
    year = int(parts.get("year", 1970)) + (2000 if short_year else 0)
    fraction = int(parts.get("fraction", "0").ljust(_LONGEST_FRACTION, "0")[:6])
    minute, second = int(parts.get("minute", 0)), int(parts.get("second", 0))
    time = dt.datetime(year, _month(parts), int(parts.get("day", 1)), _hour(parts), minute, second, fraction)
    return time - _offset(parts.get("offset", "Z"))


def _month(parts: Mapping[str, str]) -> int:
    written = parts.get("month", "1")
    if written.isdigit():
        return int(written)
    return 1 + next(place for place, name in enumerate(MONTHS) if name.upper().startswith(written.upper()))


def _hour(parts: Mapping[str, str]) -> int:
    if "half" not in parts:
        return int(parts.get("hour", 0))
    half = int(parts["half"])
    if not 1 <= half <= 12:
        raise ValueError(f"there is no hour {half} of a half day")
    return half % 12 + (12 if parts.get("clock", "AM").upper() == "PM" else 0)


def _offset(written: str) -> dt.timedelta:
    if written.upper() == "Z":
        return dt.timedelta()
    digits = written[1:].replace(":", "").ljust(4, "0")
    span = dt.timedelta(hours=int(digits[:2]), minutes=int(digits[2:]))
    if span > dt.timedelta(hours=18) or int(digits[2:]) > 59:
        raise ValueError(f"there is no offset {written}")
    return span if written[0] == "+" else -span


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"parse_timestamp": read_time}
"""Functions of values that are not NULL."""
