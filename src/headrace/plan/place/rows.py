"""Linear rows beside `Choices`: capacities, and "this one only with one of those"."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.plan.exact_numbers import BoolArray, Index


@dataclass(frozen=True, slots=True)
class Row:
    """The sum of the coefficients of the chosen variables is at most `limit`. Integers."""

    variables: tuple[int, ...]
    coefficients: tuple[int, ...]
    limit: int

    def excess(self, chosen: BoolArray) -> int:
        held = sum(
            weight for variable, weight in zip(self.variables, self.coefficients, strict=True) if chosen[variable]
        )
        return held - self.limit


def obeys(rows: tuple[Row, ...], chosen: BoolArray) -> bool:
    return all(row.excess(chosen) <= 0 for row in rows)


def links(rows: tuple[Row, ...]) -> Index:
    """Pairs of variables that share a row: enough of them to connect each row's."""
    pairs = [(row.variables[0], variable) for row in rows for variable in row.variables]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def rows_within(rows: tuple[Row, ...], variables: Index) -> tuple[Row, ...]:
    """The rows over some variables, which are renumbered 0, 1, ... in the given (rising) order."""
    number = {variable: position for position, variable in enumerate(variables.tolist())}
    return tuple(
        Row(tuple(number[variable] for variable in row.variables), row.coefficients, row.limit)
        for row in rows
        if row.variables and row.variables[0] in number
    )
