"""JSON text to values that lose nothing, and the line and column of any value in it.

Integers come as int, other numbers as Decimal, exactly as written. A key that occurs twice and half a character are
mistakes: silently one value would be lost, or the answer could not be written. Places are looked for only when
something is wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from headrace.model.errors import InputError, Location, Problem

Path = tuple[str | int, ...]
"""Keys and positions that lead to a value."""

MOST_PROBLEMS = 20
"""Mistakes listed at once: a generated instance may repeat the same one a million times."""

_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_HALF_CHARACTER = re.compile(
    r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
)
"""Escaped backslashes and whole pairs come first, so that only what is left over is `half`."""


class _Repeated(dict[str, object]):
    """An object in which a key occurs twice."""


def read_json(text: str, file: str) -> object:
    """Raises InputError for what is not JSON. NaN and infinities are left to `exact_amount` to refuse."""
    if not text.strip():
        raise InputError([Problem("the file is empty", Location(file), "an instance is a JSON object")])
    repeated = False

    def members(pairs: list[tuple[str, object]]) -> dict[str, object]:
        nonlocal repeated
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        repeated = True
        return _Repeated(found)

    try:
        value: object = json.loads(text, parse_float=Decimal, parse_constant=Decimal, object_pairs_hook=members)
    except json.JSONDecodeError as error:
        where = Location(file, error.lineno, error.colno)
        raise InputError([Problem(f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}", where)]) from error
    except RecursionError as error:
        raise InputError([Problem("not JSON that can be read: nested too deeply", Location(file))]) from error
    except (ValueError, ArithmeticError) as error:
        raise InputError([Problem("a number has more digits than can be read", Location(file))]) from error
    problems = [*(_find_repeated_keys(text, file, value) if repeated else ()), *_half_characters(text, file)]
    if problems:
        raise InputError(problems[:MOST_PROBLEMS])
    return value


def exact_amount(value: object, digits: int) -> Fraction:
    """A non-negative number as it was written, with at most so many digits before the point or behind it.

    Raises ValueError with words that follow the name of the amount: "must be ...".
    """
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise ValueError(f"must be a number, not {show_value(value)}")
    number = value if isinstance(value, Decimal) else Decimal(value)
    if not number.is_finite():
        raise ValueError(f"must be finite, not {value}")
    if number < 0:
        raise ValueError(f"must not be negative, but is {show_value(value)}")
    if number and not -digits <= number.adjusted() <= digits:
        raise ValueError(f"must be 0 or between 1e-{digits} and 1e{digits}")
    return Fraction(number)


def show_value(value: object) -> str:
    """A value as it stands in the file, cut to a part of a line."""
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


class Problems:
    """Collects mistakes by path; places are looked up only for those that are listed."""

    def __init__(self, text: str, file: str) -> None:
        self._text, self._file = text, file
        self._found: list[tuple[str, Path, str | None]] = []

    def add(self, message: str, path: Path, hint: str | None = None) -> None:
        self._found.append((message, path, hint))

    def raise_any(self) -> None:
        """Raises InputError if there are any."""
        if not self._found:
            return
        listed = [
            Problem(message, place_of(self._text, self._file, path), hint)
            for message, path, hint in self._found[:MOST_PROBLEMS]
        ]
        if len(self._found) > MOST_PROBLEMS:
            more = len(self._found) - MOST_PROBLEMS
            listed.append(Problem(f"and {more} more mistakes of this kind or another", Location(self._file)))
        raise InputError(listed)


# Places


def place_of(text: str, file: str, path: Path) -> Location:
    """Where the value at a path starts, or the innermost value around it that exists."""
    return _location(text, file, _offset_of(text, path))


def _offset_of(text: str, path: Path) -> int:
    offset = _skip(text, 0)
    for step in path:
        inner = next((value for key, _, value in _entries(text, offset) if key == step), None)
        if inner is None:
            break
        offset = inner
    return offset


def _entries(text: str, offset: int) -> Iterator[tuple[str | int, int, int]]:
    """Yields, for each entry of the object or list that starts here, its key or position, where that starts, where its
    value.
    """
    opened = text[offset]
    offset = _skip(text, offset + 1)
    position = 0
    while opened in "[{" and text[offset] not in "]}":
        key: str | int = position
        start = offset
        if opened == "{":
            key, offset = _DECODER.raw_decode(text, offset)
            offset = _skip(text, _skip(text, offset) + 1)
        yield key, start, offset
        offset = _skip(text, _DECODER.raw_decode(text, offset)[1])
        offset = _skip(text, offset + 1) if text[offset] == "," else offset
        position += 1


def _find_repeated_keys(text: str, file: str, value: object) -> Iterator[Problem]:
    todo: list[tuple[Path, object]] = [((), value)]
    for path, found in todo:
        if isinstance(found, _Repeated):
            # Not further inside it: a path through a key that is there twice leads to two places.
            seen: set[str | int] = set()
            for key, start, _ in _entries(text, _offset_of(text, path)):
                if key in seen:
                    yield Problem(f'"{key}" is written twice', _location(text, file, start), "keep one of the two")
                seen.add(key)
            continue
        inner = found.items() if isinstance(found, dict) else enumerate(found) if isinstance(found, list) else ()
        todo += [((*path, key), entry) for key, entry in inner if isinstance(entry, dict | list)]


def _half_characters(text: str, file: str) -> Iterator[Problem]:
    for found in _HALF_CHARACTER.finditer(text) if "\\u" in text else ():
        if found["half"]:
            where = _location(text, file, found.start())
            yield Problem(f'"{found["half"]}" is half a character', where, "such escapes come in pairs")


def _location(text: str, file: str, offset: int) -> Location:
    return Location(file, text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1)


def _skip(text: str, offset: int) -> int:
    found = _SPACE.match(text, offset)
    return found.end() if found else offset
