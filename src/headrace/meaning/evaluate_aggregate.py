"""Rows of aggregates. NULL keys form a group, NULL arguments are skipped, and without keys even nothing is a group.

Sums do not depend on the order of rows: integers and decimals are summed exactly and must fit the result; floats are
summed without intermediate rounding (so another engine may differ in the last digits).
"""

from __future__ import annotations

import decimal
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.meaning.exact_sum import round_sum, units
from headrace.meaning.moments import POWERS, finish_moments, power_of
from headrace.meaning.ordered_values import OF_ORDERED_VALUES, counts_where, finish_values, sort_values
from headrace.meaning.row_functions import Names, bag, names_of, row_of
from headrace.meaning.scalar import Surroundings
from headrace.meaning.scalar_compare import sort_key
from headrace.meaning.scalar_number import EXACT, divide_decimal, fit_decimal, fit_integer
from headrace.meaning.zset import ZSet, normal
from headrace.model.relation import Aggregate, AggregateCall, AggregateFunction
from headrace.model.types import BIGINT, Decimal, Row, Type, Value

Weighted = tuple[Any, int]
"""A value that is not NULL and how often it occurs. Its type is the argument's."""


def aggregate(relation: Aggregate, input_: ZSet, around: Surroundings) -> Iterator[tuple[Row, int]]:
    names = names_of(relation.input)
    key_of = row_of(tuple(key.expr for key in relation.keys), names, around)
    groups: dict[Row, list[tuple[Row, int]]] = defaultdict(list)
    if not relation.keys:
        groups[()] = []
    for row, weight in bag(input_, relation):
        groups[key_of(row)].append((row, weight))
    calls = tuple(_value_of_group(call, names, around) for call in relation.calls)
    return ((key + tuple(call(rows) for call in calls), 1) for key, rows in groups.items())


def _value_of_group(
    call: AggregateCall, names: Names, around: Surroundings
) -> Callable[[list[tuple[Row, int]]], Value]:
    if call.argument is None:
        return lambda rows: sum(weight for _, weight in rows)
    inputs = row_of(call.inputs, names, around)
    return lambda rows: aggregate_values(call, [(inputs(row), weight) for row, weight in rows])


def aggregate_values(call: AggregateCall, rows: list[tuple[Row, int]]) -> Value:
    """The value of a call with an argument, over its inputs for the rows of a group; equal ones may be repeated."""
    assert call.argument is not None, f'call "{call.name}" has no argument'
    place = counts_where(call)
    rows = [(row, weight) for row, weight in rows if row[place] is not None]
    if call.distinct:
        rows = [(row, 1) for row in dict.fromkeys(row for row, _ in rows)]
    return normal(_aggregate(call, call.argument.type, rows))


def _aggregate(call: AggregateCall, argument: Type, rows: list[tuple[Row, int]]) -> Value:
    if call.function is AggregateFunction.COUNT:
        return sum(weight for _, weight in rows)
    if call.function in OF_ORDERED_VALUES:
        return finish_values(call, *sort_values(call, rows))
    if not rows:
        return None
    values = [(row[0], weight) for row, weight in rows]
    match call.function:
        case AggregateFunction.SUM:
            return _sum(values, call.type)
        case AggregateFunction.AVG:
            return _average(values, call.type)
        case AggregateFunction.MIN:
            return _extreme(min, argument, values)
        case AggregateFunction.MAX:
            return _extreme(max, argument, values)
        case _:
            return _moments(call, rows)


def _moments(call: AggregateCall, rows: list[tuple[Row, int]]) -> Value:
    pairs: list[tuple[Any, Any, int]] = [(row[0], row[-1], weight) for row, weight in rows]
    sums = {
        powers: sum(power_of(one, other, powers) * weight for one, other, weight in pairs)
        for powers in POWERS[call.function]
    }
    return finish_moments(call.function, sum(weight for _, weight in rows), sums)


def _extreme(choose: Callable[..., Any], argument: Type, values: Iterable[Weighted]) -> Value:
    chosen: Value = choose((value for value, _ in values), key=sort_key(argument))
    return chosen


def _sum(values: list[Weighted], type_: Type) -> Value:
    if isinstance(type_, Decimal):
        return fit_decimal(_exact_sum(values), type_)
    if type_ == BIGINT:
        return fit_integer(sum(value * weight for value, weight in values), BIGINT)
    return _float_sum(values)


def _average(values: list[Weighted], type_: Type) -> Value:
    count = sum(weight for _, weight in values)
    if isinstance(type_, Decimal):
        return fit_decimal(divide_decimal(_exact_sum(values), decimal.Decimal(count)), type_)
    return _float_sum(values) / count


def _exact_sum(values: list[Weighted]) -> decimal.Decimal:
    total = decimal.Decimal(0)
    for value, weight in values:
        total = EXACT.add(total, EXACT.multiply(value, weight))
    return total


def _float_sum(values: list[Weighted]) -> float:
    """NaN and infinities add as they do one by one; what overflows is infinite."""
    try:
        return math.fsum(value for value, weight in values for _ in range(weight))
    except (OverflowError, ValueError):
        return round_sum(sum(units(float(value)) * weight for value, weight in values))
