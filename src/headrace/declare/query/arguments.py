"""Arguments of functions in the types that the functions ask for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.operators import call, cast, convert, show_constant, unify
from headrace.meaning.functions import PYTHON_PREFIX, Function, Parameter
from headrace.model.catalogue import PythonFunction
from headrace.model.expr import Expr, Literal
from headrace.model.promotion import common_type
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Type,
    is_numeric,
)

_TARGETS: Mapping[Parameter, Type] = {
    Parameter.BOOLEAN: BOOLEAN,
    Parameter.TEXT: STRING,
    Parameter.INT: INT,
    Parameter.DOUBLE: DOUBLE,
    Parameter.DATE: DATE,
    Parameter.TIMESTAMP: TIMESTAMP,
}

_DEFAULTS: Mapping[str, Literal] = {
    "lpad": Literal(" ", STRING),
    "regexp_extract": Literal(1, INT),
    "replace": Literal("", STRING),
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
