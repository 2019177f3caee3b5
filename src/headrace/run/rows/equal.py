"""When values of Arrow columns are equal, which pyarrow leaves open for NaN, NULL and lists.

NULL equals NULL here, NaN equals NaN, and 0.0 equals -0.0.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Mask = npt.NDArray[np.bool_]


Column: TypeAlias = pa.Array | pa.ChunkedArray


def comparable(column: Column) -> Column:
    """A column that can be grouped by, equal where the given one is.

    Lists become bytes, four for each element: its number among the different elements of this column. So they compare
    within one column only.
    """
    if types.is_floating(column.type):
        return one_form(column)
    if types.is_list(column.type):
        return _number_lists(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
    return column


def one_form(floats: Column) -> Column:
    """Floats with a single NaN and without -0.0."""
    positive = pc.add(floats, pa.scalar(0.0, floats.type))
    return pc.if_else(pc.is_nan(positive), pa.scalar(float("nan"), floats.type), positive)


def _number_lists(lists: pa.ListArray) -> pa.Array:
    offsets = lists.offsets.to_numpy().astype(np.int64)
    elements = comparable(lists.values.slice(offsets[0], offsets[-1] - offsets[0]))
    numbers = elements.dictionary_encode().indices.fill_null(-1).cast(pa.int32())
    data = pa.py_buffer(np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False)))
    places = pa.py_buffer(4 * (offsets - offsets[0]))
    whole = pa.Array.from_buffers(pa.large_binary(), len(lists), [None, places, data])
    return pc.if_else(lists.is_valid(), whole, pa.scalar(None, pa.large_binary()))


def same(left: pa.ChunkedArray, right: pa.ChunkedArray) -> Mask:
    """Where two columns of the same length hold equal values; integers and floats may differ in width."""
    if types.is_list(left.type):
        both = comparable(pa.chunked_array([*left.chunks, *right.cast(left.type).chunks], left.type))
        first, second = both.slice(0, len(left)), both.slice(len(left))
    elif types.is_floating(left.type):
        first, second = (side.cast(pa.float64()) for side in (left, right))
    else:
        first, second = left, right
    equal = pc.fill_null(pc.equal(first, second), False)
    if types.is_floating(left.type):
        equal = pc.or_(equal, pc.fill_null(pc.and_(pc.is_nan(first), pc.is_nan(second)), False))
    if left.null_count and right.null_count:
        equal = pc.or_(equal, pc.and_(left.is_null(), right.is_null()))
    return np.asarray(equal.to_numpy(zero_copy_only=False) if isinstance(equal, pa.Array) else equal.to_numpy())
