"""Functions of dates and timestamps that people call less often: differences in units, seconds since 1970, names."""

from __future__ import annotations

import calendar
import datetime as dt
import decimal
import math
from collections.abc import Callable, Mapping
from typing import Any

from headrace.meaning.scalar_format import date_format, to_utc
from headrace.meaning.scalar_number import EXACT, to_decimal
from headrace.meaning.scalar_time import EPOCH, add_days, add_months, from_micros, make_date, micros, midnight
from headrace.model.errors import EvaluationError
from headrace.model.types import Value

_MONTHS: Mapping[str, int] = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_SPANS: Mapping[str, dt.timedelta] = {
    "WEEK": dt.timedelta(weeks=1),
    "DAY": dt.timedelta(days=1),
    "HOUR": dt.timedelta(hours=1),
    "MINUTE": dt.timedelta(minutes=1),
    "SECOND": dt.timedelta(seconds=1),
    "MILLISECOND": dt.timedelta(milliseconds=1),
    "MICROSECOND": dt.timedelta(microseconds=1),
}
UNITS = (*_MONTHS, *_SPANS)
_DAY_NAMES = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_DAYS: Mapping[str, int] = {
    name[:length]: place for place, name in enumerate(_DAY_NAMES) for length in (2, 3, len(name))
}
_SECONDS_OF_DAY, _DAYS_OF_MONTH = 86_400, 31
DEFAULT_FORMAT = "yyyy-MM-dd HH:mm:ss"
_MOST_SECONDS, _MOST_FROM_1970 = 60, 1e12


def _cut(count: int, by: int) -> int:
    """A quotient without its fraction."""
    return abs(count) // by * (-1 if count < 0 else 1)


def count_units(unit: str, start: dt.datetime, end: dt.datetime) -> int:
    """Whole units from one instant to another."""
    name = unit.upper()
    if name in _SPANS:
        return _cut(micros(end) - micros(start), _SPANS[name] // dt.timedelta(microseconds=1))
    return _cut(_count_months(start, end), _MONTHS[name])


def _count_months(start: dt.datetime, end: dt.datetime) -> int:
    day = end.date()
    if day > start.date() and end.time() < start.time():
        day -= dt.timedelta(days=1)
    elif day < start.date() and end.time() > start.time():
        day += dt.timedelta(days=1)
    packed = [(time.year * 12 + time.month) * 32 + time.day for time in (start, day)]
    return _cut(packed[1] - packed[0], 32)


def add_units(unit: str, count: int, time: dt.datetime) -> dt.datetime:
    name = unit.upper()
    if name in _MONTHS:
        moved = add_months(time, count * _MONTHS[name])
        assert isinstance(moved, dt.datetime), "a timestamp stays one"
        return moved
    return from_micros(micros(time) + count * (_SPANS[name] // dt.timedelta(microseconds=1)))


def months_between(later: dt.datetime, earlier: dt.datetime, rounded: bool = True) -> float:
    """Whole months between equal days or last days of months; else days count as parts of 31."""
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    if later.day == earlier.day or (_is_last(later) and _is_last(earlier)):
        return float(months)
    seconds = (later.day - earlier.day) * _SECONDS_OF_DAY + _second_of_day(later) - _second_of_day(earlier)
    whole = months + seconds / (_DAYS_OF_MONTH * _SECONDS_OF_DAY)
    return math.floor(whole * 1e8 + 0.5) / 1e8 if rounded else whole


def _is_last(time: dt.datetime) -> bool:
    return time.day == calendar.monthrange(time.year, time.month)[1]


def _second_of_day(time: dt.datetime) -> int:
    return time.hour * 3600 + time.minute * 60 + time.second


def next_day(day: dt.date, name: str) -> dt.date:
    """The first day after it that has this name in the week."""
    wanted = _DAYS.get(name.upper())
    if wanted is None:
        raise EvaluationError(f'next_day: "{name}" is not a day of the week')
    return add_days(day, (wanted - day.weekday() - 1) % 7 + 1)


def truncate_date(day: dt.date, unit: str) -> dt.date | None:
    """NULL for units shorter than a week, and for those that do not exist."""
    match unit.upper():
        case "YEAR" | "YYYY" | "YY":
            return day.replace(month=1, day=1)
        case "QUARTER":
            return day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1)
        case "MONTH" | "MON" | "MM":
            return day.replace(day=1)
        case "WEEK":
            return add_days(day, -day.weekday())
        case _:
            return None


def make_timestamp(year: int, month: int, day: int, hour: int, minute: int, second: Any, zone: str = "UTC") -> Value:
    """Seconds have a fraction; 60 of them are the next minute."""
    whole = int(second)
    fraction = int((second - whole) * 1_000_000)
    if not 0 <= whole <= _MOST_SECONDS or (whole == _MOST_SECONDS and fraction):
        raise EvaluationError(f"make_timestamp: there is no second {second}")
    try:
        time = dt.datetime.combine(make_date(year, month, day), dt.time(hour, minute, whole % _MOST_SECONDS, fraction))
        made = time + dt.timedelta(minutes=whole // _MOST_SECONDS)
    except (ValueError, OverflowError) as error:
        raise EvaluationError(f"make_timestamp: there is no such time: {error}") from error
    return to_utc(made, zone)


def from_seconds(seconds: Any) -> dt.datetime | None:
    """Seconds since 1970; those of a double that is no number are NULL."""
    if isinstance(seconds, float):
        if not math.isfinite(seconds):
            return None
        if abs(seconds) > _MOST_FROM_1970:
            raise EvaluationError(f"timestamp_seconds: {seconds} is outside the years 1 to 9999")
        return from_micros(int(seconds * 1e6))
    count = EXACT.multiply(to_decimal(seconds), 1_000_000)
    if count != count.to_integral_value():
        raise EvaluationError(f"timestamp_seconds: {seconds} has more than six digits after the point")
    return from_micros(int(count))


def second_part(time: dt.datetime) -> decimal.Decimal:
    return decimal.Decimal(time.second * 1_000_000 + time.microsecond).scaleb(-6)


FUNCTIONS: Mapping[str, Callable[..., Value]] = {
    "timestampdiff": count_units,
    "timestampadd": add_units,
    "months_between": months_between,
    "next_day": next_day,
    "trunc": truncate_date,
    "make_timestamp": make_timestamp,
    "timestamp_seconds": from_seconds,
    "timestamp_millis": lambda count: from_micros(count * 1000),
    "timestamp_micros": from_micros,
    "unix_seconds": lambda time: micros(time) // 1_000_000,
    "unix_millis": lambda time: micros(time) // 1000,
    "unix_micros": micros,
    "unix_date": lambda day: (day - EPOCH.date()).days,
    "date_from_unix_date": lambda days: add_days(EPOCH.date(), days),
    "from_unixtime": lambda seconds, pattern=DEFAULT_FORMAT: date_format(from_micros(seconds * 1_000_000), pattern),
    "dayname": lambda day: date_format(midnight(day), "E"),
    "monthname": lambda day: date_format(midnight(day), "MMM"),
    "yearofweek": lambda day: day.isocalendar().year,
    "second_part": second_part,
}
"""Functions of values that are not NULL."""
