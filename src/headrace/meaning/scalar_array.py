"""Functions of arrays, which are tuples. Elements are equal and ordered as values of their type are, and NULL elements
count as equal to each other unless it is said otherwise.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from headrace.meaning.scalar_compare import Key, sort_key
from headrace.meaning.scalar_text import java_pattern
from headrace.meaning.scalar_time import add_days, add_months
from headrace.model.errors import EvaluationError
from headrace.model.expr import Call
from headrace.model.types import YEAR_MONTH, Array, Value

Elements = tuple[Any, ...]
LONGEST = 10_000_000
"""Elements of an array that is made out of nothing: beyond, a query is a mistake."""

_NULL_KEY = object()


def element_key(call: Call) -> Key:
    """How the elements of the first argument compare."""
    type_ = call.arguments[0].type
    assert isinstance(type_, Array), f"{type_} has no elements"
    return sort_key(type_.element)


def _hashed(key: Key, value: Value) -> object:
    return _NULL_KEY if value is None else key(value)


def _unique(key: Key, elements: Iterable[Any]) -> Elements:
    found: dict[object, Any] = {}
    for element in elements:
        found.setdefault(_hashed(key, element), element)
    return tuple(found.values())


def _contains(call: Call) -> Callable[..., Value]:
    """NULL if the value is not found and there is a NULL that it might be."""
    key = element_key(call)

    def contains(array: Elements, value: Value) -> Value:
        sought = key(value)
        if any(element is not None and key(element) == sought for element in array):
            return True
        return None if None in array else False

    return contains


def _position(call: Call) -> Callable[..., Value]:
    key = element_key(call)

    def find(array: Elements, value: Value) -> Value:
        sought = key(value)
        places = (place for place, item in enumerate(array, 1) if item is not None and key(item) == sought)
        return next(places, 0)

    return find


def _remove(call: Call) -> Callable[..., Value]:
    key = element_key(call)
    return lambda array, value: tuple(item for item in array if item is None or key(item) != key(value))


def _distinct(call: Call) -> Callable[..., Value]:
    key = element_key(call)
    return lambda array: _unique(key, array)


def _combine(call: Call) -> Callable[..., Value]:
    """`array_union`, `array_intersect`, `array_except`: each element once, in the order of the first."""
    key, name = element_key(call), call.function

    def combine(left: Elements, right: Elements) -> Value:
        if name == "array_union":
            return _unique(key, (*left, *right))
        there = {_hashed(key, item) for item in right}
        return _unique(key, (item for item in left if (_hashed(key, item) in there) == (name == "array_intersect")))

    return combine


def _overlap(call: Call) -> Callable[..., Value]:
    """NULL if nothing is found in both, but one has a NULL that the other's elements might be."""
    key = element_key(call)

    def overlap(left: Elements, right: Elements) -> Value:
        there = {key(item) for item in right if item is not None}
        if any(item is not None and key(item) in there for item in left):
            return True
        return None if left and right and (None in left or None in right) else False

    return overlap


def _extreme(call: Call) -> Callable[..., Value]:
    key, choose = element_key(call), min if call.function == "array_min" else max

    def find(array: Elements) -> Value:
        present = [item for item in array if item is not None]
        return choose(present, key=key) if present else None

    return find


def _sort(call: Call) -> Callable[..., Value]:
    """`array_sort` puts NULLs last; `sort_array` puts them first, or last when it descends."""
    key = element_key(call)

    def sort(array: Elements, ascending: bool = True) -> Value:
        present = sorted((item for item in array if item is not None), key=key, reverse=not ascending)
        nulls = [None] * (len(array) - len(present))
        first = call.function == "sort_array" and ascending
        return tuple((*nulls, *present) if first else (*present, *nulls))

    return sort


def get(array: Elements, place: int) -> Value:
    """The element at a place counted from 0; NULL if there is none."""
    return array[place] if 0 <= place < len(array) else None


def element(array: Elements, place: int) -> Value:
    """The element at a place counted from 0."""
    if not 0 <= place < len(array):
        raise EvaluationError(f"there is no element [{place}] among {len(array)}: get(array, place) gives NULL")
    return get(array, place)


def try_element_at(array: Elements, place: int) -> Value:
    """The element at a place counted from 1, or from the end; NULL if there is none."""
    if place == 0:
        raise EvaluationError("elements count from 1, or from -1 at the end; there is none at 0")
    at = place - 1 if place > 0 else len(array) + place
    return array[at] if 0 <= at < len(array) else None


def element_at(array: Elements, place: int) -> Value:
    if place == 0 or not -len(array) <= place <= len(array):
        raise EvaluationError(f"there is no element {place} among {len(array)}: try_element_at gives NULL")
    return try_element_at(array, place)


def insert_element(array: Elements | None, place: int | None, value: Value) -> Value:
    """The element is at its place afterwards, counted from 1 or from -1 at the end; NULLs fill what is between."""
    if array is None or place is None:
        return None
    if place == 0:
        raise EvaluationError("array_insert: elements count from 1, or from -1 at the end; there is none at 0")
    if abs(place) > LONGEST:
        raise EvaluationError(f"array_insert: an array of {abs(place)} elements is too long")
    count, gap = len(array), (None,) * (abs(place) - len(array) - 1)
    if place > 0:
        return (*array[: place - 1], *gap, value, *array[place - 1 :])
    return (
        (*array[: count + place + 1], value, *array[count + place + 1 :]) if -place <= count else (value, *gap, *array)
    )


def cut_slice(array: Elements, start: int, length: int) -> Value:
    if start == 0 or length < 0:
        raise EvaluationError(
            f"slice: elements count from 1 or from -1, and a length is not negative: {start}, {length}"
        )
    first = start - 1 if start > 0 else len(array) + start
    return array[first : first + length] if first >= 0 else ()


def join_texts(array: Elements, separator: str, null: str | None = None) -> str:
    texts = (null if item is None else item for item in array)
    return separator.join(text for text in texts if text is not None)


def flatten(arrays: Elements) -> Value:
    return None if None in arrays else tuple(item for array in arrays for item in array)


def repeat_element(value: Value, count: int | None) -> Value:
    if count is None:
        return None
    if count > LONGEST:
        raise EvaluationError(f"array_repeat: {count} elements are too many")
    return (value,) * max(count, 0)


def _sequence(call: Call) -> Callable[..., Value]:
    """Makes the values between two, both included, by steps that lead from one to the other."""
    months = len(call.arguments) > 2 and call.arguments[2].type == YEAR_MONTH

    def make(start: Any, stop: Any, step: Any = None) -> Value:
        if isinstance(start, int):
            return _count_up(start, stop, (1 if start <= stop else -1) if step is None else step)
        step = dt.timedelta(days=1 if start <= stop else -1) if step is None else step
        return _step_through(start, stop, step, months=months)

    return make


def _count_up(start: int, stop: int, step: int) -> Value:
    _check_step(start, stop, step)
    if step and (stop - start) // step >= LONGEST:
        raise EvaluationError(f"sequence: {start} to {stop} by {step} has too many elements")
    return tuple(range(start, stop + (1 if step > 0 else -1), step)) if step else (start,)


def _check_step(start: Any, stop: Any, step: Any) -> None:
    sign = (step > type(step)()) - (step < type(step)())
    if start != stop and (sign == 0 or (sign > 0) != (start < stop)):
        raise EvaluationError(f"sequence: from {start} one does not come to {stop} by steps of {step}")


def _step_through(start: Any, stop: Any, step: Any, *, months: bool) -> Value:
    _check_step(start, stop, step)
    if not step:
        return (start,)
    made, count = [start], 0
    while True:
        count += 1
        following = _move(start, step * count, months=months)
        if following > stop if start < stop or (start == stop and made[0] < following) else following < stop:
            return tuple(made)
        if count > LONGEST:
            raise EvaluationError(f"sequence: {start} to {stop} by {step} has too many elements")
        made.append(following)


def _move(time: Any, distance: Any, *, months: bool) -> Any:
    if months:
        return add_months(time, distance)
    if not isinstance(time, dt.datetime):
        return add_days(time, distance.days)
    try:
        return time + distance
    except OverflowError as error:
        raise EvaluationError(f"a date is outside the years 1 to 9999: {error}") from error


def split(text: str, pattern: str, limit: int = -1) -> Value:
    """Makes `limit` parts or fewer, if that is positive. An empty pattern splits characters."""
    if not pattern:
        parts = list(text) or [""]
        return tuple(parts if limit <= 0 or len(parts) <= limit else [*parts[: limit - 1], "".join(parts[limit - 1 :])])
    found: list[str] = []
    start = 0
    for match in java_pattern(pattern).finditer(text):
        if 0 < limit <= len(found) + 1:
            break
        if match.end() == 0 or (match.start() == match.end() == len(text)):
            continue
        found.append(text[start : match.start()])
        start = match.end()
    return (*found, text[start:])


def extract_all(text: str, pattern: str, group: int = 1) -> Value:
    compiled = java_pattern(pattern)
    matches = tuple(compiled.finditer(text))
    if matches and not 0 <= group <= compiled.groups:
        raise EvaluationError(f'regexp_extract_all: the pattern "{pattern}" has no group {group}')
    return tuple(match.group(group) or "" for match in matches)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "size": len,
    "get": get,
    "element": element,
    "element_at": element_at,
    "try_element_at": try_element_at,
    "slice": cut_slice,
    "array_join": join_texts,
    "array_concat": lambda *arrays: tuple(item for array in arrays for item in array),
    "array_reverse": lambda array: array[::-1],
    "array_compact": lambda array: tuple(item for item in array if item is not None),
    "flatten": flatten,
    "split": split,
    "regexp_extract_all": extract_all,
}
"""Functions of values that are not NULL."""

SEEING_NULL: Mapping[str, Callable[..., Value]] = {
    "array": lambda *values: values,
    "array_append": lambda array, value: None if array is None else (*array, value),
    "array_prepend": lambda array, value: None if array is None else (value, *array),
    "array_insert": insert_element,
    "array_repeat": repeat_element,
}
"""Functions of values that may be NULL."""

TYPED: Mapping[str, Callable[[Call], Callable[..., Value]]] = {
    "array_contains": _contains,
    "array_position": _position,
    "array_remove": _remove,
    "array_distinct": _distinct,
    **dict.fromkeys(("array_union", "array_intersect", "array_except"), _combine),
    "arrays_overlap": _overlap,
    **dict.fromkeys(("array_min", "array_max"), _extreme),
    **dict.fromkeys(("array_sort", "sort_array"), _sort),
    "sequence": _sequence,
}
"""Functions that depend on the types of the call."""
