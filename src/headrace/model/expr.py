"""Scalar expressions: columns, literals, and calls of functions from one allow-list.

Operators are functions too (`and`, `=`, `+`, `case`, `cast`), so that a rule about expressions has three cases, not
thirty. Every expression knows its type; names of columns are unique within the row they read (`orders.total`, or
`total` after a projection).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.model.types import BOOLEAN, Type, Value


@dataclass(frozen=True, slots=True)
class Column:
    """The value of one field of the input row."""

    name: str
    type: Type

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant; its value is as `model.types` says, None for NULL."""

    value: Value
    type: Type

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the allow-list (`meaning.functions`) applied to arguments.

    `case` has arguments (condition, value)..., else; `cast` converts to its own `type`; `in` is (value, option...);
    `like` is (text, pattern[, escape]). A function declared in Python is called `python:NAME@VERSION`.
    """

    function: str
    arguments: tuple[Expr, ...]
    type: Type

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


Expr = Column | Literal | Call

TRUE = Literal(True, BOOLEAN)
FALSE = Literal(False, BOOLEAN)


def columns_of(expr: Expr) -> frozenset[str]:
    """Names of all columns that an expression reads."""
    return frozenset(node.name for node in walk(expr) if isinstance(node, Column))


def walk(expr: Expr) -> Iterator[Expr]:
    """The expression and everything inside it, outermost first."""
    yield expr
    if isinstance(expr, Call):
        for argument in expr.arguments:
            yield from walk(argument)


def transform(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """Rebuild an expression bottom-up, giving every node to `change`."""
    if isinstance(expr, Call):
        expr = replace(expr, arguments=tuple(transform(argument, change) for argument in expr.arguments))
    return change(expr)


def rename_columns(expr: Expr, names: Mapping[str, str]) -> Expr:
    """Columns get the names that the mapping gives them; others stay."""

    def renamed(node: Expr) -> Expr:
        return replace(node, name=names.get(node.name, node.name)) if isinstance(node, Column) else node

    return transform(expr, renamed)


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Columns named in the mapping are replaced by expressions."""
    return transform(expr, lambda node: values.get(node.name, node) if isinstance(node, Column) else node)


def conjuncts(predicate: Expr) -> tuple[Expr, ...]:
    """The parts of a predicate joined by AND, flat; TRUE has none."""
    if isinstance(predicate, Call) and predicate.function == "and":
        return tuple(part for argument in predicate.arguments for part in conjuncts(argument))
    return () if predicate == TRUE else (predicate,)


def conjunction(parts: tuple[Expr, ...]) -> Expr:
    """The opposite of `conjuncts`."""
    if not parts:
        return TRUE
    return parts[0] if len(parts) == 1 else Call("and", parts, BOOLEAN)


def is_disjunction(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.function == "or"


def is_deterministic(expr: Expr) -> bool:
    """False when the value depends on the time of evaluation (`now`)."""
    return not any(isinstance(node, Call) and node.function == "now" for node in walk(expr))
