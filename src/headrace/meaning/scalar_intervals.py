"""Intervals of PostgreSQL, held as the text that it writes: months, days and microseconds, which it keeps apart.

`1 day` and `24:00:00` are equal, a month is 30 days long where intervals are compared, and each shows what it is made
of. So intervals are ordered by `find_order`, never by their text.
"""

from __future__ import annotations

import calendar
import datetime as dt
import decimal
import functools
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from headrace.meaning.scalar_number import fit_decimal
from headrace.meaning.scalar_time import from_micros, micros
from headrace.model.errors import EvaluationError
from headrace.model.types import Decimal, Value

DAY = 86_400_000_000
_PARTS_TYPE = Decimal(20, 6)
_DAYS_AT, _MONTHS_AT = 10**20, 10**29
"""Where the days and the months of a sum stand in one number of 38 digits: sums of each stay below the next one."""
_MOST = 2**31


class Interval(NamedTuple):
    """What PostgreSQL stores."""

    months: int
    days: int
    micros: int


_MONTHS = {"year": 12, "yr": 12, "y": 12, "month": 1, "mon": 1, "decade": 120, "century": 1200, "centurie": 1200}
_DAYS = {"day": 1, "d": 1, "week": 7, "w": 7}
_MICROS = {
    **dict.fromkeys(("hour", "hr", "h"), 3_600_000_000),
    **dict.fromkeys(("minute", "min", "m"), 60_000_000),
    **dict.fromkeys(("second", "sec", "s", ""), 1_000_000),
    **dict.fromkeys(("millisecond", "msec", "ms"), 1_000),
    **dict.fromkeys(("microsecond", "usec", "us"), 1),
}
_TOKEN = re.compile(r"\s*(?:([+-]?)\s*(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d*)?))?|([+-]?)\s*(\d+\.?\d*|\.\d+)\s*([a-z]*))")


@functools.lru_cache(maxsize=4096)
def read_interval(text: str) -> Interval:
    """What PostgreSQL writes, and people: `1 year 2 mons -3 days +04:05:06.789`, `90 minutes`, `1.5 h ago`."""
    written = text.strip().lower().removeprefix("@").strip()
    ago = written.endswith(" ago")
    written = written.removesuffix(" ago")
    made, at = [decimal.Decimal(0)] * 3, 0
    while at < len(written):
        found = _TOKEN.match(written, at)
        if found is None or found.end() == at:
            raise EvaluationError(f"'{text[:100]}' is not an interval")
        at = found.end()
        if found[2] is not None:
            seconds = int(found[2]) * 3600 + int(found[3]) * 60 + decimal.Decimal(found[4] or 0)
            made[2] += (-1 if found[1] == "-" else 1) * seconds * 1_000_000
            continue
        amount = decimal.Decimal(found[6]) * (-1 if found[5] == "-" else 1)
        _add_unit(made, amount, found[7], text)
        at = len(written) if written[at:].isspace() else at
    if not written:
        raise EvaluationError(f"'{text[:100]}' is not an interval")
    months, days, rest = (int(part.to_integral_value(decimal.ROUND_HALF_EVEN)) for part in made)
    return _check(Interval(-months, -days, -rest) if ago else Interval(months, days, rest))


def _add_unit(made: list[decimal.Decimal], amount: decimal.Decimal, unit: str, text: str) -> None:
    """A fraction of a year is in months; of a month in days of which it has 30; of a day in a time."""
    name = unit if unit in ("s", "ms", "us") else unit.removesuffix("s")
    if name in _MICROS:
        made[2] += amount * _MICROS[name]
    elif name in _DAYS:
        days = amount * _DAYS[name]
        made[1] += int(days)
        made[2] += (days - int(days)) * DAY
    elif name in _MONTHS:
        months = amount * _MONTHS[name]
        if _MONTHS[name] > 1:
            months = months.to_integral_value(decimal.ROUND_HALF_EVEN)
        days = (months - int(months)) * 30
        made[0] += int(months)
        made[1] += int(days)
        made[2] += (days - int(days)) * DAY
    else:
        raise EvaluationError(f"'{text[:100]}' is not an interval")


def _check(interval: Interval) -> Interval:
    if abs(interval.months) >= _MOST or abs(interval.days) >= _MOST or abs(interval.micros) >= 2**63:
        raise EvaluationError("an interval is too long")
    return interval


def write_interval(interval: Interval) -> str:
    """The text that PostgreSQL writes in its own style: `1 year 2 mons 3 days 04:05:06`."""
    years = _cut(interval.months, 12)
    written, is_before = [], False
    for count, unit in ((years, "year"), (interval.months - 12 * years, "mon"), (interval.days, "day")):
        if count:
            sign = "+" if is_before and count > 0 else ""
            written.append(f"{sign}{count} {unit}{'' if count == 1 else 's'}")
            is_before = count < 0
    if interval.micros or not written:
        sign = "-" if interval.micros < 0 else "+" if is_before else ""
        seconds, fraction = divmod(abs(interval.micros), 1_000_000)
        shown = f"{sign}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
        written.append(shown + (f".{fraction:06d}".rstrip("0") if fraction else ""))
    return " ".join(written)


def _cut(value: int, by: int) -> int:
    """Divided, and cut towards zero."""
    return value // by if value >= 0 else -(-value // by)


def _find_length(interval: Interval) -> int:
    """Its microseconds, as they are compared."""
    return (interval.months * 30 + interval.days) * DAY + interval.micros


def find_order(text: str) -> decimal.Decimal:
    return decimal.Decimal(_find_length(read_interval(text)))


# Times


def add_to_time(time: dt.datetime, text: str) -> dt.datetime:
    """The months first, then the days, then the rest. A month without the day ends with its last."""
    return _move(time, read_interval(text))


def take_from_time(time: dt.datetime, text: str) -> dt.datetime:
    return _move(time, Interval(*(-part for part in read_interval(text))))


def _move(time: dt.datetime, interval: Interval) -> dt.datetime:
    try:
        if interval.months:
            years, month = divmod(time.year * 12 + time.month - 1 + interval.months, 12)
            time = time.replace(
                year=years, month=month + 1, day=min(time.day, calendar.monthrange(years, month + 1)[1])
            )
    except (ValueError, OverflowError, calendar.IllegalMonthError):
        raise EvaluationError("a time is outside of the years 1 to 9999") from None
    return from_micros(micros(time) + interval.days * DAY + interval.micros)


def find_between(later: dt.datetime, earlier: dt.datetime) -> str:
    """`later - earlier`: days and a rest."""
    between = micros(later) - micros(earlier)
    days = _cut(between, DAY)
    return write_interval(Interval(0, days, between - days * DAY))


def find_age(end: dt.datetime, start: dt.datetime) -> Interval:
    """Days that are missing are those of the earlier time's month. Before the start all is negative."""
    later, earlier, sign = (end, start, 1) if end >= start else (start, end, -1)
    months = (later.year - earlier.year) * 12 + later.month - earlier.month
    days = later.day - earlier.day
    rest = micros(later) % DAY - micros(earlier) % DAY
    if rest < 0:
        rest, days = rest + DAY, days - 1
    while days < 0:
        days += calendar.monthrange(earlier.year, earlier.month)[1]
        months -= 1
    return Interval(sign * months, sign * days, sign * rest)


# Parts


def find_part(part: str, text: str) -> decimal.Decimal:
    """`extract(part FROM interval)`."""
    return part_of(part, read_interval(text))


def find_age_part(part: str, end: dt.datetime, start: dt.datetime) -> decimal.Decimal:
    """`extract(part FROM age(end, start))`."""
    return part_of(part, find_age(end, start))


def part_of(part: str, interval: Interval) -> decimal.Decimal:
    months, days, rest = interval
    years, seconds = _cut(months, 12), decimal.Decimal(rest).scaleb(-6)
    minutes = _cut(rest, 60_000_000)
    match part:
        case "millennium" | "century" | "decade":
            found = decimal.Decimal(_cut(years, {"millennium": 1000, "century": 100, "decade": 10}[part]))
        case "year":
            found = decimal.Decimal(years)
        case "month":
            found = decimal.Decimal(months - 12 * years)
        case "day":
            found = decimal.Decimal(days)
        case "hour":
            found = decimal.Decimal(_cut(minutes, 60))
        case "minute":
            found = decimal.Decimal(minutes - 60 * _cut(minutes, 60))
        case "second":
            found = seconds - 60 * minutes
        case _:
            whole = decimal.Decimal(years) * 31_557_600 + (months - 12 * years) * 2_592_000 + days * 86_400
            found = whole + seconds
    return fit_decimal(found, _PARTS_TYPE)


# Arithmetic


def add(left: str, right: str) -> str:
    pairs = zip(read_interval(left), read_interval(right), strict=True)
    return write_interval(_check(Interval(*(one + other for one, other in pairs))))


def subtract(left: str, right: str) -> str:
    pairs = zip(read_interval(left), read_interval(right), strict=True)
    return write_interval(_check(Interval(*(one - other for one, other in pairs))))


def multiply(text: str, factor: float) -> str:
    """What months and days lose by the fraction goes into days and seconds, in doubles, as PostgreSQL computes it."""
    return write_interval(_scale(read_interval(text), lambda value: value * factor))


def divide(text: str, divisor: float) -> str:
    if divisor == 0:
        raise EvaluationError("division by zero")
    return write_interval(_scale(read_interval(text), lambda value: value / divisor))


def _scale(interval: Interval, scaled: Callable[[float], float]) -> Interval:
    try:
        months, days = int(scaled(float(interval.months))), int(scaled(float(interval.days)))
        rest_of_months = _round_seconds((scaled(float(interval.months)) - months) * 30)
        seconds = (scaled(float(interval.days)) - days + rest_of_months - int(rest_of_months)) * 86_400
        seconds = _round_seconds(seconds)
        if abs(seconds) >= 86_400:
            over = int(seconds / 86_400)
            days, seconds = days + over, seconds - over * 86_400
        rest = round(scaled(float(interval.micros)) + seconds * 1e6)
    except (ValueError, OverflowError):
        raise EvaluationError("an interval is too long") from None
    return _check(Interval(months, days + int(rest_of_months), rest))


def _round_seconds(value: float) -> float:
    return round(value * 1e6) / 1e6


def justify(how: str, text: str) -> str:
    """`justify_hours`, `justify_days` and `justify_interval`."""
    months, days, rest = read_interval(text)
    if how == "hours":
        days, rest = _carry(days, rest, DAY)
    elif how == "days":
        months, days = _carry(months, days, 30)
    else:
        # The same sign for all parts.
        days, rest = days + _cut(rest, DAY), rest - DAY * _cut(rest, DAY)
        months, days = months + _cut(days, 30), days - 30 * _cut(days, 30)
        if months > 0 and (days < 0 or (days == 0 and rest < 0)):
            days, months = days + 30, months - 1
        elif months < 0 and (days > 0 or (days == 0 and rest > 0)):
            days, months = days - 30, months + 1
        if days > 0 and rest < 0:
            rest, days = rest + DAY, days - 1
        elif days < 0 and rest > 0:
            rest, days = rest - DAY, days + 1
    return write_interval(_check(Interval(months, days, rest)))


def _carry(large: int, small: int, size: int) -> tuple[int, int]:
    """Whole units into the larger ones; both get one sign."""
    large, small = large + _cut(small, size), small - size * _cut(small, size)
    if large > 0 and small < 0:
        return large - 1, small + size
    return (large + 1, small - size) if large < 0 and small > 0 else (large, small)


# Sums


def pack(text: str) -> decimal.Decimal:
    """An interval as one number, of which sums are exact: a sum of these is the sum of the intervals."""
    months, days, rest = read_interval(text)
    return decimal.Decimal(months * _MONTHS_AT + days * _DAYS_AT + rest)


def _unpack(packed: decimal.Decimal) -> Interval:
    value = int(packed)
    value, rest = _split(value, _DAYS_AT)
    months, days = _split(value, _MONTHS_AT // _DAYS_AT)
    return _check(Interval(months, days, rest))


def _split(value: int, at: int) -> tuple[int, int]:
    """What stands before and after the digit; the rest is from -at / 2 to at / 2."""
    before, rest = divmod(value, at)
    return (before + 1, rest - at) if rest >= at // 2 else (before, rest)


def write_sum(packed: decimal.Decimal) -> str:
    return write_interval(_unpack(packed))


def write_mean(packed: decimal.Decimal, count: int) -> str:
    return write_interval(_scale(_unpack(packed), lambda value: value / count))


# Times of day and enums


_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?\s*(am|pm)?", re.IGNORECASE)


def read_time_of_day(text: str) -> str:
    """`8:30` as PostgreSQL writes it: `08:30:00`."""
    found = _CLOCK.fullmatch(text.strip())
    if found is not None:
        hour, minute, second = (int(found[place] or 0) for place in (1, 2, 3))
        if found[5]:
            is_right = 1 <= hour <= 12
            hour = hour % 12 + (12 if found[5].lower() == "pm" else 0) if is_right else 99
        fraction = (found[4] or "").rstrip("0")
        if minute < 60 and second < 60 and (hour < 24 or (hour, minute, second, fraction) == (24, 0, 0, "")):
            return f"{hour:02d}:{minute:02d}:{second:02d}" + (f".{fraction}" if fraction else "")
    raise EvaluationError(f"'{text[:100]}' is not a time of day, such as '08:30'")


def find_label(label: str, labels: tuple[Value, ...]) -> int:
    """The place of a value of an enum among all of its type."""
    try:
        return labels.index(label) + 1
    except ValueError:
        message = f"'{label[:100]}' was added to its enum after the views were read: start the project again"
        raise EvaluationError(message) from None


POSTGRES: Mapping[str, Callable[..., Value]] = {
    "age_part": find_age_part,
    "enum_place": find_label,
    "interval_added": add_to_time,
    "interval_age": lambda end, start: write_interval(find_age(end, start)),
    "interval_between": find_between,
    "interval_difference": subtract,
    "interval_divided": divide,
    "interval_justified": justify,
    "interval_mean": write_mean,
    "interval_order": find_order,
    "interval_packed": pack,
    "interval_part": find_part,
    "interval_sum": add,
    "interval_taken": take_from_time,
    "interval_text": lambda text: write_interval(read_interval(text)),
    "interval_times": multiply,
    "interval_total": write_sum,
    "time_text": read_time_of_day,
}
"""Functions of values that are not NULL, which Spark does not have."""
