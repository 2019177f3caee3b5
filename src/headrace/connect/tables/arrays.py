"""Between Arrow and NumPy without pandas, which Arrow's own conversions load: slower than placing 100,000 views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def numbers(values: pa.ChunkedArray) -> NDArray[Any]:
    """Integers or floats without nulls."""
    chunks = [np.from_dlpack(chunk) for chunk in values.chunks if len(chunk)]
    if len(chunks) == 1:
        return chunks[0]
    return np.concatenate(chunks) if chunks else np.empty(0, dtype=np.int64)


def integers(values: NDArray[Any]) -> pa.Array:
    wide = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(wide), [None, pa.py_buffer(wide)])


def texts(words: Sequence[str]) -> pa.Array:
    encoded = [word.encode() for word in words]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(words), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))
