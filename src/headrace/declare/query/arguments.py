"""Arguments of functions in the types that the functions ask for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.operators import call, cast, convert, show_constant, unify
from headrace.meaning.function import Function, Parameter
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.meaning.scalar_bytes import CHARACTER_SETS
from headrace.meaning.scalar_calendar import DEFAULT_FORMAT, UNITS
from headrace.meaning.scalar_format import find_zone, unknown_part
from headrace.meaning.scalar_json import read_path
from headrace.meaning.scalar_parse import unknown_token
from headrace.meaning.scalar_parse_url import KEY, PARTS
from headrace.meaning.scalar_text import rlike
from headrace.meaning.scalar_to_number import read_pattern
from headrace.meaning.scalar_words import misfit
from headrace.model.catalogue import PythonFunction
from headrace.model.errors import EvaluationError
from headrace.model.expr import Expr, Literal
from headrace.model.promotion import common_type
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FRACTIONS,
    INT,
    INTEGERS,
    INTERVALS,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
    is_numeric,
)

_TARGETS: Mapping[Parameter, Type] = {
    Parameter.BOOLEAN: BOOLEAN,
    Parameter.TEXT: STRING,
    Parameter.INT: INT,
    Parameter.BIGINT: BIGINT,
    Parameter.DOUBLE: DOUBLE,
    Parameter.DATE: DATE,
    Parameter.TIMESTAMP: TIMESTAMP,
}

_DEFAULTS: Mapping[str, Literal] = {
    "lpad": Literal(" ", STRING),
    "regexp_extract": Literal(1, INT),
    "replace": Literal("", STRING),
    "bround": Literal(0, INT),
    "from_unixtime": Literal(DEFAULT_FORMAT, STRING),
    "months_between": Literal(True, BOOLEAN),
    "regexp_extract_all": Literal(1, INT),
    "sort_array": Literal(True, BOOLEAN),
    "split": Literal(-1, INT),
    "round": Literal(0, INT),
    "rpad": Literal(" ", STRING),
}
"""Last arguments that may be left out are filled in, so that both spellings are one query."""

_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
_UNIT_ALIASES = {"YYYY": "YEAR", "YY": "YEAR", "MON": "MONTH", "MM": "MONTH", "DD": "DAY"}


def apply(entry: Function, arguments: Sequence[Expr]) -> Expr:
    """A function of the allow-list with converted arguments."""
    if not entry.accepts(len(arguments)):
        raise Mistake(
            f'function "{entry.name}" does not take {_count_arguments(len(arguments))}', f"it is {entry.signature}"
        )
    if len(arguments) == len(entry.parameters) - 1 and entry.name in _DEFAULTS:
        arguments = (*arguments, _DEFAULTS[entry.name])
    if entry.name in _CHECKED:
        arguments = _CHECKED[entry.name](*arguments)
    if entry.parameters and entry.parameters[0] == Parameter.SAME:
        converted = unify(arguments)
    else:
        converted = _convert_arguments(
            entry.name, arguments, lambda position, expr: as_parameter(expr, entry.parameter(position))
        )
    _check_constants(entry, converted)
    return call(entry.name, converted, entry.result_type(converted))


def apply_python(entry: PythonFunction, arguments: Sequence[Expr]) -> Expr:
    """A function declared in Python. Its name tells its version, so that a new one is another function."""
    if len(arguments) != len(entry.arguments):
        raise Mistake(f'function "{entry.name}" takes {_count_arguments(len(entry.arguments))}, not {len(arguments)}')
    converted = _convert_arguments(entry.name, arguments, lambda position, expr: widen(expr, entry.arguments[position]))
    return call(f"{PYTHON_PREFIX}{entry.name}@{entry.version}", converted, entry.returns)


def _count_arguments(count: int) -> str:
    return "1 argument" if count == 1 else f"{count} arguments"


def _convert_arguments(
    name: str, arguments: Sequence[Expr], convert_one: Callable[[int, Expr], Expr]
) -> tuple[Expr, ...]:
    converted = []
    for position, argument in enumerate(arguments):
        try:
            converted.append(convert_one(position, argument))
        except Mistake as mistake:
            message = f'argument {position + 1} of "{name}": {mistake.message}'
            raise Mistake(message, mistake.hint) from None
    return tuple(converted)


def _check_constants(entry: Function, arguments: Sequence[Expr]) -> None:
    for position in entry.constant:
        if position < len(arguments) and not isinstance(arguments[position], Literal):
            hint = f'argument {position + 1} of "{entry.name}" must be a constant'
            raise NotMaintained(f"function: {entry.name}", hint)


def as_parameter(expr: Expr, parameter: Parameter) -> Expr:
    """The argument in the type that a parameter asks for."""
    match parameter:
        case Parameter.ANY | Parameter.SAME:
            return expr
        case Parameter.NUMBER:
            if not is_numeric(expr.type) and expr.type != NULL:
                raise Mistake(f"{expr.type} is not a number")
            return convert(expr, DOUBLE) if expr.type == NULL else expr
        case Parameter.INTEGER:
            if expr.type not in INTEGERS and expr.type != NULL:
                raise Mistake(f"{expr.type} is not a whole number")
            return convert(expr, INT) if expr.type == NULL else expr
        case Parameter.BYTES:
            return expr if expr.type == BINARY else widen(expr, STRING)
        case Parameter.ARRAY:
            if not isinstance(expr.type, Array) and expr.type != NULL:
                raise Mistake(f"{expr.type} is not an array")
            return expr
        case Parameter.ATOMIC:
            if isinstance(expr.type, Array) or expr.type == BINARY:
                raise Mistake(f"{expr.type} cannot become text")
            return cast(expr, STRING)
        case _:
            return widen(expr, _TARGETS[parameter])


def widen(expr: Expr, type_: Type) -> Expr:
    """The expression in a wider type, dates and timestamps in each other, constants in whatever they can be read as."""
    between = {expr.type, type_} == {DATE, TIMESTAMP}
    constant = isinstance(expr, Literal) and expr.type == STRING
    integer = isinstance(expr, Literal) and isinstance(expr.value, int) and type_ == INT and expr.type == BIGINT
    if between or constant or integer or common_type(expr.type, type_) == type_:
        return convert(expr, type_)
    raise Mistake(f"{expr.type} is not {type_}", "it needs an explicit CAST")


def _trunc_arguments(unit: Expr, value: Expr) -> tuple[Expr, ...]:
    name = str(unit.value).upper() if isinstance(unit, Literal) else None
    if name is None:
        return unit, value
    name = _UNIT_ALIASES.get(name, name)
    if name not in _UNITS:
        raise Mistake(f"{show_constant(unit)} is not a unit of time", f"units are {', '.join(_UNITS)}")
    return Literal(name, STRING), value


def _format_arguments(value: Expr, pattern: Expr) -> tuple[Expr, ...]:
    unknown = unknown_part(pattern.value) if isinstance(pattern, Literal) and isinstance(pattern.value, str) else None
    if unknown is not None:
        hint = "patterns are made of y, M, d, D, E, q, a, h, H, m, s, S and text in single quotes"
        raise NotMaintained(f'function: date_format with "{unknown}"', hint)
    return value, pattern


def _replace_arguments(text: Expr, pattern: Expr, replacement: Expr) -> tuple[Expr, ...]:
    """Spark splits characters beyond the first plane where a pattern matches nothing between them."""
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        try:
            matches_nothing = rlike("", pattern.value) and not pattern.value.startswith("^")
        except EvaluationError as error:
            raise Mistake(str(error)) from None
        if matches_nothing:
            raise NotMaintained("function: regexp_replace of nothing", "use a pattern that matches one sign or more")
    return text, pattern, replacement


def _unit_arguments(unit: Expr, *values: Expr) -> tuple[Expr, ...]:
    name = str(unit.value).upper() if isinstance(unit, Literal) else ""
    name = name.removesuffix("S") if name not in UNITS else name
    if name not in UNITS:
        raise Mistake(f"{show_constant(unit)} is not a unit of time", f"units are {', '.join(UNITS)}")
    return Literal(name, STRING), *values


def _second_arguments(*parts: Expr) -> tuple[Expr, ...]:
    """Seconds are a number with six digits after the point."""
    second = as_parameter(parts[5], Parameter.NUMBER)
    if len(parts) > 6:
        _zone_arguments(parts[0], parts[6])
    return (*parts[:5], cast(second, Decimal(16, 6)), *parts[6:])


def _parse_arguments(text: Expr, pattern: Expr) -> tuple[Expr, ...]:
    unknown = unknown_token(pattern.value) if isinstance(pattern, Literal) and isinstance(pattern.value, str) else None
    if unknown is not None:
        hint = "patterns are made of yyyy, MM, MMM, dd, HH, hh, mm, ss, S, a, X, Z, text in single quotes and [...]"
        raise NotMaintained(f'function: to_timestamp with "{unknown}"', hint)
    return text, pattern


def _number_arguments(text: Expr, pattern: Expr) -> tuple[Expr, ...]:
    if isinstance(pattern, Literal) and (not isinstance(pattern.value, str) or read_pattern(pattern.value) is None):
        hint = "patterns are made of S or MI and $ before the digits, 0, 9, commas between digits, and one point"
        raise NotMaintained(f"function: to_number with {show_constant(pattern)}", hint)
    return text, pattern


def _url_arguments(url: Expr, part: Expr, *key: Expr) -> tuple[Expr, ...]:
    if isinstance(part, Literal) and part.value not in PARTS:
        raise Mistake(f"{show_constant(part)} is not a part of an address", f"parts are {', '.join(PARTS)}")
    for one in key:
        if isinstance(one, Literal) and not (isinstance(one.value, str) and KEY.fullmatch(one.value)):
            hint = "keys are made of letters, digits, _, -, . and ~"
            raise NotMaintained(f"function: parse_url with {show_constant(one)}", hint)
    return url, part, *key


def _unix_arguments(seconds: Expr, *pattern: Expr) -> tuple[Expr, ...]:
    for one in pattern:
        _format_arguments(seconds, one)
    return (seconds, *pattern)


def _exact_arguments(number: Expr) -> tuple[Expr, ...]:
    return (widen(number, DOUBLE) if number.type in FRACTIONS else number,)


def _zone_arguments(value: Expr, zone: Expr) -> tuple[Expr, ...]:
    if isinstance(zone, Literal) and isinstance(zone.value, str) and find_zone(zone.value) is None:
        raise Mistake(f"{show_constant(zone)} is not a time zone", "write it like 'Europe/Paris' or '+02:00'")
    return value, zone


def _hex_arguments(value: Expr) -> tuple[Expr, ...]:
    if is_numeric(value.type):
        return (widen(value, BIGINT),)
    return (as_parameter(value, Parameter.BYTES),)


def _charset_arguments(value: Expr, charset: Expr) -> tuple[Expr, ...]:
    if isinstance(charset, Literal) and str(charset.value).upper() not in CHARACTER_SETS:
        sets = ", ".join(CHARACTER_SETS)
        raise NotMaintained(f"function: encode or decode with {show_constant(charset)}", f"character sets are {sets}")
    return value, charset


def _pattern_arguments(pattern: Expr, *values: Expr) -> tuple[Expr, ...]:
    if isinstance(pattern, Literal) and isinstance(pattern.value, str):
        wrong = misfit(pattern.value, [value.type for value in values])
        if wrong is not None:
            hint = "patterns are made of %s, %d of whole numbers, %.2f of double, %x of int and bigint, and %%"
            raise NotMaintained(f'function: format_string with "{wrong}"', hint)
    return pattern, *values


def _bound_arguments(name: str) -> Callable[..., tuple[Expr, ...]]:
    """Spark takes a third argument that is NULL for some number or other."""

    def check(left: Expr, right: Expr, *bound: Expr) -> tuple[Expr, ...]:
        if any(isinstance(number, Literal) and number.value is None for number in bound):
            raise Mistake(f"the third argument of {name} is a number, not NULL")
        return left, right, *bound

    return check


def _element_arguments(array: Expr, value: Expr) -> tuple[Expr, ...]:
    """An array and what may be one of its elements, in one type."""
    if not isinstance(array.type, Array):
        return array, value
    element = common_type(array.type.element, value.type)
    if element is None and isinstance(value, Literal):
        element = array.type.element
    if element is None:
        raise Mistake(f"{value.type} is not an element of {array.type}", "it needs an explicit CAST")
    return convert(array, Array(element)), convert(value, element)


def _inserted_arguments(array: Expr, place: Expr, value: Expr) -> tuple[Expr, ...]:
    array, value = _element_arguments(array, value)
    return array, place, value


def _mask_arguments(text: Expr, *signs: Expr) -> tuple[Expr, ...]:
    """All signs are filled in. Each is one character."""
    for sign in signs:
        if isinstance(sign, Literal) and sign.value is not None and len(str(sign.value)) != 1:
            raise Mistake(
                f"{show_constant(sign)} is not one character", "mask replaces each character by one, or by NULL"
            )
    return (text, *signs, *_MASKS[len(signs) :])


_MASKS = (*(Literal(sign, STRING) for sign in "Xxn"), Literal(None, STRING))


def _array_arguments(*arrays: Expr) -> tuple[Expr, ...]:
    return unify(arrays)


def _text_array_arguments(array: Expr, *texts: Expr) -> tuple[Expr, ...]:
    return (cast(array, Array(STRING)) if isinstance(array.type, Array) else array, *texts)


def _nested_arguments(array: Expr) -> tuple[Expr, ...]:
    if isinstance(array.type, Array) and not isinstance(array.type.element, Array):
        raise Mistake(f"flatten needs an array of arrays, not {array.type}")
    return (array,)


def _sequence_arguments(start: Expr, stop: Expr, *step: Expr) -> tuple[Expr, ...]:
    """Whole numbers, or dates and timestamps with a constant interval."""
    if start.type in INTEGERS or stop.type in INTEGERS:
        whole = unify((start, stop, *step))
        if whole[0].type in INTEGERS:
            return whole
    start, stop = unify((start, stop))
    if start.type not in (DATE, TIMESTAMP):
        raise Mistake(f"a sequence is of whole numbers, dates or timestamps, not {start.type}")
    if step and not (isinstance(step[0], Literal) and step[0].type in INTERVALS):
        raise NotMaintained("function: sequence by a step that changes", "write the step as INTERVAL '1 day'")
    whole_days = not step or not isinstance(step[0].value, dt.timedelta) or not step[0].value % dt.timedelta(days=1)  # type: ignore[union-attr]  # a literal, as was seen
    if start.type == DATE and not whole_days:
        raise Mistake("a sequence of dates goes by whole days or months", "CAST them AS timestamp")
    return (start, stop, *step)


def _path_arguments(text: Expr, path: Expr) -> tuple[Expr, ...]:
    if isinstance(path, Literal) and isinstance(path.value, str) and read_path(path.value) is None:
        hint = "paths are made of names and places: $.a.b[0]['c d']"
        raise NotMaintained(f"function: get_json_object with {show_constant(path)}", hint)
    return text, path


_CHECKED: Mapping[str, Callable[..., tuple[Expr, ...]]] = {
    **dict.fromkeys(
        ("array_contains", "array_position", "array_remove", "array_append", "array_prepend"), _element_arguments
    ),
    **dict.fromkeys(
        ("array_union", "array_intersect", "array_except", "arrays_overlap", "array_concat"), _array_arguments
    ),
    "array_insert": _inserted_arguments,
    "array_join": _text_array_arguments,
    "date_format": _format_arguments,
    "decode": _charset_arguments,
    "encode": _charset_arguments,
    "flatten": _nested_arguments,
    "format_string": _pattern_arguments,
    "from_unixtime": _unix_arguments,
    "get_json_object": _path_arguments,
    "hex": _hex_arguments,
    "mask": _mask_arguments,
    "levenshtein": _bound_arguments("levenshtein"),
    "locate": _bound_arguments("locate"),
    "date_trunc": _trunc_arguments,
    "from_utc_timestamp": _zone_arguments,
    "regexp_replace": _replace_arguments,
    "make_timestamp": _second_arguments,
    "parse_timestamp": _parse_arguments,
    "sequence": _sequence_arguments,
    "timestamp_seconds": _exact_arguments,
    "timestampadd": _unit_arguments,
    "timestampdiff": _unit_arguments,
    **dict.fromkeys(("parse_url", "try_parse_url"), _url_arguments),
    **dict.fromkeys(("to_number", "try_to_number"), _number_arguments),
    "try_parse_timestamp": _parse_arguments,
    "to_utc_timestamp": _zone_arguments,
}
