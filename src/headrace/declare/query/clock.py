"""The time as a table: one row that says which day, hour or minute it is.

`current_date`, `date_trunc('hour', now())` and what is computed from them may stand anywhere: rows are joined with the
clock, and change when it does. The clock is made of what there is already. A row without a source stands for all
stretches of time of some length; a filter on time keeps the one that holds now; that one falls into shorter ones:

    140 stretches of 1,024 days from 1970 on  ->  the current one: its days  ->  today: its hours  ->  ...

So there are few rows at each level, all of them known in advance, and each is on its way in or out by its time.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from headrace.declare.query.calls import NOW, TODAY
from headrace.declare.query.constants import make_one_row
from headrace.declare.query.environment import Environment
from headrace.model.expr import Call, Column, Expr, Literal, is_deterministic
from headrace.model.relation import Aggregate, Filter, Output, Relation, Windows
from headrace.model.types import BOOLEAN, DATE, DAY_TIME, TIMESTAMP

DAY, HOUR, MINUTE = dt.timedelta(days=1), dt.timedelta(hours=1), dt.timedelta(minutes=1)
LONG = 1024 * DAY
STRETCHES = 140
EPOCH = dt.datetime(1970, 1, 1)
UNITS = (DAY, HOUR, MINUTE)

_TRUNCATED = {
    **dict.fromkeys(("YEAR", "QUARTER", "MONTH", "WEEK", "DAY"), DAY),
    "HOUR": HOUR,
    "MINUTE": MINUTE,
}
_PARTS = {"hour": HOUR, "minute": MINUTE}


@dataclass(frozen=True, slots=True)
class Clock:
    """The rows of a clock, and the field that has the start of the current day, hour or minute."""

    relation: Relation
    start: Column


def find_unit(expr: Expr) -> dt.timedelta | None:
    """How often what an expression says of the time changes; None if at every instant, or if it says nothing of it."""
    units = [_unit_of(part) for part in _coarse_parts(expr)]
    return min(units) if units and is_deterministic(read_clock(expr, Literal(EPOCH, TIMESTAMP))) else None


def read_clock(expr: Expr, start: Expr) -> Expr:
    """An expression with the current day, hour or minute in place of now(), where that is the same."""
    if _is_coarse(expr):
        assert isinstance(expr, Call)
        return _at(expr, start)
    if isinstance(expr, Call):
        return Call(expr.function, tuple(read_clock(argument, start) for argument in expr.arguments), expr.type)
    return expr


def _at(call: Call, start: Expr) -> Expr:
    """A coarse call of now(), of the start instead."""
    arguments = tuple(
        start if one == NOW else _at(one, start) if isinstance(one, Call) else one for one in call.arguments
    )
    return Call(call.function, arguments, call.type)


def _coarse_parts(expr: Expr) -> list[Call]:
    if _is_coarse(expr):
        assert isinstance(expr, Call)
        return [expr]
    return [part for argument in expr.arguments for part in _coarse_parts(argument)] if isinstance(expr, Call) else []


def _is_coarse(expr: Expr) -> bool:
    """Whether a call reads now() itself and cuts it down to a unit."""
    match expr:
        case Call("cast", (inner,)):
            return expr == TODAY or (expr.type == DATE and inner == NOW)
        case Call("date_trunc", (Literal(str(unit)), inner)):
            return inner == NOW and unit.upper() in _TRUNCATED
        case Call("date_format", (inner, Literal(str(pattern)))):
            return inner == NOW and not set("sSnNA") & _letters(pattern)
        case Call(function, (inner,)):
            return function in _PARTS and inner == NOW
    return False


def _letters(pattern: str) -> set[str]:
    """What a pattern of a date shows, but for the text in it."""
    return set("".join(pattern.split("'")[::2]))


def _unit_of(call: Call) -> dt.timedelta:
    match call:
        case Call("date_trunc", (Literal(str(unit)), _)):
            return _TRUNCATED[unit.upper()]
        case Call("date_format", (_, Literal(str(pattern)))):
            letters = _letters(pattern)
            return MINUTE if "m" in letters else HOUR if set("HhKka") & letters else DAY
        case Call(function) if function in _PARTS:
            return _PARTS[function]
    return DAY


def make_clock(unit: dt.timedelta, environment: Environment) -> Clock:
    """A clock that goes on once per day, hour or minute."""
    last = Literal(EPOCH + STRETCHES * LONG - dt.timedelta(milliseconds=1), TIMESTAMP)
    clock = _keep_current(make_one_row(environment), last, STRETCHES * LONG, LONG, environment)
    length = LONG
    for shorter in (one for one in UNITS if one >= unit):
        within = Literal(length - dt.timedelta(milliseconds=1), DAY_TIME)
        time = Call("+", (clock.start, within), TIMESTAMP)
        clock = _keep_current(clock.relation, time, length, shorter, environment)
        length = shorter
    return clock


def _keep_current(
    rows: Relation, last: Expr, size: dt.timedelta, slide: dt.timedelta, environment: Environment
) -> Clock:
    """The stretch that holds now, of all that start within so long before an instant."""
    millisecond = dt.timedelta(milliseconds=1)
    start, end = (environment.books.fresh(f"{environment.path}clock.{bound}") for bound in ("start", "end"))
    windows = Windows(rows, last, size // millisecond, slide // millisecond, 0, start, end)
    bounds = [Column(name, TIMESTAMP) for name in (start, end)]
    stretches = Aggregate(windows, tuple(Output(bound.name, bound) for bound in bounds), ())
    begun = Call("<=", (bounds[0], NOW), BOOLEAN)
    lasts = Call(">", (bounds[0], Call("-", (NOW, Literal(slide, DAY_TIME)), TIMESTAMP)), BOOLEAN)
    return Clock(Filter(stretches, Call("and", (begun, lasts), BOOLEAN)), bounds[0])
