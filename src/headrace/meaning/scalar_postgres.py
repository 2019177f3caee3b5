"""Functions that only PostgreSQL has, as it computes them: uuid, ages, words, zones, and jsonb as a whole."""

from __future__ import annotations

import calendar
import datetime as dt
import decimal
import functools
import re
import zoneinfo
from collections.abc import Callable, Mapping
from typing import Any

from headrace.meaning.scalar_format import from_utc, to_utc
from headrace.meaning.scalar_json import read_exactly, write_jsonb
from headrace.meaning.scalar_number import EXACT, fit_decimal
from headrace.meaning.scalar_to_char import number_to_char, time_to_char
from headrace.model.errors import EvaluationError
from headrace.model.types import Decimal, Value

UTC_NAMES = ("UTC", "GMT", "ETC/UTC", "Z")
_UUID = re.compile(r"\{?((?:[0-9a-f]{4}-?){7}[0-9a-f]{4})\}?", re.IGNORECASE)


def read_uuid(text: str) -> str:
    """A uuid in lower case with its four hyphens, however it is written."""
    found = _UUID.fullmatch(text)
    if found is None or text.startswith("{") != text.endswith("}"):
        raise EvaluationError(f"'{text[:100]}' is not a uuid")
    digits = found[1].replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def capitalise_words(text: str) -> str:
    """`initcap`: words are of letters and digits, whatever stands between them."""
    made, inside = [], False
    for character in text:
        made.append(character.lower() if inside else character.upper())
        inside = character.isalnum()
    return "".join(made)


def divide(dividend: int | decimal.Decimal, divisor: int | decimal.Decimal) -> decimal.Decimal:
    """A quotient with 18 digits after the point, whatever digits the operands have."""
    if not divisor:
        raise EvaluationError("division by zero")
    return fit_decimal(EXACT.divide(decimal.Decimal(dividend), decimal.Decimal(divisor)), Decimal(38, 18))


# Ages


def _subtract_fields(later: dt.datetime, earlier: dt.datetime) -> tuple[int, int, dt.timedelta]:
    """Months, days and the rest between two times, as the calendar counts them: later - earlier >= 0."""
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    days = later.day - earlier.day
    rest = _since_midnight(later) - _since_midnight(earlier)
    if rest < dt.timedelta():
        rest, days = rest + dt.timedelta(days=1), days - 1
    return months, days, rest


def _since_midnight(time: dt.datetime) -> dt.timedelta:
    return time - dt.datetime.combine(time.date(), dt.time())


def _find_age(end: dt.datetime, start: dt.datetime) -> tuple[int, int, dt.timedelta]:
    """Days that are missing are those of the earlier time's month. Before the start all is negative."""
    later, earlier, sign = (end, start, 1) if end >= start else (start, end, -1)
    months, days, rest = _subtract_fields(later, earlier)
    while days < 0:
        days += calendar.monthrange(earlier.year, earlier.month)[1]
        months -= 1
    return sign * months, sign * days, sign * rest


def find_age_part(part: str, end: dt.datetime, start: dt.datetime) -> decimal.Decimal:
    """`extract(part FROM age(end, start))`."""
    months, days, rest = _find_age(end, start)
    micros = rest // dt.timedelta(microseconds=1)
    seconds = decimal.Decimal(micros).scaleb(-6)
    match part:
        case "year":
            found = _cut(months, 12)
        case "month":
            found = months - 12 * _cut(months, 12)
        case "day":
            found = days
        case "hour":
            found = _cut(micros, 3_600_000_000)
        case "minute":
            found = _cut(micros, 60_000_000) - 60 * _cut(micros, 3_600_000_000)
        case "second":
            return fit_decimal(seconds - 60 * _cut(micros, 60_000_000), Decimal(20, 6))
        case _:
            years = _cut(months, 12)
            whole = decimal.Decimal(years) * 31_557_600 + (months - 12 * years) * 2_592_000 + days * 86_400
            return fit_decimal(whole + seconds, Decimal(20, 6))
    return fit_decimal(decimal.Decimal(found), Decimal(20, 6))


def _cut(value: int, by: int) -> int:
    """Divided, and cut towards zero."""
    return value // by if value >= 0 else -(-value // by)


# jsonb


def join_jsonb(left: str, right: str) -> str:
    """`||`: objects are merged, arrays are joined, and what is no array becomes one."""
    one, other = read_exactly(left), read_exactly(right)
    if isinstance(one, dict) and isinstance(other, dict):
        return write_jsonb({**one, **other})
    return write_jsonb([*_as_list(one), *_as_list(other)])


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def find_jsonb_key(text: str) -> str:
    """A text that is equal where values are: 1.0 is 1."""
    return write_jsonb(_plain(read_exactly(text)))


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {name: _plain(inner) for name, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case decimal.Decimal():
            return value.normalize(decimal.Context(prec=max(len(value.as_tuple().digits), 1)))
    return value


def delete_name(text: str, name: str) -> str:
    """`- 'name'`: members of an object, or equal strings of an array."""
    value = read_exactly(text)
    if isinstance(value, dict):
        return write_jsonb({key: inner for key, inner in value.items() if key != name})
    if isinstance(value, list):
        return write_jsonb([item for item in value if not (isinstance(item, str) and item == name)])
    raise EvaluationError("nothing can be deleted from a simple value")


def delete_item(text: str, place: int) -> str:
    """`- 1`: the element at a place counted from 0, or from -1 at the end."""
    value = read_exactly(text)
    if not isinstance(value, list):
        raise EvaluationError("elements are deleted from an array by their place")
    at = place if place >= 0 else len(value) + place
    return write_jsonb([item for number, item in enumerate(value) if number != at])


def find_time_in_zone(instant: dt.datetime, zone: str) -> dt.datetime:
    """`instant AT TIME ZONE zone`, for a zone that each row has."""
    return from_utc(instant, name_region(zone))


def find_instant_in_zone(local: dt.datetime, zone: str) -> dt.datetime:
    """`local AT TIME ZONE zone`, for a zone that each row has."""
    return to_utc(local, name_region(zone))


@functools.lru_cache(maxsize=1000)
def name_region(written: str) -> str:
    """The name of a region as it is spelt, however its letters are written; PostgreSQL does not mind either.

    Offsets and abbreviations are errors: PostgreSQL counts `+2` westward, and its configuration says what `EST` means.
    """
    if written.upper() in UTC_NAMES:
        return "UTC"
    name = _list_regions().get(written.casefold())
    if name is None:
        raise EvaluationError(f"'{written[:100]}' is not the name of a region, such as 'Europe/Paris'")
    return name


@functools.cache
def _list_regions() -> Mapping[str, str]:
    return {name.casefold(): name for name in zoneinfo.available_timezones() if "/" in name}


def quote_json(text: str) -> str:
    """A text as JSON."""
    return write_jsonb(text)


POSTGRES: Mapping[str, Callable[..., Value]] = {
    "age_part": find_age_part,
    "capitalise_words": capitalise_words,
    "instant_in_zone": find_instant_in_zone,
    "json_quoted": quote_json,
    "jsonb_joined": join_jsonb,
    "jsonb_key": find_jsonb_key,
    "jsonb_without": delete_name,
    "jsonb_without_item": delete_item,
    "number_to_char": number_to_char,
    "numeric_quotient": divide,
    "time_in_zone": find_time_in_zone,
    "time_to_char": time_to_char,
    "uuid_text": read_uuid,
}
"""Functions of values that are not NULL, which Spark does not have."""
