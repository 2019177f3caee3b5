"""Windows of GROUP BY: `window(ts, '10 minutes', '5 minutes')` has each row once for every window that holds its time,
`session_window(ts, '10 minutes')` has the sessions of each group.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlglot import exp

from headrace.declare.query import literals
from headrace.declare.query.arguments import widen
from headrace.declare.query.expressions import read_value
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.stage import QueryStage, TimeWindow
from headrace.model.expr import Column, Expr
from headrace.model.relation import Sessions, Windows
from headrace.model.types import TIMESTAMP

MILLISECOND = dt.timedelta(milliseconds=1)


def is_time_window(node: exp.Anonymous) -> bool:
    return node.name.lower() in ("window", "session_window")


def open_window(node: exp.Anonymous, stage: QueryStage) -> TimeWindow:
    """Put the rows at hand into windows; the bounds are fields from now on.

    Sessions are of groups: they wait for the other keys (`close_sessions`).
    """
    if stage.window is not None:
        raise NotMaintained("several time windows")
    if node.name.lower() == "session_window":
        return _open_sessions(node, stage)
    if not 2 <= len(node.expressions) <= 4:
        raise Mistake('"window" takes 2 to 4 arguments', "window(time, size[, slide[, offset]])")
    time = widen(read_value(node.expressions[0], stage), TIMESTAMP)
    size_ms, slide_ms, offset_ms = _lengths(node.expressions[1:])
    start, end = _name_bounds("window", stage)
    stage.relation = Windows(stage.relation, time, size_ms, slide_ms, offset_ms, start, end)
    return TimeWindow(node, Column(start, TIMESTAMP), Column(end, TIMESTAMP))


def _open_sessions(node: exp.Anonymous, stage: QueryStage) -> TimeWindow:
    if len(node.expressions) != 2:
        raise Mistake('"session_window" takes 2 arguments', "session_window(time, gap)")
    time = widen(read_value(node.expressions[0], stage), TIMESTAMP)
    if not isinstance(node.expressions[1], exp.Interval | exp.Literal):
        raise NotMaintained("session window with a gap that changes")
    gap_ms = read_milliseconds(node.expressions[1])
    if gap_ms <= 0:
        raise Mistake("the gap of a session must be greater than zero")
    start, end = _name_bounds("session_window", stage)
    return TimeWindow(node, Column(start, TIMESTAMP), Column(end, TIMESTAMP), (time, gap_ms))


def close_sessions(stage: QueryStage, keys: Sequence[Expr]) -> None:
    """Finds sessions of rows that agree in all other keys."""
    window = stage.window
    if window is not None and window.session is not None:
        partition = tuple(key for key in keys if key not in (window.start, window.end))
        time, gap_ms = window.session
        stage.relation = Sessions(stage.relation, partition, time, gap_ms, window.start.name, window.end.name)


def _name_bounds(function: str, stage: QueryStage) -> tuple[str, str]:
    environment = stage.environment
    name = function if stage.scope.table(function) is None else f"time_{function}"
    start, end = (environment.books.fresh(f"{environment.path}{name}.{bound}") for bound in ("start", "end"))
    return start, end


def _lengths(nodes: Sequence[exp.Expr]) -> tuple[int, int, int]:
    given = [read_milliseconds(node) for node in nodes]
    return check_lengths(given[0], given[1] if len(given) > 1 else given[0], given[2] if len(given) > 2 else 0)


def check_lengths(size: int, slide: int, offset: int) -> tuple[int, int, int]:
    """Size, slide and offset in milliseconds, as windows have them."""
    if size <= 0 or slide <= 0:
        raise Mistake("the size and slide of a window must be greater than zero")
    if slide > size:
        raise Mistake("the slide of a window must not exceed its size: rows between windows would be lost")
    if abs(offset) >= slide:
        raise Mistake("the offset of a window must be smaller than its slide")
    return size, slide, offset % slide


def read_milliseconds(node: exp.Expr) -> int:
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
