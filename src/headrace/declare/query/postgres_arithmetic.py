"""PostgreSQL's arithmetic in Spark's words: operators between numbers and times, powers, rounding."""

from __future__ import annotations

import decimal
import functools
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_building import (
    delete_from_jsonb,
)
from headrace.declare.query.postgres_intervals import add_span, as_value
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    make_call,
    make_cast,
    make_number,
    mark,
    take,
)
from headrace.declare.query.postgres_numbers import cut_digits, divide_numeric, exact_value, multiply_numeric
from headrace.declare.query.postgres_times import add_interval, names_infinity
from headrace.model.types import (
    DATE,
    FRACTIONS,
    INTEGERS,
    INTERVALS,
    TIMESTAMP,
    Decimal,
)


def _divide(node: exp.Div, type_of: TypeOf) -> exp.Expr:
    """Integers are divided without rest."""
    changed = as_value(node, type_of)
    if changed is not None:
        return changed
    left, right = type_of(node.this), type_of(node.expression)
    if left in INTEGERS and right in INTEGERS:
        return mark(exp.IntDiv(this=node.this, expression=node.expression))
    return divide_numeric(node, type_of) or node


def _subtract(node: exp.Sub, type_of: TypeOf) -> exp.Expr:
    changed = (
        as_value(node, type_of)
        or add_interval(node, type_of)
        or add_span(node, type_of)
        or delete_from_jsonb(node, type_of)
    )
    if changed is not None:
        return changed
    for constant, other in ((node.this, node.expression), (node.expression, node.this)):
        if isinstance(constant.unnest(), exp.Literal) and constant.unnest().is_string and not names_infinity(constant):
            type_ = type_of(other)
            if type_ in (DATE, TIMESTAMP):
                constant.replace(make_cast(constant.copy(), str(type_)))
    left, right = type_of(node.this), type_of(node.expression)
    if left == right == DATE:
        return make_call("datediff", node.this, node.expression)
    if left == DATE and right in INTERVALS:
        return mark(exp.Sub(this=make_cast(node.this, "TIMESTAMP"), expression=node.expression))
    return node


def _add(node: exp.Add, type_of: TypeOf) -> exp.Expr:
    """A date plus an interval is a timestamp, and text beside a timestamp is an interval."""
    changed = as_value(node, type_of) or add_interval(node, type_of) or add_span(node, type_of)
    if changed is not None:
        return changed
    left, right = type_of(node.this), type_of(node.expression)
    for time, text in ((left, node.expression), (right, node.this)):
        if time == TIMESTAMP and isinstance(text, exp.Literal) and text.is_string:
            other = node.this if text is node.expression else node.expression
            made = exp.Add(this=other, expression=exp.Interval(this=text))
            return add_interval(made, type_of) or mark(made)
    if left == DATE and right in INTERVALS:
        return mark(exp.Add(this=make_cast(node.this, "TIMESTAMP"), expression=node.expression))
    if right == DATE and left in INTERVALS:
        return mark(exp.Add(this=node.this, expression=make_cast(node.expression, "TIMESTAMP")))
    if right == DATE and left in INTEGERS:
        return mark(exp.Add(this=node.expression, expression=node.this))
    return node


def _raise_to_power(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _power(node.this, node.expression, type_of)


def _call_power(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    base, exponent = take("power", arguments, 2)
    return _power(base, exponent, type_of)


def _power(base: exp.Expr, exponent: exp.Expr, type_of: TypeOf) -> exp.Expr:
    squared = _multiply(base, exponent, type_of)
    if squared is not None:
        return squared
    for part in (base, exponent):
        if isinstance(type_of(part), Decimal) and not isinstance(part.unnest(), exp.Literal):
            hint = "numeric powers have more digits than we keep: write x::double precision"
            raise NotMaintained("expression: power of numeric", hint)
    return make_call("power", base, exponent)


def _multiply(base: exp.Expr, exponent: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """Numeric to the power of 2 or 3 by multiplication; None where that has too many digits, or is of other numbers."""
    type_, times = type_of(base), exponent.unnest().name
    if not isinstance(type_, Decimal) or times not in ("2", "3") or (type_.precision + 1) * int(times) > 38:
        return None
    factors = [mark(exp.Paren(this=base if number == 0 else base.copy())) for number in range(int(times))]
    return mark(exp.Paren(this=functools.reduce(lambda a, b: mark(exp.Mul(this=a, expression=b)), factors)))


def _round(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """Halves away from zero; of double precision to the even number."""
    if len(arguments) == 1 and type_of(arguments[0]) in INTEGERS:
        return make_cast(arguments[0], "DOUBLE")
    if len(arguments) == 1:
        return make_call("rint", *arguments) if type_of(arguments[0]) in FRACTIONS else make_call("round", *arguments)
    value, digits = take("round", arguments, 2)
    exact = exact_value(value, type_of)
    return make_call("round", make_cast(exact, "DECIMAL(20, 0)") if type_of(value) in INTEGERS else exact, digits)


def _round_whole(name: str) -> Callable[[list[exp.Expr], TypeOf], exp.Expr]:
    """`ceil` and `floor` stay in the type of their argument: dividing a double by them is no division of integers."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        (value,) = take(name, arguments, 1)
        made = make_call(name, value)
        type_ = type_of(value)
        return make_cast(made, "DOUBLE") if type_ in FRACTIONS or type_ in INTEGERS else made

    return convert


def _truncate(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) == 2:
        return cut_digits(arguments[0], arguments[1], type_of)
    (value,) = take("trunc", arguments, 1)
    if type_of(value) in INTEGERS:
        return make_cast(value, "DOUBLE")
    negative = mark(exp.LT(this=value.copy(), expression=make_number(0)))
    up, down = make_call("ceil", value.copy()), make_call("floor", value)
    made = mark(exp.Case(ifs=[exp.If(this=negative, true=up)], default=down))
    return make_cast(made, "DOUBLE") if type_of(value) in FRACTIONS else made


def _logarithm(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) == 2:
        raise NotMaintained("function: log with a base", "divide two logarithms: ln(x) / ln(base)")
    return make_call("log10", *arguments)


def _plain_number(node: exp.Literal, type_of: TypeOf) -> exp.Expr:
    """`1e3` is numeric."""
    if node.is_string or "e" not in node.name.lower():
        return node
    digits = f"{decimal.Decimal(node.name):f}"
    return mark(exp.Literal(this=digits if "." in digits else f"{digits}.", is_string=False))


ARITHMETIC_CALLS: Mapping[str, ConvertCall] = {
    "ceil": _round_whole("ceil"),
    "ceiling": _round_whole("ceil"),
    "floor": _round_whole("floor"),
    "log": _logarithm,
    "pow": _call_power,
    "power": _call_power,
    "round": _round,
    "trunc": _truncate,
}

ARITHMETIC_NODES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], exp.Expr]] = {
    exp.Add: _add,
    exp.BitwiseLeftShift: lambda node, type_of: make_call("shiftleft", node.this, node.expression),
    exp.BitwiseRightShift: lambda node, type_of: make_call("shiftright", node.this, node.expression),
    exp.Div: _divide,
    exp.Literal: _plain_number,
    exp.Mul: lambda node, type_of: as_value(node, type_of) or multiply_numeric(node, type_of) or node,
    exp.Neg: lambda node, type_of: as_value(node, type_of) or node,
    exp.Pow: _raise_to_power,
    exp.Sqrt: lambda node, type_of: make_call("sqrt", node.this),
    exp.Sub: _subtract,
}
