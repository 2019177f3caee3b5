"""Totals of calls on arrays: what each row adds, how totals are kept as text, and what calls make of them.

Sums are integers: of the argument itself, of its decimal digits, or of the smallest double (`meaning.exact_sum`). They
are held in 64 bits as long as they are sure to fit, else as Python's integers.
"""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.exact_sum import SMALLEST, round_sum, text_of, total_of, units
from headrace.meaning.moments import POWERS, Powers, finish_moments, power_of
from headrace.meaning.scalar_number import divide_decimal, fit_decimal, fit_integer
from headrace.meaning.zset import normal
from headrace.model.relation import AggregateCall, AggregateFunction
from headrace.model.types import BIGINT, FRACTIONS, Decimal, Type, Value
from headrace.run.operators.lookup import Integers
from headrace.run.operators.numbering import Amounts
from headrace.run.rows.arrow import arrow_table, arrow_type

_SURE = 2**62
_WHOLE_DOUBLES = 2**53
"""Up to here every integer is a double."""


def counts_of(argument: pa.ChunkedArray, weights: Integers) -> Integers:
    return np.where(pc.is_valid(argument).to_numpy(zero_copy_only=False), weights, 0)


def sum_amounts(call: AggregateCall, argument: pa.ChunkedArray, weights: Integers, kept: Amounts) -> Amounts:
    """What each row adds to the sum of its group; NULL adds nothing."""
    values = _integers(call, argument.combine_chunks())
    largest = _largest(values) * int(np.abs(weights).sum()) + _largest(kept)
    if largest < _SURE and values.dtype == np.int64:
        return values * weights
    exact: Amounts = values.astype(object) * weights.astype(object)
    return exact


def sum_columns(call: AggregateCall) -> tuple[str, ...]:
    """The columns of the state that hold the sums of a call."""
    if call.function in POWERS:
        return tuple(_power_column(call, powers) for powers in POWERS[call.function])
    return (f"s:{call.name}",)


def _power_column(call: AggregateCall, powers: Powers) -> str:
    return f"m:{call.name}:{powers[0]}{powers[1]}"


def power_amounts(
    call: AggregateCall, argument: pa.ChunkedArray, other: pa.ChunkedArray, weights: Integers
) -> dict[str, Amounts]:
    """What each row adds to the sums of powers of its group; without an argument it adds nothing."""
    rows = list(zip(argument.to_pylist(), other.to_pylist(), weights.tolist(), strict=True))
    return {
        _power_column(call, powers): _objects(
            [0 if x is None else power_of(x, y, powers) * weight for x, y, weight in rows]
        )
        for powers in POWERS[call.function]
    }


def _largest(amounts: Amounts) -> int:
    return max(abs(int(amounts.max())), abs(int(amounts.min()))) if len(amounts) else 0


def _integers(call: AggregateCall, argument: pa.Array) -> Amounts:
    assert call.argument is not None, f'call "{call.name}" has no argument'
    if call.argument.type in FRACTIONS:
        return _units(argument.cast(pa.float64()).fill_null(0.0).to_numpy())
    if isinstance(call.argument.type, Decimal):
        return _digits(argument)
    values: Integers = argument.cast(pa.int64()).fill_null(0).to_numpy()
    if call.type not in FRACTIONS or _largest(values) <= _WHOLE_DOUBLES:
        return values
    return _objects([int(float(value)) for value in values.tolist()])


def _units(values: Any) -> Amounts:
    return _objects([units(value) for value in values.tolist()])


def _digits(column: pa.Array) -> Amounts:
    """Decimals as integers of their last digit."""
    if not len(column):
        return np.zeros(0, np.int64)
    if column.null_count:
        column = column.fill_null(pa.scalar(decimal.Decimal(0), column.type))
    words = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset : 2 * (column.offset + len(column))]
    low, high = words[0::2], words[1::2]
    if (high == low >> 63).all():
        return low
    return _objects(
        [(above << 64) + below for above, below in zip(high.tolist(), low.view(np.uint64).tolist(), strict=True)]
    )


def _objects(values: list[int]) -> Amounts:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _is_float(call: AggregateCall) -> bool:
    return call.argument is not None and call.argument.type in FRACTIONS


def write_totals(amounts: Amounts, call: AggregateCall | None) -> pa.Array:
    """Totals as the state holds them: counts as numbers, sums (those of a call) as text."""
    if call is None:
        return pa.array(amounts, pa.int64())
    if _is_float(call):
        return pa.array([text_of(int(total)) for total in amounts], pa.string())
    if amounts.dtype == np.int64:
        return pa.array(amounts).cast(pa.string())
    return pa.array([str(total) for total in amounts], pa.string())


def total_amounts(column: pa.ChunkedArray, call: AggregateCall | None) -> Amounts:
    """The opposite of `write_totals`."""
    if call is None:
        return np.asarray(column.to_numpy())
    if _is_float(call):
        return _objects([total_of(text) for text in column.to_pylist()])
    found = [int(text) for text in column.to_pylist()]
    return np.array(found, np.int64) if max(map(abs, found), default=0) < _SURE else _objects(found)


def result_of(call: AggregateCall, measures: Mapping[str, Amounts]) -> pa.Array:
    """The value of a call for every total."""
    if call.function is AggregateFunction.COUNT:
        return pa.array(measures["n" if call.argument is None else f"c:{call.name}"], pa.int64())
    if call.function in POWERS:
        return _finish_powers(call, measures)
    counts, sums = measures[f"c:{call.name}"], measures[f"s:{call.name}"]
    if sums.dtype == np.int64 and not _is_float(call):
        if call.type == BIGINT:
            return pa.array(sums, mask=counts == 0)
        if call.type in FRACTIONS:
            averages = sums.astype(np.float64) / np.maximum(counts, 1)
            return pa.array(averages, arrow_type(call.type), mask=counts == 0)
        if call.function is AggregateFunction.SUM and _fits(sums, call):
            return _decimals(sums, call.type, counts == 0)
    values = [(_result(call, total, count),) for total, count in zip(sums.tolist(), counts.tolist(), strict=True)]
    return arrow_table({"": call.type}, values).column(0).combine_chunks()


def _finish_powers(call: AggregateCall, measures: Mapping[str, Amounts]) -> pa.Array:
    powers = POWERS[call.function]
    sums = zip(*(measures[_power_column(call, one)].tolist() for one in powers), strict=True)
    totals = zip(measures[f"c:{call.name}"].tolist(), sums, strict=True)
    values = [finish_moments(call.function, n, dict(zip(powers, found, strict=True))) for n, found in totals]
    return pa.array(values, pa.float64())


def _fits(sums: Amounts, call: AggregateCall) -> bool:
    """Whether no sum needs to be rounded or is too large."""
    assert isinstance(call.type, Decimal), f'call "{call.name}" is of type {call.type}'
    return _scale(call) == call.type.scale and _largest(sums) < 10 ** min(call.type.precision, 18)


def _decimals(digits: Integers, type_: Type, absent: Any) -> pa.Array:
    words = np.column_stack((digits, digits >> 63))
    column = pa.Array.from_buffers(arrow_type(type_), len(digits), [None, pa.py_buffer(words.tobytes())])
    return pc.if_else(pa.array(absent), pa.scalar(None, column.type), column)


def _scale(call: AggregateCall) -> int:
    return call.argument.type.scale if call.argument and isinstance(call.argument.type, Decimal) else 0


def _result(call: AggregateCall, total: int, count: int) -> Value:
    """One value, as `meaning.evaluate_aggregate` has it."""
    if not count:
        return None
    average = call.function is AggregateFunction.AVG
    if isinstance(call.type, Decimal):
        exact = decimal.Decimal(total).scaleb(-_scale(call), context=_WIDE)
        return fit_decimal(divide_decimal(exact, decimal.Decimal(count)) if average else exact, call.type)
    if call.type == BIGINT:
        return fit_integer(total, BIGINT)
    value = round_sum(total if _is_float(call) else total * SMALLEST)
    return normal(value / count if average else value)


_WIDE = decimal.Context(prec=900)
