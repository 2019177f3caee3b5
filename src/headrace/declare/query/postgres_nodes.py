"""Nodes in Spark's words, made while PostgreSQL's text is read."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.model.types import Type

TypeOf = Callable[[exp.Expr], Type]
ConvertCall = Callable[[list[exp.Expr], TypeOf], exp.Expr]
"""Makes a call of PostgreSQL's, given by its arguments, one of Spark's."""

IN_SPARK_WORDS = "spark"
"""Marks nodes, in their `meta`, that are Spark's already."""

FIFTEEN_DIGITS = "0.00000000000000E0"
"""The pattern of `format_number` that leaves 15 digits of a double: Spark's words for numeric of double precision."""


def mark(node: exp.Expr) -> exp.Expr:
    node.meta[IN_SPARK_WORDS] = True
    return node


def make_call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return mark(exp.Anonymous(this=name, expressions=list(arguments)))


def make_cast(node: exp.Expr, type_: str) -> exp.Expr:
    return mark(exp.Cast(this=node, to=exp.DataType.build(type_, dialect="spark")))


def make_number(value: int) -> exp.Expr:
    return exp.Literal.number(value)


def make_text(value: str) -> exp.Expr:
    return mark(exp.Literal.string(value))


def constant_text(node: exp.Expr, what: str) -> str:
    if not isinstance(node, exp.Literal | exp.ByteString) or (isinstance(node, exp.Literal) and not node.is_string):
        raise NotMaintained(what, "write the pattern as a constant")
    return node.name


def take(name: str, arguments: list[exp.Expr], count: int) -> list[exp.Expr]:
    if len(arguments) != count:
        raise Mistake(f'function "{name}" takes {count} arguments, not {len(arguments)}')
    return arguments


def refuse_call(name: str, hint: str) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        raise NotMaintained(f"function: {name}", hint)

    return convert


def at_place_of(node: exp.Expr, made: exp.Expr) -> exp.Expr:
    """What was made, standing where the node stands."""
    if made is not node:
        made.parent, made.arg_key = node.parent, node.arg_key
        if "start" in node.meta:
            made.meta.update({key: node.meta[key] for key in ("start", "end")})
    return made
