"""Expressions that Arrow computes exactly as we do, whole columns at once; anything else is left to the caller.

That is: comparisons within one type and of integers, three-valued logic, `in`, tests for NULL, choices, arithmetic of
integers and doubles, times plus or minus a constant, starts of windows, and casts that widen integers. Overflow and
division by zero raise ArrowInvalid.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.scalar_compare import COMPARISONS
from headrace.meaning.scalar_time import MICROSECOND, from_micros
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FRACTIONS,
    INTEGERS,
    INTERVALS,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
)
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.equal import one_form

Datum: TypeAlias = pa.Array | pa.Scalar
"""A value for every row, or one for all."""

_ORDERED: tuple[Type, ...] = (*INTEGERS, *FRACTIONS, STRING, BINARY, DATE, TIMESTAMP)


def vector_of(expr: Expr, table: pa.Table, otherwise: Callable[[Expr], Datum]) -> Datum:
    """The values of an expression; `otherwise` computes those of the parts that Arrow computes differently."""
    match expr:
        case Column(name, type_):
            return _normal(table.column(name).cast(arrow_type(type_)).combine_chunks())
        case Call("+" | "-", (time, Literal(dt.timedelta() as span))) if expr.type == time.type == TIMESTAMP:
            shift = span // MICROSECOND * (1 if expr.function == "+" else -1)
            return _shift_times(vector_of(time, table, otherwise), shift)
        case Call() if _is_plain(expr):
            arguments = [vector_of(argument, table, otherwise) for argument in expr.arguments]
            return _normal(_compute_call(expr, arguments))
        case Literal() | Call():
            return otherwise(expr)


def _normal(values: Datum) -> Datum:
    """Floats in their one form."""
    return one_form(values) if pa.types.is_floating(values.type) else values


def _is_plain(call: Call) -> bool:
    types = [argument.type for argument in call.arguments]
    match call.function:
        case "and" | "or" | "not":
            return True
        case "is_null":
            return types[0] not in INTERVALS
        case "=" | "<>" | "in" | "<=>":
            return _are_integers(types) or (_are_one(types) and (_is_ordered(types[0]) or types[0] == BOOLEAN))
        case "<" | "<=" | ">" | ">=":
            return _are_integers(types) or (_are_one(types) and _is_ordered(types[0]))
        case "coalesce":
            return _are_one([*types, call.type]) and not isinstance(call.type, Array)
        case "case":
            return _are_one([*types[1:-1:2], types[-1], call.type]) and not isinstance(call.type, Array)
        case "+" | "-" | "*":
            return _is_arithmetic(call.type, types)
        case "/":
            return call.type == DOUBLE and _is_arithmetic(call.type, types)
        case "%" | "pmod":
            return call.type in INTEGERS and _is_arithmetic(call.type, types)
        case "window_start":
            return True
        case "cast":
            return types[0] in INTEGERS and (call.type == DOUBLE or _widens(types[0], call.type))
        case _:
            return False


def _are_one(types: Sequence[Type]) -> bool:
    return len(types) > 1 and all(type_ == types[0] for type_ in types) and types[0] not in INTERVALS


def _are_integers(types: Sequence[Type]) -> bool:
    """Arrow compares integers of any width as numbers."""
    return len(types) > 1 and all(type_ in INTEGERS for type_ in types)


def _is_ordered(type_: Type) -> bool:
    return type_ in _ORDERED or isinstance(type_, Decimal)


def _is_arithmetic(result: Type, arguments: Sequence[Type]) -> bool:
    if result == DOUBLE:
        return all(type_ == DOUBLE for type_ in arguments)
    return all(_widens(type_, result) for type_ in arguments)


def _widens(narrow: Type, wide: Type) -> bool:
    """Whether a cast widens: from narrow to wide is how `INTEGERS` are ordered."""
    order = list[Type](INTEGERS)
    return narrow in order and wide in order and order.index(narrow) <= order.index(wide)


def _compute_call(call: Call, arguments: list[Datum]) -> Datum:
    match call.function:
        case "and":
            return reduce(pc.and_kleene, arguments)
        case "or":
            return reduce(pc.or_kleene, arguments)
        case "not":
            return pc.invert(arguments[0])
        case "is_null":
            return pc.is_null(arguments[0])
        case "coalesce":
            return pc.coalesce(*arguments)
        case "case":
            return _case(arguments)
        case "in":
            return reduce(pc.or_kleene, (_equal(arguments[0], option) for option in arguments[1:]))
        case "<=>":
            return _null_safe_equal(*arguments)
        case "window_start":
            return _find_window_start(*arguments)
        case "cast":
            return arguments[0].cast(arrow_type(call.type), safe=False)
        case "+" | "-" | "*" | "/" | "%" | "pmod":
            return _ARITHMETIC[call.function](*(argument.cast(arrow_type(call.type)) for argument in arguments))
        case function:
            assert function in COMPARISONS, f'"{function}" is no comparison'
            return _COMPARE[function](*arguments)


def _shift_times(time: Datum, shift_us: int) -> Datum:
    return _as_times(pc.add_checked(time.cast(pa.int64()), pa.scalar(shift_us, pa.int64())), time.type)


def _find_window_start(time: Datum, slide_ms: Datum, offset_ms: Datum) -> Datum:
    instants = time.cast(pa.int64())
    slide, offset = (pa.scalar(1000 * one.as_py(), pa.int64()) for one in (slide_ms, offset_ms))
    starts = pc.subtract_checked(instants, _positive_remainder(pc.subtract_checked(instants, offset), slide))
    return _as_times(starts, time.type)


def _as_times(instants: Datum, type_: pa.DataType) -> Datum:
    """Raises for what lies outside of the years that timestamps have."""
    found = [instants] if isinstance(instants, pa.Scalar) else pc.min_max(instants).values()
    for extreme in (one.as_py() for one in found):
        if extreme is not None:
            from_micros(extreme)
    return instants.cast(type_)


def _remainder(dividend: Datum, divisor: Datum) -> Datum:
    """The rest of a division of integers: the quotient is rounded towards zero, so the sign is that of the dividend."""
    return pc.subtract(dividend, pc.multiply(pc.divide_checked(dividend, divisor), divisor))


def _positive_remainder(dividend: Datum, divisor: Datum) -> Datum:
    rest = _remainder(dividend, divisor)
    return pc.if_else(pc.less(rest, 0), _remainder(pc.add_checked(rest, divisor), divisor), rest)


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
    "/": pc.divide_checked,
    "%": _remainder,
    "pmod": _positive_remainder,
}


def _case(arguments: list[Datum]) -> Datum:
    *branches, chosen = arguments
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        chosen = pc.if_else(pc.fill_null(condition, False), value, chosen)
    return chosen


def _equal(left: Datum, right: Datum) -> Datum:
    """NaN equals NaN."""
    equal = pc.equal(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(equal, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return equal


def _less(left: Datum, right: Datum) -> Datum:
    """NaN is larger than every other number."""
    less = pc.less(left, right)
    if pa.types.is_floating(left.type):
        return pc.or_(less, pc.and_(pc.invert(pc.is_nan(left)), pc.is_nan(right)))
    return less


def _null_safe_equal(left: Datum, right: Datum) -> Datum:
    return pc.or_(pc.fill_null(_equal(left, right), False), pc.and_(pc.is_null(left), pc.is_null(right)))


_COMPARE: Mapping[str, Callable[[Datum, Datum], Datum]] = {
    "=": _equal,
    "<>": lambda left, right: pc.invert(_equal(left, right)),
    "<": _less,
    "<=": lambda left, right: pc.invert(_less(right, left)),
    ">": lambda left, right: _less(right, left),
    ">=": lambda left, right: pc.invert(_less(left, right)),
}
