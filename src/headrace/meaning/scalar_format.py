"""Times as text by Spark's patterns, and times in other zones. The zone of what is formatted is always UTC."""

from __future__ import annotations

import datetime as dt
import functools
import re
import zoneinfo
from collections.abc import Callable, Mapping

from headrace.model.errors import EvaluationError
from headrace.model.types import Value

_TOKEN = re.compile(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']|'", re.DOTALL)
MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July", "August", "September", "October"),
    *("November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_QUARTERS = ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")

Part = Callable[[dt.datetime], str]


def _number(length: int, of: Callable[[dt.datetime], int]) -> Part:
    return lambda time: f"{of(time):0{length}d}"


def _constant(text: str) -> Part:
    return lambda time: text


def _named(names: tuple[str, ...], of: Callable[[dt.datetime], int], length: int | None = None) -> Part:
    return lambda time: names[of(time)][:length]


def _quarter(time: dt.datetime) -> int:
    return (time.month - 1) // 3


def _fraction(length: int) -> Part:
    return lambda time: f"{time.microsecond:06d}"[:length].ljust(length, "0")


_NUMBERS: Mapping[str, tuple[int, Callable[[dt.datetime], int]]] = {
    "d": (2, lambda time: time.day),
    "D": (3, lambda time: time.timetuple().tm_yday),
    "H": (2, lambda time: time.hour),
    "k": (2, lambda time: time.hour or 24),
    "K": (2, lambda time: time.hour % 12),
    "h": (2, lambda time: time.hour % 12 or 12),
    "m": (2, lambda time: time.minute),
    "s": (2, lambda time: time.second),
    **dict.fromkeys(("M", "L"), (2, lambda time: time.month)),
    **dict.fromkeys(("Q", "q"), (2, lambda time: _quarter(time) + 1)),
}
"""Letters that are numbers, with how often they may stand at most."""

_PARTS: Mapping[str, Part] = {
    **{
        letter * length: _number(length, of) for letter, (most, of) in _NUMBERS.items() for length in range(1, most + 1)
    },
    **{"y" * length: _number(length, lambda time: time.year) for length in (1, 3, 4, 5, 6)},
    "yy": _number(2, lambda time: time.year % 100),
    **{letter * 3: _named(MONTHS, lambda time: time.month - 1, 3) for letter in "ML"},
    **{letter * 4: _named(MONTHS, lambda time: time.month - 1) for letter in "ML"},
    **{letter * 3: (lambda time: f"Q{_quarter(time) + 1}") for letter in "Qq"},
    **{letter * 4: _named(_QUARTERS, _quarter) for letter in "Qq"},
    **{"E" * length: _named(_DAYS, dt.datetime.weekday, 3) for length in (1, 2, 3)},
    "EEEE": _named(_DAYS, dt.datetime.weekday),
    **{"S" * length: _fraction(length) for length in range(1, 10)},
    "a": lambda time: "AM" if time.hour < 12 else "PM",
    **{"G" * length: _constant("AD") for length in (1, 2, 3)},
    "VV": _constant("UTC"),
    **{"z" * length: _constant("UTC") for length in (1, 2, 3)},
    "O": _constant("GMT"),
    **{"X" * length: _constant("Z") for length in range(1, 6)},
    **dict.fromkeys(("x",), _constant("+00")),
    **dict.fromkeys(("xx", "xxxx", "Z", "ZZ", "ZZZ"), _constant("+0000")),
    **dict.fromkeys(("xxx", "xxxxx"), _constant("+00:00")),
    "ZZZZZ": _constant("Z"),
}
"""What runs of one letter stand for."""

RESERVED = "[]{}#"
"""Signs that mean something to Java and nothing to us."""


def unknown_part(pattern: str) -> str | None:
    """The first part of a pattern that is not formatted; None if all are."""
    for token in _TOKEN.finditer(pattern):
        part = token.group()
        if (part[0].isascii() and part[0].isalpha() and part not in _PARTS) or part in RESERVED or part == "'":
            return part
    return None


def date_format(time: dt.datetime, pattern: str) -> str:
    return "".join(part(time) for part in _compile_pattern(pattern))


@functools.lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> tuple[Part, ...]:
    unknown = unknown_part(pattern)
    if unknown is not None:
        raise EvaluationError(f'date_format: "{unknown}" is not a part that we format')
    return tuple(_read_token(token.group()) for token in _TOKEN.finditer(pattern))


def _read_token(token: str) -> Part:
    if token[0] == "'":
        return _constant(token[1:-1].replace("''", "'") or "'")
    return _PARTS.get(token) or _constant(token)


_OFFSET = re.compile(r"(?:UTC|GMT)?([+-])(\d{1,2})(?::(\d{2}))?")


@functools.lru_cache(maxsize=256)
def find_zone(name: str) -> dt.tzinfo | None:
    """The zone of a region, or of an offset such as `+02:00`; None if there is none of that name."""
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        sign, hours, minutes = offset.groups()
        shift = dt.timedelta(hours=int(hours), minutes=int(minutes or 0))
        in_range = shift <= dt.timedelta(hours=18) and int(minutes or 0) < 60
        return dt.timezone(shift if sign == "+" else -shift) if in_range else None
    if name in ("UTC", "GMT", "Z"):
        return dt.UTC
    try:
        return zoneinfo.ZoneInfo(name) if "/" in name else None
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return None


def _zone(name: str) -> dt.tzinfo:
    zone = find_zone(name)
    if zone is None:
        raise EvaluationError(f'there is no time zone "{name}"')
    return zone


def from_utc(time: dt.datetime, zone: str) -> dt.datetime:
    """The local time of a zone at an instant."""
    try:
        return time.replace(tzinfo=dt.UTC).astimezone(_zone(zone)).replace(tzinfo=None)
    except OverflowError as error:
        raise EvaluationError(f"a date is outside the years 1 to 9999: {error}") from error


def to_utc(time: dt.datetime, zone: str) -> dt.datetime:
    """The instant of a local time: the earlier of two; one that a zone skips counts as if it did not."""
    try:
        return time.replace(tzinfo=_zone(zone)).astimezone(dt.UTC).replace(tzinfo=None)
    except OverflowError as error:
        raise EvaluationError(f"a date is outside the years 1 to 9999: {error}") from error


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "date_format": date_format,
    "from_utc_timestamp": from_utc,
    "to_utc_timestamp": to_utc,
}
"""Functions of values that are not NULL."""
