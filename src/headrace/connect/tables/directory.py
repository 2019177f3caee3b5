"""Who stands in which row: identifiers of a table, integers or text, to the numbers of their rows and back."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.connect.tables.arrays import numbers, texts

Numbers = NDArray[np.int32]

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Dense:
    """Integers that lie close together: `table` holds the row of each, counted from `low`. Four bytes a row."""

    low: int
    table: Numbers
    count: int
    repeated: NDArray[np.int64]
    """Rows whose identifier stands in another row too, all but one."""
    kind = pa.int64()
    stretch = 1
    """How many identifiers to look up at once, at least, so that it is worth it."""

    def positions(self, values: pa.ChunkedArray) -> Numbers:
        """The row of each identifier, or UNKNOWN."""
        at = numbers(values) - self.low
        inside = (at >= 0) & (at < len(self.table))
        if inside.all():
            found: Numbers = self.table[at]
            return found
        return np.where(inside, self.table[np.where(inside, at, 0)], np.int32(UNKNOWN))

    def name(self, position: int) -> str:
        return str(int(np.flatnonzero(self.table == position)[0]) + self.low)

    def find(self, name: str) -> int:
        """The row of an identifier as it is typed, or UNKNOWN."""
        at = int(name) - self.low if name.removeprefix("-").isdecimal() else -1
        return int(self.table[at]) if 0 <= at < len(self.table) else UNKNOWN


@dataclass(frozen=True, slots=True)
class Hashed:
    """Any identifiers. Looking some up takes time for all of them, so it is done for many at once."""

    names: pa.Array
    repeated: NDArray[np.int64]

    @property
    def kind(self) -> pa.DataType:
        return self.names.type

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def stretch(self) -> int:
        return len(self.names)

    def positions(self, values: pa.ChunkedArray) -> Numbers:
        found = pc.index_in(values, value_set=self.names.cast(values.type))
        known = found.fill_null(UNKNOWN) if found.null_count else found
        return numbers(known).astype(np.int32, copy=False)

    def name(self, position: int) -> str:
        return str(self.names[position])

    def find(self, name: str) -> int:
        found = pc.index_in(texts((name,)), value_set=self.names.cast(pa.string()))[0].as_py()
        return UNKNOWN if found is None else int(found)


Directory = Dense | Hashed


def directory_of(names: pa.ChunkedArray) -> Directory:
    """A directory of identifiers in the order of their rows: int64 or text, none of them missing."""
    return (_dense(names) if pa.types.is_integer(names.type) and len(names) else None) or _hash_names(names)


def _dense(names: pa.ChunkedArray) -> Dense | None:
    ends = pc.min_max(names).as_py()
    low, spread = ends["min"], ends["max"] - ends["min"] + 1
    if spread > 4 * len(names) + 1_000_000:
        return None
    rows = np.arange(len(names), dtype=np.int32)
    at = numbers(names) - low
    table = np.full(spread, UNKNOWN, dtype=np.int32)
    table[at] = rows
    return Dense(low, table, len(names), np.flatnonzero(table[at] != rows))


def _hash_names(names: pa.ChunkedArray) -> Hashed:
    every = names.combine_chunks() if names.num_chunks else pa.array([], names.type)
    if pc.count_distinct(every).as_py() == len(every):
        return Hashed(every, np.empty(0, dtype=np.int64))
    first = numbers(pa.chunked_array([pc.index_in(every, value_set=pc.unique(every))]))
    _, at = np.unique(first, return_index=True)
    return Hashed(every, np.setdiff1d(np.arange(len(every)), at))
