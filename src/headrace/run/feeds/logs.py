"""Reads the logs behind a feed as what its store is given (`run/feeds/batch.py`).

Names of people are texts, whatever their columns hold. Ids are texts that are ordered as their values are: digits of
whole numbers are filled up on the left. Events without a producer or a time are nobody's, and are left out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from headrace.meaning.python_functions import Functions
from headrace.model.errors import UsageError
from headrace.model.log import Log
from headrace.model.relation import Field, Output
from headrace.run.feeds.batch import (
    EVENT_CHANGES,
    EVENTS,
    PAIRS,
    PARTS,
    STORED,
    STORED_CHANGES,
    PartChanges,
    PartRows,
    part_of,
)
from headrace.run.feeds.texts import clean_value, shorten_names, write_json
from headrace.run.ports import Store
from headrace.run.rows.changes import TIME, WEIGHT, consolidate
from headrace.run.rows.json_rows import JsonRow, json_rows
from headrace.run.views.view import compute_outputs, net_changes, read_changes, rows_at

CONSUMER, PRODUCER, AHEAD, STORED_TIME, STORED_ID = "consumer", "producer", "ahead", "time", "id"
"""Columns of a feed's pairs, and of what is stored ahead."""

DIGITS = 19
"""Of the largest whole number."""
LEAST = 10**DIGITS


@dataclass(frozen=True, slots=True)
class FeedLog:
    """A log, the columns of its files, and how a view's columns are computed from them."""

    name: str
    columns: tuple[Field, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
class FeedLogs:
    """The logs of one feed. `producer`, `time` and `id` are columns of its events; without an id, times tell events
    apart. With a `body`, that column is JSON and all that people see, else they see an object of all other columns.
    """

    newest: FeedLog
    pairs: FeedLog
    stored: FeedLog
    producer: str
    time: str
    id: str | None = None
    body: str | None = None
    functions: Functions = ()

    @property
    def names(self) -> tuple[str, str, str]:
        return self.newest.name, self.pairs.name, self.stored.name

    # Events

    def read_events(self, store: Store, log: Log, t: int) -> pa.Table:
        rows = rows_at(store, log, self.newest.columns, self.newest.outputs, t, self.functions)
        return _drop_nobodys(pa.table(self._shape_events(rows), schema=EVENTS))

    def read_event_changes(self, store: Store, log: Log, after: int, upto: int) -> pa.Table:
        read = read_changes(store, log, self.newest.columns, self.newest.outputs, after, upto, self.functions)
        changes = consolidate(read)
        columns = [*self._shape_events(changes), changes.column(TIME), changes.column(WEIGHT)]
        return _drop_nobodys(pa.table(columns, schema=EVENT_CHANGES))

    def time_events(self, rows: pa.Table) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        """Producers and times of rows of the log of newest events."""
        known = tuple(output for output in self.newest.outputs if output.name in (self.producer, self.time))
        view = compute_outputs(rows, known, self.functions)
        return write_names(view.column(self.producer)), _read_times(view.column(self.time))

    def place_events(self, rows: pa.Table) -> pa.Table:
        """Producer, time and id of rows of the log of newest events."""
        view = compute_outputs(rows, self.newest.outputs, self.functions)
        return pa.table(self._place(view), names=EVENTS.names[:3])

    def make_events(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        """Rows of the log of newest events as producer, time, id and body."""
        view = compute_outputs(rows, self.newest.outputs, self.functions)
        events = _drop_nobodys(pa.table(self._shape_events(view), schema=EVENTS))
        return list(zip(*(column.to_pylist() for column in events.columns), strict=True))

    def _shape_events(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        return [*self._place(rows), self._write_bodies(rows)]

    def _place(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        empty = pa.chunked_array([[""] * rows.num_rows], pa.string())
        ids = empty if self.id is None else write_ids(rows.column(self.id))
        return [write_names(rows.column(self.producer)), _read_times(rows.column(self.time)), ids]

    def _write_bodies(self, rows: pa.Table) -> pa.ChunkedArray:
        if self.body is not None:
            return pa.chunked_array([[write_json(body) for body in rows.column(self.body).to_pylist()]], pa.string())
        own = {self.producer, self.time, self.id}
        shown = [output.name for output in self.newest.outputs if output.name not in own]
        if not shown:
            return pa.chunked_array([["{}"] * rows.num_rows], pa.string())
        return pa.chunked_array([[_write_body(row) for row in json_rows(rows.select(shown))]], pa.string())

    # Parts

    def read_pairs(self, store: Store, log: Log) -> pa.Table:
        """Who follows whom now, and whether that is stored ahead; people as their columns have them."""
        return rows_at(store, log, self.pairs.columns, self.pairs.outputs, log.t, self.functions)

    def read_part_rows(self, store: Store, pairs: Log, stored: Log, parts: Collection[int], t: int) -> list[PartRows]:
        """All rows of some parts as of a time."""
        followed = rows_at(store, pairs, self.pairs.columns, self.pairs.outputs, t, self.functions)
        since = pa.chunked_array([[t] * followed.num_rows], pa.int64())
        all_pairs = pa.table([*self._name_pairs(followed), followed.column(AHEAD), since], schema=PAIRS)
        ahead = rows_at(store, stored, self.stored.columns, self.stored.outputs, t, self.functions)
        entries = pa.table([*self._name_pairs(ahead), *self._place_entries(ahead)], schema=STORED)
        by_part, entries_by_part = _split_parts(all_pairs, parts), _split_parts(entries, parts)
        return [PartRows(part, by_part[part], entries_by_part[part]) for part in parts]

    def read_part_changes(
        self, store: Store, pairs: Log, stored: Log, parts: tuple[int, ...], after: int, upto: int
    ) -> PartChanges:
        """What changes in some parts between two times; a pair that changed and changed back is told too."""
        read = read_changes(store, pairs, self.pairs.columns, self.pairs.outputs, after, upto, self.functions)
        net = net_changes(store, stored, self.stored.columns, self.stored.outputs, after, upto, self.functions)
        entries = pa.table(
            [*self._name_pairs(net), *self._place_entries(net), net.column(WEIGHT)], schema=STORED_CHANGES
        )
        return PartChanges(
            parts, _choose_parts(self._last_of_pairs(consolidate(read)), parts), _choose_parts(entries, parts)
        )

    def _last_of_pairs(self, changes: pa.Table) -> pa.Table:
        """What pairs are after their last change."""
        last: dict[tuple[str, str], tuple[bool | None, int]] = {}
        columns = [*self._name_pairs(changes), changes.column(AHEAD), changes.column(TIME), changes.column(WEIGHT)]
        for consumer, producer, ahead, t, weight in sorted(
            zip(*(column.to_pylist() for column in columns), strict=True), key=lambda row: (row[3], row[4])
        ):
            last[consumer, producer] = (ahead if weight > 0 else None, t)  # at one time, what comes is told last
        rows = [(*pair, *state) for pair, state in last.items()]
        return pa.table([[row[at] for row in rows] for at in range(4)], schema=PAIRS)

    def _name_pairs(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        return [write_names(rows.column(CONSUMER)), write_names(rows.column(PRODUCER))]

    def _place_entries(self, rows: pa.Table) -> list[pa.ChunkedArray]:
        ids = rows.column(STORED_ID)
        empty = pa.chunked_array([[""] * rows.num_rows], pa.string())
        return [_read_times(rows.column(STORED_TIME)), empty if self.id is None else write_ids(ids)]


def _write_body(row: JsonRow) -> str:
    written = json.dumps(row, ensure_ascii=False)
    return json.dumps(clean_value(row), ensure_ascii=False) if "\\u0000" in written else written


def write_ids(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Ids as texts in the order of their values."""
    if types.is_integer(column.type):
        return pa.chunked_array([[_write_number(value) for value in column.to_pylist()]], pa.string())
    return write_names(column)


def read_id(text: str, is_whole: bool) -> str:
    """What people call an id."""
    if not is_whole:
        return text
    number = int(text[1:])
    return str(number if text[0] == "1" else number - LEAST)


def write_id(text: str, is_whole: bool) -> str:
    """An id as the store has it, from what people call it. Raises `UsageError` for one that cannot be."""
    if not is_whole:
        return text
    try:
        number = int(text)
    except ValueError:
        raise UsageError(f'"{text}" is not an id of this feed', "its ids are whole numbers") from None
    if abs(number) >= LEAST:
        raise UsageError(f"{number} is not an id of this feed", "its ids have at most 64 bits")
    return str(_write_number(number))


def _write_number(value: int | None) -> str | None:
    if value is None:
        return None
    return f"1{value:0{DIGITS}d}" if value >= 0 else f"0{LEAST + value:0{DIGITS}d}"


def write_names(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if types.is_string(column.type):
        return shorten_names(column)
    if types.is_integer(column.type):
        return pc.cast(column, pa.string())
    values = (row["name"] for row in json_rows(pa.table([column], names=["name"])))
    return pa.chunked_array([[None if value is None else str(value) for value in values]], pa.string())


def _read_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(column, pa.int64())


def _drop_nobodys(events: pa.Table) -> pa.Table:
    known = pc.and_(pc.is_valid(events.column("producer")), pc.is_valid(events.column("ts")))
    return events.filter(pc.and_(known, pc.is_valid(events.column("id"))))


def _choose_parts(rows: pa.Table, parts: Collection[int]) -> pa.Table:
    """The rows of consumers in some parts; entries and pairs of nobody are left out."""
    rows = rows.filter(_find_complete(rows))
    if len(parts) == PARTS:
        return rows
    consumers = rows.column(CONSUMER).to_pylist()
    known = {consumer: part_of(consumer) in parts for consumer in set(consumers)}
    return rows.filter(pa.array([known[consumer] for consumer in consumers], pa.bool_()))


def _find_complete(rows: pa.Table) -> pa.ChunkedArray:
    """Whether nothing but a decision is missing."""
    complete = [pc.is_valid(rows.column(name)) for name in rows.column_names if name != AHEAD]
    return functools.reduce(pc.and_, complete)


def _split_parts(rows: pa.Table, parts: Collection[int]) -> dict[int, pa.Table]:
    """Rows by part, in one pass."""
    chosen = _choose_parts(rows, parts)
    consumers = chosen.column(CONSUMER).to_pylist()
    known = {consumer: part_of(consumer) for consumer in set(consumers)}
    positions: dict[int, list[int]] = {part: [] for part in parts}
    for position, consumer in enumerate(consumers):
        positions[known[consumer]].append(position)
    return {part: chosen.take(pa.array(at, pa.int64())) for part, at in positions.items()}
