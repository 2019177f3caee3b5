"""Compares two large multisets of rows without holding either: sums of hashes first, rows only where these differ.

    digests   both sides, a part at a time: each row is hashed and added to the digest of its bucket, which its exact
              columns (all but floats) choose. A digest is a sum over rows and weights, so parts come in any order, and
              changes that cancel each other need not be consolidated first.
    hashes    of rows in buckets whose digests differ: what remains after equal hashes cancel out is different
    rows      of the hashes that remain: some as examples; floats of all, since they may be equal within the tolerance

Floats are hashed without their last bits, in cells that are narrower than the tolerance of `run.rows.same_rows`. Rows
with equal hashes are therefore the same, and the few whose floats lie on two sides of a border are paired in the last
step. What is found is what `same_rows.differing` finds on the same rows, which is the definition.

Two different tables have equal digests with a probability of 2^-128 for each bucket.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types

from headrace.model.types import Row
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import WEIGHT
from headrace.run.rows.hashes import Hashes, hash_of
from headrace.run.rows.same_rows import FLOAT_TOLERANCE, same_value

EXAMPLES = 3
BUCKETS = 1 << 16
ROWS_AT_ONCE = 2_000_000
"""Rows whose hashes are held together, 40 bytes and more for each. A bucket that has more is held whole."""
PART_ROWS = 250_000

_LAST_BITS = np.uint64((1 << 22) - 1)
"""Of a double's 52: cells of 2^-30 of the value, a little less than the tolerance."""
_EXPONENT = np.uint64(0x7FF0000000000000)
_SECOND = np.uint64(0xC2B2AE3D27D4EB4F)

Parts = Callable[[], Iterable[pa.Table]]
"""A multiset, a part at a time, as often as asked: columns, and `__w` with how often each row occurs."""

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RowDifference:
    """Rows that are only expected, and rows that are only there, each counted as often as it occurs.

    `rows` is how many are there.
    """

    rows: int
    missing: int = 0
    extra: int = 0
    examples_missing: tuple[Row, ...] = ()
    examples_extra: tuple[Row, ...] = ()

    @property
    def equal(self) -> bool:
        return not self.missing and not self.extra


def compare(expected: Parts, actual: Parts, rows_at_once: int = ROWS_AT_ONCE) -> RowDifference:
    """Both sides have the same columns. Neither may change between two readings."""
    wanted, there = _digest(expected), _digest(actual)
    rows = int(there.rows.sum())
    buckets = np.flatnonzero(wanted.differs_from(there))
    if not len(buckets):
        return RowDifference(rows)
    missing, extra = _FirstDifferences(), _FirstDifferences()
    for group in _groups(buckets, wanted.entries + there.entries, rows_at_once):
        left = _remaining(expected, actual, group)
        missing.add(left, left.weights > 0)
        extra.add(left, left.weights < 0)
    return RowDifference(
        rows,
        missing.count,
        extra.count,
        tuple(_rows_with(expected, missing.hashes)),
        tuple(_rows_with(actual, extra.hashes)),
    )


# Digests


@dataclass(slots=True)
class _Digest:
    """Rows by bucket: two sums of hashes, how many rows, and how many entries were read for them."""

    first: Hashes = field(default_factory=lambda: np.zeros(BUCKETS, np.uint64))
    second: Hashes = field(default_factory=lambda: np.zeros(BUCKETS, np.uint64))
    rows: Integers = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))
    entries: Integers = field(default_factory=lambda: np.zeros(BUCKETS, np.int64))

    def add(self, part: _Part) -> None:
        weights = part.weights.view(np.uint64)  # sums wrap around, negative weights included
        np.add.at(self.first, part.buckets, part.hashes * weights)
        np.add.at(self.second, part.buckets, _other_hash(part.hashes) * weights)
        np.add.at(self.rows, part.buckets, part.weights)
        self.entries += np.bincount(part.buckets, minlength=BUCKETS)

    def differs_from(self, other: _Digest) -> npt.NDArray[np.bool_]:
        differs = (self.first != other.first) | (self.second != other.second) | (self.rows != other.rows)
        return np.asarray(differs)


def _other_hash(hashes: Hashes) -> Hashes:
    """A second hash of the same rows, which the first says nothing about."""
    mixed = (hashes ^ (hashes >> np.uint64(33))) * _SECOND
    mixed ^= mixed >> np.uint64(29)
    return mixed * mixed


def _digest(parts: Parts) -> _Digest:
    found = _Digest()
    for table in _small(parts()):
        found.add(_Part.of(table))
    return found


def _small(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    for table in tables:
        for start in range(0, table.num_rows, PART_ROWS):
            yield table.slice(start, PART_ROWS)


def _groups(buckets: Integers, entries: Integers, rows_at_once: int) -> Iterator[npt.NDArray[np.bool_]]:
    """Buckets that are looked at together, as masks over all."""
    numbers = (np.cumsum(entries[buckets]) - 1) // rows_at_once
    for number in np.unique(numbers):
        mask = np.zeros(BUCKETS, np.bool_)
        mask[buckets[numbers == number]] = True
        yield mask


# Hashes of rows


@dataclass(frozen=True, slots=True)
class _Part:
    """Some entries of a side. `classes` are hashes of the exact columns: only rows of one class can be the same."""

    hashes: Hashes
    classes: Hashes
    weights: Integers
    floats: Floats
    """A row for each float column; NULL, NaN and infinities are in `classes` and 0 here."""

    @property
    def buckets(self) -> Integers:
        return (self.classes >> np.uint64(48)).astype(np.int64)

    @staticmethod
    def of(table: pa.Table) -> _Part:
        names = [name for name in table.column_names if name != WEIGHT]
        inexact = [name for name in names if types.is_floating(table.schema.field(name).type)]
        exact = [name for name in names if name not in inexact]
        nulls = _null_masks(table, names)
        columns: dict[str, pa.Array | pa.ChunkedArray] = {name: table.column(name) for name in exact}
        columns |= {f"nulls {number}": pa.array(mask) for number, mask in enumerate(nulls)}
        floats, odd, cells = _floats_of(table, inexact)
        columns["odd"] = pa.array(odd)
        by_class = pa.table(columns) if table.num_rows else pa.table(columns).slice(0, 0)
        classes = hash_of(by_class, by_class.column_names)
        hashes = classes
        for cell in cells:
            hashes = hash_of(pa.table({"row": hashes.view(np.int64), "cell": cell}), ["row", "cell"])
        return _Part(hashes, classes, table.column(WEIGHT).to_numpy().astype(np.int64), floats)

    def chosen(self, mask: npt.NDArray[np.bool_]) -> _Part:
        return _Part(self.hashes[mask], self.classes[mask], self.weights[mask], self.floats[:, mask])


def _null_masks(table: pa.Table, names: Sequence[str]) -> list[Integers]:
    """Bits that say where a row has NULLs, 60 columns at a time: no value's hash is NULL's."""
    masks = []
    for start in range(0, max(1, len(names)), 60):
        mask = np.zeros(table.num_rows, np.int64)
        for bit, name in enumerate(names[start : start + 60]):
            column = table.column(name)
            if column.null_count:
                mask |= column.is_null().to_numpy().astype(np.int64) << bit
        masks.append(mask)
    return masks


def _floats_of(table: pa.Table, names: Sequence[str]) -> tuple[Floats, Integers, list[Integers]]:
    """Finite values, a number for those that have none (NULL, NaN, infinities), and the cells that values lie in."""
    values = np.zeros((len(names), table.num_rows), np.float64)
    odd = np.zeros(table.num_rows, np.int64)
    cells = []
    for number, name in enumerate(names):
        column = table.column(name)
        known = (column.fill_null(0.0) if column.null_count else column).to_numpy().astype(np.float64) + 0.0
        kind = np.isnan(known) * 1 + np.isposinf(known) * 2 + np.isneginf(known) * 3
        odd = odd * 31 + kind
        values[number] = np.where(kind > 0, 0.0, known)
        bits = values[number].view(np.uint64)
        normal = (bits & _EXPONENT) != 0  # the cells of others would be too wide
        cells.append(np.where(normal, bits & ~_LAST_BITS, bits).view(np.int64))
    return values, odd, cells


# What remains


def _remaining(expected: Parts, actual: Parts, buckets: npt.NDArray[np.bool_]) -> _Part:
    """One entry for each row that only one side has; its weight is positive if that is the expected one."""
    found = [*_entries(expected, buckets, 1), *_entries(actual, buckets, -1)]
    whole = _Part(
        np.concatenate([part.hashes for part in found]),
        np.concatenate([part.classes for part in found]),
        np.concatenate([part.weights for part in found]),
        np.concatenate([part.floats for part in found], axis=1),
    )
    order = np.argsort(whole.hashes, kind="stable")
    hashes = whole.hashes[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    sums = np.add.reduceat(whole.weights[order], starts)
    first = order[starts]
    left = _Part(whole.hashes[first], whole.classes[first], sums, whole.floats[:, first]).chosen(sums != 0)
    return _without_pairs(left) if len(whole.floats) else left


def _entries(parts: Parts, buckets: npt.NDArray[np.bool_], sign: int) -> Iterator[_Part]:
    for table in _small(parts()):
        part = _Part.of(table)
        chosen = part.chosen(buckets[part.buckets])
        yield _Part(chosen.hashes, chosen.classes, sign * chosen.weights, chosen.floats)


def _without_pairs(left: _Part) -> _Part:
    """Leaves out rows of the two sides that differ by rounding alone."""
    order = np.argsort(left.classes, kind="stable")
    classes, weights = left.classes[order], left.weights[order].copy()
    starts = np.flatnonzero(np.concatenate([[True], classes[1:] != classes[:-1]])) if len(order) else order
    ends = np.append(starts[1:], len(order))
    _pair_couples(left.floats[:, order], weights, starts[ends - starts == 2])
    for start, end in zip(starts[ends - starts > 2], ends[ends - starts > 2], strict=True):
        _pair_class(left.floats[:, order[start:end]], weights[start:end])
    paired = _Part(left.hashes[order], left.classes[order], weights, left.floats[:, order])
    return paired.chosen(weights != 0)


def _pair_couples(floats: Floats, weights: Integers, starts: Integers) -> None:
    """Classes of two rows, all at once: that is what a table with a key has."""
    one, other = floats[:, starts], floats[:, starts + 1]
    close = np.abs(one - other) <= FLOAT_TOLERANCE * np.maximum(np.abs(one), np.abs(other))
    opposite = np.sign(weights[starts]) != np.sign(weights[starts + 1])
    chosen = starts[close.all(axis=0) & opposite]
    both = np.minimum(np.abs(weights[chosen]), np.abs(weights[chosen + 1]))
    for places in (chosen, chosen + 1):
        weights[places] -= np.sign(weights[places]) * both


def _pair_class(floats: Floats, weights: Integers) -> None:
    """Takes from the weights of rows of one class what is paired. Sorted by one column, partners are near."""
    by = floats[int(np.argmax([len(np.unique(column)) for column in floats]))]
    extra = sorted(np.flatnonzero(weights < 0).tolist(), key=lambda place: float(by[place]))
    firsts = [float(by[place]) for place in extra]
    for place in np.flatnonzero(weights > 0).tolist():
        value = float(by[place])
        reach = 2 * FLOAT_TOLERANCE * abs(value)
        for near in range(bisect_left(firsts, value - reach), len(extra)):
            if firsts[near] > value + reach or not weights[place]:
                break
            other = extra[near]
            pairs = zip(floats[:, place].tolist(), floats[:, other].tolist(), strict=True)
            if weights[other] and all(same_value(mine, theirs) for mine, theirs in pairs):
                both = min(int(weights[place]), -int(weights[other]))
                weights[place] -= both
                weights[other] += both


# Examples


@dataclass(slots=True)
class _FirstDifferences:
    """How many rows only one side has, and hashes of the first of them."""

    count: int = 0
    hashes: list[int] = field(default_factory=list)

    def add(self, left: _Part, mask: npt.NDArray[np.bool_]) -> None:
        self.count += int(np.abs(left.weights[mask]).sum())
        self.hashes += left.hashes[mask][: EXAMPLES - len(self.hashes)].tolist()


def _rows_with(parts: Parts, hashes: Sequence[int]) -> list[Row]:
    """A row for each of a few hashes."""
    found: dict[int, Row] = {}
    wanted = np.array(hashes, np.uint64)
    for table in _small(parts()) if hashes else ():
        here = _Part.of(table).hashes
        for place in np.flatnonzero(np.isin(here, wanted)).tolist():
            if int(here[place]) not in found:
                (found[int(here[place])],) = rows_of_arrow(table.slice(place, 1).drop_columns([WEIGHT]))
        if len(found) == len(hashes):
            break
    return [found[one] for one in hashes if one in found]


def add_weights(rows: pa.Table) -> pa.Table:
    """Rows that occur once each."""
    return rows.append_column(WEIGHT, pa.array(np.ones(rows.num_rows, np.int64)))
