"""A source as capture sees it, and its rows on their way into a spool file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.model.types import Type
from headrace.run.capture.text_values import NoSuchValue, column_of
from headrace.run.rows.arrow import arrow_type

SPOOL = "spool:"
"""What names of spools start with; those of vertices do not."""

KEPT_TYPE = pa.list_(pa.string())

TextRow = tuple[bytes | None, ...]
"""Values of the declared columns, in their order."""


def spool_log(source: str) -> str:
    return SPOOL + source


@dataclass(frozen=True, slots=True)
class CapturedTable:
    """A source that is a table of PostgreSQL. `appends` is whether only insertions count, as in a stream.

    `has_trigger` is whether an event trigger tells of its DDL in the log.
    """

    source: str
    site: str
    table: str
    columns: tuple[tuple[str, Type], ...]
    key: tuple[str, ...] = ()
    appends: bool = False
    static: bool = False
    has_trigger: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.columns)

    @property
    def key_positions(self) -> tuple[int, ...]:
        return tuple(self.names.index(name) for name in self.key)

    @property
    def keyed(self) -> bool:
        return bool(self.key) and not self.appends

    @property
    def log(self) -> str:
        return spool_log(self.source)

    def key_row(self, key: TextRow) -> TextRow:
        """A row of which only the key is known."""
        known = dict(zip(self.key, key, strict=True))
        return tuple(known.get(name) for name in self.names)


class UnheldValue(NoSuchValue):
    """A value of a row that a source's types do not hold. `key` is that of its row, if the source has one."""

    def __init__(self, message: str, column: str, text: bytes, key: TextRow | None) -> None:
        super().__init__(message)
        self.column = column
        self.text = text
        self.key = key


class SpoolRows:
    """Collects rows by reference and makes Arrow columns of them at once. Each row has a stamp.

    The stamp is the time, or the part of a transaction whose time is not known yet.
    """

    __slots__ = ("_first", "_kept", "_ops", "_rows", "_stamps", "captured")

    def __init__(self, captured: CapturedTable) -> None:
        self.captured = captured
        self._first = 0
        self._clear()

    def _clear(self) -> None:
        self._rows: list[TextRow] = []
        self._ops: list[str] = []
        self._stamps: list[int] = []
        self._kept: dict[int, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, stamp: int, op: str, row: TextRow, kept: tuple[str, ...] = ()) -> None:
        if kept:
            self._kept[len(self._rows)] = kept
        self._rows.append(row)
        self._ops.append(op)
        self._stamps.append(stamp)

    def add_many(self, stamp: int, op: str, rows: Sequence[TextRow]) -> None:
        self._rows.extend(rows)
        self._ops.extend([op] * len(rows))
        self._stamps.extend([stamp] * len(rows))

    def mark(self, stamp: int, op: str) -> None:
        """A row without values."""
        self.add(stamp, op, (None,) * len(self.captured.columns))

    def take(self) -> pa.Table:
        """The rows since the last call, stamped in `__t`. Raises UnheldValue."""
        count = len(self._rows)
        values = zip(*self._rows, strict=True) if count else ((),) * len(self.captured.columns)
        arrays = [
            self._make_column(name, type_, texts)
            for (name, type_), texts in zip(self.captured.columns, values, strict=True)
        ]
        arrays += [
            pa.array(self._stamps, pa.int64()),
            pa.array(np.arange(self._first, self._first + count), pa.int64()),
            pa.array(self._ops, pa.string()),
            self._make_kept_column(count),
        ]
        self._first += count
        self._clear()
        return pa.Table.from_arrays(arrays, schema=spool_schema(self.captured))

    def _make_column(self, name: str, type_: Type, texts: tuple[bytes | None, ...]) -> pa.Array:
        exact = self.captured.keyed and name in self.captured.key
        try:
            return column_of(texts, type_, exact)
        except NoSuchValue as error:
            message = f'column "{name}" of source "{self.captured.source}": {error}'
            position = _find_unheld(texts, type_, exact)
            raise UnheldValue(message, name, texts[position] or b"", self._key_at(position)) from error

    def _key_at(self, position: int) -> TextRow | None:
        row = self._rows[position]
        return tuple(row[column] for column in self.captured.key_positions) if self.captured.keyed else None

    def _make_kept_column(self, count: int) -> pa.Array:
        if not self._kept:
            return pa.nulls(count, KEPT_TYPE)
        return pa.array([self._kept.get(position) for position in range(count)], KEPT_TYPE)


def _find_unheld(texts: Sequence[bytes | None], type_: Type, exact: bool) -> int:
    """The position of a text that the type does not hold; there is one. By halves: each is read as a column."""
    first, last = 0, len(texts)
    while last - first > 1:
        middle = (first + last) // 2
        try:
            column_of(texts[first:middle], type_, exact)
            first = middle
        except NoSuchValue:
            last = middle
    return first


def spool_schema(captured: CapturedTable) -> pa.Schema:
    fields = [pa.field(f"{captured.source}.{name}", arrow_type(type_)) for name, type_ in captured.columns]
    return pa.schema(
        [
            *fields,
            pa.field("__t", pa.int64()),
            pa.field("__n", pa.int64()),
            pa.field("__op", pa.string()),
            pa.field("__kept", KEPT_TYPE),
        ]
    )
