"""Functions of dates, timestamps and intervals. All is UTC and within the years 1 to 9999; outside is an error."""

from __future__ import annotations

import calendar
import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from headrace.model.errors import EvaluationError
from headrace.model.expr import Call
from headrace.model.types import DATE, DAY_TIME, TIMESTAMP, YEAR_MONTH, Value

EPOCH = dt.datetime(1970, 1, 1)
MICROSECOND = dt.timedelta(microseconds=1)


def micros(time: dt.datetime) -> int:
    """Microseconds since 1970."""
    return (time - EPOCH) // MICROSECOND


def from_micros(count: int) -> dt.datetime:
    time: dt.datetime = _within_years(lambda: EPOCH + dt.timedelta(microseconds=count))
    return time


def midnight(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day)


def _within_years(make: Callable[[], Any]) -> Any:
    """What `make` returns; OverflowError and ValueError of Python's calendar become ours."""
    try:
        return make()
    except (OverflowError, ValueError) as error:
        raise EvaluationError(f"a date is outside the years 1 to 9999, or there is no such day: {error}") from error


def make_date(year: int, month: int, day: int) -> dt.date:
    made: dt.date = _within_years(lambda: dt.date(year, month, day))
    return made


def add_days(day: dt.date, days: int) -> dt.date:
    made: dt.date = _within_years(lambda: day + dt.timedelta(days=days))
    return made


def add_months(day: dt.date, months: int) -> dt.date:
    """Adds months: the day of a later month, or its last day when that is shorter. The time of a timestamp stays."""
    count = day.year * 12 + day.month - 1 + months
    year, month = count // 12, count % 12 + 1
    if not 1 <= year <= 9999:
        raise EvaluationError(f"a date is outside the years 1 to 9999: year {year}")
    return day.replace(year=year, month=month, day=min(day.day, calendar.monthrange(year, month)[1]))


def last_day(day: dt.date) -> dt.date:
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def date_trunc(unit: str, time: dt.datetime) -> dt.datetime | None:
    """NULL for a unit that does not exist."""
    match unit.upper():
        case "YEAR" | "YYYY" | "YY":
            return dt.datetime(time.year, 1, 1)
        case "QUARTER":
            return dt.datetime(time.year, (time.month - 1) // 3 * 3 + 1, 1)
        case "MONTH" | "MON" | "MM":
            return dt.datetime(time.year, time.month, 1)
        case "WEEK":
            return midnight(time) - dt.timedelta(days=time.weekday())
        case "DAY" | "DD":
            return midnight(time)
        case name:
            return _floor(time, TIMES_OF_DAY[name]) if name in TIMES_OF_DAY else None


TIMES_OF_DAY = {
    "HOUR": dt.timedelta(hours=1),
    "MINUTE": dt.timedelta(minutes=1),
    "SECOND": dt.timedelta(seconds=1),
    "MILLISECOND": dt.timedelta(milliseconds=1),
    "MICROSECOND": MICROSECOND,
}


def _floor(time: dt.datetime, step: dt.timedelta) -> dt.datetime:
    return time - (time - EPOCH) % step


def window_start(time: dt.datetime, slide_ms: int, offset_ms: int) -> dt.datetime:
    """The last start of a window up to an instant: windows start at multiples of the slide plus the offset."""
    instant = micros(time)
    return from_micros(instant - (instant - 1000 * offset_ms) % (1000 * slide_ms))


def unix_timestamp(time: dt.datetime) -> int:
    """Seconds since 1970, cut toward zero (a cast to BIGINT rounds down)."""
    count = micros(time)
    return abs(count) // 1_000_000 * (-1 if count < 0 else 1)


def arithmetic(call: Call) -> Callable[..., Value]:
    """`+` and `-` with an interval, or `-` of two timestamps, by the types of the operands."""
    sign = 1 if call.function == "+" else -1
    left, right = (argument.type for argument in call.arguments)
    if left in (DAY_TIME, YEAR_MONTH) and right not in (DAY_TIME, YEAR_MONTH):
        plus = _plus_interval(call, right, left)
        return lambda interval, time: plus(time, interval, 1)
    if right in (DAY_TIME, YEAR_MONTH) and left not in (DAY_TIME, YEAR_MONTH):
        plus = _plus_interval(call, left, right)
        return lambda time, interval: plus(time, interval, sign)
    if left == DATE and right != DATE and call.type == DATE:
        return lambda day, days: add_days(day, sign * days)
    return lambda a, b: a + b if sign > 0 else a - b


def _plus_interval(call: Call, time_type: object, interval_type: object) -> Callable[[Any, Any, int], Value]:
    """A date becomes a timestamp when the type of the call says so."""
    if interval_type == YEAR_MONTH:
        return lambda time, months, sign: add_months(time, sign * months)
    promote = midnight if time_type == DATE and call.type == TIMESTAMP else lambda time: time
    return lambda time, span, sign: _within_years(lambda: promote(time) + sign * span)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "year": lambda time: time.year,
    "quarter": lambda time: (time.month - 1) // 3 + 1,
    "month": lambda time: time.month,
    "day": lambda time: time.day,
    "dayofweek": lambda time: time.isoweekday() % 7 + 1,
    "dayofyear": lambda time: time.timetuple().tm_yday,
    "weekofyear": lambda time: time.isocalendar().week,
    "weekday": lambda time: time.weekday(),
    "hour": lambda time: time.hour,
    "minute": lambda time: time.minute,
    "second": lambda time: time.second,
    "date_trunc": date_trunc,
    "date_add": add_days,
    "date_sub": lambda day, days: add_days(day, -days),
    "datediff": lambda end, start: (end - start).days,
    "add_months": add_months,
    "last_day": last_day,
    "make_date": make_date,
    "unix_timestamp": unix_timestamp,
    "window_start": window_start,
}
"""Functions of values that are not NULL."""
