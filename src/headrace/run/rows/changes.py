"""Changes as tables: rows with the time, the order inside the time, and the weight of each.

A change row is the columns of a vertex and (`__t`, `__o`, `__w`). Rows are equal when all their values are, NULL and
NaN included; -0.0 counts as 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.run.rows.equal import comparable, same
from headrace.run.rows.hashes import find_repeated, hash_of, sort_repeated

TIME, ORDER, WEIGHT = "__t", "__o", "__w"
"""int64 microseconds; int32 position of the alias that changed; int64 how often the row came, or left if negative."""

STAMPS = (TIME, ORDER, WEIGHT)

Positions = npt.NDArray[np.int64]


def columns_of(table: pa.Table) -> list[str]:
    """The columns that are not about the change."""
    return [name for name in table.column_names if name not in STAMPS]


def interval(table: pa.Table, after: int, upto: int) -> pa.Table:
    """The changes with after < t <= upto; without a copy if that is all of them."""
    times = table.column(TIME)
    inside = pc.and_(pc.greater(times, after), pc.less_equal(times, upto))
    return table if pc.all(inside, min_count=0).as_py() else table.filter(inside)


def consolidate(table: pa.Table) -> pa.Table:
    """Equal rows of equal (t, o) as one, with the sum of their weights; none whose sum is zero. Keeps first places."""
    return _sum_weights(table, [*columns_of(table), TIME, ORDER])


def contents(tables: Sequence[pa.Table], upto: int) -> pa.Table:
    """What is there at a time: all rows with t <= upto and how often they occur, as columns and `__w`.

    The tables (a base and changes after it, or any that sum up to that) have one schema; there is at least one.
    """
    rows = pa.concat_tables([interval(table, upto=upto, after=np.iinfo(np.int64).min) for table in tables])
    rows = rows.select([*columns_of(rows), WEIGHT])
    return _sum_weights(rows, columns_of(rows))


def stamp_rows(table: pa.Table, time: int, order: int = 0) -> pa.Table:
    """Rows with one time and order for all, instead of any that they have."""
    rest = table.drop_columns([name for name in (TIME, ORDER) if name in table.column_names])
    size = table.num_rows
    times, orders = np.full(size, time, dtype=np.int64), np.full(size, order, dtype=np.int32)
    return rest.append_column(TIME, pa.array(times)).append_column(ORDER, pa.array(orders))


@dataclass(frozen=True, slots=True)
class MarkedHashes:
    """Rows that may be among some others, by the first bits of a hash of some columns: one in sixteen that is not may
    be taken for one that is.
    """

    columns: tuple[str, ...]
    marks: npt.NDArray[np.bool_]
    shift: np.uint64

    def find_marked(self, table: pa.Table) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = self.marks[hash_of(table, self.columns) >> self.shift]
        return found


def mark_hashes(table: pa.Table) -> MarkedHashes:
    columns = columns_of(table)
    chosen = tuple(_cheap(table, columns) or columns)
    bits = 4 + table.num_rows.bit_length()
    shift = np.uint64(64 - bits)
    marks = np.zeros(1 << bits, dtype=np.bool_)
    marks[hash_of(table, chosen) >> shift] = True
    return MarkedHashes(chosen, marks, shift)


def _sum_weights(table: pa.Table, by: Sequence[str]) -> pa.Table:
    first, sums = totals(table, by)
    kept = table if len(first) == table.num_rows else table.take(pa.array(first))
    return with_weights(kept, sums)


def with_weights(table: pa.Table, weights: npt.NDArray[np.int64]) -> pa.Table:
    return table.set_column(table.column_names.index(WEIGHT), WEIGHT, pa.array(weights))


def totals(table: pa.Table, by: Sequence[str]) -> tuple[Positions, Positions]:
    """Finds, for every class of rows equal in some columns, its first position and its weight, if that is not zero.

    In the order of the positions. Most rows are told apart by their hash; only the others are grouped, which costs
    several times as much.
    """
    weights = table.column(WEIGHT).to_numpy().copy()
    alike = _alike(table, by)
    first, sums = _group_rows(table.take(pa.array(alike)) if len(alike) else table.slice(0, 0), by)
    weights[alike] = 0
    weights[alike[first]] = sums
    positions = np.flatnonzero(weights)
    return positions, weights[positions]


def _alike(table: pa.Table, by: Sequence[str]) -> Positions:
    """Positions of the rows that may equal another. Numbers and dates mostly tell rows apart, and cost the least."""
    short = _cheap(table, by)
    hashes = hash_of(table, short)
    alike = sort_repeated(hashes)
    if len(alike) and len(short) < len(by):
        alike = _tell_apart(table, [name for name in by if name not in short], alike, hashes[alike])
    return np.sort(alike)


def _tell_apart(table: pa.Table, by: Sequence[str], alike: Positions, hashes: npt.NDArray[np.uint64]) -> Positions:
    """Those of some rows, sorted by their `hashes`, that may equal another in more columns.

    Two that share a hash are compared: mostly one goes and the other comes. Of more, these columns are hashed as well.
    """
    starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
    sizes = np.diff(starts, append=len(alike))
    pairs = starts[sizes == 2]
    first, second = alike[pairs], alike[pairs + 1]
    for name in by:
        column = table.column(name)
        equal = same(column.take(pa.array(first)), column.take(pa.array(second)))
        first, second = first[equal], second[equal]
    is_of_more = np.repeat(sizes > 2, sizes)
    more = alike[is_of_more]
    if len(more):
        more = more[find_repeated(hashes[is_of_more] + hash_of(table.select(list(by)).take(pa.array(more)), by))]
    return np.concatenate([first, second, more])


def find_alike(table: pa.Table, by: Sequence[str], among: Positions) -> npt.NDArray[np.bool_]:
    """Which of the rows at some positions may equal another of these, as far as what costs little to hash tells."""
    hashes = hash_of(table, _cheap(table, by))
    return find_repeated(hashes[among])


def _cheap(table: pa.Table, columns: Sequence[str]) -> list[str]:
    """Columns that cost little to hash."""
    return [name for name in columns if types.is_primitive(table.schema.field(name).type)]


def _group_rows(table: pa.Table, by: Sequence[str]) -> tuple[Positions, Positions]:
    """Finds, for every class of equal rows, its first position and its weight."""
    if table.num_rows == 0:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    keys = [comparable(table.column(name)) for name in by]
    names = [str(number) for number in range(len(keys))]
    rows = pa.table([*keys, table.column(WEIGHT), pa.array(np.arange(table.num_rows))], names=[*names, "w", "at"])
    grouped = rows.group_by(names, use_threads=False).aggregate([("w", "sum"), ("at", "min")])
    return grouped.column("at_min").to_numpy(), grouped.column("w_sum").to_numpy()
