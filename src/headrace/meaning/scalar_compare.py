"""Equality and order of values, as Spark has them.

NaN equals NaN and is larger than every other number; -0.0 equals 0.0; strings compare by their UTF-8 bytes, which is
the order of code points and so Python's; false is smaller than true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.model.types import FRACTIONS, Array, Type, Value

Key = Callable[[Value], Any]
"""Maps a value that is not NULL to something whose `==` and `<` are those of SQL. What that is depends on the type."""


def sort_key(type_: Type) -> Key:
    """How values of a type compare."""
    if type_ in FRACTIONS:
        return _float_key
    return _array_key(sort_key(type_.element)) if isinstance(type_, Array) else _itself


def _itself(value: Value) -> Value:
    return value


def _float_key(value: Any) -> tuple[bool, float]:
    return (True, 0.0) if value != value else (False, value)


def _array_key(element: Key) -> Key:
    """Element by element; NULL elements first."""

    def key(value: Any) -> tuple[tuple[bool, Any], ...]:
        return tuple((False, 0) if item is None else (True, element(item)) for item in value)

    return key


def comparison(function: str, type_: Type) -> Callable[[Any, Any], bool]:
    """The comparison `function` of two values of one type that are not NULL."""
    compare = _COMPARISONS[function]
    if sort_key(type_) is _itself:
        return compare
    key = sort_key(type_)
    return lambda left, right: compare(key(left), key(right))


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: bool(left == right),
    "<>": lambda left, right: bool(left != right),
    "<": lambda left, right: bool(left < right),
    "<=": lambda left, right: bool(left <= right),
    ">": lambda left, right: bool(left > right),
    ">=": lambda left, right: bool(left >= right),
}
COMPARISONS = tuple(_COMPARISONS)
