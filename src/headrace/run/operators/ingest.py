"""Captured changes become rows that go and rows that come, by comparison with what is stored.

`run.capture` says what a spool holds. A database need not tell what a row was before: the stored one is found by key.
Upserts that change nothing leave no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.model.types import Row
from headrace.run.operators.lookup import Lookup
from headrace.run.operators.numbering import number_rows
from headrace.run.program import Ingest
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate, contents

NUMBER, OPERATION, KEPT = "__n", "__op", "__kept"


@dataclass(frozen=True, slots=True)
class Stored:
    """What the table held before: rows by key, all rows, and the captured changes since an unfinished reading began."""

    by_key: Lookup | None
    everything: Callable[[], pa.Table]
    earlier_spool: Callable[[], pa.Table]


def ingest(step: Ingest, spool: pa.Table, stored: Stored) -> pa.Table:
    """Changes of the table, in the order of the spool."""
    spool = _in_order(spool)
    operations = set(pc.unique(spool.column(OPERATION)).to_pylist())
    names = [column.name for column in step.columns]
    if operations <= {"i", "r"}:
        signs = pc.if_else(pc.equal(spool.column(OPERATION), "i"), 1, -1)
        return _changes(spool.select(names), spool.column(TIME), signs)
    plain = operations <= {"u", "d"} and spool.column(KEPT).null_count == spool.num_rows
    if plain:
        assert stored.by_key is not None, "upserts need a key"
        return _upserts(step, spool, names, stored.by_key)
    return _Replay(step, stored).changes(spool)


def _in_order(spool: pa.Table) -> pa.Table:
    """Sorts by time and number; mostly rows are in order already."""
    times, numbers = spool.column(TIME).to_numpy(), spool.column(NUMBER).to_numpy()
    later = (times[1:] > times[:-1]) | ((times[1:] == times[:-1]) & (numbers[1:] >= numbers[:-1]))
    return spool if later.all() else spool.sort_by([(TIME, "ascending"), (NUMBER, "ascending")])


def _changes(rows: pa.Table, times: pa.Array, weights: pa.Array) -> pa.Table:
    orders = pa.array(np.zeros(rows.num_rows, dtype=np.int32))
    made = rows.append_column(TIME, times).append_column(ORDER, orders)
    return consolidate(made.append_column(WEIGHT, pc.cast(weights, pa.int64())))


def _upserts(step: Ingest, spool: pa.Table, names: list[str], stored: Lookup) -> pa.Table:
    """All at once: every captured row replaces the one before it with the same key, the first the stored one."""
    groups = number_rows((spool.column(name) for name in step.key), spool.num_rows)
    once = groups.count == spool.num_rows
    order = np.arange(spool.num_rows) if once else np.argsort(groups.of_row, kind="stable")
    group = groups.of_row[order]
    follows = np.r_[False, group[1:] == group[:-1]]
    comes = pc.equal(spool.column(OPERATION), "u").to_numpy()
    times = spool.column(TIME).to_numpy()
    rows = spool.select(names)
    come = np.flatnonzero(comes)
    # Rows that the next one of the same key replaces.
    replaced = np.flatnonzero(follows)
    gone = order[replaced - 1]
    kept = comes[gone]
    gone, gone_at = gone[kept], times[order[replaced]][kept]
    first = order[~follows]
    keys = spool.select(list(step.key))
    positions, before = stored.meet(keys if once else keys.take(pa.array(first)), step.key, True)
    before = _sum_weights(before.append_column("__p", pa.array(positions)))
    old_at = times[first][before.column("__p").to_numpy()]
    tables = [rows if comes.all() else rows.take(pa.array(come)), rows.take(pa.array(gone)), before.select(names)]
    at = np.concatenate([times[come], gone_at, old_at])
    weights = np.concatenate([np.ones(len(come), np.int64), np.full(len(gone) + len(old_at), -1, np.int64)])
    return _changes(pa.concat_tables(tables), pa.array(at), pa.array(weights))


def _sum_weights(rows: pa.Table) -> pa.Table:
    """Rows that are still there."""
    return contents([rows], np.iinfo(np.int64).max)


@dataclass(slots=True)
class _Replay:
    """One captured row after the other, for what needs more than the row before: truncation, kept values, readings."""

    step: Ingest
    stored: Stored
    rows: dict[Row, Row] = field(default_factory=dict)
    bag: dict[Row, int] = field(default_factory=dict)
    made: list[tuple[Row, int, int]] = field(default_factory=list)
    moved: Row | None = None

    def changes(self, spool: pa.Table) -> pa.Table:
        self._load(spool)
        names = [column.name for column in self.step.columns]
        rows = rows_of_arrow(spool.select(names))
        plain = [name.partition(".")[2] for name in names]
        meta = zip(
            spool.column(TIME).to_pylist(),
            spool.column(OPERATION).to_pylist(),
            spool.column(KEPT).to_pylist(),
            rows,
            strict=True,
        )
        places = [names.index(name) for name in self.step.key]
        for time, operation, kept, row in meta:
            key = tuple(row[place] for place in places)
            self._apply(time, operation, key, row, [plain.index(name) for name in kept or ()], kept is not None)
            if operation == "e":
                self._end(time, spool, places)
        types = {column.name: column.type for column in self.step.columns}
        table = arrow_table(types, [row for row, _, _ in self.made])
        return _changes(
            table,
            pa.array([time for _, time, _ in self.made], pa.int64()),
            pa.array([weight for _, _, weight in self.made], pa.int64()),
        )

    def _load(self, spool: pa.Table) -> None:
        """What is stored under the keys that occur; everything, if all may go."""
        everything = bool(set(pc.unique(spool.column(OPERATION)).to_pylist()) & {"t", "e"}) or not self.step.key
        if everything:
            table = self.stored.everything()
        else:
            assert self.stored.by_key is not None, "upserts need a key"
            keys = spool.select(list(self.step.key))
            distinct = keys.take(pa.array(number_rows(keys.columns, keys.num_rows).first_rows))
            table = _sum_weights(self.stored.by_key.meet(distinct, self.step.key, True)[1])
        names = [column.name for column in self.step.columns]
        places = [names.index(name) for name in self.step.key]
        for row, weight in zip(rows_of_arrow(table.select(names)), table.column(WEIGHT).to_pylist(), strict=True):
            self.bag[row] = weight
            if self.step.key:
                self.rows[tuple(row[place] for place in places)] = row

    def _apply(self, time: int, operation: str, key: Row, row: Row, kept: Sequence[int], moves: bool) -> None:
        if operation == "t":
            for old, weight in self.bag.items():
                self.made.append((old, time, -weight))
            self.bag, self.rows = {}, {}
        elif operation in ("i", "r"):
            self._add(row, time, 1 if operation == "i" else -1)
        elif operation == "d":
            gone = self.rows.get(key)
            if gone is not None:
                self._add(self.rows.pop(key), time, -1)
            self.moved = gone if moves else None
            return
        elif operation == "u":
            before = self.rows.get(key) if self.moved is None else self.moved
            if kept and before is not None:
                row = tuple(before[at] if at in kept else value for at, value in enumerate(row))
            if key in self.rows:
                self._add(self.rows[key], time, -1)
            self._add(row, time, 1)
            self.rows[key] = row
        self.moved = None

    def _add(self, row: Row, time: int, weight: int) -> None:
        self.made.append((row, time, weight))
        total = self.bag.get(row, 0) + weight
        if total:
            self.bag[row] = total
        else:
            self.bag.pop(row, None)

    def _end(self, time: int, spool: pa.Table, places: Sequence[int]) -> None:
        """A reading of the whole table is complete: stored keys that were not read are gone."""
        seen = self._find_seen_keys(time, spool)
        for key in [key for key in self.rows if key not in seen]:
            self._add(self.rows.pop(key), time, -1)

    def _find_seen_keys(self, time: int, spool: pa.Table) -> set[Row]:
        """Keys of the rows that came since the last beginning before this time."""
        earlier = self.stored.earlier_spool()
        both = pa.concat_tables([earlier, spool.select(earlier.column_names)]) if earlier.num_rows else spool
        both = _in_order(both)
        seen: set[Row] = set()
        keys = rows_of_arrow(both.select(list(self.step.key)))
        for at, operation, key in zip(
            both.column(TIME).to_pylist(), both.column(OPERATION).to_pylist(), keys, strict=True
        ):
            if at > time or (at == time and operation == "e"):
                break
            if operation == "b":
                seen = set()
            elif operation == "u":
                seen.add(key)
        return seen
