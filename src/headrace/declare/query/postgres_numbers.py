"""Numeric of PostgreSQL in Spark's decimals: quotients with enough digits, and digits cut off."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_nodes import TypeOf, make_call, make_cast, make_number, mark
from headrace.model.promotion import arithmetic_type
from headrace.model.types import BIGINT, FLOAT, FRACTIONS, INT, INTEGERS, SMALLINT, Array, Decimal, Type, as_decimal

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


def multiply_numeric(node: exp.Mul, type_of: TypeOf) -> exp.Expr | None:
    """A product of which Spark would leave too few digits after the point; None for others."""
    types = [type_of(part) for part in (node.this, node.expression)]
    if not all(isinstance(type_, Decimal) or type_ in INTEGERS for type_ in types):
        return None
    if not any(isinstance(type_, Decimal) for type_ in types):
        return None
    left, right = (_exact_type(part, type_) for part, type_ in zip((node.this, node.expression), types, strict=True))
    made = arithmetic_type("*", left, right)
    if not isinstance(made, Decimal) or made.scale >= min(left.scale + right.scale, LEAST_SCALE):
        return None
    return make_call("numeric_product", node.this, node.expression)


def _exact_type(node: exp.Expr, type_: Type) -> Decimal:
    """A constant has no more digits than are written."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_int and type_ in INTEGERS:
        return Decimal(len(inner.name.lstrip("0")) or 1, 0)
    return as_decimal(type_)


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


def refuse_digits(node: exp.Expr, type_of: TypeOf, form: str, rounded: str) -> None:
    """Numeric that PostgreSQL shows with other digits after the point than ours has."""
    type_ = type_of(node)
    number = type_.element if isinstance(type_, Array) else type_
    if isinstance(number, Decimal) and (number.scale >= LEAST_SCALE or not _shows_one_scale(node, type_of)):
        hint = f"how many digits are shown depends on the value: round it, {rounded}"
        raise NotMaintained(f"expression: numeric of computed digits as {form}", hint)


def _shows_one_scale(node: exp.Expr, type_of: TypeOf) -> bool:
    """Whether PostgreSQL shows as many digits after the point as our type says: `coalesce(x, 0)` may be 0 there."""
    node = node.unnest()
    type_ = type_of(node)
    values = _find_values(node)
    if values is None:
        return all(_shows_one_scale(part, type_of) for part in _find_computed(node))
    scales = {_scale_of(type_of(value)) for value in values if not isinstance(value.unnest(), exp.Null)}
    wanted = _scale_of(type_.element if isinstance(type_, Array) else type_)
    return scales <= {wanted} and all(_shows_one_scale(value, type_of) for value in values)


def _find_values(node: exp.Expr) -> list[exp.Expr] | None:
    """What a node is one of, or made of as an array; None if it is computed."""
    if isinstance(node, exp.Case):
        default = node.args.get("default")
        return [*(branch.args["true"] for branch in node.args["ifs"]), *([] if default is None else [default])]
    if isinstance(node, exp.Array) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in ("coalesce", "greatest", "least")
    ):
        return list(node.expressions)
    return None


def _find_computed(node: exp.Expr) -> list[exp.Expr]:
    """The parts whose digits a value shows, too."""
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        return [node.this, node.expression]
    is_kept = isinstance(node, exp.Anonymous) and node.name.lower() in ("sum", "min", "max", "abs", "nullif")
    return list(node.expressions[:1]) if is_kept and not isinstance(node.expressions[0], exp.Distinct) else []


def _scale_of(type_: Type) -> int:
    return type_.scale if isinstance(type_, Decimal) else 0
