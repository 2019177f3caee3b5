"""One spelling for scalar expressions that are equal for every row, NULLs included.

Applied wherever a value counts (outputs, keys, arguments); conditions, of which only TRUE counts, go further
(`predicates`). Bottom-up: constants are computed, NOT moves inwards, comparisons get their literal on the right, `or`
of equalities becomes `in`, arguments that may change places are sorted. Sums are not regrouped: (a + b) + c may
overflow where a + (b + c) does not. Errors are not part of the meaning, but what can fail stays behind what cannot:
`x <> 0 AND 1 / x > 2` keeps its guard in front.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from headrace.meaning import scalar
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.model.errors import EvaluationError
from headrace.model.expr import FALSE, TRUE, Call, Expr, Literal, is_deterministic
from headrace.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    STRING,
    Decimal,
    Type,
    integer_range,
    is_numeric,
)
from headrace.plan.canonical.expression_key import key_of
from headrace.plan.canonical.function_facts import NEVER_NULL, NOT_FOLDED, can_fail, is_lossless, is_strict

NEGATED = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
UNKNOWN = Literal(None, BOOLEAN)


def canonical(expr: Expr) -> Expr:
    if not isinstance(expr, Call):
        return expr
    call = replace(expr, arguments=tuple(map(canonical, expr.arguments)))
    if is_strict(call.function) and any(_is_null_literal(argument) for argument in call.arguments):
        return Literal(None, call.type)
    return _fold_constants(_RULES.get(call.function, _keep_call)(call))


def negation(expr: Expr) -> Expr:
    """NOT of a canonical expression, canonical."""
    return canonical(Call("not", (expr,), BOOLEAN))


def in_order(parts: Iterable[Expr]) -> tuple[Expr, ...]:
    """Each once: what cannot fail first, literals last, else by key."""
    found = {key_of(part): part for part in parts}
    return tuple(found[key] for key in sorted(found, key=lambda key: (*_rank(found[key]), key)))


def _rank(expr: Expr) -> tuple[bool, bool]:
    return can_fail(expr), isinstance(expr, Literal)


def _is_null_literal(expr: Expr) -> bool:
    return isinstance(expr, Literal) and expr.value is None


def _fold_constants(expr: Expr) -> Expr:
    """The value of a call of constants; a call that fails stays as it is, and fails when it is evaluated."""
    if not isinstance(expr, Call) or not all(isinstance(argument, Literal) for argument in expr.arguments):
        return expr
    if expr.function in NOT_FOLDED or expr.function.startswith(PYTHON_PREFIX) or not is_deterministic(expr):
        return expr
    try:
        return Literal(scalar.evaluate(expr, {}), expr.type)
    except EvaluationError:
        return expr


def _keep_call(call: Call) -> Expr:
    return call


# Logic


def _not(call: Call) -> Expr:
    (inner,) = call.arguments
    if isinstance(inner, Call):
        match inner.function:
            case "not":
                return inner.arguments[0]
            case "and" | "or":
                other = "or" if inner.function == "and" else "and"
                return canonical(Call(other, tuple(map(negation, inner.arguments)), BOOLEAN))
            case name if name in NEGATED:
                return replace(inner, function=NEGATED[name])
    return call


def _and(call: Call) -> Expr:
    parts = in_order(_flat("and", call.arguments))
    if FALSE in parts:
        return FALSE
    return _of("and", tuple(part for part in parts if part != TRUE), TRUE)


def _or(call: Call) -> Expr:
    parts = _with_equalities_joined(in_order(_flat("or", call.arguments)))
    if TRUE in parts:
        return TRUE
    return _of("or", tuple(part for part in parts if part != FALSE), FALSE)


def _of(function: str, parts: tuple[Expr, ...], nothing: Expr) -> Expr:
    if not parts:
        return nothing
    return parts[0] if len(parts) == 1 else Call(function, parts, BOOLEAN)


def _flat(function: str, arguments: Iterable[Expr], type_: Type | None = None) -> Iterator[Expr]:
    """Arguments of nested calls of one function (of one type) in a row."""
    for argument in arguments:
        if isinstance(argument, Call) and argument.function == function and type_ in (None, argument.type):
            yield from argument.arguments
        else:
            yield argument


def _with_equalities_joined(parts: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """`x = 1`, `x IN (2, 3)` become `x IN (1, 2, 3)`."""
    options: dict[str, list[Expr]] = {}
    subjects: dict[str, Expr] = {}
    others: list[Expr] = []
    for part in parts:
        if isinstance(part, Call) and part.function in ("=", "in") and isinstance(part.arguments[1], Literal):
            key = key_of(part.arguments[0])
            subjects[key] = part.arguments[0]
            options.setdefault(key, []).extend(part.arguments[1:])
        else:
            others.append(part)
    joined = (in_(subjects[key], tuple(found)) for key, found in options.items())
    return in_order((*others, *joined))


def in_(subject: Expr, options: tuple[Expr, ...]) -> Expr:
    """`in` of literals, or `=` when there is one; each once, sorted by value (NaN cannot be)."""
    options = in_order(options)
    values: list[Any] = [option.value for option in options if isinstance(option, Literal)]
    if all(value == value for value in values):
        options = tuple(options[place] for place in sorted(range(len(values)), key=values.__getitem__))
    if len(options) == 1:
        return Call("=", (subject, options[0]), BOOLEAN)
    return Call("in", (subject, *options), BOOLEAN)


# Comparisons


def _comparison(call: Call) -> Expr:
    left, right = comparable(*call.arguments)
    function = call.function
    if isinstance(left, Literal) or (not isinstance(right, Literal) and key_of(right) < key_of(left)):
        left, right, function = right, left, FLIPPED[function]
    if key_of(left) == key_of(right):
        function = "=" if function in ("=", "<=", ">=") else "<>"
    if right in (TRUE, FALSE) and function in ("=", "<>"):
        return left if (right == TRUE) == (function == "=") else negation(left)
    return Call(function, (left, right), BOOLEAN)


def _null_safe(call: Call) -> Expr:
    left, right = sorted(comparable(*call.arguments), key=lambda side: (isinstance(side, Literal), key_of(side)))
    if _is_null_literal(right):
        return canonical(Call("is_null", (left,), BOOLEAN))
    if key_of(left) == key_of(right):
        return TRUE
    return Call("<=>", (left, right), BOOLEAN)


def comparable(left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """Both sides of a comparison without casts that change no number; a number is written in one way, whatever its
    type.
    """
    if _is_nan(left) or _is_nan(right):
        return left, right  # larger than every number, but only among floats
    if isinstance(left, Literal) or isinstance(right, Literal):
        left, right = _without_widening(left), _without_widening(right)
        return _plain_number(left, right.type), _plain_number(right, left.type)
    bare_left, bare_right = _without_widening(left), _without_widening(right)
    return (bare_left, bare_right) if are_comparable(bare_left.type, bare_right.type) else (left, right)


def _is_nan(expr: Expr) -> bool:
    return isinstance(expr, Literal) and isinstance(expr.value, float) and math.isnan(expr.value)


def are_comparable(left: Type, right: Type) -> bool:
    """Types whose values every engine compares as they are."""
    return left == right or (left in INTEGERS and right in INTEGERS)


def _without_widening(expr: Expr) -> Expr:
    while isinstance(expr, Call) and expr.function == "cast" and is_lossless(expr.arguments[0].type, expr.type):
        expr = expr.arguments[0]
    return expr


def _plain_number(side: Expr, other: Type) -> Expr:
    if not isinstance(side, Literal) or not is_numeric(side.type) or side.value is None:
        return side
    value = side.value
    assert isinstance(value, int | float | decimal.Decimal), f"not a number: {value!r}"
    if isinstance(value, float) and not (value.is_integer() and abs(value) < 2**53):
        return Literal(value, DOUBLE)
    if value == int(value):
        # A float meets an int as floats in Spark, which rounds; a double keeps the comparison exact.
        return Literal(float(value), DOUBLE) if other == FLOAT else _integer(int(value))
    exact = decimal.Decimal(value).normalize()
    digits, scale = len(exact.as_tuple().digits), -int(exact.as_tuple().exponent)
    return Literal(exact, Decimal(max(digits, scale), scale))


def _integer(value: int) -> Literal:
    for type_ in (INT, BIGINT):
        low, high = integer_range(type_)
        if low <= value <= high:
            return Literal(value, type_)
    return Literal(decimal.Decimal(value), Decimal(len(str(abs(value))), 0))


def _in(call: Call) -> Expr:
    subject, *options = call.arguments
    if _is_null_literal(subject):
        return UNKNOWN
    equalities = tuple(canonical(Call("=", (subject, option), BOOLEAN)) for option in options)
    return canonical(Call("or", equalities, BOOLEAN)) if len(equalities) > 1 else equalities[0]


def _is_null(call: Call) -> Expr:
    (inner,) = call.arguments
    return FALSE if isinstance(inner, Call) and inner.function in NEVER_NULL else call


def _like(call: Call) -> Expr:
    """A pattern without wildcards is an equality."""
    text, pattern = call.arguments[:2]
    if len(call.arguments) == 2 and isinstance(pattern, Literal) and not set("%_\\") & set(str(pattern.value)):
        return canonical(Call("=", (text, pattern), BOOLEAN))
    return call


# Choices


def _case(call: Call) -> Expr:
    branches = zip(call.arguments[:-1:2], call.arguments[1:-1:2], strict=True)
    kept: list[Expr] = []
    otherwise = call.arguments[-1]
    for condition, value in branches:
        if condition == TRUE:
            otherwise = value
            break
        if not isinstance(condition, Literal):
            kept += (condition, value)
    if isinstance(otherwise, Call) and otherwise.function == "case" and otherwise.type == call.type:
        kept += otherwise.arguments[:-1]
        otherwise = otherwise.arguments[-1]
    if not kept:
        return _give_type(otherwise, call.type)
    return _as_coalesce(replace(call, arguments=(*kept, otherwise)))


def _as_coalesce(call: Call) -> Expr:
    """`CASE WHEN x IS NULL THEN y ELSE x END` and its opposite are `coalesce(x, y)`."""
    if len(call.arguments) != 3:
        return call
    condition, value, otherwise = call.arguments
    for test, present, absent in ((condition, otherwise, value), (negation(condition), value, otherwise)):
        if test == Call("is_null", (present,), BOOLEAN) and present.type == absent.type == call.type:
            return canonical(Call("coalesce", (present, absent), call.type))
    return call


def _give_type(expr: Expr, type_: Type) -> Expr:
    return expr if expr.type == type_ else canonical(Call("cast", (expr,), type_))


def _coalesce(call: Call) -> Expr:
    kept: dict[str, Expr] = {}
    for argument in _flat("coalesce", call.arguments, call.type):
        if not _is_null_literal(argument):
            kept.setdefault(key_of(argument), argument)
            if isinstance(argument, Literal):
                break
    parts = tuple(kept.values())
    if not parts:
        return Literal(None, call.type)
    return replace(call, arguments=parts) if len(parts) > 1 else _give_type(parts[0], call.type)


def _extreme(call: Call) -> Expr:
    parts = in_order(part for part in _flat(call.function, call.arguments, call.type) if not _is_null_literal(part))
    if not parts:
        return Literal(None, call.type)
    return replace(call, arguments=parts) if len(parts) > 1 else _give_type(parts[0], call.type)


# Other functions


def _commutative(call: Call) -> Expr:
    if not all(is_numeric(argument.type) for argument in call.arguments):
        return call
    arguments = sorted(call.arguments, key=lambda argument: (isinstance(argument, Literal), key_of(argument)))
    return replace(call, arguments=tuple(arguments))


def _concat(call: Call) -> Expr:
    arguments = tuple(_flat("concat", call.arguments, STRING))
    return arguments[0] if len(arguments) == 1 and arguments[0].type == STRING else replace(call, arguments=arguments)


def _cast(call: Call) -> Expr:
    (inner,) = call.arguments
    return inner if inner.type == call.type else call


def _date_trunc(call: Call) -> Expr:
    unit, time = call.arguments
    if isinstance(unit, Literal) and isinstance(unit.value, str):
        return replace(call, arguments=(Literal(unit.value.upper(), STRING), time))
    return call


_RULES: Mapping[str, Callable[[Call], Expr]] = {
    "not": _not,
    "and": _and,
    "or": _or,
    **dict.fromkeys(NEGATED, _comparison),
    "<=>": _null_safe,
    "in": _in,
    "is_null": _is_null,
    "like": _like,
    "case": _case,
    "coalesce": _coalesce,
    "greatest": _extreme,
    "least": _extreme,
    "+": _commutative,
    "*": _commutative,
    "concat": _concat,
    "cast": _cast,
    "date_trunc": _date_trunc,
}
