"""Z-sets: bags of rows with integer weights, the values that relations and changes have.

A table is a Z-set of positive weights (how often the row occurs); a change is one of any sign. Adding a change to a
table gives the next table. Weights are never zero, so two Z-sets are equal exactly when they hold the same rows equally
often.

Floats are kept in one form, because rows are found by equality: NaN is always the same object, and -0.0 becomes 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from headrace.model.types import Row, Value

NAN = math.nan


class ZSet:
    """Immutable: every operation makes a new one."""

    __slots__ = ("_weights",)

    def __init__(self, weights: Iterable[tuple[Row, int]] = ()) -> None:
        total: dict[Row, int] = {}
        for row, weight in weights:
            total[row] = total.get(row, 0) + weight
        self._weights = {row: weight for row, weight in total.items() if weight}

    @classmethod
    def of(cls, rows: Iterable[Row]) -> ZSet:
        """Each row once more for every time it occurs; floats are put into their one form."""
        return cls((normal_row(row), 1) for row in rows)

    def items(self) -> Iterable[tuple[Row, int]]:
        """(row, weight) in no particular order."""
        return self._weights.items()

    def weight(self, row: Row) -> int:
        return self._weights.get(normal_row(row), 0)

    def rows(self) -> Iterator[Row]:
        """Every row as often as its weight says; only for bags."""
        for row, weight in self._weights.items():
            assert weight > 0, f"not a bag: {row} occurs {weight} times"
            yield from (row for _ in range(weight))

    @property
    def is_bag(self) -> bool:
        """No row occurs less than zero times."""
        return all(weight > 0 for weight in self._weights.values())

    def __add__(self, other: ZSet) -> ZSet:
        total = dict(self._weights)
        for row, weight in other._weights.items():
            total[row] = total.get(row, 0) + weight
        return ZSet(total.items())

    def __neg__(self) -> ZSet:
        return ZSet((row, -weight) for row, weight in self._weights.items())

    def __sub__(self, other: ZSet) -> ZSet:
        return self + -other

    def __bool__(self) -> bool:
        return bool(self._weights)

    def __len__(self) -> int:
        """How many different rows."""
        return len(self._weights)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZSet) and self._weights == other._weights

    def __hash__(self) -> int:
        return hash(frozenset(self._weights.items()))

    def __repr__(self) -> str:
        return "ZSet(" + ", ".join(f"{weight:+d} {row}" for row, weight in self._weights.items()) + ")"


EMPTY = ZSet()


def normal_row(row: Row) -> Row:
    return tuple(normal(value) if isinstance(value, float | tuple) else value for value in row)


def normal(value: Value) -> Value:
    """The one form of a value: NaN is `NAN`, -0.0 is 0.0, also inside arrays."""
    if isinstance(value, float):
        return NAN if value != value else value + 0.0
    return normal_row(value) if isinstance(value, tuple) else value


def apply(tables: Mapping[str, ZSet], changes: Mapping[str, ZSet]) -> dict[str, ZSet]:
    """The tables after a batch of changes; a table must stay a bag."""
    after = {name: table + changes.get(name, EMPTY) for name, table in tables.items()}
    broken = sorted(name for name, table in after.items() if not table.is_bag)
    assert not broken, f"changes delete rows that are not there: {', '.join(broken)}"
    return after
