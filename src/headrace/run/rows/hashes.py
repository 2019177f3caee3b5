"""A 64-bit hash of key columns that is the same in every process and release, because files are sorted by it.

Equal SQL values hash equal whatever the width of their column: integers as 64 bits, floats as double with one NaN and
no -0.0, text by its bytes. NULL has a hash of its own. A single integer column has no collisions; any other key may.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

Hashes = npt.NDArray[np.uint64]
Hasher = Callable[[pa.Table, Sequence[str]], Hashes]

_SEED = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_LONG = 256
"""Bytes beyond which a value is hashed alone rather than together with others, word by word."""

_WORD_MASKS = np.array([(1 << (8 * size)) - 1 for size in range(9)], dtype=np.uint64)


def hash_of(table: pa.Table, key: Sequence[str]) -> Hashes:
    """The hash of each row's key; of an empty key it is the same for all rows."""
    hashes = np.full(table.num_rows, _SEED, dtype=np.uint64)
    for column in key:
        chunks = [_bits(chunk) for chunk in table.column(column).chunks]
        if chunks:
            hashes = _mix_hashes(hashes + np.concatenate(chunks))
    return hashes


def find_repeated(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which of hashes in any order occur more than once."""
    repeated = np.zeros(len(hashes), dtype=np.bool_)
    repeated[sort_repeated(hashes)] = True
    return repeated


def sort_repeated(hashes: Hashes) -> npt.NDArray[np.int64]:
    """Positions of the hashes that occur more than once, those of equal ones next to each other.

    Only those that share their first bits with another are sorted: mostly few.
    """
    among = np.flatnonzero(_find_crowded(hashes))
    order = among[np.argsort(hashes[among])]
    return order[find_shared(hashes[order])]


def _find_crowded(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which of hashes share their first bits with another; there are at least four places for each."""
    bits = 2 + len(hashes).bit_length()
    places = (hashes >> np.uint64(64 - bits)).astype(np.intp)
    numbers = np.arange(len(hashes), dtype=np.int32)
    # Of several with the same place one is remembered, whichever: all others see that they are not the one.
    remembered = np.empty(1 << bits, dtype=numbers.dtype)
    remembered[places] = numbers
    crowded = np.zeros(1 << bits, dtype=np.bool_)
    crowded[places[remembered[places] != numbers]] = True
    found: npt.NDArray[np.bool_] = crowded[places]
    return found


def find_shared(hashes: Hashes) -> npt.NDArray[np.bool_]:
    """Which of sorted hashes occur more than once."""
    same_as_next = hashes[1:] == hashes[:-1]
    several = np.zeros(len(hashes), dtype=np.bool_)
    several[1:] |= same_as_next
    several[:-1] |= same_as_next
    return several


def _mix_hashes(values: Hashes) -> Hashes:
    """The finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): a bijection that spreads every bit."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _bits(array: pa.Array) -> Hashes:
    """64 bits for each value, equal for equal values."""
    bits = np.zeros(len(array), dtype=np.uint64) if array.null_count == len(array) else _bits_of_values(array)
    if array.null_count:
        bits = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, bits)
    return bits


def _bits_of_values(array: pa.Array) -> Hashes:
    """The bits of values, for hashing; what they are for NULL means nothing."""
    type_ = array.type
    if types.is_integer(type_) or types.is_date(type_) or types.is_timestamp(type_) or types.is_boolean(type_):
        return _integers(array).view(np.uint64)
    if types.is_floating(type_):
        floats = _without_nulls(array, 0.0).astype(np.float64) + 0.0
        return np.where(np.isnan(floats), np.nan, floats).view(np.uint64)
    if types.is_decimal128(type_):
        halves = np.frombuffer(array.buffers()[1], dtype=np.uint64)[2 * array.offset : 2 * (array.offset + len(array))]
        return halves[::2] + _mix_hashes(halves[1::2])
    if types.is_list(type_):
        return _lists(array)
    return _texts(array)


def _integers(array: pa.Array) -> npt.NDArray[np.int64]:
    if types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("us", array.type.tz)).view(pa.int64())
    elif types.is_date32(array.type):
        array = array.view(pa.int32())
    elif types.is_boolean(array.type):
        array = array.cast(pa.uint8())
    return _without_nulls(array, 0).astype(np.int64)


def _without_nulls(array: pa.Array, instead: float) -> npt.NDArray[np.generic]:
    filled = pc.fill_null(array, instead) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _texts(array: pa.Array) -> Hashes:
    """Text or bytes."""
    if not (types.is_string(array.type) or types.is_binary(array.type)):
        array = array.cast(pa.large_binary())
    wide = types.is_large_binary(array.type)
    _, offset_buffer, data = array.buffers()
    offsets = np.frombuffer(offset_buffer, dtype=np.int64 if wide else np.int32)
    offsets = offsets[array.offset : array.offset + len(array) + 1].astype(np.int64)
    used = np.frombuffer(data, dtype=np.uint8)[offsets[0] : offsets[-1]] if data is not None else b""
    return _of_bytes(bytes(used), offsets - offsets[0])


def _lists(array: pa.Array) -> Hashes:
    """A list is the bytes of the hashes of its elements."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    elements = _mix_hashes(_bits(array.values.slice(offsets[0], offsets[-1] - offsets[0])))
    return _of_bytes(elements.tobytes(), 8 * (offsets - offsets[0]))


def _of_bytes(data: bytes, offsets: npt.NDArray[np.int64]) -> Hashes:
    """Hashes of the slices of `data` between offsets, eight bytes of all slices at a time."""
    padded = data + bytes(8)
    words = np.ndarray((len(data) + 1,), dtype=np.dtype("<u8"), buffer=padded, strides=(1,))
    starts, sizes = offsets[:-1], np.diff(offsets)
    hashes = _mix_hashes(sizes.astype(np.uint64))
    remaining = np.flatnonzero((sizes > 0) & (sizes <= _LONG))
    done = 0
    while len(remaining):
        left = np.minimum(sizes[remaining] - done, 8)
        hashes[remaining] = _mix_hashes(hashes[remaining] + (words[starts[remaining] + done] & _WORD_MASKS[left]))
        done += 8
        remaining = remaining[sizes[remaining] > done]
    for position in np.flatnonzero(sizes > _LONG):
        digest = hashlib.blake2b(data[offsets[position] : offsets[position + 1]], digest_size=8).digest()
        hashes[position] = np.uint64(int.from_bytes(digest, "little"))
    return hashes
