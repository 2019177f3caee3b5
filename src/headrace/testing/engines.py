"""Answers of several engines compared."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.model.types import Row
from headrace.run.rows.same_rows import same_row, same_value

__all__ = ["difference", "same_row", "same_value"]


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
