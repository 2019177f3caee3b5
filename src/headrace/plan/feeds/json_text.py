"""JSON text to values that lose nothing: numbers exactly as written, keys that occur twice reported, every value's
place.

Places are looked for only when something is wrong: the text is then walked once more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from json.decoder import scanstring  # type: ignore[attr-defined]  # not in the type stubs
from typing import NoReturn

from headrace.model.errors import InputError, Location, Problem

Path = tuple[str | int, ...]
"""Keys and positions that lead to a value."""

LARGEST_EXPONENT = 300
"""Powers of ten up to which an amount is a sensible one; beyond, doubles end, and integers take gigabytes."""

_NUMBERS = "amounts are plain decimal numbers, such as 0.25"
_SPACE = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[^\s,\]}]+")


def read_json(text: str, file: str) -> object:
    """Integers as int, other numbers as Decimal. Raises InputError for what is not JSON, or has a key twice."""
    if not text.strip():
        raise InputError([Problem(f'"{file}" is empty', Location(file), "an instance is a JSON object")])
    repeated = False

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal repeated
        found = dict(pairs)
        repeated = repeated or len(found) < len(pairs)
        return found

    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        where = Location(file, error.lineno, error.colno)
        raise InputError([Problem(f"this is not JSON: {_lower(error.msg)}", where)]) from error
    except RecursionError as error:
        raise InputError([Problem("this is nested too deeply", Location(file))]) from error
    except (ValueError, ArithmeticError) as error:
        raise InputError([Problem(f"a number cannot be read: {error}", Location(file), _NUMBERS)]) from error
    if repeated:
        raise InputError(_repeated_keys(text, file))
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no amount")


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def exact_amount(value: object) -> Fraction:
    """A non-negative number as it was written. Raises ValueError, with words that follow "must be"."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(f"must be a number, not {shown(value)}")
    number = value if isinstance(value, Decimal) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"must be finite, not {value}")
    if number < 0:
        raise ValueError(f"must not be negative, but is {value}")
    if number and not -LARGEST_EXPONENT <= number.adjusted() <= LARGEST_EXPONENT:
        raise ValueError(f"must be 0 or between 1e-{LARGEST_EXPONENT} and 1e{LARGEST_EXPONENT}")
    return Fraction(value)


def shown(value: object) -> str:
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) <= 40 else f"{text[:37]}..."


# Places


def place_of(text: str, file: str, path: Path) -> Location:
    """Where the value at a path starts, or the innermost value around it that exists."""
    best: tuple[int, int] = (-1, 0)
    for found, _, offset in _walk(text):
        if len(found) > best[0] and found == path[: len(found)]:
            best = (len(found), offset)
        if found == path:
            break
    return _location(text, file, best[1])


def _repeated_keys(text: str, file: str) -> list[Problem]:
    seen: set[Path] = set()
    problems = []
    for path, key_offset, _ in _walk(text):
        if path in seen and isinstance(path[-1], str):
            message = f'"{path[-1]}" is written twice'
            problems.append(Problem(message, _location(text, file, key_offset), "keep one of the two"))
        seen.add(path)
    return problems


def _location(text: str, file: str, offset: int) -> Location:
    return Location(file, text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1)


def _walk(text: str) -> Iterator[tuple[Path, int, int]]:
    """Path, offset of the key (of the value, in a list) and offset of the value, of every value of a valid text."""
    path: list[str | int] = []
    offset = _skip(text, 0)
    key_offset = offset
    while True:
        yield tuple(path), key_offset, offset
        character = text[offset]
        opened = character in "{[" and text[_skip(text, offset + 1)] not in "}]"
        if opened:
            path.append(-1 if character == "[" else "")
            offset = _skip(text, offset + 1)
        else:
            offset = _skip(text, _end_of_scalar(text, offset))
            while path and text[offset] in "}]":
                path.pop()
                offset = _skip(text, offset + 1)
            if not path:
                return
            offset = _skip(text, offset + 1)
        key_offset, offset = _enter(text, path, offset)


def _enter(text: str, path: list[str | int], offset: int) -> tuple[int, int]:
    """Step to the next member of the innermost object or list; where its key and its value start."""
    last = path[-1]
    if isinstance(last, int):
        path[-1] = last + 1
        return offset, offset
    key, end = scanstring(text, offset + 1)
    path[-1] = key
    return offset, _skip(text, _skip(text, end) + 1)


def _end_of_scalar(text: str, offset: int) -> int:
    if text[offset] == '"':
        return int(scanstring(text, offset + 1)[1])
    if text[offset] in "{[":
        return _skip(text, offset + 1) + 1
    found = _SCALAR.match(text, offset)
    return found.end() if found else offset + 1


def _skip(text: str, offset: int) -> int:
    found = _SPACE.match(text, offset)
    return found.end() if found else offset
