"""Arrays of rows: a row is repeated for every element."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.model.block import Unfolding
from headrace.run.operators.lookup import Integers
from headrace.run.operators.numbering import spread


def unfold_rows(unfolding: Unfolding, table: pa.Table) -> pa.Table:
    """The table with elements in place of arrays; rows without elements are dropped, or have NULLs."""
    arrays = {name: _Elements(table.column(name)) for name in unfolding.columns}
    longest: Integers = np.max([array.lengths for array in arrays.values()], axis=0)
    counts = np.maximum(longest, 1) if unfolding.outer else longest
    rows = np.repeat(np.arange(table.num_rows), counts)
    places = spread(np.zeros(len(counts), np.int64), counts)
    made = table.take(pa.array(rows))
    for name, array in arrays.items():
        made = made.set_column(made.column_names.index(name), name, array.at(rows, places))
    if unfolding.place is not None:
        numbers = pa.array(places + 1, pa.int64(), mask=places >= longest[rows])
        made = made.append_column(unfolding.place, numbers)
    return made


class _Elements:
    """The elements of a column of arrays, by row and place; NULL has none."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        array = column.combine_chunks()
        self.values = array.values
        self.starts: Integers = array.offsets.to_numpy()[:-1].astype(np.int64)
        self.lengths: Integers = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)

    def at(self, rows: Integers, places: Integers) -> pa.Array:
        missing = places >= self.lengths[rows]
        return self.values.take(pa.array(self.starts[rows] + places, mask=missing))
