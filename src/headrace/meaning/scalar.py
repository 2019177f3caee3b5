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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from headrace.meaning import (
    scalar_array,
    scalar_bits,
    scalar_bytes,
    scalar_calendar,
    scalar_format,
    scalar_hash,
    scalar_intervals,
    scalar_json,
    scalar_jsonb,
    scalar_number,
    scalar_parse,
    scalar_parse_url,
    scalar_postgres,
    scalar_postgres_text,
    scalar_text,
    scalar_time,
    scalar_to_number,
    scalar_url,
    scalar_words,
)
from headrace.meaning.array_functions import LAMBDAS
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
        if call.function in LAMBDAS:
            return self._lambda(call)
        if call.function == "aggregate":
            return self._fold(call)
        if call.function == "lambda_variable":
            at = self.positions[_variable(call)]
            return lambda row: row[at]
        arguments = tuple(map(self.compile, call.arguments))
        if call.function in ("now", NOW_BEFORE):
            return _constant(self.around.now if call.function == "now" else self.around.before, call.function)
        if call.function in _LAZY:
            return _LAZY[call.function](call, arguments)
        if call.function.startswith("python:"):
            return _python(call, self.around.python[call.function.removeprefix("python:")], arguments)
        if call.function in scalar_array.SEEING_NULL:
            return _seeing_null(scalar_array.SEEING_NULL[call.function], arguments)
        return _strict(find_function(call), arguments)

    def _fold(self, call: Call) -> Evaluator:
        """The last argument is computed over the row, what was computed before, and the next element."""
        array, start = self.compile(call.arguments[0]), self.compile(call.arguments[1])
        width, names = len(self.positions), [_variable(one) for one in call.arguments[2:4] if isinstance(one, Call)]
        places = {name: width + number for number, name in enumerate(names)}
        each = replace(self, positions={**self.positions, **places}).compile(call.arguments[4])

        def value(row: Row) -> Value:
            elements: Any = array(row)
            if elements is None:
                return None
            kept, made = row[:width], start(row)
            for element in elements:
                made = each((*kept, made, element))
            return made

        return value

    def _lambda(self, call: Call) -> Evaluator:
        """The second argument is computed over the row and one element more, which is the last of it."""
        array, variable, body = self.compile(call.arguments[0]), call.arguments[1], call.arguments[2]
        assert isinstance(variable, Call), f"a function of elements without an element: {call}"
        inside = replace(self, positions={**self.positions, _variable(variable): len(self.positions)})
        each = inside.compile(body)
        # Rows may be longer than the names that this expression knows them by.
        width = len(self.positions)

        def value(row: Row) -> Value:
            elements: Any = array(row)
            if elements is None:
                return None
            kept = row[:width]
            return _APPLIED[call.function](elements, (each((*kept, element)) for element in elements))

        return value


def _variable(call: Call) -> str:
    (number,) = call.arguments
    return f"lambda {number}"


def _any_true(elements: tuple[Value, ...], found: Iterable[Value]) -> Value:
    """True if one is, else NULL if one is NULL."""
    answer: Value = False
    for one in found:
        if one is True:
            return True
        answer = None if one is None else answer
    return answer


def _all_true(elements: tuple[Value, ...], found: Iterable[Value]) -> Value:
    answer: Value = True
    for one in found:
        if one is False:
            return False
        answer = None if one is None else answer
    return answer


_APPLIED: Mapping[str, Callable[[tuple[Value, ...], Iterable[Value]], Value]] = {
    "transform": lambda elements, found: tuple(found),
    "filter": lambda elements, found: tuple(item for item, one in zip(elements, found, strict=True) if one is True),
    "exists": _any_true,
    "forall": _all_true,
}


def find_function(call: Call) -> Callable[..., Value]:
    """The function of values that are not NULL."""
    if call.function in COMPARISONS:
        return comparison(call.function, call.arguments[0].type)
    if call.function == "cast":
        return cast(call.arguments[0].type, call.type)
    if call.function == "try_parse_timestamp":
        return _or_null(scalar_parse.read_time)
    if call.function == "try_parse_url":
        return _or_null(scalar_parse_url.parse_url)
    if call.function == "try_url_decode":
        return _or_null(scalar_url.decode_url)
    if call.function == "try_cast":
        return _or_null(cast(call.arguments[0].type, call.type))
    if call.function in ("+", "-") and not is_numeric(call.type):
        return scalar_time.arithmetic(call)
    for typed in _TYPED:
        if call.function in typed:
            return typed[call.function](call)
    for functions in _TABLES:
        if call.function in functions:
            return functions[call.function]
    raise AssertionError(f'function "{call.function}" has no meaning')


_TABLES: tuple[Mapping[str, Callable[..., Value]], ...] = (
    {"not": lambda value: not value},
    scalar_text.FUNCTIONS,
    scalar_number.FUNCTIONS,
    scalar_time.FUNCTIONS,
    scalar_format.FUNCTIONS,
    scalar_bits.FUNCTIONS,
    scalar_bytes.FUNCTIONS,
    scalar_words.FUNCTIONS,
    scalar_url.FUNCTIONS,
    scalar_parse_url.FUNCTIONS,
    scalar_to_number.FUNCTIONS,
    scalar_array.FUNCTIONS,
    scalar_json.FUNCTIONS,
    scalar_json.POSTGRES,
    scalar_jsonb.POSTGRES,
    scalar_intervals.POSTGRES,
    scalar_postgres.POSTGRES,
    scalar_calendar.FUNCTIONS,
    scalar_parse.FUNCTIONS,
)
_TYPED: tuple[Mapping[str, Callable[[Call], Callable[..., Value]]], ...] = (
    scalar_number.TYPED,
    scalar_bits.TYPED,
    scalar_array.TYPED,
    scalar_json.TYPED,
    scalar_postgres_text.TYPED,
)


def _or_null(function: Callable[..., Value]) -> Callable[..., Value]:
    """NULL where the function fails."""

    def attempt(*values: Value) -> Value:
        try:
            return function(*values)
        except EvaluationError:
            return None

    return attempt


def _seeing_null(function: Callable[..., Value], arguments: tuple[Evaluator, ...]) -> Evaluator:
    return lambda row: function(*(argument(row) for argument in arguments))


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


def _only_row(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    """The first argument, which stands for a query of so many rows as the second says; of several there is none."""
    only, rows = arguments

    def value(row: Row) -> Value:
        count: Any = rows(row)
        if count is not None and count > 1:
            raise EvaluationError(f"a query used as a value has {count} rows, and at most one is allowed")
        return only(row)

    return value


def _elt(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    """The text at a place; the others may be NULL."""
    place, *texts = arguments

    def value(row: Row) -> Value:
        number = place(row)
        if not isinstance(number, int):
            return None
        if not 1 <= number <= len(texts):
            raise EvaluationError(f"elt: there is no text {number} among {len(texts)}")
        return texts[number - 1](row)

    return value


def _is_nan(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    (argument,) = arguments

    def value(row: Row) -> Value:
        number = argument(row)
        return number is not None and bool(number != number)

    return value


def _nanvl(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    first, second = arguments

    def value(row: Row) -> Value:
        number = first(row)
        return second(row) if isinstance(number, float) and number != number else number

    return value


def _format_string(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    pattern, *rest = arguments
    fill = scalar_words.format_string([argument.type for argument in call.arguments[1:]])

    def value(row: Row) -> Value:
        written: Any = pattern(row)
        return None if written is None else fill(written, *(argument(row) for argument in rest))

    return value


def _hash(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    return _seeing_null(scalar_hash.hash_values(call.function, tuple(one.type for one in call.arguments)), arguments)


def _mask(call: Call, arguments: tuple[Evaluator, ...]) -> Evaluator:
    """The text is NULL, or not; the signs that replace others may be."""

    def mask(text: Any, *signs: Any) -> Value:
        return None if text is None else scalar_words.mask(text, *signs)

    return _seeing_null(mask, arguments)


_LAZY: Mapping[str, Callable[[Call, tuple[Evaluator, ...]], Evaluator]] = {
    "and": _and,
    "or": _or,
    "case": _case,
    "coalesce": _coalesce,
    "in": _in,
    "is_null": _is_null,
    "only_row": _only_row,
    "<=>": _null_safe_equal,
    "nullif": _nullif,
    "greatest": _extreme(max),
    "least": _extreme(min),
    "concat_ws": _concat_ws,
    "elt": _elt,
    "format_string": _format_string,
    "isnan": _is_nan,
    "nanvl": _nanvl,
    **dict.fromkeys(("hash", "xxhash64"), _hash),
    "mask": _mask,
}
"""Functions that see NULLs, or do not evaluate all their arguments."""
