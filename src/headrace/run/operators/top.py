"""Changes of the first rows of partitions. Each partition keeps the rows that are first, and some after them.

The state of a partition is all its rows, or the first ones and a mark that it is cut: that there may be others after
the last one kept. What happens after the last one kept is not looked at. So a push costs what it changes and what
touched partitions keep, whatever else they hold. If rows go until fewer are kept than are shown, the partition is read
again from its input, as it was before all changes of the push, and is followed from there.

    shown       ranks up to offset + limit
    reserve     as many again, and at least RESERVE: kept so that a row that goes has a successor
    twice that  a partition is cut back to shown and reserve when it keeps more than this

All of this counts rows; under `dense_rank`, values of ORDER BY. Under `rank` and `dense_rank` all rows that tie with
the last one kept are kept: many equal values make a partition large. The order is ORDER BY, then the whole row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.model.block import Derivation
from headrace.model.expr import Expr
from headrace.model.relation import Field, Ranking
from headrace.model.types import BOOLEAN
from headrace.run.operators.expressions import column_of
from headrace.run.operators.first_rows import Flags, ListChanges, ListRows, Ranks, follow_first_rows
from headrace.run.operators.lookup import Integers, Lookup
from headrace.run.operators.numbering import GroupTimes, number_rows, sums_by
from headrace.run.operators.sides import GROUP, make_changes, read_rows_before
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import TIME, WEIGHT
from headrace.run.rows.places import part_by_column, part_by_number

RESERVE = 10
CUT = "cut"
"""True in the one row that marks a partition as cut."""


def state_fields(derivation: Derivation, keys: tuple[Expr, ...]) -> tuple[Field, ...]:
    """The columns of the state; the first ones, by which it is looked up, are those of `state_key`."""
    partition = (Field(name, key.type) for name, key in zip(state_key(keys), keys, strict=True))
    rows = (Field(_row_column(column.name), column.expr.type) for column in derivation.columns[0])
    return (*partition, *rows, Field(CUT, BOOLEAN))


def state_key(keys: tuple[Expr, ...]) -> tuple[str, ...]:
    return tuple(f"k:{number}" for number in range(len(keys)))


def _row_column(name: str) -> str:
    return f"r:{name}"


@dataclass(frozen=True, slots=True)
class TopChanges:
    """Changes of the rows shown and of the state, and how many rows of partitions were read again."""

    shown: pa.Table
    state: pa.Table
    read_again: int


@dataclass(frozen=True, slots=True)
class Partitions:
    """What finds rows of partitions by their keys: their states, and all rows of the input with their history.

    None is nothing.
    """

    states: Lookup | None
    input: Lookup | None


def first_of_partitions(
    derivation: Derivation,
    keys: tuple[Expr, ...],
    changes: pa.Table,
    partitions: Partitions,
    after: int,
    around: Surroundings = NOTHING,
    reserve: int | None = None,
) -> TopChanges:
    """All changes are later than `after`, as of which partitions are read; the states are those of then.

    How many `reserve` rows are kept may differ from push to push.
    """
    top = _Top(derivation, around, reserve)
    names = state_key(keys)
    key_rows = pa.table({name: column_of(key, changes, around) for name, key in zip(names, keys, strict=True)})
    numbers = number_rows((key_rows.column(name) for name in names), changes.num_rows)
    found = key_rows.take(pa.array(numbers.first_rows)) if names else pa.table({"": np.arange(numbers.count)})
    new = _PartitionRows(top.make_rows(changes), numbers.of_row)
    kept, was_cut = top.read_states(partitions.states, found, names)
    again = _PartitionRows(new.rows.slice(0, 0), np.zeros(0, np.int64))
    placed = top.place_rows(kept, again, new, was_cut)
    is_short = placed.find_short(top.ranks)
    if is_short.any():
        assert partitions.input is not None, "a partition is cut, and nothing holds its rows"
        sought = np.flatnonzero(is_short)
        before = read_rows_before(found.take(pa.array(sought)), names, partitions.input, changes.column_names, after)
        again = _PartitionRows(top.make_rows(before), sought[before.column(GROUP).to_numpy()])
        placed = top.place_rows(kept, again, new, was_cut & ~is_short)
    shown = top.follow(placed)
    state = top.change_states(placed, found.select(list(names)), was_cut)
    return TopChanges(shown, state, len(again.partition))


@dataclass(frozen=True, slots=True)
class _PartitionRows:
    """Rows, with time and weight, and the number of the partition of each."""

    rows: pa.Table
    partition: Integers

    @property
    def weight(self) -> Integers:
        return np.asarray(self.rows.column(WEIGHT).to_numpy())

    @property
    def time(self) -> Integers:
        return np.asarray(self.rows.column(TIME).to_numpy())


@dataclass(frozen=True, slots=True)
class _Placed:
    """Rows of touched partitions in one order: by partition, by ORDER BY, then by the whole row.

    By place: its unit, the number of its `partition`, how often its row was there at the `start`, how often the state
    `held` it, and which `row` of `rows` it is. `new` has the changes, at `new_place`; those that are not `seen` come
    after the last row kept of a partition that is `cut`.
    """

    rows: pa.Table
    units: Integers
    partition: Integers
    start: Integers
    held: Integers
    row: Integers
    new: _PartitionRows
    new_place: Integers
    seen: Flags
    cut: Flags

    @property
    def size(self) -> int:
        return len(self.units)

    def find_short(self, ranks: Ranks) -> Flags:
        """Partitions that are cut and would, at some time, keep fewer than are shown."""
        if not self.cut.any():
            return self.cut
        of_cut = self.seen & self.cut[self.new.partition]
        place, time, weight = self.new_place[of_cut], self.new.time[of_cut], self.new.weight[of_cut]
        if ranks.ranking is Ranking.DENSE_RANK:
            least = self._find_least(self.units[place], time, weight, sums_by(self.start, self.units, self.size))
            stays = np.flatnonzero(least > 0)
            kept = sums_by(np.ones(len(stays), np.int64), self.partition[stays], len(self.cut))
        else:
            kept = self._find_least(
                self.partition[place], time, weight, sums_by(self.start, self.partition, len(self.cut))
            )
        return self.cut & (kept < ranks.last)

    def _find_least(self, group: Integers, time: Integers, weight: Integers, initial: Integers) -> Integers:
        """The least that each group ever holds."""
        steps = GroupTimes.of(group, time)
        least = initial.copy()
        np.minimum.at(least, steps.group, steps.running(weight, initial))
        return least


class _Top:
    def __init__(self, derivation: Derivation, around: Surroundings, reserve: int | None) -> None:
        assert derivation.limit is not None, "rows are ranked without a limit"
        self._derivation = derivation
        self._around = around
        self._columns = {column.name: column.expr for column in derivation.columns[0]}
        last, named = derivation.offset + derivation.limit, derivation.rank_name is not None
        self.ranks = Ranks(derivation.ranking, derivation.offset, last, named)
        self._reserve = max(RESERVE, last) if reserve is None else reserve

    def make_rows(self, changes: pa.Table) -> pa.Table:
        """Rows of the input as they are ranked."""
        columns = {name: column_of(expr, changes, self._around) for name, expr in self._columns.items()}
        return pa.table({**columns, TIME: changes.column(TIME), WEIGHT: changes.column(WEIGHT)})

    def read_states(
        self, states: Lookup | None, keys: pa.Table, names: tuple[str, ...]
    ) -> tuple[_PartitionRows, Flags]:
        """The rows that partitions keep, and which partitions are cut."""
        schema = pa.schema(
            [
                *((name, arrow_type(expr.type)) for name, expr in self._columns.items()),
                (TIME, pa.int64()),
                (WEIGHT, pa.int64()),
            ]
        )
        if states is None:
            return _PartitionRows(schema.empty_table(), np.zeros(0, np.int64)), np.zeros(keys.num_rows, np.bool_)
        positions, met = states.meet(keys, names, True)
        mark = met.column(CUT).to_numpy()
        marks = sums_by(met.column(WEIGHT).to_numpy()[mark], positions[mark], keys.num_rows)
        rows = met.select([*map(_row_column, self._columns), TIME, WEIGHT]).rename_columns(schema.names).cast(schema)
        if mark.any():
            positions, rows = positions[~mark], rows.filter(pa.array(~mark))
        return _PartitionRows(rows, positions), marks > 0

    def place_rows(self, kept: _PartitionRows, again: _PartitionRows, new: _PartitionRows, cut: Flags) -> _Placed:
        """`again` are all rows of some partitions, in place of those that they keep."""
        rows = pa.concat_tables([kept.rows, again.rows.cast(kept.rows.schema), new.rows.cast(kept.rows.schema)])
        partition = np.concatenate((kept.partition, again.partition, new.partition))
        places, tied = self._find_places(rows, partition)
        first, old, size = len(kept.partition), len(kept.partition) + len(again.partition), len(places)
        units, partition_of, row = (np.zeros(size, np.int64) for _ in range(3))
        units[places], partition_of[places], row[places] = tied, partition, np.arange(size)
        held = sums_by(kept.weight, places[:first], size)
        is_read_again = np.zeros(len(cut), np.bool_)
        is_read_again[again.partition] = True
        start = np.where(is_read_again[partition_of], 0, held) + sums_by(again.weight, places[first:old], size)
        last = np.where(cut, -1, size)
        there = np.flatnonzero(start)
        np.maximum.at(last, partition_of[there], units[there])
        seen = units[places[old:]] <= last[new.partition]
        return _Placed(rows, units, partition_of, start, held, row, new, places[old:], seen, cut)

    def _find_places(self, rows: pa.Table, partition: Integers) -> tuple[Integers, Integers]:
        """The place of every row, and the unit that it is in."""
        places = part_by_number(np.zeros(rows.num_rows, np.int64), partition)
        for order in self._derivation.order:
            column = column_of(order.expr, rows, self._around)
            places = part_by_column(
                places, column, order.expr.type, descending=order.descending, nulls_first=order.nulls_first
            )
        tied = places
        for name, expr in self._columns.items():
            places = part_by_column(places, rows.column(name), expr.type)
        return places, places if self.ranks.ranking is Ranking.ROW_NUMBER else tied

    def follow(self, placed: _Placed) -> pa.Table:
        """The changes of what is shown."""
        seen, there = placed.seen, np.flatnonzero(placed.start)
        partition = placed.new.partition[seen]
        times = GroupTimes.of(partition, placed.new.time[seen])
        start = ListRows(placed.partition[there], there, placed.start[there])
        changes = ListChanges(ListRows(partition, placed.new_place[seen], placed.new.weight[seen]), times.of_row)
        made = follow_first_rows(self.ranks, placed.units, start, changes)
        rows = placed.rows.take(pa.array(placed.row[made.places]))
        columns = {name: rows.column(name) for name in self._columns}
        if self._derivation.rank_name is not None:
            columns[self._derivation.rank_name] = pa.array(made.ranks)
        return make_changes(columns, times.time[made.times], made.weights)

    def change_states(self, placed: _Placed, keys: pa.Table, was_cut: Flags) -> pa.Table:
        """The change of the states from before all changes to after the last, written at the time of that."""
        seen = placed.seen
        end = placed.start + sums_by(placed.new.weight[seen], placed.new_place[seen], placed.size)
        there = np.flatnonzero(end)
        partition = placed.partition[there]
        before = self.ranks.count_before(partition, placed.units[there], end[there])
        is_long = np.zeros(len(was_cut), np.bool_)
        is_long[partition[before >= self.ranks.last + 2 * self._reserve]] = True
        goes = is_long[partition] & (before >= self.ranks.last + self._reserve)
        end[there[goes]] = 0
        change = end - placed.held
        changed = np.flatnonzero(change)
        marks = (placed.cut | is_long).astype(np.int64) - was_cut
        marked = np.flatnonzero(marks)
        partitions = np.concatenate((placed.partition[changed], marked))
        # A mark has no row: its columns are NULL.
        positions = np.concatenate((placed.row[changed], np.full(len(marked), -1)))
        rows = placed.rows.take(pa.array(positions, mask=positions < 0))
        chosen = keys.take(pa.array(partitions)) if keys.num_columns else keys
        columns = {name: chosen.column(name) for name in keys.column_names}
        columns |= {_row_column(name): rows.column(name) for name in self._columns}
        columns[CUT] = pa.array(positions < 0)
        time = np.full(len(positions), placed.new.time.max(initial=0))
        return make_changes(columns, time, np.concatenate((change[changed], marks[marked])))
