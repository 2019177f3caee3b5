"""Rows of a partition, or of a part of it, in order: how they change from time to time, and their window functions.

Every copy of a row is an entry by itself. A change of some entries can change the values of others in a stretch of the
list around them, or after them. This stretch is computed before the change and after it, and compared. Running
functions keep their tally at every entry; where it is after a change what it was before, all after it stays.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

from headrace.meaning.evaluate_over import aggregate_frames, percent_rank, tile_of, value_in_frame, values_beside
from headrace.model.relation import AggregateCall, FrameUnit, PlaceCall, RangeEdge, RowEdge, WindowFunction
from headrace.model.types import Row, Value
from headrace.run.operators.window_calls import NO_TALLY, FollowedCall, FollowedWindow, FrameReach, Tally

FAR = 64
"""How many entries between two changes of one time make them be looked at separately, if all functions look near."""

_BY_ORDER = itemgetter(0)
_Changed = list[tuple[Any, Row, int]]
"""Sort keys, rows, and how often they come, in order."""


@dataclass(frozen=True, slots=True)
class Before:
    """What comes before a list in its partition: rows, groups of peers, and the tallies of running functions."""

    rows: int = 0
    groups: int = 0
    tallies: Mapping[str, Tally] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowEntries:
    """`keys` are by ORDER BY, then by the whole row. `groups` counts groups of peers up to each entry, `tallies` has
    for each running function its tally with each entry.
    """

    keys: list[Any]
    rows: list[Row]
    groups: list[int]
    tallies: Mapping[str, list[Tally]]

    def peers_begin(self, order: Any) -> int:
        return bisect_left(self.keys, order, key=_BY_ORDER)

    def peers_end(self, order: Any) -> int:
        return bisect_right(self.keys, order, key=_BY_ORDER)


class WindowList:
    """Follows the entries of one list."""

    def __init__(self, window: FollowedWindow, rows: Sequence[tuple[Row, int]], before: Before) -> None:
        self._window, self._before = window, before
        self._adders = [(call.call.name, call.add()) for call in window.tallied]
        self._nothing = WindowEntries([], [], [], {name: [] for name, _ in self._adders})
        found = sorted((self._key_of(row), row, weight) for row, weight in rows)
        self.entries = self._replace(self._nothing, found, 0, 0)

    def _key_of(self, row: Row) -> Any:
        return self._window.order_key(row), self._window.row_key(row)

    def change(self, rows: Mapping[Row, int]) -> Counter[Row]:
        """Rows that come and go at one time, each by how often; how rows with their values change."""
        made = Counter[Row]()
        for changed in self._cluster(rows):
            self._change_stretch(changed, made)
        return made

    def rows_with(self, place: int) -> int:
        """How many rows of the partition there are up to an entry and with it."""
        return self._before.rows + place + 1

    # Changes

    def _cluster(self, rows: Mapping[Row, int]) -> Iterator[_Changed]:
        """Changes in order; apart where they are far from each other and no function looks far."""
        changed = sorted((self._key_of(row), row, weight) for row, weight in rows.items() if weight)
        start = 0
        if self._window.is_near:
            places = [bisect_left(self.entries.keys, key) for key, _, _ in changed]
            for at in range(1, len(changed)):
                if places[at] - places[at - 1] > FAR + 2 * self._window.rows_beside:
                    yield changed[start:at]
                    start = at
        if changed:
            yield changed[start:]

    def _change_stretch(self, changed: _Changed, made: Counter[Row]) -> None:
        """Computes what the change can change, before it and after it. At both ends as many entries stay."""
        was, low, high = self.entries, changed[0], changed[-1]
        first, end = bisect_left(was.keys, low[0]), bisect_right(was.keys, high[0])
        now = self.entries = self._replace(was, changed, first, end)
        new_end = end + len(now.rows) - len(was.rows)
        stays = self._count_same_tallies(was, now, len(was.rows) - end)
        old_stretch = self._find_stretch(was, low[1], high[1], (first, end), stays)
        new_stretch = self._find_stretch(now, low[1], high[1], (first, new_end), stays)
        begin = min(old_stretch[0], new_stretch[0])
        rest = min(len(was.rows) - old_stretch[1], len(now.rows) - new_stretch[1])
        made.update(self._rows_with_values(now, begin, len(now.rows) - rest))
        made.subtract(self._rows_with_values(was, begin, len(was.rows) - rest))

    def _replace(self, was: WindowEntries, changed: _Changed, first: int, end: int) -> WindowEntries:
        """The entries with those from `first` to before `end` changed."""
        counts: dict[Any, tuple[Row, int]] = {}
        for key, row in zip(was.keys[first:end], was.rows[first:end], strict=True):
            counts[key] = (row, counts[key][1] + 1 if key in counts else 1)
        for key, row, weight in changed:
            counts[key] = (row, weight + (counts[key][1] if key in counts else 0))
        keys, rows = was.keys[:first], was.rows[:first]
        for key in sorted(counts):
            row, count = counts[key]
            assert count >= 0, f"a row occurs {count} times"
            keys += [key] * count
            rows += [row] * count
        new_end = len(rows)
        keys += was.keys[end:]
        rows += was.rows[end:]
        groups = self._count_groups(keys, was.groups[:first]) if self._window.counts_groups else []
        return WindowEntries(keys, rows, groups, self._add_up(was, rows, first, (end, new_end)))

    def _count_groups(self, keys: list[Any], groups: list[int]) -> list[int]:
        for place in range(len(groups), len(keys)):
            before = groups[place - 1] if place else self._before.groups
            begins = not place or keys[place][0] != keys[place - 1][0]
            groups.append(before + begins)
        return groups

    def _add_up(
        self, was: WindowEntries, rows: list[Row], first: int, ends: tuple[int, int]
    ) -> Mapping[str, list[Tally]]:
        """Tallies from the first changed entry on, as far as they are not what they were."""
        made = dict[str, list[Tally]]()
        end, new_end = ends
        for name, add in self._adders:
            known = was.tallies[name]
            tallies = known[:first]
            tally = tallies[-1] if tallies else self._before.tallies.get(name, NO_TALLY)
            for place in range(first, len(rows)):
                tally = add(tally, rows[place])
                tallies.append(tally)
                if place >= new_end and known[end + place - new_end] == tally:
                    tallies += known[end + place - new_end + 1 :]
                    break
            made[name] = tallies
        return made

    def _count_same_tallies(self, was: WindowEntries, now: WindowEntries, most: int) -> int:
        """How many entries at the end have the tallies that they had. If one has, so have all after it."""
        names = list(was.tallies)

        def differs(from_end: int) -> bool:
            return any(was.tallies[name][-from_end] != now.tallies[name][-from_end] for name in names)

        return bisect_left(range(1, most + 1), True, key=differs)

    # What a change can change

    def _find_stretch(
        self, entries: WindowEntries, low: Row, high: Row, changed: tuple[int, int], stays: int
    ) -> tuple[int, int]:
        size = len(entries.rows)
        found = [self._find_reach(entries, call, low, high, changed, stays) for call in self._window.calls]
        return max(0, min(begin for begin, _ in found)), min(size, max(end for _, end in found))

    def _find_reach(
        self, entries: WindowEntries, call: FollowedCall, low: Row, high: Row, changed: tuple[int, int], stays: int
    ) -> tuple[int, int]:
        """The entries whose value may change, if those from `changed[0]` to before `changed[1]` do."""
        size, (first, end) = len(entries.rows), changed
        if call.reach is FrameReach.WHOLE:
            return 0, size
        if isinstance(call.call.compute, PlaceCall):
            match call.call.compute.function:
                case WindowFunction.LAG:
                    return first, end + call.call.compute.count
                case WindowFunction.LEAD:
                    return first - call.call.compute.count, end
                case WindowFunction.ROW_NUMBER | WindowFunction.RANK | WindowFunction.DENSE_RANK:
                    return entries.peers_begin(self._window.order_key(low)), size
        begin = self._find_first_that_sees(entries, call, low, first)
        if call.reach is FrameReach.RUNNING:
            # Values are tallies at the ends of frames, which may be so many entries away.
            return min(first, begin), max(end, self._find_last_ends(entries, call, size - stays))
        return min(first, begin), max(end, self._find_last_that_sees(entries, call, high, end))

    def _find_first_that_sees(self, entries: WindowEntries, call: FollowedCall, low: Row, first: int) -> int:
        """The first entry whose frame does not end before a row."""
        match call.frame.end:
            case RowEdge(rows) if call.frame.unit is FrameUnit.ROWS:
                return first - rows
            case RangeEdge():
                return bisect_left(entries.rows, call.key(low), key=call.end_key)
            case _:
                return entries.peers_begin(self._window.order_key(low))

    def _find_last_that_sees(self, entries: WindowEntries, call: FollowedCall, high: Row, end: int) -> int:
        """The entry after the last one whose frame does not begin after a row."""
        match call.frame.start:
            case RowEdge(rows) if call.frame.unit is FrameUnit.ROWS:
                return end - rows
            case RangeEdge():
                return bisect_right(entries.rows, call.key(high), key=call.start_key)
            case _:
                return entries.peers_end(self._window.order_key(high))

    def _find_last_ends(self, entries: WindowEntries, call: FollowedCall, until: int) -> int:
        """The entry after the last one whose frame ends before `until`, from where on tallies are what they were."""
        size = len(entries.rows)
        if until >= size:
            return size
        match call.frame.end:
            case RowEdge(rows) if call.frame.unit is FrameUnit.ROWS:
                return until - rows
            case RangeEdge():
                return bisect_left(entries.rows, call.key(entries.rows[until]), key=call.end_key)
            case _:
                return until

    # Values

    def _rows_with_values(self, entries: WindowEntries, begin: int, end: int) -> Iterator[Row]:
        values = [self._find_values(entries, call, begin, end) for call in self._window.calls]
        return ((*row, *more) for row, *more in zip(entries.rows[begin:end], *values, strict=True))

    def _find_values(self, entries: WindowEntries, call: FollowedCall, begin: int, end: int) -> list[Value]:
        compute = call.call.compute
        if begin >= end:
            return []
        if isinstance(compute, PlaceCall):
            known = self._find_places(entries, compute, begin, end)
            if known is not None:
                return known
            if compute.function in (WindowFunction.LAG, WindowFunction.LEAD):
                return self._find_beside(entries, call, begin, end)
        spans = list(self._find_spans(entries, call, begin, end))
        if call.has_tally:
            nothing = self._before.tallies.get(call.call.name, NO_TALLY)
            tallies = entries.tallies[call.call.name]
            return [call.finish(tallies[high - 1] if high > 0 else nothing) for _, high in spans]
        low, high = min(low for low, _ in spans), max(high for _, high in spans)
        inputs = [call.inputs(row) for row in entries.rows[low : max(low, high)]]
        moved = [(start - low, stop - low) for start, stop in spans]
        if isinstance(compute, AggregateCall):
            return aggregate_frames(compute, inputs, moved)
        return [value_in_frame(compute, inputs, start, max(start, stop)) for start, stop in moved]

    def _find_beside(self, entries: WindowEntries, call: FollowedCall, begin: int, end: int) -> list[Value]:
        """Values so many entries before or after, of the entries that are near enough to be those."""
        compute = call.call.compute
        assert isinstance(compute, PlaceCall), f"not a neighbour: {compute}"
        if compute.skips_nulls:
            return values_beside(compute, [call.inputs(row) for row in entries.rows])[begin:end]
        low, high = max(0, begin - compute.count), min(len(entries.rows), end + compute.count)
        inputs = [call.inputs(row) for row in entries.rows[low:high]]
        return values_beside(compute, inputs)[begin - low : end - low]

    def _find_places(self, entries: WindowEntries, call: PlaceCall, begin: int, end: int) -> list[Value] | None:
        """Values that depend on places alone."""
        size, before = len(entries.rows), self._before.rows
        match call.function:
            case WindowFunction.ROW_NUMBER:
                return [before + place + 1 for place in range(begin, end)]
            case WindowFunction.NTILE:
                return [tile_of(place, size, call.count) for place in range(begin, end)]
            case WindowFunction.DENSE_RANK:
                return [*entries.groups[begin:end]]
            case WindowFunction.RANK:
                return [before + low + 1 for low, _ in self._find_peers(entries, begin, end)]
            case WindowFunction.PERCENT_RANK:
                return [percent_rank(low, size) for low, _ in self._find_peers(entries, begin, end)]
            case WindowFunction.CUME_DIST:
                return [high / size for _, high in self._find_peers(entries, begin, end)]
            case _:
                return None

    def _find_peers(self, entries: WindowEntries, begin: int, end: int) -> Iterator[tuple[int, int]]:
        """Where the peers of each entry begin and end."""
        low = high = -1
        for place in range(begin, end):
            if place >= high:
                order = entries.keys[place][0]
                low, high = entries.peers_begin(order), entries.peers_end(order)
            yield low, high

    def _find_spans(
        self, entries: WindowEntries, call: FollowedCall, begin: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """The frames of entries: from a place to before another."""
        frame, size = call.frame, len(entries.rows)
        by_rows = frame.unit is FrameUnit.ROWS
        start_rows = frame.start.rows if isinstance(frame.start, RowEdge) else 0
        end_rows = frame.end.rows if isinstance(frame.end, RowEdge) else 0
        for place, (peers_begin, peers_end) in enumerate(self._find_peers(entries, begin, end), begin):
            if frame.start is None:
                low = 0
            elif isinstance(frame.start, RangeEdge):
                low = bisect_left(entries.rows, call.start_key(entries.rows[place]), key=call.key)
            else:
                low = max(0, place + start_rows) if by_rows else peers_begin
            if frame.end is None:
                high = size
            elif isinstance(frame.end, RangeEdge):
                high = bisect_right(entries.rows, call.end_key(entries.rows[place]), key=call.key)
            else:
                high = min(size, place + end_rows + 1) if by_rows else peers_end
            yield low, high
