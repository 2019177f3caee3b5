"""Typed operators: operands are converted to the types in which they meet, and constants are computed at once.

Conversions are explicit in the result (`cast`), so that an evaluator needs no rules about types. A constant
takes the type of what it meets: `price > 5` compares decimals, `day > '1995-01-01'` dates.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from headrace.declare.query.literals import decimal_of, negate
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.meaning.scalar import evaluate
from headrace.model.errors import EvaluationError
from headrace.model.expr import FALSE, Call, Expr, Literal, conjunction, conjuncts
from headrace.model.promotion import arithmetic_type, common_type, common_type_of, operand_types
from headrace.model.types import (
    BOOLEAN,
    DATE,
    DAY_TIME,
    DOUBLE,
    INT,
    INTEGERS,
    INTERVALS,
    NULL,
    STRING,
    TIMESTAMP,
    YEAR_MONTH,
    Array,
    Decimal,
    Type,
    is_numeric,
)

UNKNOWN = Literal(None, NULL)
"""Stands for an expression with a mistake: it fits everywhere, so that the mistake is reported once."""

_NOT_FOLDED = (
    "now",
    "lambda_variable",
    "sequence",
    "array_repeat",
    "split",
    "regexp_extract_all",
    "repeat",
    "lpad",
    "rpad",
    "like",
    "rlike",
    "regexp_extract",
    "regexp_replace",
)
"""Not computed while reading: `now` depends on the time, the others could take long or grow large."""


def call(function: str, arguments: Sequence[Expr], type_: Type) -> Expr:
    """A call, or its value when all arguments are constants. One that fails (1/0) is left to fail when it runs."""
    made = Call(function, tuple(arguments), type_)
    if function in _NOT_FOLDED or function.startswith(PYTHON_PREFIX):
        return made
    if not all(isinstance(argument, Literal) for argument in made.arguments):
        return made
    try:
        return Literal(evaluate(made, {}), type_)
    except EvaluationError:
        return made


def convert(expr: Expr, type_: Type) -> Expr:
    """The expression in another type that it may take silently; a constant that does not fit is a mistake."""
    if expr.type == type_:
        return expr
    if not isinstance(expr, Literal):
        return Call("cast", (expr,), type_)
    converted = call("cast", (expr,), type_) if castable(expr.type, type_) else None
    if isinstance(converted, Literal):
        return converted
    raise Mistake(f"{show_constant(expr)} is not a value of type {type_}")


def cast(expr: Expr, type_: Type) -> Expr:
    """An explicit CAST."""
    if expr.type == type_:
        return expr
    if not castable(expr.type, type_):
        raise Mistake(f"a value of type {expr.type} cannot be cast to {type_}")
    return call("cast", (expr,), type_)


def castable(source: Type, target: Type) -> bool:
    """Which casts ANSI mode has."""
    if isinstance(source, Array) and (target == STRING or isinstance(target, Array)):
        return castable(source.element, STRING if target == STRING else target.element)  # type: ignore[union-attr]
    if NULL in (source, target) or isinstance(source, Array) or isinstance(target, Array):
        return source == NULL
    if source in INTERVALS or target in INTERVALS:
        return False
    if STRING in (source, target):
        return True
    plain = is_numeric(source) or source == BOOLEAN
    if is_numeric(target) or target == BOOLEAN:
        return plain or (source == TIMESTAMP and target != BOOLEAN)
    if target in (DATE, TIMESTAMP):
        return source in (DATE, TIMESTAMP) or (target == TIMESTAMP and is_numeric(source))
    return False


def show_constant(expr: Expr) -> str:
    """A constant in a message."""
    if isinstance(expr, Literal):
        return "NULL" if expr.value is None else f"'{expr.value}'" if isinstance(expr.value, str) else str(expr.value)
    return f"an expression of type {expr.type}"


def unify(exprs: Sequence[Expr], *, compared: bool = False) -> tuple[Expr, ...]:
    """All in their common type. Constant text takes the type of the rest; that of numbers only to be `compared`."""
    firm = common_type_of(expr.type for expr in exprs if not _is_text(expr))
    type_ = firm if firm is not None and (compared or not is_numeric(firm)) else None
    if type_ in (NULL, None):
        type_ = common_type_of(expr.type for expr in exprs)
    if type_ is None:
        names = " and ".join(dict.fromkeys(str(expr.type) for expr in exprs if expr.type != NULL))
        raise Mistake(f"values of type {names} have no common type", "it needs an explicit CAST")
    return tuple(convert(expr, type_) for expr in exprs)


def _is_text(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.type == STRING


def compare(operator: str, left: Expr, right: Expr) -> Expr:
    """`=`, `<>`, `<`, `<=`, `>`, `>=`, `<=>`."""
    try:
        return call(operator, unify(_exact_literals(left, right), compared=True), BOOLEAN)
    except Mistake as mistake:
        if common_type(left.type, right.type) is None and not (_is_text(left) or _is_text(right)):
            raise Mistake(f"cannot compare {left.type} with {right.type}", "it needs an explicit CAST") from None
        raise mistake


def _exact_literals(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """An integer constant beside a decimal is a decimal of its own digits, not of ten."""
    return _exact_literal(left, right), _exact_literal(right, left)


def _exact_literal(expr: Expr, other: Expr) -> Expr:
    exact = isinstance(expr, Literal) and expr.type in INTEGERS and isinstance(expr.value, int)
    if exact and isinstance(other.type, Decimal):
        assert isinstance(expr, Literal)
        assert isinstance(expr.value, int)
        return convert(expr, decimal_of(expr.value))
    return expr


def condition(expr: Expr) -> Expr:
    """An operand of AND, or a whole WHERE."""
    if expr.type not in (BOOLEAN, NULL):
        raise Mistake(f"a condition must be boolean, not {expr.type}")
    return convert(expr, BOOLEAN)


def connect(operator: str, operands: Sequence[Expr]) -> Expr:
    """`and`, `or` of any number of conditions, flat."""
    flat: list[Expr] = []
    for operand in map(condition, operands):
        same = isinstance(operand, Call) and operand.function == operator
        flat.extend(operand.arguments if isinstance(operand, Call) and same else (operand,))
    if operator == "or" and (common := _in_all(flat)):
        return _factor_out(flat, common)
    return flat[0] if len(flat) == 1 else call(operator, flat, BOOLEAN)


def _in_all(branches: Sequence[Expr]) -> list[Expr]:
    """Conditions that every branch of an OR has."""
    others = [conjuncts(branch) for branch in branches[1:]]
    return [part for part in conjuncts(branches[0]) if all(part in parts for parts in others)]


def _factor_out(branches: Sequence[Expr], common: Sequence[Expr]) -> Expr:
    """`(a AND x) OR (a AND y)` as `a AND (x OR y)`: what joins the tables is then seen to hold always."""
    rests = [tuple(part for part in conjuncts(branch) if part not in common) for branch in branches]
    if not all(rests):
        return connect("and", common)
    return connect("and", (*common, connect("or", [conjunction(rest) for rest in rests])))


def negate_condition(expr: Expr) -> Expr:
    return call("not", (condition(expr),), BOOLEAN)


def is_not_false(expr: Expr) -> Expr:
    return negate_condition(call("<=>", (expr, FALSE), BOOLEAN))


def arithmetic(operator: str, left: Expr, right: Expr, *, in_days: bool = False) -> Expr:
    """`+ - * / div % pmod`. `in_days`: the interval among the operands is written in days."""
    if left.type == NULL or right.type == NULL:
        left, right = _give_nulls_types(left, right)
    if is_numeric(left.type) and is_numeric(right.type):
        return _of_numbers(operator, *_exact_literals(left, right))
    if operator in ("+", "-"):
        result = _of_times(operator, left, right, in_days=in_days)
        if result is not None:
            return result
    if operator == "*" and (left.type in INTERVALS or right.type in INTERVALS):
        return _multiply(left, right)
    if STRING in (left.type, right.type):
        raise Mistake(f'"{operator}" of {left.type} and {right.type} needs an explicit CAST')
    raise Mistake(f'"{operator}" is not defined for {left.type} and {right.type}')


def _give_nulls_types(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    if left.type == right.type == NULL:
        return convert(left, DOUBLE), convert(right, DOUBLE)
    if right.type == NULL:
        return left, convert(right, INT if left.type == DATE else DAY_TIME if left.type == TIMESTAMP else left.type)
    return convert(left, right.type), right


def _of_numbers(operator: str, left: Expr, right: Expr) -> Expr:
    types = operand_types(operator, left.type, right.type)
    operands = (convert(left, types[0]), convert(right, types[1]))
    return call(operator, operands, arithmetic_type(operator, *types))


def _of_times(operator: str, left: Expr, right: Expr, *, in_days: bool) -> Expr | None:
    """Dates and timestamps plus or minus days and intervals, and their differences."""
    if left.type in INTERVALS and right.type in (DATE, TIMESTAMP) and operator == "+":
        left, right = right, left
    if left.type in INTERVALS and right.type == left.type:
        return _of_intervals(operator, left, right)
    if left.type == DATE and right.type in INTEGERS:
        return call("date_add" if operator == "+" else "date_sub", (left, convert(right, INT)), DATE)
    if left.type not in (DATE, TIMESTAMP):
        return None
    if right.type == YEAR_MONTH:
        return call(operator, (left, right), left.type)
    if right.type == DAY_TIME:
        type_ = DATE if left.type == DATE and in_days else TIMESTAMP
        return call(operator, (convert(left, type_), right), type_)
    if operator == "-" and right.type in (DATE, TIMESTAMP):
        if left.type == right.type == DATE:
            raise NotMaintained("expression: date - date", "use datediff(end, start), which gives days")
        return call("-", (convert(left, TIMESTAMP), convert(right, TIMESTAMP)), DAY_TIME)
    return None


def _of_intervals(operator: str, left: Expr, right: Expr) -> Expr:
    if isinstance(left, Literal) and isinstance(right, Literal):
        signed = right if operator == "+" else negate(right)
        if isinstance(left.value, dt.timedelta) and isinstance(signed.value, dt.timedelta):
            return Literal(left.value + signed.value, left.type)
        if isinstance(left.value, int) and isinstance(signed.value, int):
            return Literal(left.value + signed.value, left.type)
    raise NotMaintained("expression: interval arithmetic", "add intervals to times, or compare them with constants")


def _multiply(left: Expr, right: Expr) -> Expr:
    span, factor = (left, right) if left.type in INTERVALS else (right, left)
    if isinstance(span, Literal) and isinstance(factor, Literal) and isinstance(factor.value, int):
        if isinstance(span.value, dt.timedelta):
            return Literal(span.value * factor.value, span.type)
        if isinstance(span.value, int):
            return Literal(span.value * factor.value, span.type)
    raise NotMaintained("expression: interval arithmetic", "add intervals to times, or compare them with constants")


def minus(expr: Expr) -> Expr:
    if expr.type in INTERVALS and isinstance(expr, Literal):
        return negate(expr)
    if not (is_numeric(expr.type) or expr.type == NULL):
        raise Mistake(f'"-" is not defined for {expr.type}')
    return call("negate", (expr,), expr.type)


def case(conditions: Sequence[Expr], values: Sequence[Expr], otherwise: Expr) -> Expr:
    """CASE WHEN: the values and the ELSE meet in one type."""
    *unified, last = unify((*values, otherwise))
    arguments = [part for pair in zip(map(condition, conditions), unified, strict=True) for part in pair]
    return call("case", (*arguments, last), last.type)
