"""JSON as people write it, with exact numbers, and the line and column of any value in it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from headrace.model.errors import InputError, Location, Problem

Path = tuple[str | int, ...]
"""The way to a value: keys of objects, positions in lists."""

MOST_DIGITS = 150
SPACE = re.compile(r"[ \t\r\n]*")


class Repeated(dict[str, Any]):
    """An object in which a key occurs twice: `key` is the first such."""

    key = ""


def parse(text: str, file: str) -> Any:
    """The document. Integers and decimals are exact; NaN and infinities come as floats, for the reader to refuse."""
    if not text.strip():
        raise InputError(
            [Problem("the file is empty", Location(file), 'an instance starts with {"kind": "single", ...}')]
        )
    try:
        return json.loads(text, parse_float=_exact, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        where = Location(file, error.lineno, error.colno)
        raise InputError([Problem(f"not JSON: {error.msg.lower()}", where)]) from error
    except ValueError as error:
        raise InputError([Problem("a number has more digits than can be read", Location(file))]) from error
    except RecursionError as error:
        raise InputError([Problem("not JSON that can be read: nested too deeply", Location(file))]) from error


def _exact(text: str) -> int | Fraction | float:
    number = Decimal(text)
    if number and (number.adjusted() > MOST_DIGITS or number.as_tuple().exponent < -MOST_DIGITS):  # type: ignore[operator]
        return float("inf")
    exact = Fraction(number)
    return exact.numerator if exact.denominator == 1 else exact


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    repeated = Repeated(found)
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
            break
        seen.add(key)
    return repeated


def locate(text: str, path: Path, file: str) -> Location:
    """Where the value at a path is written; the deepest part that exists if it is missing."""
    at = _skip(text, 0)
    for step in path:
        inner = _enter(text, at, step)
        if inner is None:
            break
        at = inner
    line = text.count("\n", 0, at) + 1
    return Location(file, line, at - (text.rfind("\n", 0, at) + 1) + 1)


def _enter(text: str, at: int, step: str | int) -> int | None:
    opened, decoder = text[at], json.JSONDecoder()
    at = _skip(text, at + 1)
    count = 0
    while opened in "[{" and text[at] not in "]}":
        key: Any = count
        if opened == "{":
            key, at = decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        if key == step:
            return at
        _, at = decoder.raw_decode(text, at)
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
        count += 1
    return None


def _skip(text: str, at: int) -> int:
    found = SPACE.match(text, at)
    return found.end() if found else at


class Problems:
    """Collects mistakes by path; places are looked up only when there are any."""

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._found: list[tuple[str, Path, str | None]] = []

    def add(self, message: str, path: Path, hint: str | None = None) -> None:
        self._found.append((message, path, hint))

    def __bool__(self) -> bool:
        return bool(self._found)

    def raise_any(self, most: int = 20) -> None:
        if not self._found:
            return
        shown = [Problem(message, self._where(path), hint) for message, path, hint in self._found[:most]]
        if len(self._found) > most:
            shown.append(Problem(f"and {len(self._found) - most} more mistakes of this kind or another"))
        raise InputError(shown)

    def _where(self, path: Sequence[str | int]) -> Location:
        return locate(self._text, tuple(path), self._file)
