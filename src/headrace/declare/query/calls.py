"""Functions by the name that was written: other spellings become one; what is known but not on the list is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from headrace.declare.query import operators
from headrace.declare.query.arguments import apply, apply_python
from headrace.declare.query.known_functions import KNOWN, NONDETERMINISTIC, TABLE_FUNCTIONS
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.operators import call, cast, compare
from headrace.meaning.functions import FUNCTIONS
from headrace.model.catalogue import PythonFunction
from headrace.model.errors import nearest_name
from headrace.model.expr import Call, Expr, Literal
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Decimal,
    Type,
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

_NOT_BY_NAME = ("and", "or", "case", "cast", "negate", "is_null", "in")
"""Operators that have a syntax and cannot be called like a function."""


def function(name: str, arguments: Sequence[Expr], declared: Mapping[str, PythonFunction]) -> Expr:
    """What a call by name means. `declared` are the Python functions, by folded name."""
    name = name.lower()
    if name in declared:
        return apply_python(declared[name], arguments)
    name = ALIASES.get(name, name)
    if name in REWRITES:
        fewest, most, rewrite = REWRITES[name]
        _check_count(name, len(arguments), fewest, most)
        return rewrite(*arguments)
    if name in CASTS:
        _check_count(name, len(arguments), 1, 1)
        return cast(arguments[0], CASTS[name])
    if name in FUNCTIONS and name not in _NOT_BY_NAME:
        return apply(FUNCTIONS[name], arguments)
    raise _unknown(name, declared)


def _check_count(name: str, count: int, fewest: int, most: int | None) -> None:
    if count < fewest or (most is not None and count > most):
        expected = str(fewest) if most == fewest else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise Mistake(f'function "{name}" takes {expected} arguments, not {count}')


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
        parts = ", ".join(sorted(set(_PARTS.values())))
        hint = "use second(ts)" if part.lower().startswith("sec") else f"parts are {parts}"
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
    """The operator ILIKE, as Spark does it: both in lower case."""
    lower = FUNCTIONS["lower"]
    return apply(FUNCTIONS["like"], (apply(lower, (text,)), apply(lower, (pattern,))))


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
    "ilike": (2, 2, ilike),
    "instr": (2, 2, lambda text, part: apply(FUNCTIONS["locate"], (part, text))),
    "isnotnull": (1, 1, is_not_null),
    "isnull": (1, 1, is_null),
    "log": (1, 1, lambda value: apply(FUNCTIONS["ln"], (value,))),
    "mod": (2, 2, lambda a, b: operators.arithmetic("%", a, b)),
    "not": (1, 1, lambda value: operators.negate_condition(value)),
    "now": (0, 0, lambda: NOW),
    "nullif": (2, 2, _nullif),
    "nvl": (2, 2, lambda a, b: apply(FUNCTIONS["coalesce"], (a, b))),
    "nvl2": (3, 3, lambda value, some, none: operators.case((is_not_null(value),), (some,), none)),
    "pi": (0, 0, lambda: Literal(3.141592653589793, DOUBLE)),
    "pmod": (2, 2, lambda a, b: operators.arithmetic("pmod", a, b)),
}
"""Fewest and most arguments, and what the call becomes."""
