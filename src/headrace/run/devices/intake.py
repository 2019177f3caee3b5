"""Makes rows of relations out of messages: streams of `DEVICES/STREAM`, results of `TEMPLATE/reported`.

A value of a derived stream is all rows of a view on a device; each is a row, told apart by its position.

A row that does not fit its columns is left out and counted; the others of its message are taken. So one bad row does
not hold up a device for ever.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.model.device_messages import MOST_DERIVED_ROWS, Reported, Sent, write_sent
from headrace.model.errors import WireError
from headrace.model.types import Row, Type
from headrace.model.wire_values import read_value, write_value
from headrace.run.device.fitting import fit_id, fit_row, read_time

Columns = tuple[tuple[str, Type], ...]
BEFORE_ROW, BEFORE_DERIVED = 3, 2
"""Columns of a stream before its own: device, seq, at; of a derived one: device, position."""
ID_DIGITS = 16


class WrittenChange(NamedTuple):
    """A row of a source that comes or goes. Of one that goes only the key counts."""

    row: Row
    is_gone: bool = False


def stream_row(device: str, sent: Sent, columns: Columns) -> WrittenChange:
    """A row of `DEVICES/STREAM`; none in the message means that the device has none any more. Raises `WireError`."""
    head = (fit_id(device, columns[0][1]), sent.seq, read_time(sent.at_ms))
    if not sent.rows:
        return WrittenChange((*head, *(None for _ in columns[BEFORE_ROW:])), is_gone=True)
    if len(sent.rows) > 1:
        raise WireError("a stream has one row at a time")
    return WrittenChange((*head, *fit_row(sent.rows[0], columns[BEFORE_ROW:])))


def derived_rows(device: str, sent: Sent, rows_before: int, columns: Columns) -> list[WrittenChange]:
    """Rows of `DEVICES/VIEW` that a value comes to, where the one before had so many. Raises `WireError`."""
    if len(sent.rows) > MOST_DERIVED_ROWS:
        raise WireError(f"a value of {len(sent.rows):,} rows; {MOST_DERIVED_ROWS:,} are taken")
    id_ = fit_id(device, columns[0][1])
    own = columns[BEFORE_DERIVED:]
    come = [WrittenChange((id_, position, *fit_row(row, own))) for position, row in enumerate(sent.rows)]
    empty = tuple(None for _ in own)
    gone = range(len(come), rows_before)
    return come + [WrittenChange((id_, position, *empty), is_gone=True) for position in gone]


def write_derived(rows_before: int, sent: Sequence[Sent]) -> bytes:
    """A value, if it fits, and how many rows the one before had, as it waits for the inbox: whatever happens meanwhile,
    the rows that it has not are deleted.
    """
    return write_sent((Sent(0, 0, ((rows_before,),)), *sent))


def read_derived(written: Sequence[Sent]) -> tuple[int, tuple[Sent, ...]]:
    """Raises `WireError`."""
    match written:
        case (Sent(0, 0, ((int(rows_before),),)), *sent):
            return rows_before, tuple(sent)
        case _:
            raise WireError("it does not say how many rows there were before")


def report_row(device: str, reported: Reported, sides: int, columns: Columns) -> WrittenChange:
    """A row of `TEMPLATE/reported`. Raises `WireError`."""
    if len(reported.pair) != sides:
        raise WireError(f"a pair of {len(reported.pair)} devices; the template has {sides}")
    ids = (device, *reported.pair)
    head = tuple(fit_id(text, type_) for text, (_, type_) in zip(ids, columns, strict=False))
    row = fit_row(reported.row, columns[len(ids) + 1 :])
    return WrittenChange((*head, identify_row(row, reported.copy), *row), is_gone=reported.weight < 0)


def identify_row(row: Row, copy: int) -> str:
    """`row_id`: a digest of the row, and which of several equal ones it is."""
    text = json.dumps([write_value(value) for value in row], separators=(",", ":"), sort_keys=True)
    return f"{hashlib.sha256(text.encode()).hexdigest()[:ID_DIGITS]}.{copy}"


def write_key(row: Row, sides: int) -> str:
    """The key of a row of `TEMPLATE/reported` as text."""
    return json.dumps([write_value(value) for value in row[: sides + 2]], separators=(",", ":"))


def row_of_key(key: str, columns: Columns) -> WrittenChange:
    """The row of `TEMPLATE/reported` with this key is gone."""
    values = tuple(map(read_value, json.loads(key)))
    return WrittenChange((*values, *(None for _ in columns[len(values) :])), is_gone=True)


def last_of_each_key(changes: Iterable[WrittenChange], key: Sequence[int]) -> tuple[list[Row], list[Row]]:
    """What a batch comes to: rows that are there in the end, and rows that are gone. Later changes of a key win."""
    last = {tuple(change.row[position] for position in key): change for change in changes}
    upserts = [change.row for change in last.values() if not change.is_gone]
    return upserts, [change.row for change in last.values() if change.is_gone]
