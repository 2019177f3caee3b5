"""Constants as people write them: numbers by their digits, intervals by their units."""

from __future__ import annotations

import datetime as dt
import decimal
import re

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake
from headrace.declare.query.text import is_quoted, text_hint
from headrace.model.expr import Literal
from headrace.model.types import BIGINT, DAY_TIME, DOUBLE, INT, YEAR_MONTH, Decimal, integer_range

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_SPANS = {
    "microsecond": dt.timedelta(microseconds=1),
    "millisecond": dt.timedelta(milliseconds=1),
    "second": dt.timedelta(seconds=1),
    "minute": dt.timedelta(minutes=1),
    "hour": dt.timedelta(hours=1),
    "day": dt.timedelta(days=1),
    "week": dt.timedelta(weeks=1),
}
_WHOLE_DAYS = ("day", "week")
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s+([a-z]+)\s*", re.IGNORECASE)
_YEAR_TO_MONTH = re.compile(r"([+-]?)(\d+)-(\d+)")
_DAY_TO_SECOND = re.compile(r"([+-]?)(?:(\d+) )?(\d+):(\d+)(?::(\d+(?:\.\d+)?))?")

Parts = tuple[tuple[str, str], ...]
"""Numbers with their units, in the singular."""


def number(text: str) -> Literal:
    """`1` is an int (or the next type that holds it), `1.5` a decimal, `1e3` a double."""
    if "e" in text.lower():
        return Literal(float(text), DOUBLE)
    try:
        value = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise Mistake(f'"{text}" is not a number') from None
    if "." not in text:
        for type_ in (INT, BIGINT):
            low, high = integer_range(type_)
            if low <= value <= high:
                return Literal(int(value), type_)
    return Literal(value, decimal_of(value))


def decimal_of(value: decimal.Decimal | int) -> Decimal:
    """The narrowest decimal type that holds a number."""
    _, digits, exponent = decimal.Decimal(value).as_tuple()
    scale = max(0, -int(exponent))
    precision = max(len(digits) + max(0, int(exponent)), scale)
    if precision > 38:
        raise Mistake("a number has more than 38 digits")
    return Decimal(precision, scale)


def interval(node: exp.Interval) -> Literal:
    """`INTERVAL '7 days'`, `INTERVAL 7 DAYS`, `INTERVAL '1-2' YEAR TO MONTH`, `INTERVAL '1 02:03:04' DAY TO SECOND`."""
    negative = isinstance(node.this, exp.Neg)
    amount = node.this.this if negative else node.this
    if not isinstance(amount, exp.Literal):
        hint = text_hint(amount.name) if is_quoted(amount) else "multiply: INTERVAL '1' DAY * 3"
        raise Mistake("the length of an interval must be a constant", hint)
    if isinstance(node.args.get("unit"), exp.IntervalSpan):
        result = _read_composed(amount.name)
    else:
        result = interval_of(_read_parts(node))
    return negate(result) if negative else result


def counts_days(node: exp.Expr) -> bool:
    """Whether an interval is written in days or weeks alone: a date plus that is a date."""
    node = node.unnest()
    if isinstance(node, exp.Neg):
        return counts_days(node.this)
    if not isinstance(node, exp.Interval) or isinstance(node.args.get("unit"), exp.IntervalSpan):
        return False
    try:
        return all(unit in _WHOLE_DAYS for _, unit in _read_parts(node))
    except Mistake:
        return False


def duration(text: str) -> dt.timedelta:
    """A text such as `10 minutes`."""
    value = interval_of(split_parts(text)).value
    if not isinstance(value, dt.timedelta):
        raise Mistake(f'"{text}" has no fixed length: a month has 28 to 31 days')
    return value


def negate(literal: Literal) -> Literal:
    assert isinstance(literal.value, int | dt.timedelta)
    return Literal(-literal.value, literal.type)


def _read_parts(node: exp.Interval) -> Parts:
    unit = node.args.get("unit")
    amount = node.this.this if isinstance(node.this, exp.Neg) else node.this
    return split_parts(amount.name) if unit is None else ((amount.name.strip(), _singular(unit.name)),)


def split_parts(text: str) -> Parts:
    """The numbers of an interval with their units."""
    parts, position = [], 0
    text = re.sub(r"^\s*interval\s+", "", text, flags=re.IGNORECASE)
    while position < len(text):
        match = _PART.match(text, position)
        if match is None:
            break
        parts.append((match[1], _singular(match[2])))
        position = match.end()
    if not parts or position < len(text):
        raise Mistake(f'"{text}" is not an interval', "write it like '10 minutes' or '1 day 2 hours'")
    return tuple(parts)


def _singular(unit: str) -> str:
    name = unit.lower()
    return name[:-1] if name.endswith("s") else name


def interval_of(parts: Parts) -> Literal:
    """The sum of the parts, which are all of months or all of fixed length."""
    if all(unit in _MONTHS for _, unit in parts):
        return Literal(sum(_read_count(amount) * _MONTHS[unit] for amount, unit in parts), YEAR_MONTH)
    unknown = [unit for _, unit in parts if unit not in _SPANS]
    if unknown:
        known = unknown[0] in _MONTHS
        raise Mistake("an interval mixes months with days" if known else f'"{unknown[0]}" is not a unit of time')
    try:
        return Literal(sum((_span(amount, unit) for amount, unit in parts), dt.timedelta()), DAY_TIME)
    except (OverflowError, ValueError):
        raise Mistake("an interval is too long") from None


def _read_count(amount: str) -> int:
    try:
        return int(amount)
    except ValueError:
        raise Mistake(f'"{amount}" is not a whole number') from None


def _span(amount: str, unit: str) -> dt.timedelta:
    if unit == "second" and re.fullmatch(r"[+-]?\d+\.\d+", amount):
        return dt.timedelta(microseconds=int(decimal.Decimal(amount) * 1_000_000))
    return _read_count(amount) * _SPANS[unit]


def _read_composed(text: str) -> Literal:
    """`1-2` is years and months, `1 02:03:04.5` days, hours, minutes and seconds."""
    if match := _YEAR_TO_MONTH.fullmatch(text.strip()):
        value = Literal(int(match[2]) * 12 + int(match[3]), YEAR_MONTH)
    elif match := _DAY_TO_SECOND.fullmatch(text.strip()):
        units = zip(match.groups()[1:], ("day", "hour", "minute", "second"), strict=True)
        value = interval_of(tuple((amount, unit) for amount, unit in units if amount))
    else:
        raise Mistake(f'"{text}" is not an interval', "write it like '1-2' YEAR TO MONTH or '1 02:03:04' DAY TO SECOND")
    return negate(value) if match[1] == "-" else value
