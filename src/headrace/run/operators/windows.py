"""Time windows of rows: a row is repeated for every window that holds its time."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.meaning.scalar_time import from_micros
from headrace.model.block import Window
from headrace.model.types import TIMESTAMP
from headrace.run.operators.expressions import column_of
from headrace.run.operators.lookup import Integers
from headrace.run.operators.numbering import spread
from headrace.run.rows.arrow import arrow_type


def in_windows(window: Window, table: pa.Table, around: Surroundings = NOTHING) -> pa.Table:
    """The table with start and end of the windows; rows without a time are dropped."""
    times = column_of(window.time, table, around)
    table, times = table.filter(pc.is_valid(times)), times.drop_null()
    instants = times.cast(pa.int64()).to_numpy()
    size, slide, offset = window.size_ms * 1000, window.slide_ms * 1000, window.offset_ms * 1000
    into = (instants - offset) % slide
    counts = np.maximum(-((into - size) // slide), 0)
    steps_back = spread(np.zeros(len(counts), np.int64), counts)
    starts = np.repeat(instants - into, counts) - steps_back * slide
    table = table.take(pa.array(np.repeat(np.arange(len(counts)), counts)))
    return table.append_column(window.start, _timestamps(starts)).append_column(window.end, _timestamps(starts + size))


def _timestamps(instants: Integers) -> pa.Array:
    """Raises for what lies outside of the years that timestamps have."""
    if len(instants):
        from_micros(int(instants.min()))
        from_micros(int(instants.max()))
    return pa.array(instants).cast(arrow_type(TIMESTAMP))
