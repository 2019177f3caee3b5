"""Functions of text that people call less often: edit distance, sounds, lists in text, and numbers as text."""

from __future__ import annotations

import decimal
import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.meaning.scalar_cast import double_text, float_text
from headrace.meaning.scalar_text import substring
from headrace.model.errors import EvaluationError
from headrace.model.types import BOOLEAN, FLOAT, FRACTIONS, INTEGERS, NULL, STRING, Decimal, Type, Value

_SOUNDS = "01230127022455012623017202"
"""Codes of the letters A to Z; 7 is skipped."""

_EXACT = decimal.Context(prec=800, rounding=decimal.ROUND_HALF_EVEN)
_HALF_UP = decimal.Context(prec=800, rounding=decimal.ROUND_HALF_UP)


def soundex(text: str) -> str:
    """The text itself unless it begins with a letter of A to Z."""
    letters = "".join(chr(byte) for byte in text.encode()).upper()
    if not letters or not "A" <= letters[0] <= "Z":
        return text
    made, last = letters[0], _SOUNDS[ord(letters[0]) - ord("A")]
    for letter in letters[1:]:
        if not "A" <= letter <= "Z":
            last = "0"
            continue
        code = _SOUNDS[ord(letter) - ord("A")]
        if code == "7":
            continue
        if code not in ("0", last):
            made += code
        last = code
    return made[:4].ljust(4, "0")


def levenshtein(left: str, right: str, threshold: int | None = None) -> int:
    """How many characters to insert, delete or replace; -1 if more than the threshold."""
    previous = list(range(len(right) + 1))
    for row, character in enumerate(left, 1):
        current = [row]
        for column, other in enumerate(right, 1):
            changed = previous[column - 1] + (character != other)
            current.append(min(changed, previous[column] + 1, current[-1] + 1))
        previous = current
    return -1 if threshold is not None and previous[-1] > threshold else previous[-1]


def overlay(text: str, replacement: str, start: int, length: int = -1) -> str:
    """A negative length is that of the replacement. A negative place counts from the end for what follows it."""
    count = len(replacement) if length < 0 else length
    return text[: max(start - 1, 0)] + replacement + substring(text, start + count)


def substring_index(text: str, delimiter: str, count: int) -> str:
    """What is before the count-th delimiter, or after it, counted from the end. Delimiters may overlap."""
    if not delimiter or count == 0:
        return ""
    place = -1 if count > 0 else len(text)
    for _ in range(abs(count)):
        place = text.find(delimiter, place + 1) if count > 0 else text.rfind(delimiter, 0, place - 1 + len(delimiter))
        if place < 0:
            return text
    return text[:place] if count > 0 else text[place + len(delimiter) :]


def find_in_set(word: str, listed: str) -> int:
    parts = listed.split(",")
    return parts.index(word) + 1 if "," not in word and word in parts else 0


def check_luhn(digits: str) -> bool:
    if re.fullmatch("[0-9]+", digits) is None:
        return False
    doubled = [int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits))]
    return sum(number - 9 if number > 9 else number for number in doubled) % 10 == 0


def mask(text: str, upper: str | None, lower: str | None, digit: str | None, other: str | None) -> str:
    """Each sign is replaced by that of its kind, or kept where that is NULL."""
    kinds = {"Lu": upper, "Ll": lower, "Nd": digit}

    def put(sign: str) -> str:
        replacement = kinds.get(unicodedata.category(sign), other)
        return sign if replacement is None else replacement

    return "".join(map(put, text))


def format_number(value: Any, digits: int) -> str | None:
    """Thousands in groups; halves go to the even digit."""
    if digits < 0:
        return None
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if value != value else "∞" if value > 0 else "-∞"
    step = decimal.Decimal(1).scaleb(-digits)
    number = decimal.Decimal(repr(value)) if isinstance(value, float) else decimal.Decimal(value)
    half = isinstance(value, float) and abs(_EXACT.remainder(number, step)) * 2 == step
    # Only where the shortest digits end in a half does Java look at the binary number itself.
    rounded = _EXACT.quantize(decimal.Decimal(value) if half else number, step)
    return f"{rounded:,.{digits}f}"


_SPECIFIER = re.compile(
    r"%(?:(?P<place>\d+)\$)?(?P<flags>[-#+ 0,(]*)(?P<width>\d+)?(?:\.(?P<digits>\d+))?(?P<kind>[a-zA-Z%])|%"
)


def misfit(pattern: str, types: Sequence[Type]) -> str | None:
    """The first part of a pattern of `format_string` that is not formatted, or not for these types; None if all are."""
    taken = 0
    for found in _SPECIFIER.finditer(pattern):
        kind = found["kind"]
        plain = not found["place"] and not set(found["flags"] or "") - set("-0,+")
        if kind == "%" and found.group() == "%%":
            continue
        if not kind or kind not in _FORMATTED or not plain or taken >= len(types):
            return found.group()
        if not _fits(found, types[taken]):
            return f"{found.group()} of {types[taken]}"
        taken += 1
    return None


def _fits(found: re.Match[str], type_: Type) -> bool:
    flags, width = set(found["flags"] or ""), found["width"]
    if ("0" in flags or "-" in flags) and (width is None or flags >= {"0", "-"}):
        return False
    if type_ == NULL:
        return found["kind"] == "s" and not flags - {"-"}
    match found["kind"]:
        case "d":
            return type_ in INTEGERS and found["digits"] is None
        case "x" | "X":
            return type_ in INTEGERS[2:] and found["digits"] is None and not flags & {",", "+"}
        case "f":
            return type_ in FRACTIONS
        case _:
            known = type_ in (STRING, BOOLEAN) or type_ in INTEGERS or type_ in FRACTIONS or isinstance(type_, Decimal)
            return known and not flags - {"-"} and found["digits"] is None


_FIRST_PLANE = 0xFFFF
_FORMATTED = ("s", "d", "x", "X", "f")


def format_string(types: Sequence[Type]) -> Callable[..., str]:
    """How values of these types are put into a pattern; NULL is written `null`."""

    def fill(pattern: str, *values: Value) -> str:
        waiting = iter(zip(values, types, strict=True))

        def put(found: re.Match[str]) -> str:
            return "%" if found["kind"] == "%" else _format_value(found, *next(waiting))

        return _SPECIFIER.sub(put, pattern)

    return fill


def _format_value(found: re.Match[str], value: Any, type_: Type) -> str:
    flags, digits = found["flags"] or "", None if found["digits"] is None else int(found["digits"])
    kind = found["kind"] if value is not None else "s"
    sign = ""
    match kind:
        case "d":
            sign, made = _split_sign(value < 0, flags), f"{abs(value):{',' if ',' in flags else ''}d}"
        case "x" | "X":
            bits = 32 if type_ in INTEGERS[:3] else 64
            made = f"{value & (2**bits - 1):{kind}}"
        case "f" if math.isfinite(value):
            sign = _split_sign(math.copysign(1, value) < 0, flags)
            made = _fixed(abs(value), 6 if digits is None else digits, "," in flags)
        case "f":
            sign, made = _split_sign(value < 0, flags), "NaN" if value != value else "Infinity"
            sign, flags = ("" if value != value else sign), flags.replace("0", "")
        case _:
            made = _plain_text(value, type_)[:digits]
            made = made.upper() if found["kind"] == "X" else made
    # Java counts characters beyond the first plane twice.
    width = int(found["width"] or 0) - sum(ord(character) > _FIRST_PLANE for character in made)
    if "-" in flags:
        return (sign + made).ljust(width)
    filled = "0" in flags and value is not None and kind != "s"
    return sign + made.rjust(width - len(sign), "0") if filled else (sign + made).rjust(width)


def _split_sign(negative: bool, flags: str) -> str:
    return "-" if negative else "+" if "+" in flags else ""


def _fixed(value: float, digits: int, grouped: bool) -> str:
    """Java rounds the shortest digits of a double, halves up."""
    rounded = _HALF_UP.quantize(decimal.Decimal(repr(value)), decimal.Decimal(1).scaleb(-digits))
    return f"{rounded:{',' if grouped else ''}.{digits}f}"


def _plain_text(value: Any, type_: Type) -> str:
    if value is None:
        return "null"
    if type_ in FRACTIONS:
        return float_text(value) if type_ == FLOAT else double_text(value)
    if type_ == BOOLEAN:
        return "true" if value else "false"
    return f"{value:f}" if isinstance(value, decimal.Decimal) else str(value)


def repeat_space(count: int) -> str:
    if count > _LONGEST:
        raise EvaluationError(f"space: {count} is too long for a text")
    return " " * max(count, 0)


_LONGEST = 2**31 - 1


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "ascii": lambda text: ord(text[0]) if text else 0,
    "char": lambda number: "" if number < 0 else chr(number & 0xFF),
    "space": repeat_space,
    "soundex": soundex,
    "levenshtein": levenshtein,
    "overlay": overlay,
    "substring_index": substring_index,
    "find_in_set": find_in_set,
    "luhn_check": check_luhn,
    "format_number": format_number,
    "trim_both": str.strip,
    "trim_leading": str.lstrip,
    "trim_trailing": str.rstrip,
}
"""Functions of values that are not NULL."""
