"""What a scalar expression is worth for one row: the semantics of Spark 4 in ANSI mode, in plain Python.

An expression is compiled once into nested closures over a row (a tuple) and then called for every row. NULL is None.

    strict functions    NULL if any argument is NULL: everything but those below
    three-valued        and, or, not, comparisons, in
    lazy                case, coalesce, and, or, in: an argument that decides nothing is not evaluated, and cannot fail

Overflow, division by zero, text that does not parse and the like raise EvaluationError. Two calls read the time instead
of the row: `now`, and `now_before`, which only deltas use: the instant at which the kept answer was computed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.meaning import scalar_number, scalar_text, scalar_time
from headrace.meaning.scalar_cast import cast
from headrace.meaning.scalar_compare import COMPARISONS, comparison, sort_key
from headrace.model.errors import EvaluationError
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.promotion import common_type
from headrace.model.types import Row, Value, is_numeric

Evaluator = Callable[[Row], Value]
NOW_BEFORE = "now_before"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What an expression may read besides its row: the time, the time before, and functions declared in Python.

    `python` maps `NAME@VERSION` to the function; it gets values and returns one, NULLs included.
    """

    now: dt.datetime | None = None
    before: dt.datetime | None = None
    python: Mapping[str, Callable[..., Value]] = field(default_factory=dict)


NOTHING = Surroundings()


def evaluate(expr: Expr, row: Mapping[str, Value], now: dt.datetime | None = None) -> Value:
    """The value of an expression for one row, given by names."""
    return compile_expr(expr, tuple(row), Surroundings(now=now))(tuple(row.values()))


def compile_expr(expr: Expr, names: Sequence[str], around: Surroundings = NOTHING) -> Evaluator:
    """A function from rows, whose fields have these names in this order, to the value of the expression."""
    return _Compiler({name: position for position, name in enumerate(names)}, around).compile(expr)


def failing_part(expr: Expr, row: Mapping[str, Value], around: Surroundings = NOTHING) -> Expr:
    """The smallest part of an expression that fails for a row; the whole expression if nothing does."""
    found: list[Expr] = []

    def noted(call: Call, value: Evaluator) -> Evaluator:
        def tried(values: Row) -> Value:
            try:
                return value(values)
            except EvaluationError:
                found.append(call)  # the innermost comes first
                raise

        return tried

    positions = {name: position for position, name in enumerate(row)}
    try:
        _Compiler(positions, around, noted).compile(expr)(tuple(row.values()))
    except EvaluationError:
        return found[0]
    return expr


@dataclass(frozen=True, slots=True)
class _Compiler:
    positions: Mapping[str, int]
    around: Surroundings
    watched: Callable[[Call, Evaluator], Evaluator] | None = None

    def compile(self, expr: Expr) -> Evaluator:
        match expr:
            case Literal(value):
                return lambda row: value
            case Column(name):
                assert name in self.positions, f'no column "{name}" among {", ".join(self.positions)}'
                position = self.positions[name]
                return lambda row: row[position]
            case Call():
                made = self._call(expr)
                return made if self.watched is None else self.watched(expr, made)

    def _call(self, call: Call) -> Evaluator:
        arguments = tuple(map(self.compile, call.arguments))
        if call.function in ("now", NOW_BEFORE):
            return _constant(self.around.now if call.function == "now" else self.around.before, call.function)
        if call.function in _LAZY:
            return _LAZY[call.function](call, arguments)
        if call.function.startswith("python:"):
            return _python(call, self.around.python[call.function.removeprefix("python:")], arguments)
        return _strict(_function(call), arguments)


def _function(call: Call) -> Callable[..., Value]:
    """The function of values that are not NULL."""
    if call.function in COMPARISONS:
        return comparison(call.function, call.arguments[0].type)
    if call.function == "cast":
        return cast(call.arguments[0].type, call.type)
    if call.function in ("+", "-") and not is_numeric(call.type):
        return scalar_time.arithmetic(call)
    if call.function in scalar_number.TYPED:
        return scalar_number.TYPED[call.function](call)
    for functions in (_PLAIN, scalar_text.FUNCTIONS, scalar_number.FUNCTIONS, scalar_time.FUNCTIONS):
        if call.function in functions:
            return functions[call.function]
    raise AssertionError(f'function "{call.function}" has no meaning')


_PLAIN: Mapping[str, Callable[..., Value]] = {"not": lambda value: not value}


def _strict(function: Callable[..., Value], arguments: tuple[Evaluator, ...]) -> Evaluator:
    if len(arguments) == 1:
        return _strict_unary(function, *arguments)
    if len(arguments) == 2:
        return _strict_binary(function, *arguments)

    def value(row: Row) -> Value:
        values = [argument(row) for argument in arguments]
        return None if None in values else function(*values)

    return value


def _strict_unary(function: Callable[..., Value], argument: Evaluator) -> Evaluator:
    def value(row: Row) -> Value:
        only = argument(row)
        return None if only is None else function(only)

    return value


def _strict_binary(function: Callable[..., Value], left: Evaluator, right: Evaluator) -> Evaluator:
    def value(row: Row) -> Value:
        first = left(row)
        if first is None:
            return None
        second = right(row)
        return None if second is None else function(first, second)

    return value


def _constant(time: dt.datetime | None, function: str) -> Evaluator:
    assert time is not None, f'"{function}" needs to be told the time'
    return lambda row: time


def _python(call: Call, function: Callable[..., Value], arguments: tuple[Evaluator, ...]) -> Evaluator:
    def value(row: Row) -> Value:
        try:
            return function(*(argument(row) for argument in arguments))
        except EvaluationError:
            raise
        except Exception as error:
            raise EvaluationError(f'function "{call.function}" failed: {error!r}') from error

    return value


def _and(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    def value(row: Row) -> Value:
        answer: Value = True
        for argument in arguments:
            part = argument(row)
            if part is False:
                return False
            answer = None if part is None else answer
        return answer

    return value


def _or(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    def value(row: Row) -> Value:
        answer: Value = False
        for argument in arguments:
            part = argument(row)
            if part is True:
                return True
            answer = None if part is None else answer
        return answer

    return value


def _case(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    branches = tuple(zip(arguments[:-1:2], arguments[1:-1:2], strict=True))
    otherwise = arguments[-1]

    def value(row: Row) -> Value:
        for condition, result in branches:
            if condition(row) is True:
                return result(row)
        return otherwise(row)

    return value


def _coalesce(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    def value(row: Row) -> Value:
        return next((found for argument in arguments if (found := argument(row)) is not None), None)

    return value


def _in(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    equal = comparison("=", call.arguments[0].type)
    sought, *options = arguments

    def value(row: Row) -> Value:
        left = sought(row)
        if left is None:
            return None
        answer: Value = False
        for option in options:
            right = option(row)
            if right is None:
                answer = None
            elif equal(left, right):
                return True
        return answer

    return value


def _is_null(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    (argument,) = arguments
    return lambda row: argument(row) is None


def _null_safe_equal(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    equal = comparison("=", call.arguments[0].type)
    left, right = arguments

    def value(row: Row) -> Value:
        first, second = left(row), right(row)
        return first is second if first is None or second is None else equal(first, second)

    return value


def _nullif(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    """Arguments may differ in type: they are compared in their common one, and the first comes back as it was."""
    first_type, second_type = (argument.type for argument in call.arguments)
    common = common_type(first_type, second_type) or first_type
    widen, widen_other, equal = cast(first_type, common), cast(second_type, common), comparison("=", common)
    left, right = arguments

    def value(row: Row) -> Value:
        first, second = left(row), right(row)
        return first if first is None or second is None or not equal(widen(first), widen_other(second)) else None

    return value


def _extreme(choose: Callable[..., Value]) -> Callable[[Call, tuple[Evaluator, ...]], Evaluator]:
    """`greatest` or `least` of the arguments that are not NULL."""

    def make(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
        key = sort_key(call.type)

        def value(row: Row) -> Value:
            present: list[Any] = [found for argument in arguments if (found := argument(row)) is not None]
            return choose(present, key=key) if present else None

        return value

    return make


def _concat_ws(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    separator, *texts = arguments

    def value(row: Row) -> Value:
        between: Any = separator(row)
        return None if between is None else between.join(found for text in texts if (found := text(row)) is not None)

    return value


_LAZY: Mapping[str, Callable[[Call, tuple[Evaluator, ...]], Evaluator]] = {
    "and": _and,
    "or": _or,
    "case": _case,
    "coalesce": _coalesce,
    "in": _in,
    "is_null": _is_null,
    "<=>": _null_safe_equal,
    "nullif": _nullif,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "concat_ws": _concat_ws,
}
"""Functions that see NULLs, or do not evaluate all their arguments."""
