"""Constants of queries as JSON: every value of `model.types`, exactly as it was.

bool, int, str, None   as they are                  Decimal     {"decimal": "1.00"}
float                  a number with a point,       bytes       {"bytes": "00ff"}
                       or {"float": "nan"}          date        {"date": "2024-02-29"}
tuple                  {"array": [...]}             datetime    {"timestamp": "2024-02-29T12:30:15"}
                                                    timedelta   {"interval": [days, seconds, microseconds]}
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
from typing import Any

from headrace.model.errors import WireError
from headrace.model.types import Value

Json = Any
"""What `json` writes and reads."""
DEEPEST = 20
"""Arrays inside each other: more is nobody's value, and would exhaust the stack of whoever reads it."""


def write_value(value: Value) -> Json:
    match value:
        case None | bool() | str():
            return value
        case int():
            return int(value)
        case float():
            return float(value) if math.isfinite(value) else {"float": repr(float(value))}
        case decimal.Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": value.hex()}
        case dt.datetime():  # before date: a datetime is one
            return {"timestamp": value.isoformat()}
        case dt.date():
            return {"date": value.isoformat()}
        case dt.timedelta():
            return {"interval": [value.days, value.seconds, value.microseconds]}
        case tuple():
            return {"array": [write_value(one) for one in value]}
    raise WireError(f"{value!r} is no value of ours")


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8: JSON may have half of a character in it, which nobody else takes."""
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def read_value(written: Json, depth: int = 0) -> Value:
    if written is None or isinstance(written, bool | int | float | str):
        return written
    if not isinstance(written, dict) or len(written) != 1:
        raise WireError(f"{written!r:.200} is no value of ours")
    ((tag, inside),) = written.items()
    try:
        return _read_tagged(tag, inside, depth)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise WireError(f"{inside!r:.200} is no {tag}") from error


def _read_tagged(tag: str, inside: Json, depth: int) -> Value:
    match tag:
        case "float":
            return float(inside)
        case "decimal":
            return decimal.Decimal(inside)
        case "bytes":
            return bytes.fromhex(inside)
        case "timestamp":
            return dt.datetime.fromisoformat(inside)
        case "date":
            return dt.date.fromisoformat(inside)
        case "interval":
            days, seconds, microseconds = inside
            return dt.timedelta(days=days, seconds=seconds, microseconds=microseconds)
        case "array":
            if depth >= DEEPEST:
                raise WireError(f"a value has at most {DEEPEST} arrays inside each other")
            return tuple(read_value(one, depth + 1) for one in inside)
    raise WireError(f'"{tag}" is not known as a kind of value')
