"""Expressions as JSON: what fingerprints hash, and the order in which canonical forms sort.

Arguments come first, so that what is said of one column sorts together. Equal keys mean equal expressions. The key of a
column is its name, so two columns of one name must be the same column.
"""

from __future__ import annotations

import datetime as dt
import decimal
import json

from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.types import BOOLEAN, Value
from headrace.plan.canonical.function_facts import version_of

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def expr_json(expr: Expr) -> Json:
    match expr:
        case Column(name):
            return name
        case Literal(value, type_):
            return [str(type_), value_json(value)]
        case Call(function, arguments, type_):
            result = "" if type_ == BOOLEAN else str(type_)
            return [[expr_json(argument) for argument in arguments], version_of(function), result]


def value_json(value: Value) -> Json:
    """One text per value; numbers as decimals without trailing zeros, so that 1.0 and 1.00 of one type agree."""
    match value:
        case None | bool() | str():
            return value
        case int():
            return str(value)
        case float():
            return repr(value)
        case decimal.Decimal():
            return format(value.normalize(), "f")
        case bytes():
            return value.hex()
        case dt.timedelta():
            return f"{value // dt.timedelta(microseconds=1)} us"
        case dt.date():
            return value.isoformat()
        case tuple():
            return [value_json(item) for item in value]


def key_of(expr: Expr) -> str:
    """`compact(expr_json(expr))`, written out because it is asked for all the time."""
    match expr:
        case Column(name):
            return compact(name) if '"' in name or "\\" in name or not name.isprintable() else f'"{name}"'
        case Call(function, arguments, type_):
            result = "" if type_ == BOOLEAN else str(type_)
            return f'[[{",".join(map(key_of, arguments))}],"{version_of(function)}","{result}"]'
        case Literal():
            return compact(expr_json(expr))


def compact(value: Json) -> str:
    """JSON text with sorted keys and no spaces: the same on every machine and in every process."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
