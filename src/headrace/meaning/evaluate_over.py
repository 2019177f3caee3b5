"""Rows of Over: each row with what window functions make of its partition.

A partition is a list of rows in order, every copy of a row by itself. A frame is a part of that list, from one position
to before another. Sums over frames are differences of running sums, which are exact (`meaning.exact_sum`): so every
function costs about as much as the partition has rows, but for the smallest and largest value in frames that move.
"""

from __future__ import annotations

import decimal
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import total_ordering
from itertools import accumulate, groupby
from typing import Any

from headrace.meaning.evaluate_aggregate import aggregate_values
from headrace.meaning.evaluate_rank import RowKey, column_key, order_key, sort_rows
from headrace.meaning.exact_sum import SMALLEST, round_sum, units
from headrace.meaning.moments import POWERS, finish_moments, power_of
from headrace.meaning.row_functions import Names, bag, names_of, row_of, value_of
from headrace.meaning.scalar import Surroundings
from headrace.meaning.scalar_compare import sort_key
from headrace.meaning.scalar_number import EXACT, divide_decimal, fit_decimal, fit_integer
from headrace.meaning.zset import ZSet, normal
from headrace.model.relation import (
    AggregateCall,
    AggregateFunction,
    Frame,
    FrameEdge,
    FrameUnit,
    Order,
    Over,
    PlaceCall,
    RangeEdge,
    WindowCall,
    WindowFunction,
    fields_of,
)
from headrace.model.types import BIGINT, FRACTIONS, Decimal, Row, Type, Value

Spans = list[tuple[int, int]]
"""For each row of a partition the frame: from a position to before another, which may be none or less."""


def over(relation: Over, input_: ZSet, around: Surroundings) -> Iterator[tuple[Row, int]]:
    """Every row with the values of the calls."""
    names = names_of(relation.input)
    partition_of = row_of(relation.partition, names, around)
    partitions: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    for row, weight in bag(input_, relation):
        partitions[partition_of(row)].append((row, weight))
    keys = tuple(order_key(order, names, around) for order in relation.order)
    types = tuple(field.type for field in fields_of(relation.input))
    calls = [_Evaluated(call, relation.order, names, around) for call in relation.calls]
    for found in partitions.values():
        sort_rows(found, relation.order, keys, types)
        rows = [row for row, weight in found for _ in range(weight)]
        places = WindowPlaces.of([tuple(key(row) for key in keys) for row in rows])
        values = [call.values(rows, places) for call in calls]
        yield from (((*row, *more), 1) for row, *more in zip(rows, *values, strict=True))


@dataclass(frozen=True, slots=True)
class WindowPlaces:
    """Where the peers of each row of a partition begin and end, and how many groups of peers come before it."""

    begins: list[int]
    ends: list[int]
    groups: list[int]

    @classmethod
    def of(cls, keys: Sequence[Any]) -> WindowPlaces:
        begins, ends, groups = list[int](), list[int](), list[int]()
        for number, (_, peers) in enumerate(groupby(keys)):
            first, size = len(begins), len(list(peers))
            begins += [first] * size
            ends += [first + size] * size
            groups += [number] * size
        return cls(begins, ends, groups)

    def __len__(self) -> int:
        return len(self.begins)


class _Evaluated:
    """A call as a function of the rows of a partition."""

    def __init__(self, call: WindowCall, order: tuple[Order, ...], names: Names, around: Surroundings) -> None:
        self._call = call
        own = call.compute.arguments if isinstance(call.compute, PlaceCall) else call.compute.inputs
        self._inputs = row_of(own, names, around)
        self._spans = FrameFinder(call.frame, order, names, around)

    def values(self, rows: list[Row], places: WindowPlaces) -> list[Value]:
        compute, inputs = self._call.compute, [self._inputs(row) for row in rows]
        if isinstance(compute, PlaceCall):
            return _find_place_values(compute, inputs, places, lambda: self._spans.find(rows, places))
        return aggregate_frames(compute, inputs, self._spans.find(rows, places))


# Frames


@total_ordering
@dataclass(frozen=True, slots=True)
class _Turned:
    """A key that compares the other way round."""

    key: Any

    def __lt__(self, other: _Turned) -> bool:
        return bool(other.key < self.key)


class FrameFinder:
    """Finds the frame of each row of a partition."""

    def __init__(self, frame: Frame, order: tuple[Order, ...], names: Names, around: Surroundings) -> None:
        self._frame = frame
        self._key: RowKey = lambda row: None
        self._edges: list[RowKey] = []
        if frame.key is not None:
            make = key_in_order(order[0], frame.key.type)
            key = value_of(frame.key, names, around)
            self._key = lambda row: make(key(row))
            self._edges = [self._edge_key(edge, make, names, around) for edge in (frame.start, frame.end)]

    def _edge_key(self, edge: FrameEdge, make: Callable[[Value], Any], names: Names, around: Surroundings) -> RowKey:
        if not isinstance(edge, RangeEdge):
            return lambda row: None
        value = value_of(edge.value, names, around)
        return lambda row: make(value(row))

    def find(self, rows: list[Row], places: WindowPlaces) -> Spans:
        keys = [] if self._frame.key is None else [self._key(row) for row in rows]
        starts = self._find_starts(rows, places, keys)
        return list(zip(starts, self._find_ends(rows, places, keys), strict=True))

    def _find_starts(self, rows: list[Row], places: WindowPlaces, keys: list[Any]) -> list[int]:
        match self._frame.start:
            case None:
                return [0] * len(rows)
            case RangeEdge():
                return [bisect_left(keys, self._edges[0](row)) for row in rows]
            case edge if self._frame.unit is FrameUnit.RANGE:
                return places.begins
            case edge:
                return [max(0, place + edge.rows) for place in range(len(rows))]

    def _find_ends(self, rows: list[Row], places: WindowPlaces, keys: list[Any]) -> list[int]:
        match self._frame.end:
            case None:
                return [len(rows)] * len(rows)
            case RangeEdge():
                return [bisect_right(keys, self._edges[1](row)) for row in rows]
            case edge if self._frame.unit is FrameUnit.RANGE:
                return places.ends
            case edge:
                return [min(len(rows), place + edge.rows + 1) for place in range(len(rows))]


def key_in_order(order: Order, type_: Type) -> Callable[[Value], Any]:
    """Values of a sort key as something that ascends in the order's own direction; NULL is where it says."""
    key = column_key(type_, nulls_low=order.nulls_first != order.descending)
    return (lambda value: _Turned(key(value))) if order.descending else key


# Functions of places


def _find_place_values(
    call: PlaceCall, inputs: list[Row], places: WindowPlaces, find_spans: Callable[[], Spans]
) -> list[Value]:
    size = len(places)
    match call.function:
        case WindowFunction.ROW_NUMBER:
            return list(range(1, size + 1))
        case WindowFunction.RANK:
            return [begin + 1 for begin in places.begins]
        case WindowFunction.DENSE_RANK:
            return [group + 1 for group in places.groups]
        case WindowFunction.PERCENT_RANK:
            return [percent_rank(begin, size) for begin in places.begins]
        case WindowFunction.CUME_DIST:
            return [end / size for end in places.ends]
        case WindowFunction.NTILE:
            return [tile_of(place, size, call.count) for place in range(size)]
        case WindowFunction.LAG | WindowFunction.LEAD:
            return values_beside(call, inputs)
        case _:
            return [value_in_frame(call, inputs, low, max(low, high)) for low, high in find_spans()]


def percent_rank(before: int, size: int) -> float:
    return before / (size - 1) if size > 1 else 0.0


def tile_of(place: int, size: int, tiles: int) -> int:
    """The number of the part that a place is in; the first parts are one larger where they cannot all be equal."""
    small, larger = divmod(size, tiles)
    in_larger = larger * (small + 1)
    if place < in_larger:
        return place // (small + 1) + 1
    return larger + (place - in_larger) // small + 1


def values_beside(call: PlaceCall, inputs: list[Row]) -> list[Value]:
    """The value `count` rows before or after; where there is none, the default, which is computed for the row."""
    step = -call.count if call.function is WindowFunction.LAG else call.count
    if call.skips_nulls and step:
        return _find_values_beside(call, inputs, step)
    return [
        inputs[place + step][0] if 0 <= place + step < len(inputs) else _default_of(row)
        for place, row in enumerate(inputs)
    ]


def _find_values_beside(call: PlaceCall, inputs: list[Row], step: int) -> list[Value]:
    found = [place for place, row in enumerate(inputs) if row[0] is not None]
    values = list[Value]()
    for place, row in enumerate(inputs):
        at = bisect_left(found, place) + step if step < 0 else bisect_right(found, place) + step - 1
        values.append(inputs[found[at]][0] if 0 <= at < len(found) else _default_of(row))
    return values


def _default_of(row: Row) -> Value:
    return row[1] if len(row) > 1 else None


def value_in_frame(call: PlaceCall, inputs: Sequence[Row], low: int, high: int) -> Value:
    """The first, last or n-th value of a frame."""
    places: Sequence[int] = range(low, high)
    if call.skips_nulls:
        places = [place for place in places if inputs[place][0] is not None]
    at = {WindowFunction.FIRST_VALUE: 0, WindowFunction.LAST_VALUE: len(places) - 1}.get(call.function, call.count - 1)
    return inputs[places[at]][0] if 0 <= at < len(places) else None


# Aggregates

_ADDED_UP = frozenset(
    (
        AggregateFunction.COUNT,
        AggregateFunction.SUM,
        AggregateFunction.AVG,
        AggregateFunction.MIN,
        AggregateFunction.MAX,
        *POWERS,
    )
)


def is_added_up(call: AggregateCall) -> bool:
    """Whether the value over some rows tells that over one row more. Others are made of all values of a frame."""
    return call.function in _ADDED_UP and not call.distinct


def aggregate_frames(call: AggregateCall, inputs: list[Row], spans: Spans) -> list[Value]:
    """The value of an aggregate over each frame."""
    spans = [(min(low, len(inputs)), max(low, high) if low < len(inputs) else len(inputs)) for low, high in spans]
    if call.argument is None:
        return [high - low for low, high in spans]
    if not is_added_up(call):
        return _aggregate_each(call, inputs, spans)
    if call.function in (AggregateFunction.MIN, AggregateFunction.MAX):
        if all(low == 0 for low, _ in spans):
            running = list(accumulate((None, *(row[0] for row in inputs)), extreme_of(call)))
            return [running[high] for _, high in spans]
        return [aggregate_values(call, [(row, 1) for row in inputs[low:high]]) for low, high in spans]
    counts = list(accumulate((row[0] is not None for row in inputs), initial=0))
    if call.function is AggregateFunction.COUNT:
        return [counts[high] - counts[low] for low, high in spans]
    powers = POWERS.get(call.function, ((1, 0),))
    amounts = [amounts_of(call, row) for row in inputs]
    sums = [list(accumulate((one[at] for one in amounts), initial=0)) for at in range(len(powers))]
    return [
        finish_total(call, counts[high] - counts[low], tuple(one[high] - one[low] for one in sums))
        for low, high in spans
    ]


def _aggregate_each(call: AggregateCall, inputs: list[Row], spans: Spans) -> list[Value]:
    """Aggregates each frame by itself; rows next to each other often have one frame."""
    if call.function is AggregateFunction.COUNT and all(low == 0 for low, _ in spans):
        return _count_distinct(inputs, spans)
    values, known = list[Value](), dict[tuple[int, int], Value]()
    for span in spans:
        if span not in known:
            known = {span: aggregate_values(call, [(row, 1) for row in inputs[slice(*span)]])}
        values.append(known[span])
    return values


def _count_distinct(inputs: list[Row], spans: Spans) -> list[Value]:
    """How many different values there are up to the end of each frame."""
    seen, counts = set[Row](), [0]
    for row in inputs:
        if row[0] is not None:
            seen.add(row)
        counts.append(len(seen))
    return [counts[high] for _, high in spans]


def extreme_of(call: AggregateCall) -> Callable[[Value, Value], Value]:
    """The smaller or larger of two values; NULL is none."""
    assert call.argument is not None, f'call "{call.name}" has no argument'
    key, is_largest = sort_key(call.argument.type), call.function is AggregateFunction.MAX

    def choose(one: Value, other: Value) -> Value:
        if one is None or other is None:
            return other if one is None else one
        return other if (key(other) > key(one) if is_largest else key(other) < key(one)) else one

    return choose


def amounts_of(call: AggregateCall, row: Row) -> tuple[int, ...]:
    """What a row adds to the exact sums of a call, which are integers: NULL adds nothing."""
    value: Any = row[0]
    powers = POWERS.get(call.function)
    if powers is not None:
        other: Any = row[-1]
        return (0,) * len(powers) if value is None else tuple(power_of(value, other, one) for one in powers)
    assert call.argument is not None, f'call "{call.name}" has no argument'
    if value is None:
        return (0,)
    if call.argument.type in FRACTIONS:
        return (units(value),)
    if isinstance(call.argument.type, Decimal):
        return (int(value.scaleb(call.argument.type.scale, context=EXACT)),)
    return (value if call.type not in FRACTIONS else int(float(value)),)


def finish_total(call: AggregateCall, count: int, sums: tuple[int, ...]) -> Value:
    """The value of `sum`, `avg` and variance and its kin, from how many values there are and their exact sums."""
    if call.function in POWERS:
        return normal(finish_moments(call.function, count, dict(zip(POWERS[call.function], sums, strict=True))))
    assert call.argument is not None, f'call "{call.name}" has no argument'
    if not count:
        return None
    is_average = call.function is AggregateFunction.AVG
    if isinstance(call.type, Decimal):
        scale = call.argument.type.scale if isinstance(call.argument.type, Decimal) else 0
        exact = decimal.Decimal(sums[0]).scaleb(-scale, context=EXACT)
        return fit_decimal(divide_decimal(exact, decimal.Decimal(count)) if is_average else exact, call.type)
    if call.type == BIGINT:
        return fit_integer(sums[0], BIGINT)
    value = round_sum(sums[0] if call.argument.type in FRACTIONS else sums[0] * SMALLEST)
    return normal(value / count if is_average else value)
