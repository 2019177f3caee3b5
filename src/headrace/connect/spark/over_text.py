"""Window functions as Spark SQL text.

Spark leaves open how rows are ordered that ORDER BY does not tell apart; here the whole row tells them apart. So
functions that look at single rows are given all columns to order by. Functions of peers are not, since rows would have
no peers then: what they need of the order of rows is `place`, which is numbered before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.connect.spark.aggregate_text import aggregate_text
from headrace.connect.spark.sql_text import literal_text
from headrace.model.expr import Expr
from headrace.model.relation import (
    Frame,
    FrameEdge,
    FrameUnit,
    Order,
    PlaceCall,
    RangeEdge,
    WindowCall,
    WindowFunction,
)

_ALL_ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"


@dataclass(frozen=True, slots=True)
class OverText:
    """Texts of partition, sort keys and columns of the rows.

    `positions` are the columns with what calls read; `aggregates` the first of those with the inputs of an aggregate,
    which stand next to each other.
    """

    partition: Sequence[str]
    order: Sequence[tuple[str, Order]]
    whole_row: Sequence[str]
    positions: Mapping[Expr, int]
    aggregates: Mapping[str, int]

    @property
    def place(self) -> str:
        """The number of each row, by its order and then by all of it."""
        return f"row_number() OVER ({self._by_row()})"

    def call(self, call: WindowCall) -> str:
        if isinstance(call.compute, PlaceCall):
            return self._place_call(call.compute, call.frame)
        over = f" OVER ({self._in_frame(call.frame)})"
        return aggregate_text(call.compute, self.aggregates.get(call.name, 0), over)

    def _place_call(self, call: PlaceCall, frame: Frame) -> str:
        values = [self._column(expr) for expr in call.arguments]
        nulls = " IGNORE NULLS" if call.skips_nulls else ""
        match call.function:
            case WindowFunction.ROW_NUMBER:
                return f"CAST({self.place} AS BIGINT)"
            case WindowFunction.NTILE:
                return f"CAST(ntile({call.count}) OVER ({self._by_row()}) AS BIGINT)"
            case WindowFunction.RANK | WindowFunction.DENSE_RANK:
                return f"CAST({call.function}() OVER ({self._by_peers()}) AS BIGINT)"
            case WindowFunction.PERCENT_RANK | WindowFunction.CUME_DIST:
                return f"{call.function}() OVER ({self._by_peers()})"
            case WindowFunction.LAG | WindowFunction.LEAD:
                default = f", {values[1]}" if len(values) > 1 else ""
                return f"{call.function}({values[0]}, {call.count}{default}){nulls} OVER ({self._by_row()})"
            case _ if frame == Frame() or frame.unit is FrameUnit.ROWS:
                count = f", {call.count}" if call.function is WindowFunction.NTH_VALUE else ""
                rows = _ALL_ROWS if frame == Frame() else _frame(frame)
                return f"{call.function}({values[0]}{count}){nulls} OVER ({self._by_row()} {rows})"
            case _:
                return self._value_among_peers(call, frame, values[0])

    def _value_among_peers(self, call: PlaceCall, frame: Frame, value: str) -> str:
        """The first, last or n-th value of a RANGE frame, in which `place` tells the order of rows."""
        over = self._in_frame(frame)
        place = f"CASE WHEN {value} IS NOT NULL THEN place END" if call.skips_nulls else "place"
        if call.function is not WindowFunction.NTH_VALUE:
            choose = "min_by" if call.function is WindowFunction.FIRST_VALUE else "max_by"
            return f"{choose}({value}, {place}) OVER ({over})"
        kept = f"CASE WHEN {place} IS NOT NULL THEN named_struct('p', place, 'v', {value}) END"
        return f"get(array_sort(collect_list({kept}) OVER ({over})), {call.count - 1}).v"

    def _column(self, expr: Expr) -> str:
        return f"c{self.positions[expr]}"

    def _partition(self) -> str:
        return f"PARTITION BY {', '.join(self.partition)} " if self.partition else ""

    def _by_row(self) -> str:
        keys = [_sorted_by(text, order) for text, order in self.order]
        keys += [f"{column} ASC NULLS FIRST" for column in self.whole_row]
        return f"{self._partition()}ORDER BY {', '.join(keys) or 'NULL'}"

    def _by_peers(self) -> str:
        keys = [_sorted_by(text, order) for text, order in self.order]
        return f"{self._partition()}ORDER BY {', '.join(keys) or 'NULL'}"

    def _in_frame(self, frame: Frame) -> str:
        if frame == Frame():
            return self._partition()
        if frame.key is not None:
            key = _sorted_by(self._column(frame.key), self.order[0][1])
            return f"{self._partition()}ORDER BY {key} {_frame(frame)}"
        return f"{self._by_row() if frame.unit is FrameUnit.ROWS else self._by_peers()} {_frame(frame)}"


def _sorted_by(text: str, order: Order) -> str:
    direction, nulls = "DESC" if order.descending else "ASC", "FIRST" if order.nulls_first else "LAST"
    return f"{text} {direction} NULLS {nulls}"


def _frame(frame: Frame) -> str:
    return f"{frame.unit} BETWEEN {_edge(frame.start, 'PRECEDING')} AND {_edge(frame.end, 'FOLLOWING')}"


def _edge(edge: FrameEdge, unbounded: str) -> str:
    if edge is None:
        return f"UNBOUNDED {unbounded}"
    if isinstance(edge, RangeEdge):
        text = literal_text(edge.offset.value, edge.offset.type)
        return f"{text} {'PRECEDING' if edge.precedes else 'FOLLOWING'}"
    if not edge.rows:
        return "CURRENT ROW"
    return f"{abs(edge.rows)} {'PRECEDING' if edge.rows < 0 else 'FOLLOWING'}"
