"""A table of pairs (columns a, b, rate_ab, rate_ba) as columns of integers.

Rates that are not all integers are scaled by a million and rounded half to even: one scale for both columns. Devices
get numbers; identifiers may be integers or text. Everything wrong with a table is said with its row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from headrace.connect.tables.arrays import numbers as plain_numbers
from headrace.connect.tables.arrays import texts
from headrace.connect.tables.files import Format, batches, columns_of
from headrace.model.errors import InputError, Location, Problem, nearest_name

COLUMNS = ("a", "b", "rate_ab", "rate_ba")
SCALE = 1_000_000
LARGEST = 1 << 61
RESERVED = "cloud"

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PairTable:
    """One entry per row.

    Rates are times `scale`. `present` tells which device numbers occur; `name` gives a number's identifier.
    """

    a: NDArray[np.int32]
    b: NDArray[np.int32]
    rate_ab: NDArray[np.int64]
    rate_ba: NDArray[np.int64]
    scale: int
    numbers: int
    """Device numbers are below this."""
    devices: int
    name: Callable[[int], str]
    number: Callable[[str], int | None]


def read_pairs(file: Path, form: Format, progress: Progress = lambda _: None) -> PairTable:
    """The whole table. Columns are read one after another, so that little more than the result is held."""
    check_columns(file, columns_of(file, form))
    progress("reading devices")
    a, b, names = _devices(file, form)
    _refuse(file, form, np.flatnonzero(a == b), lambda row: f'device "{names.name(int(a[row]))}" is paired with itself')
    progress("reading rates")
    columns = _read_columns(file, form, ("rate_ab", "rate_ba"))
    rates = {column: _rates(file, form, column, columns.pop(column)) for column in ("rate_ab", "rate_ba")}
    scale = 1 if all(rate.dtype == np.int64 for rate in rates.values()) else SCALE
    rate_ab, rate_ba = (_scale_rates(file, form, column, rate, scale) for column, rate in rates.items())
    return PairTable(
        a, b, rate_ab, rate_ba, scale, names.numbers, _count_distinct(a, b, names.numbers), names.name, names.number
    )


def check_columns(file: Path, found: list[str]) -> None:
    missing = [column for column in COLUMNS if column not in found]
    problems = [
        Problem(
            f'column "{column}" is missing',
            Location(str(file)),
            nearest_name(column, found) or f"a table of pairs has the columns {', '.join(COLUMNS)}",
        )
        for column in missing
    ]
    problems += [
        Problem(f'column "{column}" is there twice', Location(str(file)))
        for column in COLUMNS
        if found.count(column) > 1
    ]
    if problems:
        raise InputError(problems)


# Devices


@dataclass(frozen=True, slots=True)
class _Names:
    numbers: int
    name: Callable[[int], str]
    number: Callable[[str], int | None]


def _devices(file: Path, form: Format) -> tuple[NDArray[np.int32], NDArray[np.int32], _Names]:
    columns = _read_columns(file, form, ("a", "b"))
    for column, values in columns.items():
        _refuse_nulls(file, form, column, values)
    a, b = columns.values()
    if pa.types.is_integer(a.type) and pa.types.is_integer(b.type):
        return _dense(a, b) or _encode_names(a, b)
    return _encode_text(file, form, a, b)


def _dense(a: pa.ChunkedArray, b: pa.ChunkedArray) -> tuple[NDArray[np.int32], NDArray[np.int32], _Names] | None:
    """Integers that lie close together are their own numbers, counted from the least."""
    if not len(a):
        return None
    ends = [pc.min_max(values).as_py() for values in (a, b)]
    low, high = min(end["min"] for end in ends), max(end["max"] for end in ends)
    spread = high - low + 1
    if spread > 4 * len(a) + 1_000 or spread > np.iinfo(np.int32).max:
        return None

    def number(name: str) -> int | None:
        return int(name) - low if name.lstrip("-").isdigit() and low <= int(name) <= high else None

    first, second = (_shift_values(values, low) for values in (a, b))
    return first, second, _Names(spread, lambda position: str(position + low), number)


def _shift_values(values: pa.ChunkedArray, low: int) -> NDArray[np.int32]:
    shifted = np.empty(len(values), dtype=np.int32)
    at = 0
    for chunk in values.chunks:
        shifted[at : at + len(chunk)] = np.from_dlpack(chunk) - low
        at += len(chunk)
    return shifted


def _encode_names(a: pa.ChunkedArray, b: pa.ChunkedArray) -> tuple[NDArray[np.int32], NDArray[np.int32], _Names]:
    """Numbers in the order of the identifiers, so that ties do not depend on the order of the rows."""
    both = pa.chunked_array([*a.chunks, *b.cast(a.type).chunks], type=a.type)
    encoded = both.dictionary_encode().unify_dictionaries() if len(both) else both.dictionary_encode()
    known = encoded.chunk(0).dictionary if encoded.num_chunks else pa.chunked_array([], a.type).combine_chunks()
    positions = pc.array_sort_indices(known)
    known, order = known.take(positions), np.from_dlpack(positions)
    rank = np.empty(len(order), dtype=np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    codes = np.empty(len(both), dtype=np.int32)
    at = 0
    for chunk in encoded.chunks:
        codes[at : at + len(chunk)] = rank[np.from_dlpack(chunk.indices)]
        at += len(chunk)

    def number(name: str) -> int | None:
        found: int | None = pc.index_in(texts((name,)), value_set=known.cast(pa.string()))[0].as_py()
        return found

    return codes[: len(a)], codes[len(a) :], _Names(len(known), lambda position: str(known[position].as_py()), number)


def _encode_text(
    file: Path, form: Format, a: pa.ChunkedArray, b: pa.ChunkedArray
) -> tuple[NDArray[np.int32], NDArray[np.int32], _Names]:
    first, second, names = _encode_names(a.cast(pa.string()), b.cast(pa.string()))
    for column, codes in (("a", first), ("b", second)):
        for reserved, what in (
            (RESERVED, f'"{RESERVED}" is reserved and cannot name a device'),
            ("", "a device has no name"),
        ):
            code = names.number(reserved)
            if code is not None:
                _refuse(file, form, np.flatnonzero(codes == code), partial(_same, what), column)
    return first, second, names


def _same(what: str, _row: int) -> str:
    return what


def _count_distinct(a: NDArray[np.int32], b: NDArray[np.int32], numbers: int) -> int:
    seen = np.zeros(numbers, dtype=np.bool_)
    seen[a] = True
    seen[b] = True
    return int(seen.sum())


def _read_columns(file: Path, form: Format, names: tuple[str, ...]) -> dict[str, pa.ChunkedArray]:
    # Identifiers in CSV stay text: 007 and 7 are two devices.
    text = {name: pa.string() for name in names if name in ("a", "b")}
    parts = list(batches(file, form, names, text))
    return {name: _plain([part.column(name) for part in parts]) for name in names}


def _plain(chunks: list[pa.Array]) -> pa.ChunkedArray:
    """The values themselves where they are stored by a dictionary."""
    kind = chunks[0].type if chunks else pa.int64()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)


# Rates


Rates = NDArray[Any]
"""int64 if all are integers; else float64, or Decimals as they were stored."""


def _rates(file: Path, form: Format, column: str, values: pa.ChunkedArray) -> Rates:
    _refuse_nulls(file, form, column, values)
    kind = values.type
    if not len(values):
        return np.empty(0, dtype=np.int64)
    if pa.types.is_integer(kind):
        return _whole(file, form, column, values)
    if pa.types.is_floating(kind):
        return _real(file, form, column, np.asarray(plain_numbers(values), dtype=np.float64))
    if pa.types.is_decimal(kind):
        return _real(file, form, column, values.to_numpy())
    raise InputError([Problem(f'column "{column}" holds {kind}, not numbers', Location(str(file)))])


def _whole(file: Path, form: Format, column: str, values: pa.ChunkedArray) -> NDArray[np.int64]:
    numbers = plain_numbers(values)
    if numbers.dtype == np.uint64:
        _refuse(file, form, np.flatnonzero(numbers > LARGEST), lambda row: f"rate {numbers[row]} is too large", column)
    numbers = np.asarray(numbers, dtype=np.int64)
    _refuse(file, form, np.flatnonzero(numbers < 0), lambda row: f"rate {numbers[row]} is negative", column)
    return numbers


def _real(file: Path, form: Format, column: str, numbers: Rates) -> Rates:
    if numbers.dtype == np.float64:
        endless = np.flatnonzero(~np.isfinite(numbers))
        _refuse(file, form, endless, lambda row: f"rate {numbers[row]} is not finite", column)
    _refuse(file, form, np.flatnonzero(numbers < 0), lambda row: f"rate {numbers[row]} is negative", column)
    whole = bool((numbers // 1 == numbers).all()) and bool((numbers < LARGEST).all())
    return numbers.astype(np.int64) if whole else numbers


def _scale_rates(file: Path, form: Format, column: str, rate: Rates, scale: int) -> NDArray[np.int64]:
    too_large = np.flatnonzero(rate > LARGEST // scale)
    _refuse(file, form, too_large, lambda row: f"rate {rate[row]} is too large", column)
    if rate.dtype == np.int64:
        return np.asarray(rate * scale if scale > 1 else rate, dtype=np.int64)
    if rate.dtype == object:
        return np.array([int((number * scale).to_integral_value(ROUND_HALF_EVEN)) for number in rate], dtype=np.int64)
    return np.asarray(np.rint(rate * scale), dtype=np.int64)


# Mistakes


def _refuse_nulls(file: Path, form: Format, column: str, values: pa.ChunkedArray) -> None:
    if values.null_count:
        rows = np.flatnonzero(pc.is_null(values).to_numpy())
        _refuse(file, form, rows, lambda _row: "a value is missing", column)


def _refuse(
    file: Path, form: Format, rows: NDArray[np.int64], what: Callable[[int], str], column: str | None = None
) -> None:
    """Raises for the first of the rows, and says how many there are."""
    if not len(rows):
        return
    row = int(rows[0])
    place = f" (row {row + 1}" + (f', column "{column}")' if column else ")")
    more = f"; {len(rows)} rows are like this" if len(rows) > 1 else ""
    # In CSV the first line holds the names of the columns.
    where = Location(str(file), row + 2 if form is Format.CSV else row + 1)
    raise InputError([Problem(what(row) + place + more, where)])
