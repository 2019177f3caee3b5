"""Expressions as Spark SQL text, with the meaning that they have here.

Names of columns are quoted whole, so that dots and signs in them mean nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.meaning.array_functions import LAMBDAS
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.meaning.json_functions import ONLY_OURS
from headrace.meaning.scalar_number import EARTH_RADIUS_M
from headrace.model.errors import ConnectError
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.full_query import backquote
from headrace.model.types import FRACTIONS, Array, Type, Value

QUOTE = "'"
INFIX = ("=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "div", "%", "and", "or", "rlike", "&", "|", "^")
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0"}
_DISTANCE = (
    "(2 * {radius}D * asin(least(1D, sqrt(power(sin((radians({2}) - radians({0})) / 2), 2)"
    " + cos(radians({0})) * cos(radians({2})) * power(sin(radians({3} - {1}) / 2), 2)))))"
)


@dataclass(frozen=True, slots=True)
class SqlNames:
    """What names are in the text: columns (others are quoted as they are), functions declared in Python, and `now`."""

    columns: Mapping[str, str] = field(default_factory=dict)
    python: Mapping[str, str] = field(default_factory=dict)
    now: dt.datetime | None = None


NO_NAMES = SqlNames()


def spark_text(expr: Expr, names: SqlNames = NO_NAMES) -> str:
    match expr:
        case Column(name):
            return names.columns[name] if name in names.columns else backquote(name)
        case Literal(value, type_):
            return literal_text(value, type_)
        case Call("now"):
            assert names.now is not None, '"now" needs to be told the time'
            return literal_text(names.now, expr.type)
        case Call(_, arguments):
            return _call(expr, [spark_text(argument, names) for argument in arguments], names)


_SHAPES: Mapping[str, str] = {
    "is_null": "({0} IS NULL)",
    "not": "(NOT {0})",
    "negate": "(- {0})",
    "~": "(~ {0})",
    "cast": "CAST({0} AS {type})",
    "try_cast": "TRY_CAST({0} AS {type})",
    "trim_both": "TRIM(BOTH {1} FROM {0})",
    "trim_leading": "TRIM(LEADING {1} FROM {0})",
    "trim_trailing": "TRIM(TRAILING {1} FROM {0})",
    "decimal15": "CAST(format_number({0}, '0.00000000000000E0') AS {type})",
    "only_row": "CASE WHEN {1} > 1 THEN raise_error('a query used as a value has several rows, and at most one is"
    " allowed') ELSE {0} END",
    "element": "{0}[{1}]",
    "aggregate": "aggregate({0}, {1}, ({2}, {3}) -> {4})",
    "parse_timestamp": "to_timestamp({0}, {1})",
    "try_parse_timestamp": "try_to_timestamp({0}, {1})",
    "yearofweek": "extract(YEAROFWEEK FROM {0})",
    "second_part": "extract(SECOND FROM {0})",
    **{name: f"{name}({{0}}, {{1}} -> {{2}})" for name in LAMBDAS},
    "distance": _DISTANCE.replace("{radius}", str(float(EARTH_RADIUS_M))),
}
"""How calls of some functions are written, around their arguments and their type."""

_OTHER_NAMES = {"array_concat": "concat", "array_reverse": "reverse"}


def _call(call: Call, texts: list[str], names: SqlNames) -> str:
    if call.function in _SHAPES:
        return _SHAPES[call.function].format(*texts, type=call.type)
    match call.function:
        case "case":
            branches = zip(texts[:-1:2], texts[1:-1:2], strict=True)
            whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
            return f"CASE {whens} ELSE {texts[-1]} END"
        case "in":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        case "like":
            escape = f" ESCAPE {texts[2]}" if len(texts) > 2 else ""
            return f"({texts[0]} LIKE {texts[1]}{escape})"
        case "window_start":
            time, slide, offset = texts
            return (
                f"timestamp_micros(unix_micros({time}) - pmod(unix_micros({time}) - 1000 * {offset}, 1000 * {slide}))"
            )
        case "timestampdiff" | "timestampadd":
            return f"{call.function}({texts[0].strip(QUOTE)}, {', '.join(texts[1:])})"
        case "lambda_variable":
            return backquote(f"element {call.arguments[0]}")
        case function if function in INFIX:
            return "(" + f" {function} ".join(texts) + ")"
        case _ if is_for_workers(call):
            return f"{_python(signature_of(call), names)}({', '.join(texts)})"
        case function:
            return f"{_OTHER_NAMES.get(function, function)}({', '.join(texts)})"


def is_for_workers(call: Call) -> bool:
    """Whether Spark's workers call a function of Python's: one that the project declares, or one that Spark lacks."""
    return call.function.startswith(PYTHON_PREFIX) or call.function in ONLY_OURS


def signature_of(call: Call) -> str:
    """The name by which workers know a function: ours may do different things with values of different types."""
    if call.function in ONLY_OURS:
        return f"{call.function}({', '.join(str(argument.type) for argument in call.arguments)}): {call.type}"
    return call.function.removeprefix(PYTHON_PREFIX)


def _python(function: str, names: SqlNames) -> str:
    if function not in names.python:
        raise ConnectError(
            f'function "{function}" is declared in Python but was not given to Spark',
            hint="is its module in the project, and does the version in it match the declared one?",
        )
    return backquote(names.python[function])


def literal_text(value: Value, type_: Type) -> str:
    """Mostly text cast to the type, because few types have literals for all their values."""
    match value:
        case None:
            return f"CAST(NULL AS {type_})"
        case bool():
            return str(value).upper()
        case str():
            return "'" + "".join(_ESCAPES.get(character, character) for character in value) + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case tuple():
            assert isinstance(type_, Array), f"{value!r} is no {type_}"
            elements = ", ".join(literal_text(element, type_.element) for element in value)
            return f"CAST(array({elements}) AS {type_})"
        case dt.timedelta():
            return _day_time(value)
        case int() if str(type_) == "interval year to month":
            sign, (years, months) = "-" if value < 0 else "", divmod(abs(value), 12)
            return f"INTERVAL '{sign}{years}-{months}' YEAR TO MONTH"
        case _:
            return f"CAST('{value}' AS {type_})"


def _day_time(value: dt.timedelta) -> str:
    sign, size = ("-", -value) if value < dt.timedelta(0) else ("", value)
    minutes, seconds = divmod(size.seconds, 60)
    time = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{size.microseconds:06}"
    return f"INTERVAL '{sign}{size.days} {time}' DAY TO SECOND"


def normal_text(expr: Expr, names: SqlNames) -> str:
    """The value in the one form that is kept: adding zero makes 0.0 of -0.0 and changes nothing else."""
    text = spark_text(expr, names)
    return f"({text} + CAST(0 AS {expr.type}))" if expr.type in FRACTIONS else text
