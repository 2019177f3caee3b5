"""Functions of text. Positions and lengths count code points; positions start at 1."""

from __future__ import annotations

import functools
import hashlib
import re
import warnings
from collections.abc import Callable, Mapping

from headrace.model.errors import EvaluationError
from headrace.model.types import Value

_LONGEST = 2**31 - 1


def substring(text: str, start: int, length: int = _LONGEST) -> str:
    """A negative start counts from the end, and may lie before the text: then part of the length is spent there."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


def split_part(text: str, delimiter: str, part: int) -> str:
    """Empty when there are fewer parts; negative parts count from the end; an empty delimiter splits nothing."""
    if part == 0:
        raise EvaluationError("split_part: parts count from 1, not 0")
    parts = text.split(delimiter) if delimiter else [text]
    index = part - 1 if part > 0 else len(parts) + part
    return parts[index] if 0 <= index < len(parts) else ""


def like(text: str, pattern: str, escape: str = "\\") -> bool:
    return _like_pattern(pattern, escape).fullmatch(text) is not None


@functools.lru_cache(maxsize=512)
def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """`%` is any text, `_` any character; the escape may stand before these two and itself only."""
    wildcards = {"%": ".*", "_": "."}
    parts, rest = [], iter(pattern)
    for character in rest:
        if character == escape:
            escaped = next(rest, "")
            if escaped not in ("%", "_", escape) or not escaped:
                raise EvaluationError(f'the pattern "{pattern}" of LIKE has an escape before nothing special')
            parts.append(re.escape(escaped))
        else:
            parts.append(wildcards.get(character) or re.escape(character))
    return re.compile("".join(parts), re.DOTALL)


def rlike(text: str, pattern: str) -> bool:
    return _java_pattern(pattern).search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    """The group of the first match; empty when there is no match or the group took no part in it.

    That the pattern has no such group is an error only for text that it matches.
    """
    compiled = _java_pattern(pattern)
    found = compiled.search(text)
    if found is None:
        return ""
    if not 0 <= group <= compiled.groups:
        raise EvaluationError(f'regexp_extract: the pattern "{pattern}" has no group {group}')
    return found.group(group) or ""


@functools.lru_cache(maxsize=512)
def _java_pattern(pattern: str) -> re.Pattern[str]:
    """Java's and Python's syntax agree on what people use, if classes such as `\\d` are ASCII.

    Named groups are spelt differently. What Python rejects or warns about (`\\p{Alpha}`, nested classes) is an error.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", pattern), re.ASCII)
    except (re.error, FutureWarning, DeprecationWarning) as error:
        raise EvaluationError(f'the regular expression "{pattern}" is not understood: {error}') from error


def pad_left(text: str, length: int, padding: str = " ") -> str:
    return _padding(text, length, padding) + text[: max(length, 0)]


def pad_right(text: str, length: int, padding: str = " ") -> str:
    return text[: max(length, 0)] + _padding(text, length, padding)


def _padding(text: str, length: int, padding: str) -> str:
    missing = max(length - len(text), 0)
    return (padding * (missing // len(padding) + 1))[:missing] if padding else ""


def initcap(text: str) -> str:
    """Words are what spaces separate."""
    return " ".join(word[:1].title() + word[1:] for word in text.lower().split(" "))


def translate(text: str, matching: str, replacement: str) -> str:
    """The first of equal characters in `matching` counts; those without a partner are deleted."""
    table: dict[int, str] = {}
    for index, character in enumerate(matching):
        table.setdefault(ord(character), replacement[index : index + 1])
    return text.translate(table)


def _md5(value: str | bytes) -> str:
    data = value.encode() if isinstance(value, str) else value
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "concat": lambda *texts: "".join(texts),
    "lower": str.lower,
    "upper": str.upper,
    "length": len,
    "trim": lambda text: text.strip(" "),
    "ltrim": lambda text: text.lstrip(" "),
    "rtrim": lambda text: text.rstrip(" "),
    "substring": substring,
    "replace": lambda text, search, replacement="": text.replace(search, replacement) if search else text,
    "split_part": split_part,
    "regexp_extract": regexp_extract,
    "rlike": rlike,
    "like": like,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda text, part: part in text,
    "lpad": pad_left,
    "rpad": pad_right,
    "left": lambda text, length: text[: max(length, 0)],
    "right": lambda text, length: text[-length:] if length > 0 else "",
    "locate": lambda part, text: text.find(part) + 1,
    "reverse": lambda text: text[::-1],
    "repeat": lambda text, times: text * times,
    "md5": _md5,
    "initcap": initcap,
    "translate": translate,
}
"""Functions of values that are not NULL."""
