"""Numeric of PostgreSQL in Spark's decimals: quotients with enough digits, and digits cut off."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_nodes import TypeOf, make_call, make_cast, make_number, mark
from headrace.model.types import BIGINT, FLOAT, FRACTIONS, INT, INTEGERS, SMALLINT, Decimal, Type

WHOLE_DIGITS = {SMALLINT: 5, INT: 10, BIGINT: 19}
MOST_WHOLE, MOST_SCALE, LEAST_SCALE = 38, 20, 16
FEWEST_WHOLE = 15
"""A dividend keeps as many digits before the point, whatever it is divided by."""


def divide_numeric(node: exp.Div, type_of: TypeOf) -> exp.Expr | None:
    """A quotient of numeric with 16 to 20 digits after the point; None for other numbers.

    Spark makes its digits out of those of the dividend, so that it gets more of them first. If the divisor has many
    digits after the point, Spark leaves too few for the quotient, and a function of ours divides.
    """
    left, right = (_measure(part, type_of(part)) for part in (node.this, node.expression))
    if left is None or right is None:
        return None
    whole = left[0] + right[1]
    if whole > MOST_WHOLE - LEAST_SCALE:
        whole = MOST_WHOLE - LEAST_SCALE
        if whole - right[1] < FEWEST_WHOLE:
            return make_call("numeric_quotient", node.this, node.expression)
    scale = min(MOST_SCALE, MOST_WHOLE - whole)
    kept = max(left[1], scale - sum(right) - 1)
    dividend = make_cast(mark(exp.Paren(this=node.this)), f"DECIMAL({whole - right[1] + kept}, {kept})")
    quotient = mark(exp.Div(this=dividend, expression=node.expression))
    return make_cast(mark(exp.Paren(this=quotient)), f"DECIMAL({whole + scale}, {scale})")


def _measure(node: exp.Expr, type_: Type) -> tuple[int, int] | None:
    """How many digits stand before and after the point, as Spark counts them."""
    if isinstance(type_, Decimal):
        return type_.precision - type_.scale, type_.scale
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_int and type_ in INTEGERS:
        return len(inner.name.lstrip("0")) or 1, 0
    return (20 if type_ == BIGINT else WHOLE_DIGITS.get(type_, 3), 0) if type_ in INTEGERS else None


def cut_digits(value: exp.Expr, digits: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`trunc(x, n)`: half of the last digit less, and rounded."""
    if type_of(value) in FRACTIONS:
        raise NotMaintained("function: trunc of double precision to digits", "trunc(x::numeric, n)")
    if not (isinstance(digits, exp.Literal) and digits.is_int and int(digits.name) <= 18):
        raise NotMaintained("function: trunc to a number of digits that changes", "write the number: trunc(x, 2)")
    if type_of(value) in INTEGERS:
        return make_cast(value, "DECIMAL(20, 0)")
    half = exp.Literal(this=f"0.{'0' * int(digits.name)}5", is_string=False)
    zero = make_number(0)
    positive = mark(exp.GT(this=value, expression=zero))
    negative = mark(exp.LT(this=value.copy(), expression=zero.copy()))
    less = make_call("round", mark(exp.Sub(this=value.copy(), expression=half)), digits)
    more = make_call("round", mark(exp.Add(this=value.copy(), expression=half.copy())), digits.copy())
    branches = [exp.If(this=positive, true=less), exp.If(this=negative, true=more)]
    return mark(exp.Case(ifs=branches, default=make_call("round", value.copy(), digits.copy())))


def exact_value(value: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Numeric of a floating-point number, by its first 15 digits; others as they are."""
    if type_of(value) == FLOAT:
        hint = "it has 6 digits: x::double precision::numeric keeps all, round(x::double precision::numeric, 2) fewer"
        raise NotMaintained("expression: real as numeric", hint)
    return make_call("decimal15", value) if type_of(value) in FRACTIONS else value
