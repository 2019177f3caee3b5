"""Compares the results of two computations: how often each row occurs, with a tolerance for floats."""

from __future__ import annotations

import decimal
import math
from collections import Counter, defaultdict
from collections.abc import Iterable

from headrace.model.types import Row, Value

FLOAT_TOLERANCE = 1e-9
"""Of the larger of two values: floats that are closer are the same."""


def differing(expected: Iterable[Row], actual: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Rows that are only expected, and rows that are only there, each as often as it is."""
    left, right = Counter(expected), Counter(actual)
    missing, extra = list((left - right).elements()), list((right - left).elements())
    if not missing or not extra:
        return missing, extra
    return _without_partners(missing, extra)


def _without_partners(missing: list[Row], extra: list[Row]) -> tuple[list[Row], list[Row]]:
    """Pairs of rows that differ by rounding alone are left out."""
    candidates: defaultdict[Row, list[Row]] = defaultdict(list)
    for row in extra:
        candidates[_exact_part(row)].append(row)
    lonely = []
    for row in missing:
        partners = candidates[_exact_part(row)]
        partner = next((other for other in partners if same_row(row, other)), None)
        if partner is None:
            lonely.append(row)
        else:
            partners.remove(partner)
    return lonely, [row for partners in candidates.values() for row in partners]


def _exact_part(row: Row) -> Row:
    return tuple(value for value in row if not isinstance(value, float))


def same_row(left: Row, right: Row) -> bool:
    return len(left) == len(right) and all(map(same_value, left, right))


def same_value(left: Value, right: Value) -> bool:
    """Equal, of one kind, and for floats within a relative 1e-9."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (left != left and right != right) or math.isclose(left, right, rel_tol=FLOAT_TOLERANCE)
    if isinstance(left, decimal.Decimal) and isinstance(right, decimal.Decimal):
        return left == right and left.as_tuple().exponent == right.as_tuple().exponent
    return type(left) is type(right) and left == right
