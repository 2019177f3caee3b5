"""Frames of window functions: ROWS and RANGE, with offsets that are constants.

A RANGE frame with an offset is over one sort key. Its edges are computed from the key of the row, in a type in which
that cannot overflow: a decimal for integers, and a date or timestamp for times.
"""

from __future__ import annotations

import datetime as dt
import decimal

from sqlglot import exp

from headrace.declare.query import operators
from headrace.declare.query.expressions import read_value
from headrace.declare.query.mistakes import Mistake
from headrace.declare.query.spelling import refuse_exclusion
from headrace.declare.query.stage import QueryStage
from headrace.model.dialect import SqlDialect
from headrace.model.expr import Call, Expr, Literal
from headrace.model.relation import CURRENT_ROW, Frame, FrameEdge, FrameUnit, Order, RangeEdge, RowEdge
from headrace.model.types import DATE, DAY_TIME, DOUBLE, FRACTIONS, INT, INTEGERS, TIMESTAMP, YEAR_MONTH, Decimal, Type

FULL_FRAME = Frame()
_SO_FAR = Frame(FrameUnit.RANGE, None, CURRENT_ROW)
_WIDEST = Decimal(38, 0)


def read_frame(spec: exp.Expr | None, order: tuple[Order, ...], stage: QueryStage) -> Frame:
    """The frame that is written, or without one that of all rows up to the row's peers."""
    if spec is None:
        return _SO_FAR
    refused = refuse_exclusion(spec)
    if refused is not None:
        raise refused
    return _Spec(spec, FrameUnit(str(spec.args["kind"]).lower()), order, stage).frame()


class _Spec:
    def __init__(self, spec: exp.Expr, unit: FrameUnit, order: tuple[Order, ...], stage: QueryStage) -> None:
        self._spec, self._unit, self._order, self._stage = spec, unit, order, stage

    def frame(self) -> Frame:
        spec = self._spec
        start, start_side = spec.args.get("start"), _side(spec.args.get("start_side"))
        end, end_side = spec.args.get("end") or "CURRENT ROW", _side(spec.args.get("end_side"))
        places = (_place(start, start_side), _place(end, end_side))
        if places[0] > places[1] or places[0] == 2 or places[1] == -2:
            raise Mistake("the frame ends before it begins", "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW")
        offsets = [self._read_offset(edge) if isinstance(edge, exp.Expr) else None for edge in (start, end)]
        first = None if places[0] == -2 else self._edge(offsets[0], precedes=places[0] < 0)
        last = None if places[1] == 2 else self._edge(offsets[1], precedes=places[1] < 0)
        if places[0] == places[1] and _crosses(*offsets, precedes=places[0] < 0):
            raise Mistake("the frame ends before it begins", "ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING")
        key = self._key(offsets) if any(isinstance(edge, RangeEdge) for edge in (first, last)) else None
        if (first, last) == (None, None) or (not self._order and self._unit is FrameUnit.RANGE):
            return FULL_FRAME
        return Frame(self._unit, first, last, key)

    def _read_offset(self, node: exp.Expr) -> Literal:
        value = read_value(self._as_interval(node), self._stage)
        while isinstance(value, Call) and value.function == "cast":
            value = value.arguments[0]
        if not isinstance(value, Literal) or value.value is None:
            raise Mistake("the offset of a frame must be a constant, and not negative")
        if self._unit is FrameUnit.ROWS and value.type not in INTEGERS:
            raise Mistake("ROWS counts rows: its offset is a whole number")
        nothing = dt.timedelta() if isinstance(value.value, dt.timedelta) else 0
        if isinstance(value.value, str | tuple | bytes | dt.date) or value.value < nothing:  # type: ignore[operator]
            raise Mistake("the offset of a frame must be a constant, and not negative")
        return value

    def _as_interval(self, node: exp.Expr) -> exp.Expr:
        """Text beside a time is an interval in PostgreSQL, and beside a number a number."""
        inner = node.unnest()
        is_text = isinstance(inner, exp.Literal) and inner.is_string and len(self._order) == 1
        if not is_text or self._stage.environment.text.dialect is not SqlDialect.POSTGRES:
            return node
        if self._order[0].expr.type in (DATE, TIMESTAMP) and self._unit is FrameUnit.RANGE:
            made: exp.Expr = exp.Interval(this=inner.copy())
        else:
            made = exp.Literal.number(inner.name.strip())
        node.replace(made)
        return made

    def _edge(self, offset: Literal | None, *, precedes: bool) -> FrameEdge:
        if offset is None:
            return CURRENT_ROW
        if self._unit is FrameUnit.ROWS:
            assert isinstance(offset.value, int), f"not a number of rows: {offset}"
            if offset.value >= 2**31:
                raise Mistake(f"the offset of a frame must be less than {2**31}")
            return RowEdge(-offset.value if precedes else offset.value)
        if len(self._order) != 1:
            raise Mistake("a RANGE frame with an offset needs ORDER BY with one key", "use ROWS, or RANGE CURRENT ROW")
        key, offset = _in_one_type(self._order[0].expr, offset)
        minus = precedes != self._order[0].descending
        return RangeEdge(offset, precedes, _add_offset(key, offset, minus=minus))

    def _key(self, offsets: list[Literal | None]) -> Expr:
        keys = [_in_one_type(self._order[0].expr, offset)[0] for offset in offsets if offset is not None]
        if len({key.type for key in keys}) > 1:
            raise Mistake("both offsets of a frame need one type", "write both with the same unit and digits")
        return keys[0]


def _crosses(start: Literal | None, end: Literal | None, *, precedes: bool) -> bool:
    """Whether of two offsets on one side the first is beyond the second."""
    if start is None or end is None or type(start.value) is not type(end.value):
        return False
    first, last = (end.value, start.value) if precedes else (start.value, end.value)
    return bool(first > last)  # type: ignore[operator]  # of one type, whose values are ordered


def _side(written: object) -> str:
    return str(written or "").lower()


def _place(edge: object, side: str) -> int:
    """Where an edge is, roughly: -2 and 2 are no bounds, 0 is the row."""
    if isinstance(edge, str):
        return 0 if edge.lower() == "current row" else -2 if side == "preceding" else 2
    return -1 if side == "preceding" else 1


def _in_one_type(key: Expr, offset: Literal) -> tuple[Expr, Literal]:
    """A sort key and an offset in types that add up to that of the key."""
    is_exact = offset.type in INTEGERS or isinstance(offset.type, Decimal)
    days = _count_days(offset)
    if key.type in INTEGERS and offset.type in INTEGERS:
        return operators.cast(key, _WIDEST), Literal(_exact(offset), _WIDEST)
    if key.type in FRACTIONS and (is_exact or offset.type in FRACTIONS):
        return operators.cast(key, DOUBLE), Literal(float(str(offset.value)), DOUBLE)
    if isinstance(key.type, Decimal) and is_exact:
        scale = max(key.type.scale, offset.type.scale if isinstance(offset.type, Decimal) else 0)
        return operators.cast(key, Decimal(38, scale)), Literal(_exact(offset), Decimal(38, scale))
    if key.type == DATE and days is not None:
        return key, Literal(days, INT)
    if key.type in (DATE, TIMESTAMP) and offset.type in (DAY_TIME, YEAR_MONTH):
        type_: Type = DATE if key.type == DATE and offset.type == YEAR_MONTH else TIMESTAMP
        return operators.cast(key, type_), offset
    raise Mistake(f"an offset of {offset.type} does not fit a sort key of {key.type}", "CAST one of them")


def _exact(offset: Literal) -> decimal.Decimal:
    return decimal.Decimal(str(offset.value))


def _count_days(offset: Literal) -> int | None:
    """The whole days of an offset, if it is of such."""
    if offset.type in INTEGERS and isinstance(offset.value, int):
        return offset.value
    if isinstance(offset.value, dt.timedelta) and not offset.value % dt.timedelta(days=1):
        return offset.value.days
    return None


def _add_offset(key: Expr, offset: Literal, *, minus: bool) -> Expr:
    function = (
        ("date_sub" if minus else "date_add") if key.type == DATE and offset.type == INT else "-" if minus else "+"
    )
    return Call(function, (key, offset), key.type)
