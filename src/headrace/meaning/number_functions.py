"""Functions of numbers beyond the few that most queries use: what they take and what they give."""

from __future__ import annotations

from headrace.meaning.function import Function, Parameter
from headrace.meaning.scalar_to_number import read_pattern
from headrace.model.expr import Expr, Literal
from headrace.model.promotion import MAX_PRECISION, arithmetic_type
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, NULL, STRING, TINYINT, Decimal, Type

_NUMBER, _DOUBLE, _INTEGER = Parameter.NUMBER, Parameter.DOUBLE, Parameter.INTEGER


def _first(arguments: tuple[Expr, ...]) -> Type:
    return arguments[0].type


def type_of_round(arguments: tuple[Expr, ...]) -> Type:
    type_ = arguments[0].type
    if not isinstance(type_, Decimal):
        return type_
    asked = arguments[1] if len(arguments) > 1 else None
    digits = asked.value if isinstance(asked, Literal) and isinstance(asked.value, int) else 0
    whole = type_.precision - type_.scale + 1
    if digits < 0:
        return Decimal(min(MAX_PRECISION, max(whole, 1 - digits)), 0)
    scale = min(type_.scale, digits)
    return Decimal(min(MAX_PRECISION, whole + scale), scale)


def _type_of_pattern(arguments: tuple[Expr, ...]) -> Type:
    asked = arguments[1]
    pattern = read_pattern(asked.value) if isinstance(asked, Literal) and isinstance(asked.value, str) else None
    return NULL if pattern is None else pattern.type


def _type_of_try(operator: str) -> Function:
    """`try_add` and its kin are NULL where `+` and its kin fail."""
    return Function(
        _TRY_NAMES[operator],
        (_NUMBER, _NUMBER),
        lambda arguments: arithmetic_type(operator, arguments[0].type, arguments[1].type),
        total=True,
    )


_TRY_NAMES = {"+": "try_add", "-": "try_subtract", "*": "try_multiply", "/": "try_divide", "%": "try_mod"}
TRIED = {name: operator for operator, name in _TRY_NAMES.items()}
"""The operators that are tried, by the names of the functions that try them."""

_CURVES = ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cot", "csc", "sec", "cbrt", "expm1", "log1p")

NUMBER_FUNCTIONS: tuple[Function, ...] = (
    *(Function(name, (_INTEGER, _INTEGER), _first, total=True) for name in ("&", "|", "^")),
    Function("~", (_INTEGER,), _first, total=True),
    *(
        Function(name, (_INTEGER, Parameter.INT), _first, total=True)
        for name in ("shiftleft", "shiftright", "shiftrightunsigned")
    ),
    Function("bit_count", (Parameter.BIGINT,), INT, total=True),
    Function("bit_get", (_INTEGER, Parameter.INT), TINYINT),
    Function("bin", (Parameter.BIGINT,), STRING, total=True),
    Function("conv", (Parameter.TEXT, Parameter.INT, Parameter.INT), STRING),
    Function("factorial", (Parameter.INT,), BIGINT, total=True),
    *(Function(name, (_DOUBLE,), DOUBLE, total=True) for name in _CURVES),
    Function("hypot", (_DOUBLE, _DOUBLE), DOUBLE, total=True),
    Function("log", (_DOUBLE, _DOUBLE), DOUBLE, total=True),
    Function("bround", (_NUMBER, Parameter.INT), type_of_round, optional=1, constant=(1,)),
    Function("width_bucket", (_DOUBLE, _DOUBLE, _DOUBLE, Parameter.BIGINT), BIGINT),
    Function("isnan", (_DOUBLE,), BOOLEAN, total=True, sees_null=True),
    Function("nanvl", (_DOUBLE, _DOUBLE), DOUBLE, total=True, sees_null=True),
    *(_type_of_try(operator) for operator in _TRY_NAMES),
    Function("to_number", (Parameter.TEXT, Parameter.TEXT), _type_of_pattern, constant=(1,)),
    Function("try_to_number", (Parameter.TEXT, Parameter.TEXT), _type_of_pattern, constant=(1,), total=True),
    Function("try_cast", (Parameter.ANY,), _first, total=True),
)
