"""Cuts sorted Arrow batches where a value of one column ends, so that rules see all rows of a value at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

ROWS = 1 << 17
"""Rows of a stretch, more or less: enough for NumPy, little for a worker."""


def whole_values(batches: Iterator[pa.RecordBatch], column: str, rows: int = ROWS) -> Iterator[pa.Table]:
    """Stretches of about so many rows, given that rows with the same value are together.

    Holds one stretch and one batch at a time. A stretch is much longer only if one value has more rows.
    """
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if not len(batch):
            continue
        begin = _start_of_last(batch[column]) if count + len(batch) >= rows else 0
        if begin or (count >= rows and held[-1][column][-1] != batch[column][0]):
            yield pa.Table.from_batches([*held, batch.slice(0, begin)])
            held, batch = [], batch.slice(begin)
            count = 0
        held.append(batch)
        count += len(batch)
    if held:
        yield pa.Table.from_batches(held)


def number_values(column: pa.ChunkedArray) -> tuple[NDArray[Any], pa.Array]:
    """The values of a column as 0, 1, ... in the order in which they first occur, and the values themselves."""
    encoded = column.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary


def _start_of_last(values: pa.Array) -> int:
    return int(pc.index(values, values[-1]).as_py())
