"""Numbers for equal rows, and pairs of equal numbers: grouping and joining on arrays alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.run.operators.lookup import Integers
from headrace.run.rows.equal import comparable


@dataclass(frozen=True, slots=True)
class Numbering:
    """`of_row` says which group each row is in, from 0 on; `count` how many groups there are."""

    of_row: Integers
    count: int

    @property
    def first_rows(self) -> Integers:
        """A row of each group."""
        first = np.zeros(self.count, np.int64)
        first[self.of_row[::-1]] = np.arange(len(self.of_row))[::-1]
        return first


def number_rows(columns: Iterable[pa.Array | pa.ChunkedArray], rows: int) -> Numbering:
    """Rows that agree in all columns have one number; NULL agrees with NULL and NaN with NaN."""
    numbering = Numbering(np.zeros(rows, np.int64), min(rows, 1))
    for column in columns:
        one = _encode_column(column)
        numbering = one if numbering.count <= 1 else _dense(numbering.of_row * one.count + one.of_row)
    return numbering


def _encode_column(column: pa.Array | pa.ChunkedArray) -> Numbering:
    if pa.types.is_null(column.type):
        return Numbering(np.zeros(len(column), np.int64), min(len(column), 1))
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    encoded = pc.dictionary_encode(comparable(column), null_encoding="encode")
    return Numbering(encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), len(encoded.dictionary))


def _dense(numbers: Integers) -> Numbering:
    values, of_row = np.unique(numbers, return_inverse=True)
    return Numbering(of_row.astype(np.int64), len(values))


def pairs(left: Integers, right: Integers) -> tuple[Integers, Integers]:
    """Positions of all pairs with the same number."""
    order = np.argsort(right, kind="stable")
    ordered = right[order]
    low, high = np.searchsorted(ordered, left, "left"), np.searchsorted(ordered, left, "right")
    counts = high - low
    return np.repeat(np.arange(len(left)), counts), order[spread(low, counts)]


def spread(start: Integers, counts: Integers) -> Integers:
    """start, start + 1, ... as often as counted, for every start."""
    before = np.cumsum(counts) - counts
    return np.repeat(start - before, counts) + np.arange(int(counts.sum()))


Amounts = npt.NDArray[Any]
"""Integers, of 64 bits where they are sure to fit, else Python's own."""


@dataclass(frozen=True, slots=True)
class GroupTimes:
    """The times at which each group changes: one step per group and time, ordered by both.

    `of_row` says to which step each row belongs.
    """

    group: Integers
    time: Integers
    of_row: Integers
    _order: Integers
    _starts: Integers

    @classmethod
    def of(cls, group: Integers, time: Integers) -> GroupTimes:
        order = np.lexsort((time, group))
        groups, times = group[order], time[order]
        begins = np.ones(len(order), bool)
        begins[1:] = (groups[1:] != groups[:-1]) | (times[1:] != times[:-1])
        starts = np.flatnonzero(begins)
        of_row = np.empty(len(order), np.int64)
        of_row[order] = np.cumsum(begins) - 1
        return cls(groups[starts], times[starts], of_row, order, starts)

    def __len__(self) -> int:
        return len(self.group)

    @property
    def is_first(self) -> npt.NDArray[np.bool_]:
        """Whether the step is the first of its group."""
        first = np.ones(len(self), bool)
        first[1:] = self.group[1:] != self.group[:-1]
        return first

    @property
    def is_last(self) -> npt.NDArray[np.bool_]:
        last = np.ones(len(self), bool)
        last[:-1] = self.group[1:] != self.group[:-1]
        return last

    def running(self, amounts: Amounts, initial: Amounts) -> Amounts:
        """The total of each group after each step, from amounts per row and a total per group before all steps.

        Totals of 64 bits may wrap around on the way, which leaves every group's own right if it fits.
        """
        if not len(self):
            return amounts[:0]
        sums = np.add.reduceat(amounts[self._order], self._starts)
        total = np.cumsum(sums)
        first = np.flatnonzero(self.is_first)
        base = (total - sums)[first]
        of_group = np.cumsum(self.is_first) - 1
        running: Amounts = total - base[of_group] + initial[self.group]
        return running

    def before(self, after: Amounts, initial: Amounts) -> Amounts:
        """The totals before each step."""
        shifted = np.empty_like(after)
        shifted[1:] = after[:-1]
        first = self.is_first
        shifted[first] = initial[self.group[first]]
        return shifted


def sums_by(amounts: Integers, numbers: Integers, count: int) -> Integers:
    """Sums of amounts by number."""
    found = np.zeros(count, np.int64)
    np.add.at(found, numbers, amounts)
    return found
