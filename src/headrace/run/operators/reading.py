"""Logs as steps read them: filtered, under the names that expressions use, with the output's order of aliases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.errors import EvaluationError
from headrace.model.expr import TRUE, Column
from headrace.model.log import NEVER
from headrace.model.relation import Field
from headrace.run.logs.key_index import KeyIndex
from headrace.run.operators.expressions import column_of
from headrace.run.program import LogReading, LookupKey
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, Positions, consolidate

_POSITION = "__p"


def schema_of(columns: Sequence[Field]) -> pa.Schema:
    """The schema of a log's files."""
    stamps = [pa.field(TIME, pa.int64()), pa.field(ORDER, pa.int32()), pa.field(WEIGHT, pa.int64())]
    return pa.schema([*(pa.field(column.name, arrow_type(column.type)) for column in columns), *stamps])


def read_rows(reading: LogReading, table: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """The rows that pass, with the columns that the step names."""
    return _name_columns(reading, table, around) if reading.filter == TRUE else _filter_rows(reading, table, around)[1]


def _filter_rows(reading: LogReading, table: pa.Table, around: Surroundings) -> tuple[pa.Array, pa.Table]:
    passes = pc.fill_null(column_of(reading.filter, table, around), False)
    return passes, _name_columns(reading, table.filter(passes), around)


def _name_columns(reading: LogReading, table: pa.Table, around: Surroundings) -> pa.Table:
    columns = {
        name: table.column(expr.name) if isinstance(expr, Column) else column_of(expr, table, around)
        for name, expr in reading.values.items()
    }
    return pa.table({**columns, TIME: table.column(TIME), ORDER: _order(reading, table), WEIGHT: table.column(WEIGHT)})


def _order(reading: LogReading, table: pa.Table) -> pa.Array:
    places = np.array(reading.order, dtype=np.int32)
    return pa.array(places[table.column(ORDER).to_numpy()])


def with_key(key: LookupKey, table: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """Rows with the computed columns of a key, as its indexes hold them."""
    for output in key.computed:
        table = table.append_column(output.name, column_of(output.expr, table, around))
    return table


MANY, REPEATED = 256, 4
"""Probe rows from which on equal keys are looked for, and how many rows have to share a key on average."""


def with_key_if_any(key: LookupKey, table: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """Adds a key to rows of a log that others read as well: rows for which the key has no answer are left out.

    No join misses them: a join that looks rows up by this key evaluates it for every row that comes, and fails by
    itself.
    """
    try:
        return with_key(key, table, around)
    except EvaluationError:
        found = [table.slice(position, 1) for position in range(table.num_rows)]
        return pa.concat_tables([with_key(key, table.slice(0, 0), around), *_each_with_key(key, found, around)])


def _each_with_key(key: LookupKey, rows: Iterable[pa.Table], around: Surroundings) -> Iterator[pa.Table]:
    for row in rows:
        with suppress(EvaluationError):
            yield with_key(key, row, around)


@dataclass(frozen=True, slots=True)
class Contents:
    """Rows of a log up to a time, found by key, and read as a step reads them.

    Nobody asks for them as of a time before `settled`: what came and left until then need not be looked at.
    """

    reading: LogReading
    index: KeyIndex
    upto: int
    around: Surroundings = NOTHING
    settled: int = NEVER

    def meet(self, probe: pa.Table, probe_key: Sequence[str], null_safe: bool = False) -> tuple[Positions, pa.Table]:
        """All pairs of a probe row and a row with its key, as `KeyIndex.meet` finds them; rows are read. Where many
        probe rows share few keys, each key is looked up once, and what is gone goes before it meets them all: a row
        that came and left would be there twice for each.
        """
        keys = None if null_safe or len(probe_key) != 1 else _find_few_keys(probe.column(probe_key[0]))
        if keys is None:
            return self._meet(probe, probe_key, null_safe)
        found, rows = self._meet(pa.table([keys.dictionary], names=list(probe_key)), probe_key)
        if (rows.column(WEIGHT).to_numpy() < 0).any():
            found, rows = self._settle(found, rows)
        return _spread(keys.indices.to_numpy(), found, rows)

    def _meet(self, probe: pa.Table, probe_key: Sequence[str], null_safe: bool = False) -> tuple[Positions, pa.Table]:
        positions, rows = self.index.meet(probe, probe_key, null_safe)
        late = rows.column(TIME).to_numpy() > self.upto
        if late.any():
            positions, rows = positions[~late], rows.filter(pa.array(~late))
        try:
            return self._read(positions, rows)
        except EvaluationError:
            return self._read(*self._settle(positions, rows))

    def _read(self, positions: Positions, rows: pa.Table) -> tuple[Positions, pa.Table]:
        if self.reading.filter == TRUE:
            return positions, _name_columns(self.reading, rows, self.around)
        passes, rows = _filter_rows(self.reading, rows, self.around)
        return positions[passes.to_numpy(zero_copy_only=False)], rows

    def _settle(self, positions: Positions, rows: pa.Table) -> tuple[Positions, pa.Table]:
        """Rows that are gone since before `settled` are gone from what was found, too."""
        times = rows.column(TIME).to_numpy()
        orders = np.where(times <= self.settled, 0, rows.column(ORDER).to_numpy()).astype(np.int32)
        rest = rows.drop_columns([TIME, ORDER]).append_column(_POSITION, pa.array(positions))
        at = pa.array(np.maximum(times, self.settled))
        rows = consolidate(rest.append_column(TIME, at).append_column(ORDER, pa.array(orders)))
        return rows.column(_POSITION).to_numpy(), rows.drop_columns([_POSITION])


def _find_few_keys(column: pa.ChunkedArray) -> pa.DictionaryArray | None:
    """The keys of a column, if there are few of them for many rows."""
    if len(column) < MANY or column.null_count:
        return None
    keys = column.combine_chunks().dictionary_encode()
    return keys if REPEATED * len(keys.dictionary) <= len(keys) else None


def _spread(keys: Positions, found: Positions, rows: pa.Table) -> tuple[Positions, pa.Table]:
    """Rows that were found for the position of a key, for every position that has this key."""
    order = np.argsort(found, kind="stable")
    starts = np.searchsorted(found[order], keys)
    counts = np.searchsorted(found[order], keys, "right") - starts
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = order[np.repeat(starts, counts) + within]
    return np.repeat(np.arange(len(keys)), counts), rows.take(pa.array(chosen))
