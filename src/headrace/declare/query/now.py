"""Filters on time: a time compared with now() plus or minus a constant, so that it is known when a row leaves or
enters.

Other spellings are brought to this form where that is exact: `now() - ts < INTERVAL 7 DAYS`, and comparisons with the
current date, which is the current time without its hours.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

from headrace.declare.query.calls import NOW, TODAY
from headrace.model.expr import Call, Expr, Literal, conjunction, conjuncts, is_deterministic
from headrace.model.relation import Filter, Relation
from headrace.model.types import BOOLEAN, DATE, DAY_TIME, INT, INTERVALS, STRING, TIMESTAMP, YEAR_MONTH, Type, Value

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def use_time(relation: Relation) -> Relation:
    """A filter with its conditions on time in the one form."""
    if not isinstance(relation, Filter) or is_deterministic(relation.predicate):
        return relation
    parts = (usable for part in conjuncts(relation.predicate) for usable in conjuncts(use_condition(part)))
    return Filter(relation.input, conjunction(tuple(parts)))


def is_time_filter(part: Expr) -> bool:
    """Whether a condition compares something without now() with now() plus or minus a constant."""
    if not isinstance(part, Call) or part.function not in MIRRORED:
        return False
    left, right = part.arguments
    return (is_deterministic(left) and _is_shifted_now(right)) or (is_deterministic(right) and _is_shifted_now(left))


def _is_shifted_now(expr: Expr) -> bool:
    if isinstance(expr, Call) and expr.function in ("+", "-") and expr.arguments[0] == NOW:
        return isinstance(expr.arguments[1], Literal) and expr.arguments[1].type in INTERVALS
    return expr == NOW


def use_condition(part: Expr) -> Expr:
    """The condition with the time on the left and now() on the right, if it can be written so."""
    if is_deterministic(part) or not isinstance(part, Call) or part.function not in MIRRORED:
        return part
    left, right = part.arguments
    operator = part.function
    if not is_deterministic(left):
        left, right, operator = right, left, MIRRORED[operator]
    if not is_deterministic(left):
        return part
    return (
        _by_difference(operator, left, right)
        or _by_date(operator, left, right)
        or _by_unit(operator, left, right)
        or _compare_sides(operator, left, right)
    )


def _compare_sides(operator: str, left: Expr, right: Expr) -> Expr:
    return Call(operator, (left, right), BOOLEAN)


def _by_difference(operator: str, span: Expr, difference: Expr) -> Expr | None:
    """`span > now() - ts` is `ts > now() - span`."""
    if isinstance(difference, Call) and difference.function == "-" and difference.arguments[0] == NOW:
        time = difference.arguments[1]
        if time.type == TIMESTAMP and isinstance(span, Literal) and span.type == DAY_TIME:
            return _compare_sides(operator, time, Call("-", (NOW, span), TIMESTAMP))
    return None


def _by_date(operator: str, left: Expr, right: Expr) -> Expr | None:
    """Comparisons with the current date plus some days.

    The date of now is at most d just when now is before the end of d, and at least d just when now is not before its
    start.
    """
    days = _days_from_today(right)
    if days is None or left.type != DATE:
        return None
    after_end, after_start = _since(left, 1 - days), _since(left, -days)
    match operator:
        case ">=":
            return _compare_sides(">", *after_end)
        case ">":
            return _compare_sides(">", *after_start)
        case "<=":
            return _compare_sides("<=", *after_start)
        case "<":
            return _compare_sides("<=", *after_end)
    return conjunction((_compare_sides(">", *after_end), _compare_sides("<=", *after_start)))


@dataclass(frozen=True, slots=True)
class _Start:
    """The start of the current day, month and so on, plus months or a span. Without a unit it is now() itself."""

    unit: str | None
    months: int = 0
    span: dt.timedelta = dt.timedelta()


_SPANS = {
    "MINUTE": dt.timedelta(minutes=1),
    "HOUR": dt.timedelta(hours=1),
    "DAY": dt.timedelta(days=1),
    "WEEK": dt.timedelta(weeks=1),
}
_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12}
_TICK = Literal(dt.timedelta(microseconds=1), DAY_TIME)


def _by_unit(operator: str, left: Expr, right: Expr) -> Expr | None:
    """Comparisons with the start of the current unit of time.

    A time y is at or after that start just when the unit of y has not ended before now: start(y) + unit > now. And y is
    after it just when the instant before y is at or after it.
    """
    start = _read_start(right)
    if start is None or start.unit is None or left.type not in (DATE, TIMESTAMP):
        return None
    time = left if left.type == TIMESTAMP else Call("cast", (left,), TIMESTAMP)
    just_before = Call("-", (time, _TICK), TIMESTAMP)
    from_start, after_start = _reaches(time, start), _reaches(just_before, start)
    if from_start is None or after_start is None:
        return None
    match operator:
        case ">=":
            return _compare_sides(">", *from_start)
        case ">":
            return _compare_sides(">", *after_start)
        case "<=":
            return _compare_sides("<=", *after_start)
        case "<":
            return _compare_sides("<=", *from_start)
    return conjunction((_compare_sides(">", *from_start), _compare_sides("<=", *after_start)))


def _reaches(time: Expr, start: _Start) -> tuple[Expr, Expr] | None:
    """The sides of a comparison that says whether a time is at or after a start."""
    assert start.unit is not None
    if start.months and start.unit in _SPANS:
        return _reaches_day(time, start.months) if start.unit == "DAY" and not start.span else None
    if start.unit in _SPANS:
        unit = _SPANS[start.unit]
        if start.span % unit:
            time, span = Call("-", (time, Literal(start.span, DAY_TIME)), TIMESTAMP), unit
        else:
            # Nothing is added to the time: it may be the last day that there is.
            span = unit - start.span
        return _floor(start.unit, time), Call("-", (NOW, Literal(span, DAY_TIME)), TIMESTAMP) if span else NOW
    if start.span:
        time = Call("-", (time, Literal(start.span, DAY_TIME)), TIMESTAMP)
    if start.months:
        time = Call("-", (_floor("MONTH", time), Literal(start.months, YEAR_MONTH)), TIMESTAMP)
    return Call("+", (_floor(start.unit, time), Literal(_MONTHS[start.unit], YEAR_MONTH)), TIMESTAMP), NOW


def _reaches_day(time: Expr, months: int) -> tuple[Expr, Expr]:
    """The last day from which so many months lead to the day of a time at most: months of different length meet there.

    From the last day of a month that is the last day of the other month, whatever their lengths.
    """
    day = Call("cast", (time,), DATE)
    moved = Call("add_months", (day, Literal(-months, INT)), DATE)
    is_last = Call("=", (day, Call("last_day", (day,), DATE)), BOOLEAN)
    latest = Call("case", (is_last, Call("last_day", (moved,), DATE), moved), DATE)
    return _since(latest, 1)


def _floor(unit: str, time: Expr) -> Expr:
    return Call("date_trunc", (Literal(unit, STRING), time), TIMESTAMP)


def _read_start(expr: Expr) -> _Start | None:
    match expr:
        case Call("now"):
            return _Start(None)
        case Call("cast", (inner,)):
            found = _read_start(inner)
            if found is None or expr.type not in (DATE, TIMESTAMP):
                return None
            return _Start("DAY") if expr.type == DATE and found == _Start(None) else _stay_whole(found, expr.type)
        case Call("date_trunc", (Literal(str(unit)), inner)):
            found = _read_start(inner)
            plain = found in (_Start(None), _Start("DAY")) and unit in (*_SPANS, *_MONTHS)
            return _Start(unit) if plain and not (found == _Start("DAY") and unit in ("MINUTE", "HOUR")) else None
        case Call("+" | "-" | "date_add" | "date_sub" as function, (inner, Literal(amount, type_))):
            found = _read_start(inner)
            sign = 1 if function in ("+", "date_add") else -1
            return None if found is None or found.unit is None else _shift(found, amount, type_, sign)
    return None


def _stay_whole(start: _Start, type_: Type) -> _Start | None:
    """A cast to a date keeps what is the start of a day."""
    in_days = start.unit not in (None, "MINUTE", "HOUR") and not start.span % dt.timedelta(days=1)
    return start if type_ == TIMESTAMP or in_days else None


def _shift(start: _Start, amount: Value, type_: Type, sign: int) -> _Start | None:
    if type_ == YEAR_MONTH and isinstance(amount, int) and not start.span:
        return replace(start, months=start.months + sign * amount) if not start.months else None
    if type_ == DAY_TIME and isinstance(amount, dt.timedelta) and not start.months:
        return replace(start, span=start.span + sign * amount)
    if type_ == INT and isinstance(amount, int) and not start.months:
        return replace(start, span=start.span + sign * dt.timedelta(days=amount))
    return None


def _since(date: Expr, days: int) -> tuple[Expr, Expr]:
    """The sides of a comparison of the start of a day, some days after this date, with now."""
    midnight = Call("cast", (date,), TIMESTAMP)
    span = Literal(dt.timedelta(days=days), DAY_TIME)
    return midnight, Call("-", (NOW, span), TIMESTAMP) if days else NOW


def _days_from_today(expr: Expr) -> int | None:
    """How many days after the current date an expression is."""
    if expr == TODAY:
        return 0
    if not isinstance(expr, Call) or len(expr.arguments) != 2 or not isinstance(expr.arguments[1], Literal):
        return None
    inner, amount = _days_from_today(expr.arguments[0]), expr.arguments[1].value
    days = amount.days if isinstance(amount, dt.timedelta) else amount
    sign = {"date_add": 1, "+": 1, "date_sub": -1, "-": -1}.get(expr.function)
    if inner is None or sign is None or not isinstance(days, int) or expr.type != DATE:
        return None
    return None if expr.arguments[1].type not in (INT, DAY_TIME) else inner + sign * days
