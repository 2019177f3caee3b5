"""Changes of sessions: rows of a partition that follow each other within a gap, and the bounds of what they form.

A row that comes can prolong a session or join two; one that goes can shorten or split it. Then all rows of the session
change, because they carry its bounds. No state is kept. Rows are looked up by partition and stretch of time, which is
a gap long, from the changed rows outwards: first the stretches around them, then twice as many, and so on, until
nothing follows within the gap. So a push costs the sessions that it touches, whatever else their partitions hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.scalar import NOTHING, Surroundings
from headrace.meaning.scalar_time import from_micros
from headrace.model.block import SessionGap
from headrace.model.types import TIMESTAMP
from headrace.run.operators.expressions import column_of
from headrace.run.operators.first_rows import Flags
from headrace.run.operators.lookup import Integers, Lookup
from headrace.run.operators.numbering import number_rows, spread
from headrace.run.operators.sides import GROUP, make_changes, read_rows_before
from headrace.run.program import DeriveStep
from headrace.run.rows.arrow import arrow_type
from headrace.run.rows.changes import TIME, WEIGHT

NEVER, FOREVER = -(2**62), 2**62


def derive_sessions(
    step: DeriveStep, changes: pa.Table, contents: Lookup, after: int, around: Surroundings = NOTHING
) -> pa.Table:
    """Changes of rows with their bounds, all later than `after`."""
    session, (keys,) = step.derivation.session, step.keys
    assert session is not None, "sessions without a gap"
    changes = changes.filter(pc.is_valid(column_of(keys[-1], changes, around)))
    found = _Seeker(step, session, contents, after, around).gather(changes)
    made = _follow_sessions(found, 1000 * session.gap_ms)
    table = found.table.take(pa.array(made.row))
    columns = {column.name: table.column(column.name) for column in step.derivation.columns[0]}
    bounds = {session.start: _timestamps(made.start), session.end: _timestamps(made.end)}
    return make_changes({**columns, **bounds}, made.time, made.weight)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Pieces of time, a gap long, each of one partition."""

    partition: Integers
    number: Integers

    @classmethod
    def around(cls, partition: Integers, first: Integers, last: Integers) -> _Stretches:
        """All from the first to the last of each."""
        counts = last - first + 1
        return cls(np.repeat(partition, counts), spread(first, counts)).once()

    def once(self) -> _Stretches:
        order = np.lexsort((self.number, self.partition))
        partition, number = self.partition[order], self.number[order]
        is_new = np.ones(len(order), bool)
        is_new[1:] = (partition[1:] != partition[:-1]) | (number[1:] != number[:-1])
        return _Stretches(partition[is_new], number[is_new])

    def are_among(self, others: _Stretches) -> Flags:
        _, ranks = np.unique(np.concatenate((self.number, others.number)), return_inverse=True)
        most = int(ranks.max(initial=0)) + 1
        codes = np.concatenate((self.partition, others.partition)) * most + ranks
        return np.isin(codes[: len(self.number)], codes[len(self.number) :])

    def without(self, others: _Stretches) -> _Stretches:
        rest = ~self.are_among(others)
        return _Stretches(self.partition[rest], self.number[rest])

    def and_also(self, others: _Stretches) -> _Stretches:
        return _Stretches(
            np.concatenate((self.partition, others.partition)), np.concatenate((self.number, others.number))
        )


@dataclass(frozen=True, slots=True)
class _FoundRows:
    """Changes, and rows that were there before, each in the session that all of them would form together.

    Rows of different sessions then never belonged to one. `session` numbers them by partition and time.
    """

    table: pa.Table
    partition: Integers
    instant: Integers
    is_new: Flags
    session: Integers

    @classmethod
    def of(cls, table: pa.Table, partition: Integers, instant: Integers, is_new: Flags, gap: int) -> _FoundRows:
        order = np.lexsort((instant, partition))
        begins = np.ones(len(order), bool)
        begins[1:] = (np.diff(partition[order]) != 0) | (np.diff(instant[order]) > gap)
        session = np.empty(len(order), np.int64)
        session[order] = np.cumsum(begins) - 1
        return cls(table, partition, instant, is_new, session)

    @property
    def count(self) -> int:
        return int(self.session.max(initial=-1)) + 1

    @property
    def touched(self) -> Flags:
        """Which sessions hold a change."""
        touched = np.zeros(self.count, bool)
        touched[self.session[self.is_new]] = True
        return touched


@dataclass(frozen=True, slots=True)
class _Seeker:
    step: DeriveStep
    session: SessionGap
    contents: Lookup
    after: int
    around: Surroundings

    @property
    def gap(self) -> int:
        return 1000 * self.session.gap_ms

    def gather(self, changes: pa.Table) -> _FoundRows:
        """The changes, and all rows of the sessions that they touch."""
        *partition, starts = (column_of(expr, changes, self.around) for expr in self.step.keys[0])
        numbering = number_rows(partition, changes.num_rows)
        names = [str(number) for number in range(len(partition))]
        keys = pa.table([*partition, pa.nulls(changes.num_rows)], names=[*names, ""])
        keys = keys.take(pa.array(numbering.first_rows)).drop_columns([""]) if names else None
        stretch = starts.cast(pa.int64()).to_numpy() // self.gap
        wanted = _Stretches.around(numbering.of_row, stretch - 1, stretch + 1)
        read = _Stretches(wanted.partition[:0], wanted.number[:0])
        tables, partitions = [self._make_rows(changes)], [numbering.of_row]
        reach = 1
        while True:
            if len(wanted.number):
                before = self._look_up(keys, wanted, changes.column_names)
                tables.append(self._make_rows(before))
                partitions.append(wanted.partition[before.column(GROUP).to_numpy()])
                read = read.and_also(wanted)
            table = pa.concat_tables(tables)
            instant = column_of(self.session.time, table).cast(pa.int64()).to_numpy()
            is_new = np.arange(table.num_rows) < changes.num_rows
            rows = _FoundRows.of(table, np.concatenate(partitions), instant, is_new, self.gap)
            wanted = self._find_open_ends(rows, read, reach)
            reach *= 2
            if not len(wanted.number):
                return rows

    def _make_rows(self, rows: pa.Table) -> pa.Table:
        """Rows of the core with the columns that the derivation has."""
        columns = {column.name: column_of(column.expr, rows, self.around) for column in self.step.derivation.columns[0]}
        return pa.table({**columns, TIME: rows.column(TIME), WEIGHT: rows.column(WEIGHT)})

    def _look_up(self, keys: pa.Table | None, wanted: _Stretches, columns: list[str]) -> pa.Table:
        starts = pa.array(wanted.number * self.gap).cast(arrow_type(TIMESTAMP))
        parts = (
            [] if keys is None else [keys.take(pa.array(wanted.partition)).column(name) for name in keys.column_names]
        )
        names = [str(number) for number in range(len(parts) + 1)]
        return read_rows_before(pa.table([*parts, starts], names=names), names, self.contents, columns, self.after)

    def _find_open_ends(self, rows: _FoundRows, read: _Stretches, reach: int) -> _Stretches:
        """Stretches before and after touched sessions where nobody has looked yet."""
        lowest, highest = np.full(rows.count, FOREVER), np.full(rows.count, NEVER)
        np.minimum.at(lowest, rows.session, rows.instant)
        np.maximum.at(highest, rows.session, rows.instant)
        partition = np.zeros(rows.count, np.int64)
        partition[rows.session] = rows.partition
        touched = rows.touched
        partition, low, high = partition[touched], lowest[touched] // self.gap, highest[touched] // self.gap
        below = ~_Stretches(partition, low - 1).are_among(read)
        above = ~_Stretches(partition, high + 1).are_among(read)
        before = _Stretches.around(partition[below], low[below] - reach, low[below] - 1)
        after = _Stretches.around(partition[above], high[above] + 1, high[above] + reach)
        return before.and_also(after).once().without(read)


@dataclass(frozen=True, slots=True)
class _Changed:
    """Rows by their position, with bounds, times and weights."""

    row: Integers
    start: Integers
    end: Integers
    time: Integers
    weight: Integers

    @classmethod
    def joined(cls, parts: list[_Changed]) -> _Changed:
        fields = ("row", "start", "end", "time", "weight")
        return cls(
            *(np.concatenate([np.zeros(0, np.int64), *(getattr(one, name) for one in parts)]) for name in fields)
        )


def _follow_sessions(rows: _FoundRows, gap: int) -> _Changed:
    """What changes of all touched sessions. Those that come as a whole, as all do at first, need no second look."""
    time, weight = rows.table.column(TIME).to_numpy(), rows.table.column(WEIGHT).to_numpy()
    first, last = np.full(rows.count, FOREVER), np.full(rows.count, NEVER)
    np.minimum.at(first, rows.session, time)
    np.maximum.at(last, rows.session, time)
    is_plain = rows.touched & (first == last)
    is_plain[rows.session[~rows.is_new | (weight < 0)]] = False
    made = [_take_plain(rows, is_plain, time, weight, gap)]
    others = np.flatnonzero((rows.touched & ~is_plain)[rows.session])
    columns = (rows.table.column(name) for name in rows.table.column_names if name not in (TIME, WEIGHT))
    number = number_rows((column.take(pa.array(others)) for column in columns), len(others)).of_row
    order = np.lexsort((rows.instant[others], rows.session[others]))
    ends = np.flatnonzero(np.diff(rows.session[others][order])) + 1
    for part in np.split(order, ends) if len(order) else ():
        at = others[part]
        stamps = np.where(rows.is_new[at], time[at], NEVER)
        made.append(_follow_one(at, number[part], rows.instant[at], stamps, weight[at], gap))
    return _Changed.joined(made)


def _take_plain(rows: _FoundRows, is_plain: Flags, time: Integers, weight: Integers, gap: int) -> _Changed:
    lowest, highest = np.full(rows.count, FOREVER), np.full(rows.count, NEVER)
    np.minimum.at(lowest, rows.session, rows.instant)
    np.maximum.at(highest, rows.session, rows.instant)
    at = np.flatnonzero(is_plain[rows.session])
    session = rows.session[at]
    return _Changed(at, lowest[session], highest[session] + gap, time[at], weight[at])


def _follow_one(
    at: Integers, number: Integers, instant: Integers, stamps: Integers, weight: Integers, gap: int
) -> _Changed:
    """Changes of one session, or of those that it falls into, at each time at which one of its rows changes.

    Rows come in the order of their instants. Equal rows have one number; those that were there before are stamped
    `NEVER`.
    """
    _, places, kinds = np.unique(number, return_index=True, return_inverse=True)
    order = np.argsort(instant[places], kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    of_row, places = rank[kinds], places[order]
    instants = instant[places]
    held, made = np.zeros(len(places), np.int64), list[_Changed]()
    start, end = instants, instants
    for stamp in np.unique(stamps):
        before, first, last = held.copy(), start, end
        now = stamps == stamp
        np.add.at(held, of_row[now], weight[now])
        assert (held >= 0).all(), f"a session has a row {held.min()} times"
        start, end = _find_bounds(instants, held > 0, gap)
        if stamp != NEVER:
            changed = (before != held) | ((held > 0) & ((first != start) | (last != end)))
            for counts, low, high, sign in ((before, first, last, -1), (held, start, end, 1)):
                there = np.flatnonzero(changed & (counts > 0))
                when = np.full(len(there), stamp)
                made.append(_Changed(at[places[there]], low[there], high[there] + gap, when, sign * counts[there]))
    return _Changed.joined(made)


def _find_bounds(instants: Integers, present: Flags, gap: int) -> tuple[Integers, Integers]:
    """The first and last instant of the session that each present row is in. Instants ascend."""
    there = np.flatnonzero(present)
    times = instants[there]
    gaps = np.flatnonzero(np.diff(times) > gap)
    starts, ends = np.append(0, gaps + 1), np.append(gaps, len(times) - 1)
    of_row = np.searchsorted(gaps, np.arange(len(times)))
    start, end = np.zeros(len(instants), np.int64), np.zeros(len(instants), np.int64)
    start[there], end[there] = times[starts[of_row]], times[ends[of_row]]
    return start, end


def _timestamps(instants: Integers) -> pa.Array:
    """Raises for what lies outside of the years that timestamps have."""
    if len(instants):
        from_micros(int(instants.min()))
        from_micros(int(instants.max()))
    return pa.array(instants).cast(arrow_type(TIMESTAMP))
