"""Expressions as people read them: SQL text, with as few parentheses as it needs.

The text of a canonical expression is valid SQL and means the expression; columns keep the names they have in a block
(`orders.total`), or lose their alias where only one is read.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from headrace.meaning.functions import PYTHON_PREFIX
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.promotion import common_type, operand_types
from headrace.model.relation import AggregateCall
from headrace.model.show import write_call
from headrace.model.types import BIGINT, DAY_TIME, FRACTIONS, SMALLINT, TINYINT, YEAR_MONTH, Decimal, Type, is_numeric

OR, AND, NOT, COMPARISON, SUM, PRODUCT, UNARY, ATOM = range(8)
"""How tightly a construct binds."""

_INFIX = {
    "or": OR,
    "and": AND,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), COMPARISON),
    "+": SUM,
    "-": SUM,
    **dict.fromkeys(("*", "/", "div", "%"), PRODUCT),
}
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SUFFIXES: Mapping[Type, str] = {TINYINT: "Y", SMALLINT: "S", BIGINT: "L"}


def predicate_text(expr: Expr, unqualified: bool = True) -> str:
    """The text of an expression; unqualified, columns are named without their alias."""
    return _Writer(column_name if unqualified else qualify_name).text(expr)


def aggregate_text(call: AggregateCall, unqualified: bool = False) -> str:
    """An aggregate without its name: `sum(lineitem.price)`, `count(DISTINCT orders.customer)`, `count(*)`."""
    text = write_call(call, lambda expr: predicate_text(expr, unqualified))
    return text.replace("(distinct ", "(DISTINCT ", 1) if call.distinct else text


def column_name(name: str) -> str:
    return quote_name(name.partition(".")[2] or name)


def qualify_name(name: str) -> str:
    """An alias such as `users#1` is ours and stays as it is."""
    alias, dot, column = name.partition(".")
    return f"{alias}.{quote_name(column)}" if dot else quote_name(name)


def quote_name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class _Writer:
    name: Callable[[str], str]

    def text(self, expr: Expr, at_least: int = OR) -> str:
        """The text of an expression, in parentheses when it binds less tightly than its place asks for."""
        binding, text = self._bound(expr)
        return f"({text})" if binding < at_least else text

    def _bound(self, expr: Expr) -> tuple[int, str]:
        match expr:
            case Column(name):
                return ATOM, self.name(name)
            case Literal():
                text = literal_text(expr)
                return (UNARY if text.startswith("-") else ATOM), text
            case Call():
                return self._call(expr)
        assert_never(expr)

    def _call(self, call: Call) -> tuple[int, str]:
        match call.function:
            case "not":
                return self._not(call)
            case "is_null":
                return COMPARISON, f"{self.text(call.arguments[0], SUM)} IS NULL"
            case "in" | "like":
                return COMPARISON, self._word(call, call.function.upper())
            case "case":
                return ATOM, self._case(call)
            case "cast":
                return ATOM, f"CAST({self.text(call.arguments[0])} AS {str(call.type).upper()})"
            case "negate":
                return UNARY, f"-{self.text(call.arguments[0], ATOM)}"
            case "<=>" if _is_truth(call.arguments[1]):
                return COMPARISON, f"{self.text(call.arguments[0], SUM)} IS {literal_text(call.arguments[1])}"
            case name if name in _INFIX:
                return _INFIX[name], self._infix(call, _INFIX[name])
            case name:
                plain = name.removeprefix(PYTHON_PREFIX).partition("@")[0]
                return ATOM, f"{plain}({', '.join(map(self.text, call.arguments))})"

    def _infix(self, call: Call, binding: int) -> str:
        if len(call.arguments) == 2:
            call = replace(call, arguments=_without_implicit_casts(call))
        if binding == COMPARISON:
            left, right = call.arguments
            sides = (self._write_compared(left, right.type), self._write_compared(right, left.type))
            return f" {call.function} ".join(sides)
        first, *rest = call.arguments
        others = (self.text(argument, binding + 1) for argument in rest)
        return f" {call.function.upper()} ".join((self.text(first, binding), *others))

    def _write_compared(self, side: Expr, other: Type) -> str:
        """A number beside a number needs no type of its own."""
        if isinstance(side, Literal) and is_numeric(side.type) and is_numeric(other):
            return _number(side)
        return self.text(side, SUM)

    def _not(self, call: Call) -> tuple[int, str]:
        (inner,) = call.arguments
        if isinstance(inner, Call):
            match inner.function:
                case "is_null":
                    return COMPARISON, f"{self.text(inner.arguments[0], SUM)} IS NOT NULL"
                case "in" | "like":
                    return COMPARISON, self._word(inner, f"NOT {inner.function.upper()}")
                case "<=>" if _is_truth(inner.arguments[1]):
                    subject, truth = inner.arguments
                    return COMPARISON, f"{self.text(subject, SUM)} IS NOT {literal_text(truth)}"
        return NOT, f"NOT {self.text(inner, COMPARISON)}"

    def _word(self, call: Call, word: str) -> str:
        subject, *others = call.arguments
        left = self.text(subject, SUM)
        if call.function == "in":
            return f"{left} {word} ({', '.join(self._write_compared(option, subject.type) for option in others)})"
        escape = f" ESCAPE {self.text(others[1])}" if len(others) > 1 else ""
        return f"{left} {word} {self.text(others[0], SUM)}{escape}"

    def _case(self, call: Call) -> str:
        *branches, otherwise = map(self.text, call.arguments)
        pairs = zip(branches[::2], branches[1::2], strict=True)
        whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in pairs)
        return f"CASE {whens} ELSE {otherwise} END"


def _without_implicit_casts(call: Call) -> tuple[Expr, ...]:
    """Both operands without the casts that SQL adds by itself when their types meet."""
    bare = tuple(_inside_cast(argument) for argument in call.arguments)
    left, right = (argument.type for argument in bare)
    if not (is_numeric(left) and is_numeric(right)):
        return call.arguments
    if call.function in ("+", "-", "*", "/", "div", "%"):
        implied = operand_types(call.function, left, right)
    else:
        common = common_type(left, right)
        assert common is not None, f"numbers that do not compare: {call}"
        implied = (common, common)
    return bare if implied == tuple(argument.type for argument in call.arguments) else call.arguments


def _inside_cast(expr: Expr) -> Expr:
    return expr.arguments[0] if isinstance(expr, Call) and expr.function == "cast" else expr


def _is_truth(expr: Expr) -> bool:
    return isinstance(expr, Literal) and isinstance(expr.value, bool)


def _number(literal: Literal) -> str:
    value = literal.value
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else literal_text(literal)
    return format(value, "f") if isinstance(value, decimal.Decimal) else str(value)


def literal_text(literal: Expr) -> str:
    """A literal that keeps its type: 1 is an int, `1L` a bigint, 1.5 a decimal, `1.5D` a double."""
    assert isinstance(literal, Literal), f"not a literal: {literal}"
    value, type_ = literal.value, literal.type
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return _quote_text(value)
        case bytes():
            return f"X'{value.hex().upper()}'"
        case dt.timedelta() | int() if type_ in (DAY_TIME, YEAR_MONTH):
            return _interval(value)
        case float():
            return _float(value, type_)
        case int():
            return f"{value}{_SUFFIXES.get(type_, '')}" if not isinstance(type_, Decimal) else f"{value}BD"
        case decimal.Decimal():
            text = format(value, "f")
            return text if "." in text else f"{text}BD"
        case dt.datetime():
            return f"TIMESTAMP '{value.isoformat(' ')}'"
        case dt.date():
            return f"DATE '{value.isoformat()}'"
        case dt.timedelta():
            return _interval(value)
        case tuple():
            element = getattr(type_, "element", type_)
            return f"array({', '.join(literal_text(Literal(item, element)) for item in value)})"


def _quote_text(value: str) -> str:
    """Spark reads a backslash in a string as an escape."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\0", "\\0")
    return f"'{escaped}'"


def _float(value: float, type_: Type) -> str:
    if value != value or abs(value) == float("inf"):
        return f"CAST('{value}' AS {str(type_).upper()})"
    return f"{value!r}{'D' if type_ == FRACTIONS[1] else 'F'}"


def _interval(value: dt.timedelta | int) -> str:
    if isinstance(value, int):
        sign, months = ("-" if value < 0 else ""), abs(value)
        return f"INTERVAL '{sign}{months // 12}-{months % 12}' YEAR TO MONTH"
    sign, span = ("-" if value < dt.timedelta() else ""), abs(value)
    hours, rest = divmod(span.seconds, 3600)
    fraction = f".{span.microseconds:06d}" if span.microseconds else ""
    return f"INTERVAL '{sign}{span.days} {hours:02d}:{rest // 60:02d}:{rest % 60:02d}{fraction}' DAY TO SECOND"
