"""Random window functions over the fields of a relation."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable

from hypothesis import strategies as st

from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.promotion import average_type, sum_type
from headrace.model.relation import (
    CURRENT_ROW,
    AggregateCall,
    AggregateFunction,
    Field,
    Frame,
    FrameEdge,
    FrameUnit,
    Order,
    PlaceCall,
    RangeEdge,
    RowEdge,
    WindowCall,
    WindowFunction,
)
from headrace.model.types import (
    BIGINT,
    DATE,
    DAY_TIME,
    DOUBLE,
    INT,
    INTEGERS,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
    is_numeric,
)

_WIDE = Decimal(38, 0)
_SPREAD = (AggregateFunction.STDDEV_SAMP, AggregateFunction.VAR_POP)
_COUNTING = (WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK, WindowFunction.NTILE)
_FRACTIONS = (WindowFunction.PERCENT_RANK, WindowFunction.CUME_DIST)


def window_calls(
    draw: st.DrawFn, fields: tuple[Field, ...], order: tuple[Order, ...], name: Callable[[], str], exact: bool = False
) -> tuple[WindowCall, ...]:
    """One to three functions. With `exact`, sums and averages are of exact numbers only."""
    return tuple(window_call(draw, fields, order, name(), exact) for _ in range(draw(st.sampled_from((1, 1, 2, 3)))))


def window_call(
    draw: st.DrawFn, fields: tuple[Field, ...], order: tuple[Order, ...], name: str, exact: bool = False
) -> WindowCall:
    kind = draw(st.sampled_from(("place", "place", "place", "total", "total", "values")))
    if kind == "place":
        function = draw(st.sampled_from(tuple(WindowFunction)))
        return _place_call(draw, fields, order, name, function)
    return (_aggregate_call if kind == "total" else _call_of_values)(draw, fields, order, name, exact)


def _place_call(
    draw: st.DrawFn, fields: tuple[Field, ...], order: tuple[Order, ...], name: str, function: WindowFunction
) -> WindowCall:
    count = draw(st.integers(1, 3))
    if function in _COUNTING:
        return WindowCall(name, BIGINT, PlaceCall(function, (), count if function is WindowFunction.NTILE else 1))
    if function in _FRACTIONS:
        return WindowCall(name, DOUBLE, PlaceCall(function))
    value = _field(draw, fields)
    skips = draw(st.sampled_from((False, False, True)))
    if function in (WindowFunction.LAG, WindowFunction.LEAD):
        same = [field for field in fields if field.type == value.type]
        default = (_field(draw, tuple(same)),) if draw(st.booleans()) else ()
        return WindowCall(name, value.type, PlaceCall(function, (value, *default), count, skips))
    at = count if function is WindowFunction.NTH_VALUE else 1
    return WindowCall(name, value.type, PlaceCall(function, (value,), at, skips), frame(draw, order))


def _aggregate_call(
    draw: st.DrawFn, fields: tuple[Field, ...], order: tuple[Order, ...], name: str, exact: bool
) -> WindowCall:
    def is_summed(type_: Type) -> bool:
        return type_ in INTEGERS or isinstance(type_, Decimal) or (is_numeric(type_) and not exact)

    numbers = tuple(field for field in fields if is_summed(field.type))
    functions = [AggregateFunction.COUNT, AggregateFunction.MIN, AggregateFunction.MAX]
    functions += [AggregateFunction.SUM, AggregateFunction.AVG] if numbers else []
    doubles = tuple(field for field in fields if field.type == DOUBLE)
    functions += _SPREAD if doubles and not exact else []
    function = draw(st.sampled_from(functions))
    argument: Expr | None
    type_: Type
    if function is AggregateFunction.COUNT:
        argument, type_ = (_field(draw, fields) if draw(st.booleans()) else None), BIGINT
    elif function in (AggregateFunction.SUM, AggregateFunction.AVG):
        argument = _field(draw, numbers)
        type_ = (sum_type if function is AggregateFunction.SUM else average_type)(argument.type)
    else:
        argument = _field(draw, doubles if function in _SPREAD else fields)
        type_ = argument.type
    return WindowCall(name, type_, AggregateCall("", function, argument, False, type_), frame(draw, order))


def _call_of_values(
    draw: st.DrawFn, fields: tuple[Field, ...], order: tuple[Order, ...], name: str, exact: bool
) -> WindowCall:
    """An aggregate that is made of all values of a frame. With `exact`, none gives an array."""
    functions = [AggregateFunction.COUNT, AggregateFunction.MODE, AggregateFunction.FIRST]
    functions += [] if exact else [AggregateFunction.ARRAY_AGG]
    texts = tuple(field for field in fields if field.type == STRING)
    functions += [AggregateFunction.STRING_AGG] if texts else []
    function, option = draw(st.sampled_from(functions)), None
    keys: tuple[Order, ...] = ()
    argument = _field(draw, texts if function is AggregateFunction.STRING_AGG else fields)
    type_, is_distinct = argument.type, function is AggregateFunction.COUNT
    if function is AggregateFunction.FIRST:
        keys = (Order(_field(draw, fields), draw(st.booleans()), nulls_first=draw(st.booleans())),)
    elif function is not AggregateFunction.MODE:
        is_distinct = is_distinct or draw(st.booleans())
        keys = () if is_distinct else order
        type_ = BIGINT if function is AggregateFunction.COUNT else type_
        type_ = Array(type_) if function is AggregateFunction.ARRAY_AGG else type_
        option = Literal("-", STRING) if function is AggregateFunction.STRING_AGG else None
    compute = AggregateCall("", function, argument, is_distinct, type_, (), keys, option)
    return WindowCall(name, type_, compute, frame(draw, order))


def _field(draw: st.DrawFn, fields: tuple[Field, ...]) -> Column:
    field = draw(st.sampled_from(fields))
    return Column(field.name, field.type)


def frame(draw: st.DrawFn, order: tuple[Order, ...]) -> Frame:
    """All rows, all so far, rows around the row, or those whose key is near."""
    kind = draw(st.sampled_from(("whole", "so far", "rows", "rows", "range", "range")))
    if kind == "whole" or (kind != "rows" and not order):
        return Frame()
    if kind == "so far":
        return Frame(FrameUnit.RANGE, None, CURRENT_ROW)
    if kind == "rows":
        low, high = sorted(draw(st.tuples(st.integers(-3, 2), st.integers(-3, 2))))
        bounds: list[FrameEdge] = [RowEdge(low), RowEdge(high)]
        return _unbound(draw, FrameUnit.ROWS, bounds, None)
    made = _offset(draw, order) if len(order) == 1 else None
    if made is None:
        return _unbound(draw, FrameUnit.RANGE, [CURRENT_ROW, CURRENT_ROW], None)
    key, edges = made
    return _unbound(draw, FrameUnit.RANGE, edges, key)


def _unbound(draw: st.DrawFn, unit: FrameUnit, edges: list[FrameEdge], key: Expr | None) -> Frame:
    """The frame, perhaps without one of its bounds."""
    left_out = draw(st.sampled_from((None, None, 0, 1)))
    kept = [None if place == left_out else edge for place, edge in enumerate(edges)]
    has_offset = any(isinstance(edge, RangeEdge) for edge in kept)
    return Frame(unit, kept[0], kept[1], key if has_offset else None)


def _offset(draw: st.DrawFn, order: tuple[Order, ...]) -> tuple[Expr, list[FrameEdge]] | None:
    (one,) = order
    type_ = one.expr.type
    key, offsets = one.expr, list[Literal]()
    sizes = draw(st.tuples(st.integers(0, 3), st.integers(0, 3)))
    if type_ in INTEGERS:
        key, offsets = Call("cast", (key,), _WIDE), [Literal(decimal.Decimal(size), _WIDE) for size in sizes]
    elif type_ == TIMESTAMP:
        offsets = [Literal(dt.timedelta(hours=6 * size), DAY_TIME) for size in sizes]
    elif type_ == DATE:
        offsets = [Literal(size, INT) for size in sizes]
    elif type_ == DOUBLE:
        offsets = [Literal(float(size), DOUBLE) for size in sizes]
    else:
        return None
    sides = draw(st.sampled_from(((True, False), (True, False), (True, True), (False, False))))
    if sides[0] == sides[1] and (sizes[0] < sizes[1]) == sides[0]:
        offsets.reverse()
    edges: list[FrameEdge] = []
    for offset, precedes in zip(offsets, sides, strict=True):
        minus = precedes != one.descending
        days = "date_sub" if minus else "date_add"
        value = Call(days if type_ == DATE else "-" if minus else "+", (key, offset), key.type)
        edges.append(RangeEdge(offset, precedes, value))
    return key, edges
