"""Three tables as arrays: who follows whom (consumer, producer), and their rates (producer, rate; consumer, rate).

Everyone that follows or is followed gets a number, the row of its rate. Follows become two columns of numbers: eight
bytes a pair. Identifiers may be integers or text. Everything wrong with a table is said with its row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from headrace.connect.tables.arrays import numbers
from headrace.connect.tables.directory import UNKNOWN, Directory, Numbers, directory_of
from headrace.connect.tables.files import Format, batches, columns_of, format_of
from headrace.model.errors import InputError, Location, Problem, UsageError, nearest_name

FOLLOWS = ("consumer", "producer")
RATE = "rate"
PRICES = ("H", "L")
"""Columns that a table of producers may have: prices of their own."""

SORTED_TOGETHER = 1 << 24
"""Pairs sorted at once to find repeated ones."""

Progress = Callable[[str], None]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FollowTable:
    """Pair n: consumer number `consumer[n]` follows producer number `producer[n]`; rates are by number.

    `prices` holds the columns H and L of the producers, where there are any.
    """

    consumer: Numbers
    producer: Numbers
    query_rate: Doubles
    event_rate: Doubles
    prices: dict[str, Doubles]
    find: Callable[[str, str], int | None]
    """The number of a pair, by the names of its consumer and producer."""


def read_follows(follows: Path, producers: Path, consumers: Path, progress: Progress = lambda _: None) -> FollowTable:
    progress("reading rates")
    followed, event_rate, prices = _read_rates(producers, "producer", PRICES)
    following, query_rate, _ = _read_rates(consumers, "consumer", ())
    progress("reading follows")
    form = _table_format(follows)
    _check_columns(follows, form, FOLLOWS, FOLLOWS)
    consumer = _positions(follows, form, "consumer", following, consumers)
    producer = _positions(follows, form, "producer", followed, producers)
    if not len(consumer):
        raise InputError([Problem("the table has no rows", Location(str(follows)), "follows are one row each")])
    progress("looking for repeated follows")
    twice = _find_repeated_row(consumer, producer, following.count, followed.count)
    if twice is not None:
        who, whom = following.name(int(consumer[twice])), followed.name(int(producer[twice]))
        what = f'consumer "{who}" follows producer "{whom}" twice'
        _refuse(follows, form, "producer", np.array([twice]), what, "leave one of the rows out")

    def find(consumer_name: str, producer_name: str) -> int | None:
        pair = (consumer == following.find(consumer_name)) & (producer == followed.find(producer_name))
        return int(pair.argmax()) if pair.any() else None

    return FollowTable(consumer, producer, query_rate, event_rate, prices, find)


def _table_format(file: Path) -> Format:
    form = format_of(file)
    if form is Format.JSON:
        raise UsageError(f'"{file}" is JSON', hint="rates and follows are .parquet or .csv tables")
    return form


def _check_columns(file: Path, form: Format, required: tuple[str, ...], known: tuple[str, ...]) -> list[str]:
    found = columns_of(file, form)
    problems = [
        Problem(
            f'column "{column}" is missing',
            Location(str(file)),
            nearest_name(column, found) or f"this table has the columns {', '.join(known)}",
        )
        for column in required
        if column not in found
    ]
    twice = [column for column in known if found.count(column) > 1]
    problems += [Problem(f'column "{column}" is there twice', Location(str(file))) for column in twice]
    if problems:
        raise InputError(problems)
    return found


# Rates


def _read_rates(file: Path, kind: str, more: tuple[str, ...]) -> tuple[Directory, Doubles, dict[str, Doubles]]:
    """Identifiers, rates, and the further columns that are there."""
    form = _table_format(file)
    found = _check_columns(file, form, (kind, RATE), (kind, RATE))
    wanted = (kind, RATE, *(column for column in more if column in found))
    parts = list(batches(file, form, wanted, _types(wanted)))
    names = _identifiers(file, form, kind, _decode_column(parts, kind))
    known = directory_of(names)
    _refuse(file, form, kind, known.repeated, lambda row: f'{kind} "{names[row]}" is there twice')
    amounts = {column: _amounts(file, form, column, _decode_column(parts, column)) for column in wanted[1:]}
    return known, amounts.pop(RATE), amounts


def _types(columns: tuple[str, ...]) -> dict[str, pa.DataType]:
    """The types of a CSV's columns. Identifiers stay text there: 007 and 7 are two people."""
    return {column: pa.string() if column in FOLLOWS else pa.float64() for column in columns}


def _decode_column(parts: list[pa.RecordBatch], name: str) -> pa.ChunkedArray:
    """The values themselves, where they are stored by a dictionary."""
    chunks = [part.column(name) for part in parts]
    kind = chunks[0].type if chunks else pa.null()
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.chunked_array([chunk.cast(kind) for chunk in chunks], kind)


def _identifiers(file: Path, form: Format, column: str, values: pa.ChunkedArray, start: int = 0) -> pa.ChunkedArray:
    """Identifiers as int64 or text, none of them missing; the first is that of row `start`."""
    _refuse(file, form, column, _missing(values) + start, "a value is missing")
    if pa.types.is_integer(values.type) or not len(values):
        return values.cast(pa.int64())
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return values.cast(pa.string())
    message = f'column "{column}" holds {values.type}'
    raise InputError([Problem(message, Location(str(file)), "identifiers are integers or text")])


def _amounts(file: Path, form: Format, column: str, values: pa.ChunkedArray) -> Doubles:
    """Non-negative, finite doubles. Decimals and large integers are rounded to doubles."""
    kind = values.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind) or not len(values)):
        message = f'column "{column}" holds {kind}, not numbers'
        raise InputError([Problem(message, Location(str(file)), "a rate is a number of 0 or more")])
    _refuse(file, form, column, _missing(values), "a value is missing")
    doubles: Doubles = numbers(values.cast(pa.float64(), safe=False)).astype(np.float64, copy=False)
    _refuse(file, form, column, np.flatnonzero(~np.isfinite(doubles)), lambda row: f"{doubles[row]} is not finite")
    _refuse(file, form, column, np.flatnonzero(doubles < 0), lambda row: f"{doubles[row]} is negative")
    return doubles


# Follows


def _positions(file: Path, form: Format, column: str, known: Directory, of: Path) -> Numbers:
    """Finds, for every follow, the row at which the one in this column stands in the table `of`."""
    parts: list[Numbers] = []
    for start, values in _stretches(file, form, column, known.stretch):
        found = _identifiers(file, form, column, values, start)
        if known.count:
            _check_kind(file, column, found.type, known.kind, of)
        positions = known.positions(found)
        if (positions == UNKNOWN).any():
            row = int((positions == UNKNOWN).argmax())
            what, hint = f'{column} "{found[row]}" has no rate', f'rates of {column}s are listed in "{of}"'
            _refuse(file, form, column, np.array([row + start]), what, hint)
        parts.append(positions)
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int32)


def _stretches(file: Path, form: Format, column: str, least: int) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """A column in stretches of at least so many rows, with the row each starts at."""
    start, rows, held = 0, 0, []
    for batch in batches(file, form, (column,), _types((column,))):
        held.append(batch)
        rows += len(batch)
        if rows >= least:
            yield start, _decode_column(held, column)
            start, rows, held = start + rows, 0, []
    if held:
        yield start, _decode_column(held, column)


def _check_kind(file: Path, column: str, found: pa.DataType, known: pa.DataType, of: Path) -> None:
    if found != known:
        kinds = {pa.int64(): "integers", pa.string(): "text"}
        message = f'column "{column}" holds {kinds[found]}, but {kinds[known]} in "{of}"'
        raise InputError([Problem(message, Location(str(file)), "store identifiers the same way in both tables")])


def _find_repeated_row(consumer: Numbers, producer: Numbers, consumers: int, producers: int) -> int | None:
    """A row that says what another row says already.

    Pairs are sorted by parts of the consumers, so that little more memory is needed than for the pairs.
    """
    parts = -(-len(consumer) // SORTED_TOGETHER)
    for low, high in pairwise(np.linspace(0, consumers, parts + 1).astype(np.int64).tolist()):
        mine = slice(None) if parts == 1 else (consumer >= low) & (consumer < high)
        keys = consumer[mine].astype(np.int64)
        keys *= producers
        keys += producer[mine]
        keys.sort()
        same = keys[1:] == keys[:-1]
        if same.any():
            who, whom = divmod(int(keys[1:][same][0]), producers)
            return int(np.flatnonzero((consumer == who) & (producer == whom))[1])
    return None


# Mistakes


def _missing(values: pa.ChunkedArray) -> NDArray[np.int64]:
    """Rows without a value."""
    return (
        np.flatnonzero(numbers(values.is_null().cast(pa.uint8()))) if values.null_count else np.empty(0, dtype=np.int64)
    )


def _refuse(
    file: Path,
    form: Format,
    column: str,
    rows: NDArray[np.int64],
    what: str | Callable[[int], str],
    hint: str | None = None,
) -> None:
    """Raises for the first of the rows, and says how many there are."""
    if not len(rows):
        return
    row = int(rows[0])
    said = what if isinstance(what, str) else what(row)
    more = f"; {len(rows)} rows are like this" if len(rows) > 1 else ""
    # In CSV the first line holds the names of the columns.
    where = Location(str(file), row + 2 if form is Format.CSV else row + 1)
    raise InputError([Problem(f'{said} (row {row + 1}, column "{column}"){more}', where, hint)])
