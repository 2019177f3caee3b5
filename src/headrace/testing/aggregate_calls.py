"""Random calls of every aggregate function."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st

from headrace.meaning.moments import POWERS
from headrace.model.expr import TRUE, Call, Expr, Literal
from headrace.model.promotion import average_type, sum_type
from headrace.model.relation import AggregateCall, AggregateFunction, Order
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, Array, Type
from headrace.testing.expressions import ScalarMaker
from headrace.testing.tables import COLUMN_TYPES, MONEY

NUMBERS = (INT, BIGINT, DOUBLE, MONEY)
FRACTIONS = (0.0, 0.25, 0.5, 0.55, 1.0)

EXACT = tuple(function for function in AggregateFunction if function not in POWERS)
"""Functions that every engine answers alike to the last digit, for exact numbers."""


def aggregate_call(
    draw: st.DrawFn,
    name: str,
    scalars: ScalarMaker,
    functions: Sequence[AggregateFunction] = tuple(AggregateFunction),
    *,
    summed: Sequence[Type] = NUMBERS,
    distinct: bool = True,
) -> AggregateCall:
    """`summed` are the types that sums and averages are taken of."""
    function = draw(st.sampled_from(functions))
    if function is AggregateFunction.COUNT and draw(st.booleans()):
        return AggregateCall(name, function, None, False, BIGINT)
    argument = scalars.make(draw(st.sampled_from(_argument_types(function, summed))), 1)
    is_distinct = distinct and function not in _WITHOUT_DISTINCT and draw(st.booleans())
    others: tuple[Expr, ...] = ()
    order: tuple[Order, ...] = ()
    option: Literal | None = None
    match function:
        case AggregateFunction.COUNT if is_distinct and draw(st.booleans()):
            others = (scalars.make(draw(st.sampled_from(COLUMN_TYPES)), 1),)
        case AggregateFunction.COVAR_POP | AggregateFunction.COVAR_SAMP | AggregateFunction.CORR:
            others = (scalars.make(DOUBLE, 1),)
            argument = _unless_null(argument, others[0])
        case AggregateFunction.FIRST:
            order = (_order(draw, scalars.make(draw(st.sampled_from(COLUMN_TYPES)), 1)),)
        case AggregateFunction.ARRAY_AGG | AggregateFunction.STRING_AGG:
            order = _order_of_list(draw, scalars, argument, is_distinct)
            if function is AggregateFunction.STRING_AGG:
                option = Literal(draw(st.sampled_from(("", ", "))), STRING)
            elif draw(st.booleans()):
                others = (draw(st.sampled_from((TRUE, scalars.make(INT, 0)))),) if not is_distinct else (TRUE,)
        case AggregateFunction.PERCENTILE_CONT | AggregateFunction.PERCENTILE_DISC:
            option = Literal(draw(st.sampled_from(FRACTIONS)), DOUBLE)
            order = () if is_distinct else _downwards(draw, argument)
        case AggregateFunction.MODE:
            order = _downwards(draw, argument)
        case _:
            pass
    return AggregateCall(
        name, function, argument, is_distinct, result_type(function, argument.type), others, order, option
    )


_WITHOUT_DISTINCT = (AggregateFunction.FIRST, AggregateFunction.MODE)


def _argument_types(function: AggregateFunction, summed: Sequence[Type]) -> Sequence[Type]:
    if function in POWERS:
        return (DOUBLE,)
    match function:
        case AggregateFunction.SUM | AggregateFunction.AVG:
            return summed
        case AggregateFunction.PERCENTILE_CONT:
            return NUMBERS
        case AggregateFunction.BIT_AND | AggregateFunction.BIT_OR | AggregateFunction.BIT_XOR:
            return (INT, BIGINT)
        case AggregateFunction.STRING_AGG:
            return (STRING,)
        case _:
            return COLUMN_TYPES


def _unless_null(argument: Expr, other: Expr) -> Expr:
    tested = Call("is_null", (other,), BOOLEAN)
    return Call("case", (tested, Literal(None, argument.type), argument), argument.type)


def _order(draw: st.DrawFn, expr: Expr) -> Order:
    return Order(expr, draw(st.booleans()), draw(st.booleans()))


def _order_of_list(draw: st.DrawFn, scalars: ScalarMaker, argument: Expr, distinct: bool) -> tuple[Order, ...]:
    types = draw(st.lists(st.sampled_from(COLUMN_TYPES), max_size=2))
    if distinct:
        return (_order(draw, argument),) if types else ()
    return tuple(_order(draw, scalars.make(type_, 0)) for type_ in types)


def _downwards(draw: st.DrawFn, argument: Expr) -> tuple[Order, ...]:
    return (Order(argument, descending=True, nulls_first=False),) if draw(st.booleans()) else ()


def result_type(function: AggregateFunction, argument: Type) -> Type:
    """Spark's result types."""
    if function in POWERS:
        return DOUBLE
    match function:
        case AggregateFunction.COUNT:
            return BIGINT
        case AggregateFunction.SUM:
            return sum_type(argument)
        case AggregateFunction.AVG:
            return average_type(argument)
        case AggregateFunction.PERCENTILE_CONT:
            return DOUBLE
        case AggregateFunction.ARRAY_AGG:
            return Array(argument)
        case _:
            return argument
