"""What predicates mean in simulations of plans: comparisons with constants what they say, all others something made up.

The values of a column stand somewhere on the line of all constants that the document compares it with, so that `x > 7`
lets nothing through that `x > 5` does not, and both let something through. Any other conjunct holds by a checksum of
its text and the row.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.plan.check.predicates import ColumnCondition, Constant, condition_of, conjuncts_of, line_of


def checksum(*parts: object) -> int:
    return zlib.crc32(repr(parts).encode())


def is_chosen(text: str, *rows: object) -> bool:
    """Whether a predicate of no known meaning is true: for two rows of three."""
    return checksum(text, *rows) % 3 != 0


VALUES = 3
"""Columns have this many values, so that random rows often meet."""


def value_of(row: Any, column: str) -> Any:
    """The column of a source row; of a block's output, a made-up one."""
    for name, value in row if isinstance(row, tuple) and all(isinstance(x, tuple) and len(x) == 2 for x in row) else ():
        if name == column:
            return value
    return checksum(column, row) % VALUES


@dataclass(frozen=True, slots=True)
class Predicates:
    """The constants of every column, in order."""

    lines: Mapping[str, list[Constant]]

    def holds(self, text: str, *rows: object) -> bool:
        """Whether a predicate holds for one row, conjunct by conjunct; a predicate over several rows holds or not as a
        whole.
        """
        if len(rows) != 1:
            return is_chosen(text, *rows)
        return all(self._conjunct_holds(conjunct, rows[0]) for conjunct in conjuncts_of(text))

    def _conjunct_holds(self, conjunct: str, row: object) -> bool:
        condition = condition_of(conjunct)
        if condition is None or condition.column not in self.lines:
            return is_chosen(conjunct, row)
        line = self.lines[condition.column]
        place = checksum(condition.column, value_of(row, condition.column)) % (2 * len(line) + 1)
        return condition.holds_at(place, line)


def predicates_of(document: Mapping[str, Any]) -> Predicates:
    conditions: dict[str, list[ColumnCondition]] = {}
    for view in document["views"]:
        for _, text, _ in view["filters"]:
            for found in map(condition_of, conjuncts_of(text)):
                if found is not None:
                    conditions.setdefault(found.column, []).append(found)
    lines = {column: line_of(found) for column, found in conditions.items()}
    return Predicates({column: line for column, line in lines.items() if line is not None})
