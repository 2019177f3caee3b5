"""Answers of several engines compared."""

from __future__ import annotations

import decimal
import math
from collections.abc import Iterable

from headrace.model.types import Row, Value


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
