"""Aggregates of values in order: what each makes of the different values of a group and how often each occurs.

The reference sorts the values of a group itself (`sort_values`); operators that keep groups hand them over in order.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain, repeat
from typing import Any

from headrace.meaning.scalar_compare import sort_key
from headrace.model.relation import AggregateCall, AggregateFunction, Order
from headrace.model.types import DOUBLE, Row, Type, Value

OF_ORDERED_VALUES = frozenset(
    (
        AggregateFunction.FIRST,
        AggregateFunction.MODE,
        AggregateFunction.PERCENTILE_CONT,
        AggregateFunction.PERCENTILE_DISC,
        AggregateFunction.BIT_AND,
        AggregateFunction.BIT_OR,
        AggregateFunction.BIT_XOR,
        AggregateFunction.ARRAY_AGG,
        AggregateFunction.STRING_AGG,
    )
)


def counts_where(call: AggregateCall) -> int:
    """Which of a call's inputs must not be NULL for a row to count."""
    if call.function is AggregateFunction.FIRST:
        return 1
    return 1 if call.function is AggregateFunction.ARRAY_AGG and call.others else 0


def sorted_by(call: AggregateCall) -> Iterator[tuple[int, Order]]:
    """The order of a call's values: for each key the place among its inputs. The argument itself comes last."""
    assert call.argument is not None, f'call "{call.name}" has no argument'
    yield from enumerate(call.order, 1 + len(call.others))
    yield 0, Order(call.argument, descending=False, nulls_first=True)


def sort_values(call: AggregateCall, rows: Iterable[tuple[Row, int]]) -> tuple[list[Value], list[int]]:
    """The values of a call in order and how often each occurs, from its inputs for every row that counts."""
    found: dict[Row, int] = {}
    for row, weight in rows:
        found[row] = found.get(row, 0) + weight
    keys = [(place, key, sort_key(key.expr.type)) for place, key in sorted_by(call)]
    ordered = list(found)
    for place, key, compare in reversed(keys):
        ordered.sort(key=_place(place, compare), reverse=key.descending)
        ordered.sort(key=_nulls(place, key.nulls_first))
    return [row[0] for row in ordered], [found[row] for row in ordered]


def _place(place: int, compare: Callable[[Any], Any]) -> Callable[[Row], Any]:
    return lambda row: (False, 0) if row[place] is None else (True, compare(row[place]))


def _nulls(place: int, first: bool) -> Callable[[Row], bool]:
    return lambda row: (row[place] is None) != first


def finish_values(call: AggregateCall, values: Sequence[Any], counts: Sequence[int]) -> Value:
    """The value of a call over values in its order, of which some may occur zero times."""
    if call.function is AggregateFunction.ARRAY_AGG:
        return tuple(_repeat(values, counts))
    if not any(counts):
        return None
    match call.function:
        case AggregateFunction.FIRST:
            return next(value for value, count in zip(values, counts, strict=True) if count)  # type: ignore[no-any-return]
        case AggregateFunction.MODE:
            return values[max(range(len(values)), key=counts.__getitem__)]  # type: ignore[no-any-return]
        case AggregateFunction.STRING_AGG:
            return _separator(call).join(_repeat(values, counts))
        case AggregateFunction.PERCENTILE_CONT:
            return _interpolate(_fraction(call), values, list(accumulate(counts)))
        case AggregateFunction.PERCENTILE_DISC:
            return _pick(_fraction(call), values, list(accumulate(counts)), call.type)
        case _:
            return _combine_bits(call, values, counts)


def _repeat(values: Sequence[Any], counts: Sequence[int]) -> Iterator[Any]:
    return chain.from_iterable(map(repeat, values, counts))


def _separator(call: AggregateCall) -> str:
    text = None if call.option is None else call.option.value
    return text if isinstance(text, str) else ""


def _fraction(call: AggregateCall) -> float:
    assert call.option is not None and isinstance(call.option.value, float), f'call "{call.name}" has no fraction'
    return call.option.value


def _interpolate(fraction: float, values: Sequence[Any], upto: list[int]) -> float:
    """The value at a place between two, with the roundings that Spark has."""
    position = (upto[-1] - 1) * fraction
    low, high = math.floor(position), math.ceil(position)
    below, above = (float(values[bisect_right(upto, place)]) for place in (low, high))
    if low == high or below == above:
        return below
    return (high - position) * below + (position - low) * above


def _pick(fraction: float, values: Sequence[Any], upto: list[int], type_: Type) -> Value:
    value = values[bisect_right(upto, max(0, math.ceil(upto[-1] * fraction) - 1))]
    return float(value) if type_ == DOUBLE else value


def _combine_bits(call: AggregateCall, values: Sequence[int], counts: Sequence[int]) -> int:
    bits = -1 if call.function is AggregateFunction.BIT_AND else 0
    for value, count in zip(values, counts, strict=True):
        if count and call.function is AggregateFunction.BIT_AND:
            bits &= value
        elif count and call.function is AggregateFunction.BIT_OR:
            bits |= value
        elif count % 2 and call.function is AggregateFunction.BIT_XOR:
            bits ^= value
    return bits
