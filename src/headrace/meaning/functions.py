"""The allow-list: every function that an expression may call, with what it takes and what type it gives.

Names, arguments and results are Spark's (ANSI). A function is named with its version wherever queries are compared; a
changed meaning is a new version. Every one depends on its arguments alone, except `now`. Their values are defined
elsewhere: here is only what a reader of queries needs. Functions declared in Python are not here; they are called
`python:NAME@VERSION`.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.meaning.array_functions import ARRAY_FUNCTIONS
from headrace.meaning.function import Function, Parameter, ResultRule
from headrace.meaning.json_functions import JSON_FUNCTIONS, POSTGRES_JSON_FUNCTIONS
from headrace.meaning.number_functions import NUMBER_FUNCTIONS, type_of_round
from headrace.meaning.postgres_functions import POSTGRES_FUNCTIONS
from headrace.meaning.text_functions import BYTE_FUNCTIONS, TEXT_FUNCTIONS
from headrace.meaning.time_functions import TIME_FUNCTIONS
from headrace.model.expr import Expr
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
        Function("only_row", (Parameter.ANY, number), _first),
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
            for name in ("lower", "upper", "trim", "ltrim", "rtrim", "reverse", "initcap")
        ),
        Function("length", (text,), INT),
        Function("substring", (text, number, number), STRING, optional=1),
        Function("replace", (text, text, text), STRING, optional=1),
        Function("translate", (text, text, text), STRING),
        Function("split_part", (text, text, number), STRING),
        Function("regexp_extract", (text, text, number), STRING, optional=1, constant=(1,)),
        Function("regexp_replace", (text, text, text), STRING, constant=(1, 2)),
        Function("rlike", (text, text), BOOLEAN, constant=(1,)),
        Function("like", (text, text, text), BOOLEAN, optional=1, constant=(2,)),
        *(Function(name, (text, text), BOOLEAN) for name in ("startswith", "endswith", "contains")),
        *(Function(name, (text, number, text), STRING, optional=1) for name in ("lpad", "rpad")),
        *(Function(name, (text, number), STRING) for name in ("left", "right", "repeat")),
        Function("locate", (text, text, number), INT, optional=1, constant=(2,)),
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
        Function("round", (number, Parameter.INT), type_of_round, optional=1, constant=(1,)),
        Function("pmod", (number, number), _arithmetic("pmod")),
        *(Function(name, (double,), DOUBLE) for name in one),
        *(Function(name, (double, double), DOUBLE) for name in ("power", "atan2")),
        Function("rint", (double,), DOUBLE),
        Function("decimal15", (double,), Decimal(38, 18)),
        Function("distance", (double, double, double, double), DOUBLE),
    )


def _dates() -> tuple[Function, ...]:
    date, time, number = Parameter.DATE, Parameter.TIMESTAMP, Parameter.INT
    return (
        *(Function(name, (date,), INT) for name in ("year", "quarter", "month", "day", "dayofweek", "dayofyear")),
        *(Function(name, (date,), INT) for name in ("weekofyear", "weekday")),
        *(Function(name, (time,), INT) for name in ("hour", "minute", "second")),
        Function("date_trunc", (Parameter.TEXT, time), TIMESTAMP, constant=(0,)),
        *(Function(name, (date, number), DATE) for name in ("date_add", "date_sub", "add_months")),
        Function("datediff", (date, date), INT),
        Function("last_day", (date,), DATE),
        Function("make_date", (number, number, number), DATE),
        Function("date_format", (time, Parameter.TEXT), STRING, constant=(1,)),
        *(
            Function(name, (time, Parameter.TEXT), TIMESTAMP, constant=(1,))
            for name in ("from_utc_timestamp", "to_utc_timestamp")
        ),
        Function("unix_timestamp", (time,), BIGINT),
        Function("window_start", (time, Parameter.NUMBER, Parameter.NUMBER), TIMESTAMP, constant=(1, 2)),
    )


FUNCTION_GROUPS: Mapping[str, tuple[Function, ...]] = {
    "operators": _operators(),
    "strings": (*_strings(), *TEXT_FUNCTIONS),
    "bytes": BYTE_FUNCTIONS,
    "numbers": (*_numbers(), *NUMBER_FUNCTIONS),
    "dates and times": (*_dates(), *TIME_FUNCTIONS),
    "arrays": ARRAY_FUNCTIONS,
    "JSON": (*JSON_FUNCTIONS, *POSTGRES_JSON_FUNCTIONS, *POSTGRES_FUNCTIONS),
}
FUNCTIONS: Mapping[str, Function] = {
    function.name: function for group in FUNCTION_GROUPS.values() for function in group
}
PYTHON_PREFIX = "python:"


def is_allowed(name: str) -> bool:
    """Whether a `Call.function` is on the list, or names a declared Python function."""
    return name in FUNCTIONS or name.startswith(PYTHON_PREFIX)
