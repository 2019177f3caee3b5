"""What rewriting may rely on: how functions treat NULL, whether they can fail, which of their arguments may change
places.
"""

from __future__ import annotations

from headrace.meaning.functions import FUNCTIONS, PYTHON_PREFIX
from headrace.model.expr import Call, Column, Expr, Literal, walk
from headrace.model.types import FRACTIONS, INTEGERS, Decimal, Kind, Simple, Type, as_decimal, is_numeric

SEES_NULL = frozenset(
    (
        "and",
        "or",
        "case",
        "coalesce",
        "in",
        "is_null",
        "<=>",
        "nullif",
        "greatest",
        "least",
        "concat_ws",
        "now",
        "only_row",
        *(function.name for function in FUNCTIONS.values() if function.sees_null),
    )
)
"""Functions whose value can be other than NULL when an argument is NULL."""

NEVER_FAILS = frozenset(
    (
        *("and", "or", "not", "=", "<>", "<", "<=", ">", ">=", "<=>", "in", "is_null", "case", "coalesce", "nullif"),
        *("greatest", "least", "now", "concat", "concat_ws", "lower", "upper", "trim", "ltrim", "rtrim", "reverse"),
        *("initcap", "length", "substring", "replace", "translate", "startswith", "endswith", "contains"),
        *("left", "right", "locate", "year", "quarter", "month", "day", "dayofweek", "dayofyear", "hour", "minute"),
        *("second", "datediff", "distance"),
        *(function.name for function in FUNCTIONS.values() if function.total),
    )
)
"""Functions that have a value for all arguments. Arithmetic may overflow, casts may not parse, patterns may be
wrong.
"""

NOT_FOLDED = frozenset(("lambda_variable", "sequence", "array_repeat"))
"""Calls that are no constants, or larger than the constants they are made of."""

NEVER_NULL = frozenset(("is_null", "<=>", "now"))


def is_strict(function: str) -> bool:
    """Whether one NULL among the arguments makes the result NULL."""
    return function not in SEES_NULL and not function.startswith(PYTHON_PREFIX)


def can_fail(expr: Expr) -> bool:
    """Whether evaluation may raise for some row. What can fail is kept behind what cannot, as the guards of a query
    expect.
    """
    return any(isinstance(node, Call) and not _never_fails(node) for node in walk(expr))


def lacks_answers(expr: Expr) -> bool:
    """Whether some ordinary row may have no answer, as after a division by zero. Numbers that become too large are not
    counted: they hardly ever do, and nearly all that is summed could.
    """
    return any(isinstance(node, Call) and not _never_fails(node) and not _may_only_grow(node) for node in walk(expr))


def _may_only_grow(call: Call) -> bool:
    is_arithmetic = call.function in ("+", "-", "*", "negate", "abs", "cast")
    return is_arithmetic and all(map(is_numeric, (call.type, *(argument.type for argument in call.arguments))))


def _never_fails(call: Call) -> bool:
    if call.function == "cast":
        return is_lossless(call.arguments[0].type, call.type)
    if call.function in ("+", "-", "*", "negate", "abs"):
        return call.type in FRACTIONS
    return call.function in NEVER_FAILS


def version_of(function: str) -> str:
    """The name under which a function is compared: a new version is another function."""
    return f"{function}@{FUNCTIONS[function].version}" if function in FUNCTIONS else function


def is_lossless(source: Type, target: Type) -> bool:
    """Whether a cast keeps every number: it then keeps equality and order as well."""
    if source == target:
        return True
    if source in INTEGERS and target in INTEGERS:
        return INTEGERS.index(_simple(source)) <= INTEGERS.index(_simple(target))
    if target in FRACTIONS:
        narrow = {Kind.FLOAT, Kind.TINYINT, Kind.SMALLINT, Kind.INT}
        return _simple(target).kind is Kind.DOUBLE and isinstance(source, Simple) and source.kind in narrow
    if isinstance(target, Decimal) and (isinstance(source, Decimal) or source in INTEGERS):
        exact = as_decimal(source)
        return exact.scale <= target.scale and exact.precision - exact.scale <= target.precision - target.scale
    return False


def _simple(type_: Type) -> Simple:
    assert isinstance(type_, Simple), f"not a simple type: {type_}"
    return type_


def nulls_with(expr: Expr, columns: frozenset[str]) -> bool:
    """Whether the expression is certainly NULL when all these columns are."""
    match expr:
        case Literal(value):
            return value is None
        case Column(name):
            return name in columns
        case Call(function, arguments):
            if is_strict(function):
                return any(nulls_with(argument, columns) for argument in arguments)
            if function in ("coalesce", "greatest", "least"):
                return all(nulls_with(argument, columns) for argument in arguments)
            return function in ("in", "nullif") and nulls_with(arguments[0], columns)
