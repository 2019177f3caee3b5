"""Fits values to the types of columns, so that programs never meet what their types do not promise.

Rows come from people as JSON (`read_json`), from messages and stores as values (`fit_row`). What does not fit raises
`WireError`, and says which column.
"""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache

from headrace.meaning.scalar_cast import cast
from headrace.meaning.zset import normal
from headrace.model.errors import EvaluationError, WireError
from headrace.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FRACTIONS,
    INTEGERS,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Row,
    Simple,
    Type,
    Value,
    integer_range,
)
from headrace.model.wire_values import Json, is_text

Columns = Sequence[tuple[str, Type]]
LARGEST_AS_FLOAT = 1 << 1000

_FROM_TEXT = (DATE, TIMESTAMP, *INTEGERS)
"""Types whose values people write as text in JSON. Whole numbers are also accepted as what they are."""


def fit_row(row: Sequence[Value], columns: Columns) -> Row:
    """A row of exactly these columns, floats in their one form."""
    if len(row) != len(columns):
        raise WireError(f"a row of {len(row)} values; there are {len(columns)} columns")
    return tuple(_fit(value, type_, name) for value, (name, type_) in zip(row, columns, strict=True))


def read_json(row: Json, columns: Columns) -> Row:
    """A row as people write it: an object with a value for each column, NULL where there is none."""
    if not isinstance(row, Mapping):
        raise WireError(f"a row is an object such as {{{', '.join(f'{name!r}: ...' for name, _ in columns)}}}")
    unknown = sorted(set(map(str, row)) - {name for name, _ in columns})
    if unknown:
        raise WireError(f'there is no column "{unknown[0]}"; there are {", ".join(name for name, _ in columns)}')
    return tuple(_fit(_parse(row.get(name), type_, name), type_, name) for name, type_ in columns)


def write_json(value: Value) -> Json:
    """A value as people read it; the opposite of `read_json` for types that JSON has not."""
    match value:
        case decimal.Decimal():
            return str(value)
        case bytes():
            return value.hex()
        case dt.datetime():
            return value.isoformat(sep=" ")
        case dt.date():
            return value.isoformat()
        case tuple():
            return [write_json(one) for one in value]
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)
        case _:
            return value


@lru_cache(maxsize=10_000)
def fit_id(text: str, type_: Type) -> Value:
    """The id of a device, which messages have as text, in the type that relations have it in."""
    if not is_text(text):
        raise WireError(f"{text!r:.100} is no text")
    return text if type_ == STRING else _from_text(text, type_, "id")


def write_id(value: Value) -> str:
    return value if isinstance(value, str) else str(value)


def read_time(at_ms: int) -> dt.datetime:
    try:
        return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=at_ms)
    except OverflowError as error:
        raise WireError(f"{at_ms} ms since 1970 is no time") from error


def _parse(value: Json, type_: Type, name: str) -> Value:
    if type(value) is float:
        return _from_text(str(value), type_, name) if isinstance(type_, Decimal) else value
    if isinstance(value, list) and isinstance(type_, Array):
        return tuple(_parse(one, type_.element, name) for one in value)
    if isinstance(type_, Decimal) and isinstance(value, str | int | float) and not isinstance(value, bool):
        return _from_text(str(value), type_, name)
    if isinstance(value, str) and type_ == BINARY:
        return _from_hex(value, name)
    if isinstance(value, str) and type_ in _FROM_TEXT:
        return _from_text(value, type_, name)
    if isinstance(value, str) and type_ in FRACTIONS and value in ("nan", "inf", "-inf"):
        return float(value)
    return value  # type: ignore[no-any-return]  # looked at next


def _from_text(text: str, type_: Type, name: str) -> Value:
    try:
        return cast(STRING, type_)(text)
    except EvaluationError as error:
        raise WireError(f'column "{name}": {text[:100]!r} is no {type_}') from error


def _from_hex(text: str, name: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError as error:
        raise WireError(f'column "{name}": {text[:100]!r} is not written in hexadecimal digits') from error


def _fit(value: Value, type_: Type, name: str) -> Value:
    if value is None:
        return None
    # Most values are numbers, and comparing types takes longer than fitting those does.
    is_fraction, bounds = _numbers(type_)
    if isinstance(value, int) and not isinstance(value, bool):
        if bounds is not None and bounds[0] <= value <= bounds[1]:
            return value
        if is_fraction and abs(value) < LARGEST_AS_FLOAT:
            return _fit_float(float(value), type_)
    elif isinstance(value, float) and is_fraction:
        return _fit_float(value, type_)
    elif isinstance(value, tuple) and isinstance(type_, Array):
        return tuple(_fit(one, type_.element, name) for one in value)
    if not _is_of(value, type_):
        raise WireError(f'column "{name}": {value!r:.100} is no {type_}')
    return value


def _fit_float(value: float, type_: Type) -> Value:
    """Rounds to 4 bytes where a column has so many: a device must not know more of a value than the cloud does."""
    return normal(_ROUND(value) if type_ is FLOAT or type_ == FLOAT else value)


_ROUND = cast(DOUBLE, FLOAT)


@cache
def _numbers(type_: Type) -> tuple[bool, tuple[int, int] | None]:
    """Whether a type has floats, and the range of one that has whole numbers."""
    whole = next((one for one in INTEGERS if one == type_), None)
    return type_ in FRACTIONS, None if whole is None else integer_range(whole)


def _is_of(value: Value, type_: Type) -> bool:
    """Whether a value is of a type that has neither numbers of the machine nor others inside."""
    if isinstance(type_, Decimal):
        return isinstance(value, decimal.Decimal) and _has_digits(value, type_)
    return isinstance(type_, Simple) and type_ in _KINDS and _KINDS[type_](value)


def _has_digits(value: decimal.Decimal, type_: Decimal) -> bool:
    if not value.is_finite():
        return False
    whole = type_.precision - type_.scale
    return -value.as_tuple().exponent <= type_.scale and abs(value) < decimal.Decimal(10) ** whole  # type: ignore[operator]


_KINDS: Mapping[Simple, Callable[[Value], bool]] = {
    BOOLEAN: lambda value: isinstance(value, bool),
    STRING: lambda value: isinstance(value, str) and is_text(value),
    BINARY: lambda value: isinstance(value, bytes),
    DATE: lambda value: isinstance(value, dt.date) and not isinstance(value, dt.datetime),
    TIMESTAMP: lambda value: isinstance(value, dt.datetime) and value.tzinfo is None,
}
