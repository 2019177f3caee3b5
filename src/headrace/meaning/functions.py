"""The allow-list: every function that an expression may call, with what it takes and what type it gives.

Names, arguments and results are Spark's (ANSI). A function is named with its version wherever queries are compared; a
changed meaning is a new version. Every one depends on its arguments alone, except `now`. Their values are defined
elsewhere: here is only what a reader of queries needs. Functions declared in Python are not here; they are called
`python:NAME@VERSION`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.model.expr import Expr, Literal
from headrace.model.promotion import MAX_PRECISION, arithmetic_type
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Decimal,
    Type,
)


class Parameter(StrEnum):
    """What an argument may be. Numbers widen to `INT` and `DOUBLE`, dates and timestamps convert into each other.

    All arguments for `SAME` are converted to their common type; `NUMBER` and `ANY` stay as they are; `ATOMIC` becomes
    text.
    """

    BOOLEAN = "boolean"
    TEXT = "string"
    INT = "int"
    DOUBLE = "double"
    DATE = "date"
    TIMESTAMP = "timestamp"
    NUMBER = "a number"
    ATOMIC = "a simple type"
    ANY = "any type"
    SAME = "one type"


ResultRule = Callable[[tuple[Expr, ...]], Type]
"""The type of a call, from its arguments, which already have the types that the parameters ask for."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the list. The last `optional` parameters may be left out; the last one may be `repeated`.

    Arguments at the positions in `constant` must be literals.
    """

    name: str
    parameters: tuple[Parameter, ...]
    result: Type | ResultRule
    optional: int = 0
    repeated: bool = False
    constant: tuple[int, ...] = ()
    version: int = 1

    def accepts(self, count: int) -> bool:
        """Whether the function can be called with this many arguments."""
        fewest = len(self.parameters) - self.optional
        return fewest <= count and (self.repeated or count <= len(self.parameters))

    def parameter(self, position: int) -> Parameter:
        return self.parameters[min(position, len(self.parameters) - 1)]

    def result_type(self, arguments: tuple[Expr, ...]) -> Type:
        return self.result(arguments) if callable(self.result) else self.result

    @property
    def signature(self) -> str:
        """The signature as people read it: `round(a number[, int])`."""
        fewest = len(self.parameters) - self.optional
        shown = ", ".join(self.parameters[:fewest])
        shown += "".join(f"[, {parameter}]" for parameter in self.parameters[fewest:])
        return f"{self.name}({shown}{', ...' if self.repeated else ''})"


def _first(arguments: tuple[Expr, ...]) -> Type:
    return arguments[0].type


def _second(arguments: tuple[Expr, ...]) -> Type:
    return arguments[1].type


def _arithmetic(operator: str) -> ResultRule:
    return lambda arguments: arithmetic_type(operator, arguments[0].type, arguments[1].type)


def _whole(arguments: tuple[Expr, ...]) -> Type:
    """The type of `ceil` and `floor`."""
    type_ = arguments[0].type
    return Decimal(min(MAX_PRECISION, type_.precision - type_.scale + 1), 0) if isinstance(type_, Decimal) else BIGINT


def _type_of_round(arguments: tuple[Expr, ...]) -> Type:
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


def _operators() -> tuple[Function, ...]:
    same, number, boolean = Parameter.SAME, Parameter.NUMBER, Parameter.BOOLEAN
    return (
        Function("and", (boolean, boolean), BOOLEAN, repeated=True),
        Function("or", (boolean, boolean), BOOLEAN, repeated=True),
        Function("not", (boolean,), BOOLEAN),
        *(Function(name, (same, same), BOOLEAN) for name in ("=", "<>", "<", "<=", ">", ">=", "<=>")),
        *(Function(name, (number, number), _arithmetic(name)) for name in ("+", "-", "*", "/", "div", "%")),
        Function("negate", (number,), _first),
        Function("in", (same, same), BOOLEAN, repeated=True),
        Function("is_null", (Parameter.ANY,), BOOLEAN),
        Function("case", (boolean, same, same), _second, repeated=True),
        Function("cast", (Parameter.ANY,), _first),
        Function("now", (), TIMESTAMP),
        Function("coalesce", (same,), _first, repeated=True),
        Function("nullif", (Parameter.ANY, Parameter.ANY), _first),
        Function("greatest", (same, same), _first, repeated=True),
        Function("least", (same, same), _first, repeated=True),
    )


def _strings() -> tuple[Function, ...]:
    text, number = Parameter.TEXT, Parameter.INT
    return (
        Function("concat", (Parameter.ATOMIC,), STRING, repeated=True),
        Function("concat_ws", (text, Parameter.ATOMIC), STRING, repeated=True),
        *(
            Function(name, (text,), STRING)
            for name in ("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "md5", "initcap")
        ),
        Function("length", (text,), INT),
        Function("substring", (text, number, number), STRING, optional=1),
        Function("replace", (text, text, text), STRING, optional=1),
        Function("translate", (text, text, text), STRING),
        Function("split_part", (text, text, number), STRING),
        Function("regexp_extract", (text, text, number), STRING, optional=1, constant=(1,)),
        Function("rlike", (text, text), BOOLEAN, constant=(1,)),
        Function("like", (text, text, text), BOOLEAN, optional=1, constant=(2,)),
        *(Function(name, (text, text), BOOLEAN) for name in ("startswith", "endswith", "contains")),
        *(Function(name, (text, number, text), STRING, optional=1) for name in ("lpad", "rpad")),
        *(Function(name, (text, number), STRING) for name in ("left", "right", "repeat")),
        Function("locate", (text, text), INT),
    )


def _numbers() -> tuple[Function, ...]:
    number, double = Parameter.NUMBER, Parameter.DOUBLE
    one = (
        *("sign", "sqrt", "exp", "ln", "log10", "log2", "sin", "cos", "tan", "asin", "acos", "atan"),
        *("radians", "degrees"),
    )
    return (
        Function("abs", (number,), _first),
        Function("ceil", (number,), _whole),
        Function("floor", (number,), _whole),
        Function("round", (number, Parameter.INT), _type_of_round, optional=1, constant=(1,)),
        Function("pmod", (number, number), _arithmetic("pmod")),
        *(Function(name, (double,), DOUBLE) for name in one),
        *(Function(name, (double, double), DOUBLE) for name in ("power", "atan2")),
        Function("distance", (double, double, double, double), DOUBLE),
    )


def _dates() -> tuple[Function, ...]:
    date, time, number = Parameter.DATE, Parameter.TIMESTAMP, Parameter.INT
    return (
        *(Function(name, (date,), INT) for name in ("year", "quarter", "month", "day", "dayofweek", "dayofyear")),
        *(Function(name, (time,), INT) for name in ("hour", "minute", "second")),
        Function("date_trunc", (Parameter.TEXT, time), TIMESTAMP, constant=(0,)),
        *(Function(name, (date, number), DATE) for name in ("date_add", "date_sub", "add_months")),
        Function("datediff", (date, date), INT),
        Function("last_day", (date,), DATE),
        Function("make_date", (number, number, number), DATE),
        Function("date_format", (time, Parameter.TEXT), STRING, constant=(1,)),
        Function("unix_timestamp", (time,), BIGINT),
    )


FUNCTION_GROUPS: Mapping[str, tuple[Function, ...]] = {
    "operators": _operators(),
    "strings": _strings(),
    "numbers": _numbers(),
    "dates and times": _dates(),
}
FUNCTIONS: Mapping[str, Function] = {
    function.name: function for group in FUNCTION_GROUPS.values() for function in group
}
PYTHON_PREFIX = "python:"


def is_allowed(name: str) -> bool:
    """Whether a `Call.function` is on the list, or names a declared Python function."""
    return name in FUNCTIONS or name.startswith(PYTHON_PREFIX)
