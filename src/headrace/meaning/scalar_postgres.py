"""Functions that only PostgreSQL has, as it computes them: uuid, words, zones, and jsonb as a whole."""

from __future__ import annotations

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
from headrace.meaning.scalar_time import TIMES_OF_DAY, date_trunc
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


def multiply(left: int | decimal.Decimal, right: int | decimal.Decimal) -> decimal.Decimal:
    """A product with 18 digits after the point, whatever digits the factors have."""
    return fit_decimal(EXACT.multiply(decimal.Decimal(left), decimal.Decimal(right)), Decimal(38, 18))


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
    """`local AT TIME ZONE zone`: the later of two instants, where Spark has the earlier one. A local time that the zone
    skips counts as if it did not.
    """
    region = name_region(zone)
    first, last = to_utc(local, region), to_utc(local.replace(fold=1), region)
    return max(first, last) if from_utc(last, region) == local else first


def cut_in_zone(unit: str, instant: dt.datetime, zone: str) -> dt.datetime:
    """`date_trunc(unit, instant, zone)`: the hours that a clock shows twice are two."""
    region = name_region(zone)
    local = from_utc(instant, region)
    cut = date_trunc(unit, local)
    if cut is None:
        raise EvaluationError(f"date_trunc: there is no unit '{unit[:100]}'")
    is_short = unit.upper() in TIMES_OF_DAY
    return instant - (local - cut) if is_short else find_instant_in_zone(cut, region)


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
    "capitalise_words": capitalise_words,
    "cut_in_zone": cut_in_zone,
    "instant_in_zone": find_instant_in_zone,
    "json_quoted": quote_json,
    "jsonb_joined": join_jsonb,
    "jsonb_key": find_jsonb_key,
    "jsonb_without": delete_name,
    "jsonb_without_item": delete_item,
    "number_to_char": number_to_char,
    "numeric_product": multiply,
    "numeric_quotient": divide,
    "time_in_zone": find_time_in_zone,
    "time_to_char": time_to_char,
    "uuid_text": read_uuid,
}
"""Functions of values that are not NULL, which Spark does not have."""
