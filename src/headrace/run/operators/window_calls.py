"""Window functions, ready to be followed: what each reads of a row, where it looks, and what it adds up.

A function is of one of three kinds, by what a change at some place of a partition can change:

    near      rows around the place: lag, lead, frames with two bounds
    running   rows from the place on: row_number, rank, and all frames that begin with the partition
    whole     all rows: ntile, percent_rank, cume_dist, frames that end with the partition; and of frames that begin
              with it, aggregates that are made of all values, such as array_agg

What a running function has made of the rows up to one is its tally: how many values there were, and their exact sums or
the value that is kept of them. A tally is all that is needed to go on after that row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from headrace.meaning.evaluate_over import amounts_of, extreme_of, finish_total, is_added_up, key_in_order
from headrace.meaning.evaluate_rank import column_key
from headrace.meaning.moments import POWERS
from headrace.model.block import Derivation
from headrace.model.expr import Column, Expr, Literal
from headrace.model.relation import (
    AggregateCall,
    AggregateFunction,
    Field,
    Frame,
    FrameEdge,
    PlaceCall,
    RangeEdge,
    RowEdge,
    WindowCall,
    WindowFunction,
)
from headrace.model.types import BIGINT, STRING, Row, Value
from headrace.run.rows.sortable import sortable_bytes

Getter = Callable[[Row], Any]
Tally = tuple[int, Any]
"""How many values were counted, and their sums, or the value that is kept."""

NO_TALLY: Tally = (0, None)


class FrameReach(StrEnum):
    """Which rows a change can change, beside itself."""

    NEAR = "near"
    RUNNING = "running"
    WHOLE = "whole"


_RUNNING_PLACES = (WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK)
_WHOLE_PLACES = (WindowFunction.PERCENT_RANK, WindowFunction.CUME_DIST, WindowFunction.NTILE)


def reach_of(call: WindowCall) -> FrameReach:
    """What a change can change of the values of a call."""
    if isinstance(call.compute, PlaceCall):
        if call.compute.function in _RUNNING_PLACES:
            return FrameReach.RUNNING
        if call.compute.function in _WHOLE_PLACES:
            return FrameReach.WHOLE
        if call.compute.function in (WindowFunction.LAG, WindowFunction.LEAD):
            return FrameReach.WHOLE if call.compute.skips_nulls else FrameReach.NEAR
    frame = nearest_frame(call)
    if frame.end is None:
        return FrameReach.WHOLE
    if frame.start is not None:
        return FrameReach.NEAR
    has_tally = isinstance(call.compute, PlaceCall) or is_added_up(call.compute)
    return FrameReach.RUNNING if has_tally else FrameReach.WHOLE


def nearest_frame(call: WindowCall) -> Frame:
    """The frame, or the part of it that the value is in: the last value is at its end, wherever it begins.

    A frame that would end after the partition ends with it, so the row itself is in that part.
    """
    frame, compute = call.frame, call.compute
    if isinstance(compute, PlaceCall) and not compute.skips_nulls:
        if compute.function is WindowFunction.LAST_VALUE and frame.start is None and isinstance(frame.end, RowEdge):
            return Frame(frame.unit, RowEdge(min(frame.end.rows, 0)), frame.end)
        if compute.function is WindowFunction.FIRST_VALUE and frame.end is None and isinstance(frame.start, RowEdge):
            return Frame(frame.unit, frame.start, RowEdge(max(frame.start.rows, 0)))
    return frame


@dataclass(frozen=True, slots=True)
class FollowedCall:
    """A call over rows of the derivation's columns.

    `inputs` reads what it is computed from. `key`, `start_key` and `end_key` are of frames whose edges are offsets from
    the sort key: the row's key, and those at the edges of its frame.
    """

    call: WindowCall
    reach: FrameReach
    frame: Frame
    inputs: Callable[[Row], Row]
    key: Getter
    start_key: Getter
    end_key: Getter

    @property
    def has_tally(self) -> bool:
        return self.reach is FrameReach.RUNNING and not self.is_ranking

    @property
    def is_ranking(self) -> bool:
        return isinstance(self.call.compute, PlaceCall) and self.call.compute.function in _RUNNING_PLACES

    @property
    def rows_before(self) -> int:
        """How many rows before a row its value may depend on."""
        compute = self.call.compute
        if isinstance(compute, PlaceCall) and compute.function is WindowFunction.LAG:
            return compute.count
        return max(0, -_rows_of(self.frame.start), -_rows_of(self.frame.end))

    @property
    def rows_after(self) -> int:
        compute = self.call.compute
        if isinstance(compute, PlaceCall) and compute.function is WindowFunction.LEAD:
            return compute.count
        return max(0, _rows_of(self.frame.end))

    def add(self) -> Callable[[Tally, Row], Tally]:
        """The function that adds a row to a tally."""
        compute = self.call.compute
        if isinstance(compute, PlaceCall):
            return _keep_value(compute, self.inputs)
        if compute.argument is None:
            return lambda tally, row: (tally[0] + 1, None)
        if compute.function in (AggregateFunction.MIN, AggregateFunction.MAX):
            choose = extreme_of(compute)
            return lambda tally, row: (0, choose(tally[1], self.inputs(row)[0]))
        return _add_amounts(compute, self.inputs)

    def finish(self, tally: Tally) -> Value:
        compute = self.call.compute
        if isinstance(compute, PlaceCall):
            return tally[1]  # type: ignore[no-any-return]
        if compute.argument is None or compute.function is AggregateFunction.COUNT:
            return tally[0]
        if compute.function in (AggregateFunction.MIN, AggregateFunction.MAX):
            return tally[1]  # type: ignore[no-any-return]
        return finish_total(compute, tally[0], tally[1] or (0,) * len(POWERS.get(compute.function, ((1, 0),))))

    # How a tally is kept

    @property
    def tally_fields(self) -> tuple[Field, ...]:
        """The columns of a tally: the number, and the sums as text, since they may be larger than any type."""
        name, compute = self.call.name, self.call.compute
        count = Field(f"c:{name}", BIGINT)
        if isinstance(compute, PlaceCall):
            return (count, Field(f"v:{name}", self.call.type))
        if compute.argument is None or compute.function is AggregateFunction.COUNT:
            return (count,)
        if compute.function in (AggregateFunction.MIN, AggregateFunction.MAX):
            return (count, Field(f"v:{name}", self.call.type))
        sums = POWERS.get(compute.function, ((1, 0),))
        return (count, *(Field(f"s:{name}:{one}{other}", STRING) for one, other in sums))

    def write_tally(self, tally: Tally) -> Row:
        fields = self.tally_fields
        if len(fields) == 1:
            return (tally[0],)
        if fields[1].name.startswith("v:"):
            return tally
        return (tally[0], *(f"{one:x}" for one in tally[1] or (0,) * (len(fields) - 1)))

    def read_tally(self, row: Row) -> Tally:
        """The opposite of `write_tally`."""
        count: Any = row[0]
        fields = self.tally_fields
        if len(fields) == 1:
            return count, None
        if fields[1].name.startswith("v:"):
            return count, row[1]
        sums = tuple(int(str(one), 16) for one in row[1:])
        return count, sums if any(sums) or count else None


def _rows_of(edge: FrameEdge) -> int:
    return edge.rows if isinstance(edge, RowEdge) else 0


def _keep_value(call: PlaceCall, inputs: Callable[[Row], Row]) -> Callable[[Tally, Row], Tally]:
    """Counts values up to the one that is kept; the last value is always the newest."""
    wanted = 1 if call.function is WindowFunction.FIRST_VALUE else call.count
    is_last, skips = call.function is WindowFunction.LAST_VALUE, call.skips_nulls

    def add(tally: Tally, row: Row) -> Tally:
        value = inputs(row)[0]
        if skips and value is None:
            return tally
        if is_last:
            return 0, value
        if tally[0] >= wanted:
            return tally
        return tally[0] + 1, value if tally[0] + 1 == wanted else None

    return add


def _add_amounts(call: AggregateCall, inputs: Callable[[Row], Row]) -> Callable[[Tally, Row], Tally]:
    is_count = call.function is AggregateFunction.COUNT

    def add(tally: Tally, row: Row) -> Tally:
        values = inputs(row)
        if values[0] is None:
            return tally
        if is_count:
            return tally[0] + 1, None
        amounts = amounts_of(call, values)
        if tally[1] is None:
            return tally[0] + 1, amounts
        return tally[0] + 1, tuple(map(int.__add__, tally[1], amounts))

    return add


@dataclass(frozen=True, slots=True)
class FollowedWindow:
    """A derivation's order within partitions and its calls, over rows of its columns.

    `sortable` has the sort keys of a row as bytes that compare alike.
    """

    fields: tuple[Field, ...]
    calls: tuple[FollowedCall, ...]
    order_key: Getter
    row_key: Getter
    sortable: Callable[[Row], bytes]

    @classmethod
    def of(cls, derivation: Derivation) -> FollowedWindow:
        fields = tuple(Field(column.name, column.expr.type) for column in derivation.columns[0])
        positions = {field.name: position for position, field in enumerate(fields)}
        order = [(_getter(key.expr, positions), key_in_order(key, key.expr.type)) for key in derivation.order]
        columns = [column_key(field.type) for field in fields]
        return cls(
            fields,
            tuple(_follow_call(call, derivation, positions) for call in derivation.calls),
            lambda row: tuple(key(get(row)) for get, key in order),
            lambda row: tuple(key(value) for key, value in zip(columns, row, strict=True)),
            sortable_bytes(derivation.order, tuple(get for get, _ in order)),
        )

    @property
    def is_near(self) -> bool:
        """Whether no function looks further than around a row."""
        return all(call.reach is FrameReach.NEAR for call in self.calls)

    @property
    def is_whole(self) -> bool:
        return any(call.reach is FrameReach.WHOLE for call in self.calls)

    @property
    def tallied(self) -> tuple[FollowedCall, ...]:
        return tuple(call for call in self.calls if call.has_tally)

    @property
    def numbers_rows(self) -> bool:
        """Whether a function depends on how many rows come before."""
        return any(call.is_ranking for call in self.calls)

    @property
    def counts_groups(self) -> bool:
        """Whether a function depends on how many groups of peers come before."""
        calls = (call.call.compute for call in self.calls)
        return any(isinstance(one, PlaceCall) and one.function is WindowFunction.DENSE_RANK for one in calls)

    @property
    def rows_beside(self) -> int:
        """How many rows before or after a place count for what a change there changes, and for computing that."""
        reach = [(call.rows_before, call.rows_after) for call in self.calls if call.reach is not FrameReach.WHOLE]
        return max((before for before, _ in reach), default=0) + max((after for _, after in reach), default=0)


def _follow_call(call: WindowCall, derivation: Derivation, positions: dict[str, int]) -> FollowedCall:
    frame = nearest_frame(call)
    own = call.compute.arguments if isinstance(call.compute, PlaceCall) else call.compute.inputs
    getters = [_getter(expr, positions) for expr in own]
    keys: list[Getter] = [lambda row: None] * 3
    if frame.key is not None:
        make = key_in_order(derivation.order[0], frame.key.type)
        edges = (edge.value if isinstance(edge, RangeEdge) else frame.key for edge in (frame.start, frame.end))
        keys = [_keyed(_getter(expr, positions), make) for expr in (frame.key, *edges)]
    return FollowedCall(call, reach_of(call), frame, lambda row: tuple(get(row) for get in getters), *keys)


def _keyed(get: Getter, make: Callable[[Value], Any]) -> Getter:
    return lambda row: make(get(row))


def _getter(expr: Expr, positions: dict[str, int]) -> Getter:
    if isinstance(expr, Literal):
        return lambda row: expr.value
    assert isinstance(expr, Column), f"window functions read columns, not {expr}"
    position = positions[expr.name]
    return lambda row: row[position]
