"""Arrow arrays from Python values without `pyarrow.array`, which loads pandas when it is first called.

That takes seconds on a busy machine and 65 MB, for a router that has neither to spare. Types that devices seldom have
are left to Arrow.
"""

from __future__ import annotations

import datetime as dt
from array import array
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

CODES = {
    pa.int8(): "b",
    pa.int16(): "h",
    pa.int32(): "i",
    pa.int64(): "q",
    pa.float32(): "f",
    pa.float64(): "d",
}
MOMENT = pa.timestamp("us", tz="UTC")
_EPOCH = dt.datetime(1970, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def make_array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """What `pyarrow.array` makes of the same; raises what it raises for values of another type."""
    code = CODES.get(type_)
    if code is not None:
        return _make_numbers(values, type_, code)
    if type_ == MOMENT:
        micros = [None if value is None else _count_micros(value) for value in values]
        return _make_numbers(micros, type_, "q")
    if type_ == pa.string():
        return _make_texts(values)
    return pa.array(values, type_)


def _make_numbers(values: Sequence[Any], type_: pa.DataType, code: str) -> pa.Array:
    numbers = array(code, [0 if value is None else value for value in values])
    return pa.Array.from_buffers(type_, len(values), [_find_validity(values), pa.py_buffer(numbers)])


def _make_texts(values: Sequence[str | None]) -> pa.Array:
    offsets, parts, end = array("i", [0]), [], 0
    for value in values:
        part = b"" if value is None else value.encode()
        end += len(part)
        parts.append(part)
        offsets.append(end)
    buffers = [_find_validity(values), pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


def _find_validity(values: Sequence[Any]) -> pa.Buffer | None:
    """A bit for each value, set if it is there; None if all are."""
    if not any(value is None for value in values):
        return None
    bits = bytearray((len(values) + 7) // 8)
    for position, value in enumerate(values):
        if value is not None:
            bits[position >> 3] |= 1 << (position & 7)
    return pa.py_buffer(bytes(bits))


def _count_micros(moment: dt.datetime) -> int:
    plain = moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)
    return (plain - _EPOCH) // _MICROSECOND
