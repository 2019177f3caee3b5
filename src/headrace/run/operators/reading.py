"""Logs as steps read them: filtered, under the names that expressions use, with the output's order of aliases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.expr import TRUE, Column
from headrace.model.relation import Field
from headrace.model.scalar import NOTHING, Surroundings
from headrace.run.arrangement import Arrangement
from headrace.run.arrow import arrow_type
from headrace.run.changes import ORDER, TIME, WEIGHT, Positions
from headrace.run.operators.expressions import column_of
from headrace.run.steps import LookupKey, Reading


def schema_of(columns: Sequence[Field]) -> pa.Schema:
    """Of a log's files."""
    stamps = [pa.field(TIME, pa.int64()), pa.field(ORDER, pa.int32()), pa.field(WEIGHT, pa.int64())]
    return pa.schema([*(pa.field(column.name, arrow_type(column.type)) for column in columns), *stamps])


def read(reading: Reading, table: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """The rows that pass, with the columns that the step names."""
    return _named(reading, table, around) if reading.filter == TRUE else _filtered(reading, table, around)[1]


def _filtered(reading: Reading, table: pa.Table, around: Surroundings) -> tuple[pa.Array, pa.Table]:
    passes = pc.fill_null(column_of(reading.filter, table, around), False)
    return passes, _named(reading, table.filter(passes), around)


def _named(reading: Reading, table: pa.Table, around: Surroundings) -> pa.Table:
    columns = {
        name: table.column(expr.name) if isinstance(expr, Column) else column_of(expr, table, around)
        for name, expr in reading.values.items()
    }
    return pa.table({**columns, TIME: table.column(TIME), ORDER: _order(reading, table), WEIGHT: table.column(WEIGHT)})


def _order(reading: Reading, table: pa.Table) -> pa.Array:
    places = np.array(reading.order, dtype=np.int32)
    return pa.array(places[table.column(ORDER).to_numpy()])


def with_key(key: LookupKey, table: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """Rows with the computed columns of a key, as its runs hold them."""
    for output in key.computed:
        table = table.append_column(output.name, column_of(output.expr, table, around))
    return table


@dataclass(frozen=True, slots=True)
class Contents:
    """Rows of a log up to a time, found by key, and read as a step reads them."""

    reading: Reading
    arrangement: Arrangement
    upto: int
    around: Surroundings = NOTHING

    def meet(self, probe: pa.Table, probe_key: Sequence[str], null_safe: bool = False) -> tuple[Positions, pa.Table]:
        positions, rows = self.arrangement.meet(probe, probe_key, null_safe)
        late = rows.column(TIME).to_numpy() > self.upto
        if late.any():
            positions, rows = positions[~late], rows.filter(pa.array(~late))
        if self.reading.filter == TRUE:
            return positions, _named(self.reading, rows, self.around)
        passes, rows = _filtered(self.reading, rows, self.around)
        return positions[passes.to_numpy(zero_copy_only=False)], rows
