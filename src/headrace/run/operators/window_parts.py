"""Which rows of a partition a push reads: as far around its changes, or after them, as window functions look.

How many rows that is depends on the rows: some that an index has are gone, and a RANGE frame holds as many as there
are. So a few are read, and if they are not enough, more. They are enough if the first and the last row read are neither
changed by what changes nor among the rows that others are computed from.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter

import pyarrow as pa

from headrace.model.relation import Field, RangeEdge
from headrace.model.types import Row
from headrace.run.logs.key_index import SORTED, KeyIndex
from headrace.run.logs.ordered_index import Stretch, count_rows, meet_near
from headrace.run.operators.window_calls import FollowedCall, FollowedWindow, FrameReach, Tally
from headrace.run.operators.window_list import Before
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import WEIGHT

ROWS, GROUPS = "n", "g"
"""How many rows and groups of peers there are up to a row and with it."""

NewRows = Mapping[int, Counter[Row]]
"""By time, how often rows come, or go if negative."""

MARGIN, GROWTH, MOST, FEW = 16, 8, 100_000, 4
"""Rows read at first before and after changes, how many times more if those are not enough, and at most; and how many
times so many rows are not worth a search."""


@dataclass(frozen=True, slots=True)
class WindowPartRows:
    """Changes of a part of a partition, the rows of the state that it has, with their tallies behind them and how often
    each is there, and what comes before them.
    """

    new: NewRows
    kept: Mapping[Row, int]
    before: Before


@dataclass(frozen=True, slots=True)
class ReadParts:
    """The parts of each partition, by its number, which do not touch each other; and how many rows of the state
    were read.
    """

    of_partition: Mapping[int, list[WindowPartRows]]
    rows_read: int


@dataclass(frozen=True, slots=True)
class _Found:
    """What was read around the places from `low` to `high` of a partition: rows with their tallies by their place, and
    how often each is there. All after `floor` and before `ceiling` are there; None is the end of the partition.
    """

    number: int
    low: bytes
    high: bytes
    floor: bytes | None
    ceiling: bytes | None
    rows: dict[tuple[bytes, Row], int]

    def touches(self, later: _Found) -> bool:
        return self.ceiling is None or later.floor is None or later.floor < self.ceiling

    def and_also(self, later: _Found) -> _Found:
        return _Found(self.number, self.low, later.high, self.floor, later.ceiling, self.rows | later.rows)


@dataclass(frozen=True, slots=True)
class PartReader:
    """`keys` are those of the partitions, one row each."""

    window: FollowedWindow
    states: KeyIndex | None
    keys: pa.Table
    names: tuple[str, ...]
    tally_fields: tuple[Field, ...]
    margin: int = MARGIN

    def read(self, new: Mapping[int, NewRows]) -> ReadParts:
        """The parts that changes of partitions need."""
        if not new or self.states is None or not self.states.indexes:
            return ReadParts({number: [WindowPartRows(rows, {}, Before())] for number, rows in new.items()}, 0)
        made, rows_read, margin = dict[int, list[WindowPartRows]](), 0, max(self.margin, self.window.rows_beside + 2)
        wanted = self._find_spans(new, margin)
        while wanted:
            found = self._read_near(wanted, None if self.window.is_whole or margin > MOST else margin)
            rows_read += sum(len(one.rows) for one in found)
            for number in wanted:
                parts = self._make_parts([one for one in found if one.number == number], new[number])
                if parts is not None:
                    made[number] = parts
            wanted = {number: spans for number, spans in wanted.items() if number not in made}
            margin *= GROWTH
        return ReadParts(made, rows_read)

    def _find_spans(self, new: Mapping[int, NewRows], margin: int) -> dict[int, list[tuple[bytes, bytes]]]:
        """The places that change, each by itself where functions look near and partitions are large."""
        places = {
            number: sorted({self.window.sortable(row) for of_time in rows.values() for row in of_time})
            for number, rows in new.items()
        }
        if not self.window.is_near:
            return {number: [(found[0], found[-1])] for number, found in places.items()}
        assert self.states is not None, "nothing is kept"
        sizes = count_rows(self.states, self.keys.take(pa.array(list(places))), self.names)
        return {
            number: [(one, one) for one in found] if size > FEW * margin * len(found) else [(found[0], found[-1])]
            for (number, found), size in zip(places.items(), sizes, strict=True)
        }

    def _read_near(self, wanted: Mapping[int, list[tuple[bytes, bytes]]], margin: int | None) -> list[_Found]:
        assert self.states is not None, "nothing is kept"
        after = margin if self.window.is_near else None
        spans = [(number, low, high) for number, found in wanted.items() for low, high in found]
        stretches = [Stretch(low, high, margin, after) for _, low, high in spans]
        keys = self.keys.take(pa.array([number for number, _, _ in spans]))
        near = meet_near(self.states, keys, self.names, stretches, FEW * (self.margin - 1))
        columns = [f"r:{field.name}" for field in self.window.fields] + [field.name for field in self.tally_fields]
        rows = rows_of_arrow(near.rows.select(columns))
        stamps = (near.rows.column(SORTED).to_pylist(), near.rows.column(WEIGHT).to_pylist())
        found = [
            _Found(*span, floor, ceiling, {})
            for span, floor, ceiling in zip(spans, near.floors, near.ceilings, strict=True)
        ]
        for position, row, place, weight in zip(near.positions.tolist(), rows, *stamps, strict=True):
            counted = found[position].rows
            counted[place, row] = counted.get((place, row), 0) + weight
        return found

    def _make_parts(self, found: list[_Found], new: NewRows) -> list[WindowPartRows] | None:
        """The parts of a partition; None if not enough was read of one."""
        parts = list[_Found]()
        for one in found:
            if parts and parts[-1].touches(one):
                parts[-1] = parts[-1].and_also(one)
            else:
                parts.append(one)
        made = [self._make_part(one, new if len(parts) == 1 else self._choose_rows(one, new)) for one in parts]
        return [part for part in made if part is not None] if None not in made else None

    def _choose_rows(self, part: _Found, new: NewRows) -> NewRows:
        """The changes between the places of a part."""
        chosen: dict[int, Counter[Row]] = {}
        for time, rows in new.items():
            inside = {row: n for row, n in rows.items() if part.low <= self.window.sortable(row) <= part.high}
            if inside:
                chosen[time] = Counter(inside)
        return chosen

    def _make_part(self, found: _Found, new: NewRows) -> WindowPartRows | None:
        width = len(self.window.fields)
        kept = [(place, row[:width], row, weight) for (place, row), weight in found.rows.items() if weight]
        is_cut = found.floor is not None, found.ceiling is not None
        part = _WindowPart(self.window, sorted(kept, key=itemgetter(0)), is_cut)
        return part.make(found.low, found.high, new, self.tally_fields)


@dataclass(frozen=True, slots=True)
class _WindowPart:
    """Rows of the state by their place: a row, the same with its tallies, and how often it is there. `is_cut` says
    whether there may be others before the first, and after the last.
    """

    window: FollowedWindow
    rows: list[tuple[bytes, Row, Row, int]]
    is_cut: tuple[bool, bool]

    def make(self, low: bytes, high: bytes, new: NewRows, fields: tuple[Field, ...]) -> WindowPartRows | None:
        """The part that changes between two places need; None if it is not all here."""
        rows, before = self.rows, Before()
        if self.is_cut[0]:
            if not rows:
                return None
            # The rows at the first place tell what comes before all others; functions go on from there.
            first = bisect_right(rows, rows[0][0], key=itemgetter(0))
            before = self._read_before(rows[:first], fields)
            rows = rows[first:]
        if not self._has_enough(rows, low, high, new):
            return None
        return WindowPartRows(new, {with_tallies: weight for _, _, with_tallies, weight in rows}, before)

    def _read_before(self, rows: list[tuple[bytes, Row, Row, int]], fields: tuple[Field, ...]) -> Before:
        width = len(self.window.fields)
        last = max(rows, key=lambda row: (self.window.order_key(row[1]), self.window.row_key(row[1])))[2]
        values = dict(zip((field.name for field in fields), last[width:], strict=True))
        tallies = dict[str, Tally]()
        for call in self.window.tallied:
            tallies[call.call.name] = call.read_tally(tuple(values[field.name] for field in call.tally_fields))
        counts = (values.get(ROWS, 0), values.get(GROUPS, 0))
        assert isinstance(counts[0], int) and isinstance(counts[1], int), f"not numbers of rows: {counts}"
        return Before(counts[0], counts[1], tallies)

    def _has_enough(self, rows: list[tuple[bytes, Row, Row, int]], low: bytes, high: bytes, new: NewRows) -> bool:
        beside = self.window.rows_beside
        at_low = bisect_left(rows, low, key=itemgetter(0))
        at_high = bisect_right(rows, high, key=itemgetter(0))
        cut_before, cut_after = self.is_cut
        if cut_before and (not at_low or sum(row[3] for row in rows[:at_low]) < beside):
            return False
        if cut_after and (at_high == len(rows) or sum(row[3] for row in rows[at_high:]) < beside):
            return False
        ranged = [
            call for call in self.window.calls if call.frame.key is not None and call.reach is not FrameReach.WHOLE
        ]
        if not ranged or not (cut_before or cut_after):
            return True
        changed = {row for of_time in new.values() for row in of_time}
        every = sorted((*{row[1] for row in rows}, *changed), key=self.window.order_key)
        span = min(changed, key=self.window.order_key), max(changed, key=self.window.order_key)
        return all(
            (not cut_before or _sees_enough_before(call, every, span[0]))
            and (not cut_after or _sees_enough_after(call, every, span[1]))
            for call in ranged
        )


def _sees_enough_before(call: FollowedCall, rows: list[Row], low: Row) -> bool:
    """Whether the first row sees no change, and is seen by no row that does."""
    first = bisect_left(rows, call.key(low), key=call.end_key if isinstance(call.frame.end, RangeEdge) else call.key)
    if not first:
        return False
    return not isinstance(call.frame.start, RangeEdge) or bool(call.start_key(rows[first]) > call.key(rows[0]))


def _sees_enough_after(call: FollowedCall, rows: list[Row], high: Row) -> bool:
    key = call.start_key if isinstance(call.frame.start, RangeEdge) else call.key
    end = bisect_right(rows, call.key(high), key=key)
    if end == len(rows):
        return False
    return not isinstance(call.frame.end, RangeEdge) or bool(call.end_key(rows[end - 1]) < call.key(rows[-1]))
