"""Functions of text. Positions and lengths count code points; positions start at 1."""

from __future__ import annotations

import functools
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
    return java_pattern(pattern).search(text) is not None


def regexp_extract(text: str, pattern: str, group: int = 1) -> str:
    """The group of the first match; empty when there is no match or the group took no part in it.

    That the pattern has no such group is an error only for text that it matches.
    """
    compiled = java_pattern(pattern)
    found = compiled.search(text)
    if found is None:
        return ""
    if not 0 <= group <= compiled.groups:
        raise EvaluationError(f'regexp_extract: the pattern "{pattern}" has no group {group}')
    return found.group(group) or ""


def regexp_replace(text: str, pattern: str, replacement: str) -> str:
    """Every match replaced; `$1` stands for a group, and a backslash before a sign for the sign itself."""
    compiled, parts = java_pattern(pattern), _read_replacement(replacement)
    if any(isinstance(part, int) and part > compiled.groups for part in parts):
        raise EvaluationError(f'regexp_replace: the pattern "{pattern}" has fewer groups than "{replacement}" names')
    return compiled.sub(
        lambda match: "".join(part if isinstance(part, str) else match.group(part) or "" for part in parts), text
    )


@functools.lru_cache(maxsize=512)
def _read_replacement(replacement: str) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    for token in re.finditer(r"\\(?P<sign>.)|\$(?P<group>\d)|(?P<text>.)", replacement, re.DOTALL):
        if token["group"] is not None:
            parts.append(int(token["group"]))
        elif token["text"] in ("$", "\\"):
            raise EvaluationError(f'regexp_replace: "{token["text"]}" in "{replacement}" stands before nothing')
        else:
            parts.append(token["sign"] or token["text"])
    return tuple(parts)


@functools.lru_cache(maxsize=512)
def java_pattern(pattern: str) -> re.Pattern[str]:
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


def locate(part: str, text: str, start: int = 1) -> int:
    """Nothing is found before the first place; no text at all is always at the first."""
    if start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


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
    "regexp_count": lambda text, pattern: sum(1 for _ in java_pattern(pattern).finditer(text)),
    "regexp_extract": regexp_extract,
    "regexp_instr": lambda text, pattern: 1 + found.start() if (found := java_pattern(pattern).search(text)) else 0,
    "regexp_substr": lambda text, pattern: regexp_extract(text, pattern, 0) or None,
    "regexp_replace": regexp_replace,
    "rlike": rlike,
    "like": like,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "contains": lambda text, part: part in text,
    "lpad": pad_left,
    "rpad": pad_right,
    "left": lambda text, length: text[: max(length, 0)],
    "right": lambda text, length: text[-length:] if length > 0 else "",
    "locate": locate,
    "reverse": lambda text: text[::-1],
    "repeat": lambda text, times: text * times,
    "initcap": initcap,
    "translate": translate,
}
"""Functions of values that are not NULL."""
