"""Running the same thing on other engines: our expressions as Spark SQL, and answers compared."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable

from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.types import Row, Type, Value

INFIX = ("=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "div", "%", "and", "or", "like", "rlike")
SPECIAL = ("case", "cast", "in", "is_null", "not", "negate")


def spark_text(expr: Expr) -> str:
    """An expression as Spark SQL; columns are quoted whole."""
    match expr:
        case Column(name):
            return f"`{name}`"
        case Literal(value, type_):
            return _literal(value, type_)
        case Call(function, arguments):
            texts = [spark_text(argument) for argument in arguments]
            if function in SPECIAL:
                return _special(expr, texts)
            if function in INFIX and not (function == "like" and len(texts) > 2):
                return "(" + f" {function} ".join(texts) + ")"
            if function == "like":
                return f"({texts[0]} LIKE {texts[1]} ESCAPE {texts[2]})"
            return f"{function}({', '.join(texts)})"


def _special(call: Call, texts: list[str]) -> str:
    match call.function:
        case "cast":
            return f"CAST({texts[0]} AS {call.type})"
        case "case":
            branches = zip(texts[:-1:2], texts[1:-1:2], strict=True)
            whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in branches)
            return f"CASE {whens} ELSE {texts[-1]} END"
        case "in":
            return f"({texts[0]} IN ({', '.join(texts[1:])}))"
        case "is_null":
            return f"({texts[0]} IS NULL)"
        case "not":
            return f"(NOT {texts[0]})"
        case _:
            return f"(- {texts[0]})"


def _literal(value: Value, type_: Type) -> str:
    """Text cast to the type, because few types have literals for all their values."""
    if value is None:
        return f"CAST(NULL AS {type_})"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\t", "\\t")
        return f"'{escaped}'"
    assert not isinstance(value, bytes), "no literal for bytes"
    if isinstance(value, bool):
        return str(value).upper()
    return f"CAST('{value}' AS {type_})"


def difference(expected: Iterable[Row], actual: Iterable[Row]) -> str | None:
    """None when both hold the same rows equally often, floats compared with a tolerance; else what differs."""
    left, right = sorted(expected, key=_rough), sorted(actual, key=_rough)
    if len(left) == len(right) and all(map(same_row, left, right)):
        return None
    missing = [row for row in left if not any(same_row(row, other) for other in right)]
    extra = [row for row in right if not any(same_row(row, other) for other in left)]
    return f"{len(left)} rows expected, {len(right)} found; only expected: {missing}; only found: {extra}"


def _rough(row: Row) -> str:
    """Orders rows so that floats which differ in the last digits do not change the order."""
    return repr([f"{value:.6g}" if isinstance(value, float) else value for value in row])


def same_row(left: Row, right: Row) -> bool:
    return len(left) == len(right) and all(map(same_value, left, right))


def same_value(left: Value, right: Value) -> bool:
    """Equal, of one kind, and for floats within a relative 1e-9."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right) or math.isclose(left, right, rel_tol=1e-9)
    if isinstance(left, decimal.Decimal) and isinstance(right, decimal.Decimal):
        return left == right and left.as_tuple().exponent == right.as_tuple().exponent
    return type(left) is type(right) and left == right
