"""Histories of tables for tests of operators: changes with times, cut into batches at random."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.expr import Expr
from headrace.model.relation import Field
from headrace.model.types import BIGINT, INT, Row
from headrace.run.logs.key_index import KeyIndex, make_indexes
from headrace.run.operators.expressions import column_of
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT
from headrace.testing import SCHEMA, Tables, changes

STAMPS = {TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}


@dataclass(frozen=True)
class History:
    """What each source gains and loses at times 1, 2, ..., and after which of these a batch ends."""

    steps: tuple[Tables, ...]
    cuts: tuple[int, ...]

    def batches(self) -> Iterator[tuple[int, int]]:
        """(after, upto] of every batch."""
        return zip((0, *self.cuts), (*self.cuts, len(self.steps)), strict=True)

    def tables(self, source: str) -> tuple[ZSet, ...]:
        """The rows at times 0, 1, 2, ..."""
        found = [EMPTY]
        for step in self.steps:
            found.append(found[-1] + step[source])
        return tuple(found)

    def changes(self, source: str, fields: Sequence[Field], after: int, upto: int) -> pa.Table:
        rows = [
            (*row, time, 0, weight)
            for time in range(after + 1, upto + 1)
            for row, weight in self.steps[time - 1][source].items()
        ]
        return arrow_table({**{field.name: field.type for field in fields}, **STAMPS}, rows)


@st.composite
def histories(draw: st.DrawFn, sources: tuple[str, ...]) -> History:
    schema = {name: SCHEMA[name] for name in sources}
    now, steps = dict.fromkeys(sources, EMPTY), []
    for _ in range(draw(st.integers(1, 6))):
        step = draw(changes(now, schema, max_rows=4))
        steps.append(step)
        now = {name: now[name] + step[name] for name in sources}
    cuts = draw(st.sets(st.integers(1, len(steps)), max_size=3))
    return History(tuple(steps), tuple(sorted(cuts)))


def at_time(log: Sequence[pa.Table], time: int) -> ZSet:
    """What a log says for one time; all is stamped with that time alone."""
    found = EMPTY
    for table in log:
        assert table.column_names[-3:] == [TIME, ORDER, WEIGHT], table.column_names
        found += bag_of(table.filter(pc.equal(table.column(TIME), time)))
    return found


def bag_of(changes: pa.Table) -> ZSet:
    """All rows of a table of changes, whatever their times; the order of all is 0."""
    assert set(changes.column(ORDER).to_pylist()) <= {0}
    rows = rows_of_arrow(changes.drop_columns([TIME, ORDER, WEIGHT]))
    return ZSet(zip(rows, changes.column(WEIGHT).to_pylist(), strict=True))


class Stored:
    """Rows with their history, arranged by a key as the engine does."""

    def __init__(self, rows: pa.Table, key: tuple[Expr, ...]) -> None:
        names = tuple(f"key{i}" for i in range(len(key)))
        for name, expr in zip(names, key, strict=True):
            rows = rows.append_column(name, column_of(expr, rows))
        half = rows.num_rows // 2
        indexes = (*make_indexes(rows.slice(0, half), names, 2), *make_indexes(rows.slice(half), names, 1))
        self.meet = KeyIndex(names, tuple(indexes)).meet


class Kept:
    """Rows with their history, found by comparing all keys."""

    def __init__(self, key: Sequence[str], tables: Sequence[pa.Table]) -> None:
        self._key = list(key)
        self._table = pa.concat_tables(tables)

    def meet(self, probe: pa.Table, probe_key: Sequence[str], null_safe: bool) -> tuple[np.ndarray, pa.Table]:
        assert null_safe and len(probe_key) == len(self._key)
        sought = _keys(probe, list(probe_key))
        found = [
            (i, j)
            for i, key in enumerate(sought)
            for j, other in enumerate(_keys(self._table, self._key))
            if key == other
        ]
        rows = self._table.take(pa.array([j for _, j in found], pa.int64()))
        return np.array([i for i, _ in found], np.int64), rows


def _keys(table: pa.Table, key: list[str]) -> list[Row]:
    return rows_of_arrow(table.select(key)) if key else [()] * table.num_rows
