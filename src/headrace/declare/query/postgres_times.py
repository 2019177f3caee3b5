"""Intervals, ages and differences of times of PostgreSQL, where they are added to times or a part of them is taken.

An interval of PostgreSQL has months, days and a rest; ours has months or a length. One with both is added in two steps,
which is what PostgreSQL does. `n * INTERVAL '1 month'` is a number of units that are added.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from sqlglot import exp

from headrace.declare.query.literals import interval_of, split_parts
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_nodes import TypeOf, make_call, make_cast, make_number, make_text, mark
from headrace.declare.query.postgres_patterns import translate_parts
from headrace.model.expr import Literal
from headrace.model.types import DATE, INTEGERS, TIMESTAMP

_UNITS = {
    "DAY": dt.timedelta(days=1),
    "HOUR": dt.timedelta(hours=1),
    "MINUTE": dt.timedelta(minutes=1),
    "SECOND": dt.timedelta(seconds=1),
    "MICROSECOND": dt.timedelta(microseconds=1),
}
_ARGUMENTS = {
    "years": "year",
    "months": "month",
    "weeks": "week",
    "days": "day",
    "hours": "hour",
    "mins": "minute",
    "secs": "second",
}


@dataclass(frozen=True, slots=True)
class CountedUnits:
    """So many times a constant number of units, as `timestampadd` adds them."""

    count: exp.Expr
    times: int
    unit: str


def written_interval(node: exp.Expr) -> str | None:
    """The text of a constant interval: `INTERVAL '1 day'`, `INTERVAL '1' DAY`, `'1 day'::interval`."""
    node = node.unnest()
    if isinstance(node, exp.Cast) and is_interval_cast(node):
        node = node.this.unnest()
        return node.name if isinstance(node, exp.Literal) and node.is_string else None
    if not isinstance(node, exp.Interval) or not isinstance(node.this, exp.Literal):
        return None
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return None
    return node.name if unit is None else f"{node.this.name} {unit.name}"


def is_interval_cast(node: exp.Cast) -> bool:
    return node.args["to"].this in (exp.DType.INTERVAL, "interval") or node.args["to"].sql().upper() == "INTERVAL"


def add_interval(node: exp.Add | exp.Sub, type_of: TypeOf) -> exp.Expr | None:
    """A time plus or minus an interval that is not read as one value; None if there is none."""
    sides = [(node.this, node.expression)]
    sides += [(node.expression, node.this)] if isinstance(node, exp.Add) else []
    for time, written in sides:
        parts = _split_mixed(written)
        units = None if parts is not None else find_units(written, type_of)
        if parts is None and units is None:
            continue
        if written_interval(time) is not None or type_of(time) not in (DATE, TIMESTAMP):
            continue
        if parts is not None:
            return _add_in_steps(node, time, parts)
        assert units is not None
        return _add_units(time, units, -1 if isinstance(node, exp.Sub) else 1)
    return None


def _split_mixed(node: exp.Expr) -> list[str] | None:
    """The months and the rest of an interval that has both."""
    text = written_interval(node)
    parts = None if text is None else translate_parts(text)
    if parts is None:
        return None
    months = [part for part in parts if part.endswith((" year", " month"))]
    rest = [part for part in parts if part not in months]
    return [" ".join(months), " ".join(rest)] if months and rest else None


def _add_in_steps(node: exp.Expr, time: exp.Expr, parts: list[str]) -> exp.Expr:
    made = make_cast(time, "TIMESTAMP")
    for part in parts:
        made = mark(type(node)(this=made, expression=mark(exp.Interval(this=exp.Literal.string(part)))))
    return made


def _add_units(time: exp.Expr, units: CountedUnits, sign: int) -> exp.Expr:
    count = make_cast(mark(exp.Paren(this=units.count)), "INT")
    if units.times * sign != 1:
        count = mark(exp.Mul(this=count, expression=_make_signed(units.times * sign)))
    return make_call("timestampadd", exp.var(units.unit), count, make_cast(time, "TIMESTAMP"))


def _make_signed(value: int) -> exp.Expr:
    return make_number(value) if value >= 0 else mark(exp.Neg(this=make_number(-value)))


def find_units(node: exp.Expr, type_of: TypeOf) -> CountedUnits | None:
    """What `n * INTERVAL '1 day'`, `(n || ' days')::interval` and `make_interval(days => n)` add."""
    node = node.unnest()
    if isinstance(node, exp.Mul):
        for count, interval in ((node.this, node.expression), (node.expression, node.this)):
            text = written_interval(interval)
            if text is not None and written_interval(count) is None:
                return _count_units(count, text, type_of)
    if isinstance(node, exp.Cast) and is_interval_cast(node) and isinstance(node.this.unnest(), exp.DPipe):
        joined = node.this.unnest()
        count, unit = joined.this.unnest(), joined.expression.unnest()
        if isinstance(unit, exp.Literal) and unit.is_string and not isinstance(count, exp.DPipe):
            inner = count.this if isinstance(count, exp.Cast) else count
            return _count_units(inner, f"1 {unit.name.strip()}", type_of)
    if isinstance(node, exp.Anonymous) and node.name.lower() == "make_interval":
        return _read_make_interval(node, type_of)
    return None


def _read_make_interval(node: exp.Anonymous, type_of: TypeOf) -> CountedUnits | None:
    given = node.expressions
    name = given[0].this.name.lower() if len(given) == 1 and isinstance(given[0], exp.Kwarg) else ""
    if name not in _ARGUMENTS:
        return None
    return _count_units(given[0].expression, f"1 {_ARGUMENTS[name]}", type_of)


def _count_units(count: exp.Expr, text: str, type_of: TypeOf) -> CountedUnits | None:
    """None where Spark cannot add them: a fraction of units, or months and days at once."""
    if type_of(count) not in INTEGERS:
        return None
    parts = translate_parts(text)
    if not parts:
        raise Mistake(f"'{text}' is not an interval")
    months = [part for part in parts if part.endswith((" year", " month"))]
    if months and len(months) < len(parts):
        return None
    literal = interval_of(split_parts(" ".join(parts)))
    if isinstance(literal.value, int):
        return CountedUnits(count, literal.value, "MONTH")
    span = _span(literal)
    unit = next(unit for unit, length in _UNITS.items() if not span % length)
    return CountedUnits(count, span // _UNITS[unit], unit)


def _span(literal: Literal) -> dt.timedelta:
    assert isinstance(literal.value, dt.timedelta), f"no length: {literal}"
    return literal.value


# Parts of ages and differences


def extract_of_age(part: str, value: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A part of `age(later, earlier)` as a number with six digits after the point; None if the value is no age."""
    node = value.unnest()
    if not isinstance(node, exp.Anonymous) or node.name.lower() != "age":
        return None
    if len(node.expressions) not in (1, 2):
        raise Mistake(f'function "age" takes 1 or 2 arguments, not {len(node.expressions)}')
    later, earlier = node.expressions if len(node.expressions) == 2 else (exp.CurrentDate(), node.expressions[0])
    name = {"years": "year", "months": "month", "days": "day", "hours": "hour", "minutes": "minute"}.get(part, part)
    name = "second" if name == "seconds" else name
    if name not in ("year", "month", "day", "hour", "minute", "second", "epoch"):
        raise NotMaintained(
            f"expression: extract({part}) of an age", "parts are year, month, day, hour, minute, second"
        )
    times = (make_cast(time, "TIMESTAMP") for time in (later, earlier))
    return make_call("age_part", make_text(name), *times)


_LENGTHS = {
    "day": (86_400_000_000, None),
    "hour": (3_600_000_000, 86_400_000_000),
    "minute": (60_000_000, 3_600_000_000),
}


def extract_of_difference(part: str, value: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """The days, or the hours, minutes or seconds beside them, between two times; None if the value is none."""
    node = value.unnest()
    if not isinstance(node, exp.Sub) or part not in (*_LENGTHS, "second"):
        return None
    if {type_of(node.this), type_of(node.expression)} - {DATE, TIMESTAMP}:
        return None
    if type_of(node.this) == type_of(node.expression) == DATE:
        raise Mistake("the difference of two dates is a number of days, not an interval")
    later, earlier = (make_call("unix_micros", make_cast(time, "TIMESTAMP")) for time in (node.this, node.expression))
    micros: exp.Expr = mark(exp.Paren(this=mark(exp.Sub(this=later, expression=earlier))))
    if part == "second":
        rest = mark(exp.Mod(this=micros, expression=make_number(60_000_000)))
        exact = make_cast(mark(exp.Paren(this=rest)), "DECIMAL(19, 0)")
        return make_cast(mark(exp.Div(this=exact, expression=make_number(1_000_000))), "DECIMAL(10, 6)")
    length, within = _LENGTHS[part]
    if within is not None:
        micros = mark(exp.Paren(this=mark(exp.Mod(this=micros, expression=make_number(within)))))
    return mark(exp.IntDiv(this=micros, expression=make_number(length)))


# Infinity


_FAR = {"infinity": ("9999-12-31", "9999-12-31 23:59:59.999999"), "-infinity": ("0001-01-01", "0001-01-01 00:00:00")}


def names_infinity(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner, exp.Literal) and bool(inner.is_string) and inner.name.strip().lower() in _FAR


def read_infinity(node: exp.Expr, type_: object) -> exp.Expr | None:
    """`'infinity'` as the last date or time that there is, which is what capture makes of it."""
    inner = node.unnest()
    if not names_infinity(inner) or type_ not in (DATE, TIMESTAMP):
        return None
    found = _FAR[inner.name.strip().lower()]
    return make_cast(make_text(found[0] if type_ == DATE else found[1]), "DATE" if type_ == DATE else "TIMESTAMP")
