"""A row for which an expression of a view has no answer, and how people are told of it.

1 / x: division by zero, in row id = 17 of orders
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace.model.expr import Call, Column, Expr, Literal, columns_of, transform
from headrace.model.promotion import common_type
from headrace.model.relation import AggregateCall
from headrace.model.show import show_expr, write_call
from headrace.model.types import BIGINT, Type, Value, is_numeric

LONGEST_VALUE = 40
"""Characters of a value that are shown."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """`problem` is what the expression met, `expression` the smallest part of the query that has no answer.

    `row` has the values by the names that the expression uses (`orders.x`), `reads` those that it reads; of a group,
    `is_group`, the row has its keys. `time` is when the row came (microseconds), where that is known.
    """

    problem: str
    expression: str | None = None
    row: Mapping[str, Value] = field(default_factory=dict)
    reads: tuple[str, ...] = ()
    is_group: bool = False
    time: int | None = None


def say_bad_row(bad: BadRow, places: Sequence[str] = ()) -> str:
    """`places` name the rows of sources that it is made of; without any, its own values have to do."""
    what = bad.problem if bad.expression is None else f"{bad.expression}: {bad.problem}"
    found = " and ".join(places) or _own_place(bad)
    return f"{what}, in {found}" if found else what


def _own_place(bad: BadRow) -> str:
    shown = bad.row if bad.is_group else {name: bad.row[name] for name in bad.reads if name in bad.row}
    if not shown:
        return ""
    return f"{'the group' if bad.is_group else 'a row'} with {say_values(shown)}"


def say_values(values: Mapping[str, Value]) -> str:
    """`id = 17, name = 'Anna'`."""
    return ", ".join(f"{bare_name(name)} = {_say_value(value)}" for name, value in values.items())


def _say_value(value: Value) -> str:
    if value is None:
        return "NULL"
    shown = say_text(str(value), LONGEST_VALUE)
    return f"'{shown}'" if isinstance(value, str) else shown


def say_text(text: str, longest: int) -> str:
    """A value on one line, cut to a number of characters."""
    shown = "".join(map(_say_character, text[: longest + 1]))
    return shown if len(shown) <= longest else f"{shown[:longest]}..."


def _say_character(character: str) -> str:
    """What cannot be printed as it would be written in a program: it may break lines, or hide."""
    return character if character.isprintable() else character.encode("unicode_escape").decode()


def bare_name(name: str) -> str:
    """A column without what it belongs to: `x` of `orders.x`. Text of an expression stays as it is."""
    alias, dot, column = name.partition(".")
    return column if dot and alias.replace("#", "").replace("/", "").isidentifier() and column else name


def say_expression(expr: Expr) -> str:
    """An expression as it was written, as far as that is known: names without tables, no casts that nobody wrote."""
    names = columns_of(expr)
    bare = {name: bare_name(name) for name in names}
    is_clear = len(set(bare.values())) == len(names)

    def plain(node: Expr) -> Expr:
        match node:
            case Column(name, type_) if is_clear:
                return Column(bare[name], type_)
            case Call("cast", (argument,), type_) if _is_implicit(argument, type_):
                return argument
            case Literal(float() as value) if value.is_integer():
                return Literal(int(value), BIGINT)
            case _:
                return node

    return show_expr(transform(expr, plain))


def say_call(call: AggregateCall) -> str:
    """`sum(amount)`."""
    return write_call(call, say_expression)


def _is_implicit(argument: Expr, type_: Type) -> bool:
    """Whether a number only became one of a wider type: arithmetic does that by itself."""
    return is_numeric(argument.type) and common_type(argument.type, type_) == type_


def names_by_alias(names: Iterable[str]) -> dict[str, list[str]]:
    """Columns by the alias before their first dot; those that have none are left out."""
    found: dict[str, list[str]] = {}
    for name in names:
        alias, dot, _ = name.partition(".")
        if dot:
            found.setdefault(alias, []).append(name)
    return found
