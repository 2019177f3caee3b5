"""Functions by the name that was written: other spellings become one, arguments get the types that the allow-list asks
for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from headrace.declare.query import operators
from headrace.declare.query.known_functions import KNOWN, NONDETERMINISTIC, TABLE_FUNCTIONS
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.operators import call, cast, compare, condition, convert, unify
from headrace.model.catalogue import PythonFunction
from headrace.model.errors import nearest_name
from headrace.model.expr import Call, Expr, Literal
from headrace.model.functions import FUNCTIONS, PYTHON_PREFIX, Function, Parameter
from headrace.model.promotion import common_type
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Type,
    is_numeric,
)

NOW = Call("now", (), TIMESTAMP)
TODAY = Call("cast", (NOW,), DATE)

ALIASES: Mapping[str, str] = {
    "btrim": "trim",
    "ceiling": "ceil",
    "char_length": "length",
    "character_length": "length",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "dayofmonth": "day",
    "lcase": "lower",
    "len": "length",
    "pow": "power",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "signum": "sign",
    "to_unix_timestamp": "unix_timestamp",
    "ucase": "upper",
}

CASTS: Mapping[str, Type] = {
    "bigint": BIGINT,
    "binary": BINARY,
    "boolean": BOOLEAN,
    "date": DATE,
    "decimal": Decimal(10, 0),
    "double": DOUBLE,
    "float": FLOAT,
    "int": INT,
    "smallint": SMALLINT,
    "string": STRING,
    "timestamp": TIMESTAMP,
    "tinyint": TINYINT,
    "to_date": DATE,
    "to_timestamp": TIMESTAMP,
}

_PARTS: Mapping[str, str] = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
}

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_UNIT_ALIASES = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY"}

_DEFAULTS: Mapping[str, Literal] = {
    "lpad": Literal(" ", STRING),
    "regexp_extract": Literal(1, INT),
    "replace": Literal("", STRING),
    "round": Literal(0, INT),
    "rpad": Literal(" ", STRING),
}
"""Last arguments that may be left out are filled in, so that both spellings are one query."""


def function(name: str, arguments: Sequence[Expr], declared: Mapping[str, PythonFunction]) -> Expr:
    """What a call by name means. `declared` are the Python functions, by folded name."""
    name = name.lower()
    if name in declared:
        return _python(declared[name], arguments)
    name = ALIASES.get(name, name)
    if name in REWRITES:
        fewest, most, rewrite = REWRITES[name]
        _check_count(name, len(arguments), fewest, most)
        return rewrite(*arguments)
    if name in CASTS and name not in FUNCTIONS:
        _check_count(name, len(arguments), 1, 1)
        return cast(arguments[0], CASTS[name])
    if name in FUNCTIONS and name.isidentifier() and name not in ("and", "or", "not", "case", "cast", "negate"):
        return apply(FUNCTIONS[name], arguments)
    raise _unknown(name, declared)


def apply(entry: Function, arguments: Sequence[Expr]) -> Expr:
    """A function of the allow-list with converted arguments."""
    if not entry.accepts(len(arguments)):
        raise Mistake(f'function "{entry.name}" does not take {_counted(len(arguments))}', f"it is {entry.signature}")
    if len(arguments) == len(entry.parameters) - 1 and entry.name in _DEFAULTS:
        arguments = (*arguments, _DEFAULTS[entry.name])
    if entry.name in _CHECKED:
        arguments = _CHECKED[entry.name](*arguments)
    if entry.parameters and entry.parameters[0] == Parameter.SAME:
        converted = unify(arguments)
    else:
        converted = tuple(_argument(entry, position, argument) for position, argument in enumerate(arguments))
    for position in entry.constant:
        if position < len(converted) and not isinstance(converted[position], Literal):
            raise NotMaintained(
                f"function: {entry.name}", f'argument {position + 1} of "{entry.name}" must be a constant'
            )
    return call(entry.name, converted, entry.result_type(converted))


def _argument(entry: Function, position: int, expr: Expr) -> Expr:
    try:
        return as_parameter(expr, entry.parameter(position))
    except Mistake as mistake:
        hint = mistake.hint or f"it is {entry.signature}"
        raise Mistake(f'argument {position + 1} of "{entry.name}": {mistake.message}', hint) from None


_TARGETS: Mapping[Parameter, Type] = {
    Parameter.BOOLEAN: BOOLEAN,
    Parameter.TEXT: STRING,
    Parameter.INT: INT,
    Parameter.DOUBLE: DOUBLE,
    Parameter.DATE: DATE,
    Parameter.TIMESTAMP: TIMESTAMP,
}


def as_parameter(expr: Expr, parameter: Parameter) -> Expr:
    """The argument in the type that a parameter asks for."""
    if parameter in (Parameter.ANY, Parameter.SAME):
        return expr
    if parameter == Parameter.NUMBER:
        if expr.type == NULL:
            return convert(expr, DOUBLE)
        if not is_numeric(expr.type):
            raise Mistake(f"{expr.type} is not a number")
        return expr
    if parameter == Parameter.ATOMIC:
        if isinstance(expr.type, Array) or expr.type == BINARY:
            raise Mistake(f"{expr.type} cannot become text")
        return cast(expr, STRING)
    return widen(expr, _TARGETS[parameter])


def widen(expr: Expr, type_: Type) -> Expr:
    """The expression in a wider type, dates and timestamps in each other, constants in whatever they can be read as."""
    between = {expr.type, type_} == {DATE, TIMESTAMP}
    constant = isinstance(expr, Literal) and expr.type == STRING
    integer = isinstance(expr, Literal) and isinstance(expr.value, int) and type_ == INT and expr.type == BIGINT
    if between or constant or integer or common_type(expr.type, type_) == type_:
        return convert(expr, type_)
    raise Mistake(f"{expr.type} is not {type_}", "it needs an explicit CAST")


def _check_count(name: str, count: int, fewest: int, most: int | None) -> None:
    if count < fewest or (most is not None and count > most):
        expected = str(fewest) if most == fewest else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise Mistake(f'function "{name}" takes {expected} arguments, not {count}')


def _counted(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def _python(entry: PythonFunction, arguments: Sequence[Expr]) -> Expr:
    count = len(entry.arguments)
    _check_count(entry.name, len(arguments), count, count)
    converted = []
    for position, (argument, type_) in enumerate(zip(arguments, entry.arguments, strict=True)):
        try:
            converted.append(widen(argument, type_))
        except Mistake as mistake:
            raise Mistake(f'argument {position + 1} of "{entry.name}": {mistake.message}', mistake.hint) from None
    return call(f"{PYTHON_PREFIX}{entry.name}@{entry.version}", converted, entry.returns)


def _unknown(name: str, declared: Mapping[str, PythonFunction]) -> Exception:
    callable_names = {*filter(str.isidentifier, FUNCTIONS), *REWRITES, *ALIASES, *declared}
    near = nearest_name(name, callable_names)
    if name in NONDETERMINISTIC:
        return NotMaintained(f"nondeterministic function: {name}")
    if name in TABLE_FUNCTIONS:
        return NotMaintained(f"table function: {name}")
    if name in KNOWN:
        return NotMaintained(f"function: {name}", near)
    return Mistake(f'function "{name}" does not exist', near or "docs/sql.md lists all functions")


def date_part(part: str, value: Expr) -> Expr:
    """EXTRACT(part FROM value)."""
    name = _PARTS.get(part.lower())
    if name is None:
        hint = (
            "use second(ts)"
            if part.lower().startswith("sec")
            else f"parts are {', '.join(sorted(set(_PARTS.values())))}"
        )
        raise NotMaintained(f"function: extract({part.lower()})", hint)
    return apply(FUNCTIONS[name], (value,))


def _part_by_name(part: Expr, value: Expr) -> Expr:
    if not (isinstance(part, Literal) and isinstance(part.value, str)):
        raise NotMaintained("function: date_part", "name the part by a constant")
    return date_part(part.value, value)


def _choice(test: Expr, yes: Expr, no: Expr) -> Expr:
    return operators.case((test,), (yes,), no)


def is_null(value: Expr) -> Expr:
    return call("is_null", (value,), BOOLEAN)


def is_not_null(value: Expr) -> Expr:
    return operators.negate_condition(is_null(value))


def _decode(value: Expr, *pairs: Expr) -> Expr:
    """Pairs of an option and its result, then perhaps a default; NULL matches NULL."""
    options, results = pairs[: len(pairs) // 2 * 2 : 2], pairs[1 : len(pairs) // 2 * 2 : 2]
    default = pairs[-1] if len(pairs) % 2 else operators.UNKNOWN
    return operators.case([compare("<=>", value, option) for option in options], results, default)


def _nullif(value: Expr, other: Expr) -> Expr:
    equal = compare("=", value, other)
    if value.type == other.type or isinstance(equal, Literal):
        return call("nullif", (value, other), value.type) if value.type == other.type else value
    return operators.case((equal,), (Literal(None, value.type),), value)


def ilike(text: Expr, pattern: Expr) -> Expr:
    """LIKE without case, as Spark does it: both in lower case."""
    lower = FUNCTIONS["lower"]
    return apply(FUNCTIONS["like"], (apply(lower, (text,)), apply(lower, (pattern,))))


def _trunc_arguments(unit: Expr, value: Expr) -> tuple[Expr, ...]:
    name = str(unit.value).upper() if isinstance(unit, Literal) else None
    if name is None:
        return unit, value
    name = _UNIT_ALIASES.get(name, name)
    if name not in _UNITS:
        raise Mistake(f"{operators.shown(unit)} is not a unit of time", f"units are {', '.join(_UNITS)}")
    return Literal(name, STRING), value


def _format_arguments(value: Expr, pattern: Expr) -> tuple[Expr, ...]:
    """Only patterns that mean the same everywhere."""
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        letters = re.sub(r"yyyy|MM|dd|HH|mm|ss|'[^']*'", "", pattern.value)
        if any(character.isalpha() for character in letters):
            raise NotMaintained("function: date_format", "patterns are made of yyyy, MM, dd, HH, mm and ss")
    return value, pattern


_CHECKED: Mapping[str, Callable[..., tuple[Expr, ...]]] = {
    "date_format": _format_arguments,
    "date_trunc": _trunc_arguments,
}

REWRITES: Mapping[str, tuple[int, int | None, Callable[..., Expr]]] = {
    "curdate": (0, 0, lambda: TODAY),
    "current_date": (0, 0, lambda: TODAY),
    "current_timestamp": (0, 0, lambda: NOW),
    "date_part": (2, 2, _part_by_name),
    "datepart": (2, 2, _part_by_name),
    "decode": (3, None, _decode),
    "e": (0, 0, lambda: Literal(2.718281828459045, DOUBLE)),
    "if": (3, 3, _choice),
    "ifnull": (2, 2, lambda a, b: apply(FUNCTIONS["coalesce"], (a, b))),
    "iif": (3, 3, _choice),
    "ilike": (2, 2, ilike),
    "instr": (2, 2, lambda text, part: apply(FUNCTIONS["locate"], (part, text))),
    "charindex": (2, 2, lambda part, text: apply(FUNCTIONS["locate"], (part, text))),
    "isnotnull": (1, 1, is_not_null),
    "isnull": (1, 1, is_null),
    "log": (1, 1, lambda value: apply(FUNCTIONS["ln"], (value,))),
    "mod": (2, 2, lambda a, b: operators.arithmetic("%", a, b)),
    "not": (1, 1, lambda value: operators.negate_condition(condition(value))),
    "now": (0, 0, lambda: NOW),
    "nullif": (2, 2, _nullif),
    "nvl": (2, 2, lambda a, b: apply(FUNCTIONS["coalesce"], (a, b))),
    "nvl2": (3, 3, lambda value, some, none: operators.case((is_not_null(value),), (some,), none)),
    "pi": (0, 0, lambda: Literal(3.141592653589793, DOUBLE)),
    "pmod": (2, 2, lambda a, b: operators.arithmetic("pmod", a, b)),
}
"""Fewest and most arguments, and what the call becomes."""
