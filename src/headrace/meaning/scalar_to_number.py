"""Numbers as people write them, `$1,234.50`, read by a pattern: `to_number` and `try_to_number`."""

from __future__ import annotations

import decimal
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

from headrace.model.errors import EvaluationError
from headrace.model.promotion import MAX_PRECISION
from headrace.model.types import Decimal, Value

_PATTERN = re.compile(r"(S|MI)?(\$)?((?:[09]+[,G])*[09]+)(?:[.D]([09]*))?")
_NO_SPACES = ("\xa0", "\u2007", "\u202f")
_OTHER_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f"


@dataclass(frozen=True, slots=True)
class _NumberPattern:
    """`groups` are the digits between commas, from the point to the left: how many, and whether that many."""

    signs: str
    dollar: bool
    groups: tuple[tuple[int, bool], ...]
    fraction: int
    point: bool

    @property
    def type(self) -> Decimal:
        return Decimal(sum(size for size, _ in self.groups) + self.fraction, self.fraction)


@cache
def read_pattern(pattern: str) -> _NumberPattern | None:
    """What a pattern asks for; None if it is not one of those that we read."""
    found = _PATTERN.fullmatch(pattern)
    if found is None:
        return None
    sign, dollar, whole, fraction = found.groups()
    groups = tuple((len(group), group[0] == "0") for group in reversed(re.split("[,G]", whole)))
    signs = {"S": "+-", "MI": "-", None: ""}[sign]
    made = _NumberPattern(signs, dollar is not None, groups, len(fraction or ""), fraction is not None)
    return made if made.type.precision <= MAX_PRECISION else None


def read_number(text: str, pattern: str) -> decimal.Decimal:
    number = try_read_number(text, pattern)
    if number is None:
        raise EvaluationError(f"to_number: '{text[:100]}' is not like '{pattern}'")
    return number


def try_read_number(text: str, pattern: str) -> decimal.Decimal | None:
    """NULL for what is not like the pattern. White space between digits does not count."""
    asked = read_pattern(pattern)
    assert asked is not None, f"a pattern that was let through: {pattern}"
    place, negative = 0, False
    if asked.signs and text[:1] and text[0] in asked.signs:
        place, negative = 1, text[0] == "-"
    if asked.dollar and place < len(text):
        if text[place] != "$":
            return None
        place += 1
    whole, place = _take_digits(text, place)
    sizes = tuple(map(len, reversed(whole)))
    if len(sizes) > len(asked.groups):
        return None
    for at, (size, exactly) in enumerate(asked.groups):
        count = sizes[at] if at < len(sizes) else 0
        if count != size if exactly else count > size:
            return None
    fraction = ""
    if asked.point and text[place : place + 1] == ".":
        parts, place = _take_digits(text, place + 1) if asked.fraction else ([""], place + 1)
        fraction = parts[0]
        if len(parts) > 1 or len(fraction) > asked.fraction:
            return None
    digits = "".join(whole)
    if place < len(text) or not (digits or fraction):
        return None
    number = int((digits + fraction).ljust(len(digits) + asked.fraction, "0"))
    return decimal.Decimal(-number if negative else number).scaleb(-asked.fraction, _EXACT)


_EXACT = decimal.Context(prec=MAX_PRECISION)


def _take_digits(text: str, place: int) -> tuple[list[str], int]:
    """Digits from a place on, in the groups that commas make, and the place after them."""
    groups = [""]
    for at in range(place, len(text)):
        sign = text[at]
        if sign == ",":
            groups.append("")
        elif sign.isdecimal() and sign <= "\uffff":
            groups[-1] += sign
        elif not _is_space(sign):
            return groups, at
    return groups, len(text)


def _is_space(sign: str) -> bool:
    """What Java takes for white space."""
    return sign in _OTHER_SPACES or (unicodedata.category(sign)[0] == "Z" and sign not in _NO_SPACES)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"to_number": read_number, "try_to_number": try_read_number}
"""Functions of values that are not NULL."""
