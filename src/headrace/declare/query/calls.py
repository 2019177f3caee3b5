"""Functions by the name that was written: other spellings become one; what is known but not on the list is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from headrace.declare.query import operators
from headrace.declare.query.arguments import apply, apply_python, as_parameter
from headrace.declare.query.known_functions import KNOWN, NONDETERMINISTIC, TABLE_FUNCTIONS
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.operators import call, cast, compare
from headrace.meaning.array_functions import UNNAMED
from headrace.meaning.function import Parameter
from headrace.meaning.functions import FUNCTIONS
from headrace.meaning.json_functions import ONLY_OURS
from headrace.meaning.number_functions import TRIED
from headrace.meaning.scalar_calendar import DEFAULT_FORMAT
from headrace.meaning.scalar_json import ELEMENTS
from headrace.model.catalogue import PythonFunction
from headrace.model.errors import nearest_name
from headrace.model.expr import Call, Expr, Literal
from headrace.model.type_names import type_named
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
    Array,
    Decimal,
    Type,
    is_numeric,
)

NOW = Call("now", (), TIMESTAMP)
TODAY = Call("cast", (NOW,), DATE)

ALIASES: Mapping[str, str] = {
    "array_size": "size",
    "cardinality": "size",
    "ceiling": "ceil",
    "char_length": "length",
    "chr": "char",
    "character_length": "length",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "dayofmonth": "day",
    "getbit": "bit_get",
    "lcase": "lower",
    "len": "length",
    "position": "locate",
    "pow": "power",
    "printf": "format_string",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "sha": "sha1",
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
}

_PARTS: Mapping[str, str] = {
    **dict.fromkeys(("year", "y", "years", "yr", "yrs"), "year"),
    **dict.fromkeys(("quarter", "qtr"), "quarter"),
    **dict.fromkeys(("month", "mon", "mons", "months"), "month"),
    **dict.fromkeys(("day", "d", "days"), "day"),
    **dict.fromkeys(("dayofweek", "dow"), "dayofweek"),
    "doy": "dayofyear",
    **dict.fromkeys(("hour", "h", "hours", "hr", "hrs"), "hour"),
    **dict.fromkeys(("week", "w", "weeks"), "weekofyear"),
    "yearofweek": "yearofweek",
    **dict.fromkeys(("second", "s", "sec", "seconds", "secs"), "second_part"),
    **dict.fromkeys(("minute", "m", "min", "mins", "minutes"), "minute"),
}

NOT_BY_NAME = (
    "and",
    "or",
    "case",
    "cast",
    "negate",
    "is_null",
    "in",
    "only_row",
    "trim_both",
    "trim_leading",
    "trim_trailing",
    "window_start",
    *UNNAMED,
    "aggregate",
    "parse_timestamp",
    "second_part",
    "try_parse_timestamp",
    "yearofweek",
)
"""Operators that have a syntax and cannot be called like a function."""

_UNWRITTEN = ONLY_OURS | frozenset(NOT_BY_NAME)
"""What no hint names, since nobody is meant to write it."""


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
    if name in FUNCTIONS and name not in NOT_BY_NAME:
        return apply(FUNCTIONS[name], arguments)
    raise _unknown(name, declared)


def _check_count(name: str, count: int, fewest: int, most: int | None) -> None:
    if count < fewest or (most is not None and count > most):
        expected = str(fewest) if most == fewest else f"{fewest} or more" if most is None else f"{fewest} to {most}"
        raise Mistake(f'function "{name}" takes {expected} arguments, not {count}')


_MAPS = "keep names and values in two arrays: element_at(values, array_position(names, 'a'))"
_STRUCTS = "keep the parts in columns of their own"
_INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("map", "map_from_arrays", "map_keys", "map_values", "map_entries", "str_to_map"), _MAPS),
    **dict.fromkeys(("struct", "named_struct", "arrays_zip"), _STRUCTS),
    "to_json": "keep the values in columns: what reads the view can write JSON",
}
"""What to write in place of functions that are known and not maintained."""


def _unknown(name: str, declared: Mapping[str, PythonFunction]) -> Exception:
    near = nearest_name(name, ({*filter(str.isidentifier, FUNCTIONS), *REWRITES, *ALIASES} - _UNWRITTEN) | {*declared})
    if name in NONDETERMINISTIC:
        return NotMaintained(f"nondeterministic function: {name}")
    if name in TABLE_FUNCTIONS:
        return NotMaintained(f"table function: {name}")
    if name in KNOWN:
        return NotMaintained(f"function: {name}", _INSTEAD.get(name, near))
    return Mistake(f'function "{name}" does not exist', near or "docs/sql.md lists all functions")


def date_part(part: str, value: Expr) -> Expr:
    """EXTRACT(part FROM value)."""
    name = _PARTS.get(part.lower())
    if name is None:
        if part.lower() in ("dayofweek_iso", "dow_iso"):
            return operators.arithmetic("+", apply(FUNCTIONS["weekday"], (value,)), Literal(1, INT))
        raise NotMaintained(f"function: extract({part.lower()})", f"parts are {', '.join(sorted(_PARTS))}")
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
    """Pairs of an option and its result, then perhaps a default; NULL matches NULL. With a character set: its text."""
    if len(pairs) == 1:
        return apply(FUNCTIONS["decode"], (value, *pairs))
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


def _trim(one: str, some: str, *, text_first: bool) -> Callable[..., Expr]:
    """`trim` of spaces, or of the characters that a second argument names."""

    def rewrite(*arguments: Expr) -> Expr:
        if len(arguments) == 1:
            return apply(FUNCTIONS[one], arguments)
        return apply(FUNCTIONS[some], arguments if text_first else arguments[::-1])

    return rewrite


def _try(name: str) -> Callable[[Expr, Expr], Expr]:
    """Arithmetic that is NULL where it would fail."""

    def rewrite(left: Expr, right: Expr) -> Expr:
        made = operators.arithmetic(TRIED[name], left, right)
        if isinstance(made, Literal):
            return made
        if not (isinstance(made, Call) and made.function == TRIED[name] and is_numeric(made.type)):
            raise NotMaintained(f"function: {name} of {left.type} and {right.type}", "it is maintained for numbers")
        return call(name, made.arguments, made.type)

    return rewrite


def _bits(operator: str) -> Callable[[Expr, Expr], Expr]:
    return lambda left, right: apply(FUNCTIONS[operator], operators.unify((left, right)))


def _shift(name: str) -> Callable[[Expr, Expr], Expr]:
    """Numbers of fewer than 32 bits become int."""

    def rewrite(value: Expr, distance: Expr) -> Expr:
        wide = value if value.type == BIGINT else as_parameter(value, Parameter.INT)
        return apply(FUNCTIONS[name], (wide, distance))

    return rewrite


def try_cast(value: Expr, type_: Type) -> Expr:
    """CAST, or NULL where it would fail."""
    made = cast(value, type_)
    if isinstance(made, Call) and made.function == "cast" and made.arguments == (value,):
        return call("try_cast", made.arguments, made.type)
    return made


def _zero(value: Expr) -> Expr:
    return operators.convert(Literal(0, INT), value.type) if is_numeric(value.type) else Literal(0, INT)


def concat(*values: Expr) -> Expr:
    """Texts, or arrays, one after the other."""
    if any(isinstance(value.type, Array) for value in values):
        return apply(FUNCTIONS["array_concat"], values)
    return apply(FUNCTIONS["concat"], values)


def _from_json(text: Expr, schema: Expr) -> Expr:
    type_ = type_named(str(schema.value)) if isinstance(schema, Literal) else None
    if not (isinstance(type_, Array) and type_.element in ELEMENTS):
        hint = "it reads arrays: from_json(x, 'array<string>'); use get_json_object(x, '$.a.b') for parts of objects"
        raise NotMaintained(f"function: from_json as {operators.show_constant(schema)}", hint)
    made = apply(FUNCTIONS["from_json"], (text, schema))
    return replace(made, type=type_) if isinstance(made, Call) else call("from_json", (text, schema), type_)


def _time_by_pattern(type_: Type, *, tried: bool = False) -> Callable[..., Expr]:
    """`to_date`, `to_timestamp` and their kin: a cast, or read by a pattern."""

    def rewrite(value: Expr, *pattern: Expr) -> Expr:
        if not pattern or value.type != STRING:
            return try_cast(value, type_) if tried else cast(value, type_)
        name = "try_parse_timestamp" if tried else "parse_timestamp"
        return cast(apply(FUNCTIONS[name], (value, *pattern)), type_)

    return rewrite


def _unix_timestamp(value: Expr, *pattern: Expr) -> Expr:
    if value.type != STRING:
        return apply(FUNCTIONS["unix_timestamp"], (value,))
    pattern = pattern or (Literal(DEFAULT_FORMAT, STRING),)
    return apply(FUNCTIONS["unix_timestamp"], (apply(FUNCTIONS["parse_timestamp"], (value, *pattern)),))


def _by_unit(name: str, otherwise: str) -> Callable[..., Expr]:
    """`datediff(unit, a, b)` and `dateadd(unit, n, t)`, which without a unit count days."""
    return lambda *values: apply(FUNCTIONS[name if len(values) == 3 else otherwise], values)


def _reverse(value: Expr) -> Expr:
    return apply(FUNCTIONS["array_reverse" if isinstance(value.type, Array) else "reverse"], (value,))


def element(array: Expr, place: Expr) -> Expr:
    """`array[place]`, counted from 0."""
    if not isinstance(array.type, Array):
        raise Mistake(f"{array.type} has no elements")
    return apply(FUNCTIONS["element"], (array, place))


REWRITES: Mapping[str, tuple[int, int | None, Callable[..., Expr]]] = {
    "&": (2, 2, _bits("&")),
    "^": (2, 2, _bits("^")),
    "btrim": (1, 2, _trim("trim", "trim_both", text_first=True)),
    "concat": (1, None, concat),
    "curdate": (0, 0, lambda: TODAY),
    "current_date": (0, 0, lambda: TODAY),
    "current_timestamp": (0, 0, lambda: NOW),
    "date_add": (2, 3, _by_unit("timestampadd", "date_add")),
    "date_part": (2, 2, _part_by_name),
    "datediff": (2, 3, _by_unit("timestampdiff", "datediff")),
    "datepart": (2, 2, _part_by_name),
    "decode": (2, None, _decode),
    "e": (0, 0, lambda: Literal(2.718281828459045, DOUBLE)),
    "equal_null": (2, 2, lambda a, b: compare("<=>", a, b)),
    "from_json": (2, 2, _from_json),
    "if": (3, 3, _choice),
    "ifnull": (2, 2, lambda a, b: apply(FUNCTIONS["coalesce"], (a, b))),
    "ilike": (2, 2, ilike),
    "instr": (2, 2, lambda text, part: apply(FUNCTIONS["locate"], (part, text))),
    "isnotnull": (1, 1, is_not_null),
    "isnull": (1, 1, is_null),
    "log": (1, 2, lambda *values: apply(FUNCTIONS["ln" if len(values) == 1 else "log"], values)),
    "ltrim": (1, 2, _trim("ltrim", "trim_leading", text_first=False)),
    "mod": (2, 2, lambda a, b: operators.arithmetic("%", a, b)),
    "negative": (1, 1, operators.minus),
    "not": (1, 1, lambda value: operators.negate_condition(value)),
    "now": (0, 0, lambda: NOW),
    "nullif": (2, 2, _nullif),
    "nullifzero": (1, 1, lambda value: _nullif(value, _zero(value))),
    "nvl": (2, 2, lambda a, b: apply(FUNCTIONS["coalesce"], (a, b))),
    "nvl2": (3, 3, lambda value, some, none: operators.case((is_not_null(value),), (some,), none)),
    "pi": (0, 0, lambda: Literal(3.141592653589793, DOUBLE)),
    "pmod": (2, 2, lambda a, b: operators.arithmetic("pmod", a, b)),
    "positive": (1, 1, lambda value: as_parameter(value, Parameter.NUMBER)),
    "reverse": (1, 1, _reverse),
    "rtrim": (1, 2, _trim("rtrim", "trim_trailing", text_first=False)),
    "shiftleft": (2, 2, _shift("shiftleft")),
    "shiftright": (2, 2, _shift("shiftright")),
    "shiftrightunsigned": (2, 2, _shift("shiftrightunsigned")),
    **{name: (2, 2, _try(name)) for name in TRIED},
    "to_date": (1, 2, _time_by_pattern(DATE)),
    "to_timestamp": (1, 2, _time_by_pattern(TIMESTAMP)),
    "try_to_date": (1, 2, _time_by_pattern(DATE, tried=True)),
    "try_to_timestamp": (1, 2, _time_by_pattern(TIMESTAMP, tried=True)),
    "unix_timestamp": (1, 2, _unix_timestamp),
    "zeroifnull": (1, 1, lambda value: apply(FUNCTIONS["coalesce"], (value, _zero(value)))),
    "|": (2, 2, _bits("|")),
}
"""Fewest and most arguments, and what the call becomes."""
