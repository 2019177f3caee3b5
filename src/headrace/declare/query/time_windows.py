"""`window(ts, '10 minutes', '5 minutes')` of GROUP BY: each row once for every window that holds its time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlglot import exp

from headrace.declare.query import literals
from headrace.declare.query.arguments import widen
from headrace.declare.query.expressions import read_value
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.stage import QueryStage, TimeWindow
from headrace.model.expr import Column
from headrace.model.relation import Windows
from headrace.model.types import TIMESTAMP

MILLISECOND = dt.timedelta(milliseconds=1)


def is_time_window(node: exp.Anonymous) -> bool:
    return node.name.lower() in ("window", "session_window")


def open_window(node: exp.Anonymous, stage: QueryStage) -> TimeWindow:
    """Put the rows at hand into windows; the bounds are fields from now on."""
    if node.name.lower() == "session_window":
        raise NotMaintained("session window")
    if stage.window is not None:
        raise NotMaintained("several time windows")
    if not 2 <= len(node.expressions) <= 4:
        raise Mistake('"window" takes 2 to 4 arguments', "window(time, size[, slide[, offset]])")
    time = widen(read_value(node.expressions[0], stage), TIMESTAMP)
    size_ms, slide_ms, offset_ms = _lengths(node.expressions[1:])
    environment = stage.environment
    name = "window" if stage.scope.table("window") is None else "time_window"
    start, end = (environment.books.fresh(f"{environment.path}{name}.{bound}") for bound in ("start", "end"))
    stage.relation = Windows(stage.relation, time, size_ms, slide_ms, offset_ms, start, end)
    return TimeWindow(node, Column(start, TIMESTAMP), Column(end, TIMESTAMP))


def _lengths(nodes: Sequence[exp.Expr]) -> tuple[int, int, int]:
    given = [_milliseconds(node) for node in nodes]
    size, slide, offset = given[0], given[1] if len(given) > 1 else given[0], given[2] if len(given) > 2 else 0
    if size <= 0 or slide <= 0:
        raise Mistake("the size and slide of a window must be greater than zero")
    if slide > size:
        raise Mistake("the slide of a window must not exceed its size: rows between windows would be lost")
    if abs(offset) >= slide:
        raise Mistake("the offset of a window must be smaller than its slide")
    return size, slide, offset % slide


def _milliseconds(node: exp.Expr) -> int:
    if isinstance(node, exp.Interval):
        value = literals.interval(node).value
        if not isinstance(value, dt.timedelta):
            raise Mistake("a window has a fixed length: a month has 28 to 31 days")
    elif isinstance(node, exp.Literal) and node.is_string:
        value = literals.duration(node.name)
    else:
        raise Mistake("the length of a window must be a constant such as '10 minutes'")
    if value % MILLISECOND:
        raise Mistake("the length of a window must be whole milliseconds")
    return value // MILLISECOND
