"""Parts of times, times as text, and times cut off at a unit, as PostgreSQL has them, in Spark's words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_intervals import (
    as_value,
    clock_as_time,
    is_plain,
    is_time_of_day,
    stands_as_value,
    write_span,
)
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    constant_text,
    make_call,
    make_cast,
    make_number,
    make_text,
    mark,
    take,
)
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_patterns import (
    translate_interval,
    translate_time_format,
)
from headrace.declare.query.postgres_times import (
    extract_of_age,
    extract_of_difference,
)
from headrace.declare.query.postgres_zones import truncate_in_zone
from headrace.meaning.scalar_to_char import read_number_pattern, read_time_pattern
from headrace.model.origin_types import OriginType
from headrace.model.types import (
    DATE,
    INTEGERS,
    INTERVALS,
    TIMESTAMP,
    Decimal,
)


def _convert_interval(node: exp.Interval, type_of: TypeOf) -> exp.Expr:
    if not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return node
    written = as_value(node, type_of) if stands_as_value(node) else None
    if written is not None:
        return written
    unit = node.args.get("unit")
    if unit is None:
        return mark(exp.Interval(this=exp.Literal.string(translate_interval(node.this.name))))
    if isinstance(unit, exp.IntervalSpan):
        return node
    return mark(exp.Interval(this=exp.Literal.string(translate_interval(f"{node.this.name} {unit.name}"))))


def _convert_extract(node: exp.Extract, type_of: TypeOf) -> exp.Expr:
    return _extract(node.this.name.lower(), node.expression, type_of, "DECIMAL")


def _extract(part: str, value: exp.Expr, type_of: TypeOf, type_: str) -> exp.Expr:
    """The part as a number with a fraction, as PostgreSQL gives it: dividing it is no division of integers."""
    aged = extract_of_age(part, value, type_of)
    if aged is not None:
        return make_cast(aged, type_) if type_ != "DECIMAL" else aged
    between = extract_of_difference(part, value, type_of)
    if between is not None:
        exact = "DECIMAL(10, 6)" if part == "second" else "DECIMAL(19, 0)"
        return make_cast(between, exact if type_ == "DECIMAL" else type_)
    in_spark = part == "epoch" and isinstance(value.unnest(), exp.Sub) and is_plain(value, type_of)
    span = None if in_spark else write_span(value, type_of)
    if span is not None:
        return _extract_of_span(part, span, type_)
    if is_time_of_day(value, type_of):
        value = clock_as_time(value)
        type_of(value)
    if part == "epoch":
        return _extract_epoch(value, type_of, type_)
    if part in ("second", "seconds"):
        rest = make_call("pmod", make_cast(make_cast(value, "TIMESTAMP"), "DECIMAL(20, 6)"), make_number(60))
        return make_cast(rest, "DECIMAL(8, 6)" if type_ == "DECIMAL" else type_)
    if part in _OF_SECONDS:
        times = make_number(_OF_SECONDS[part])
        seconds = mark(exp.Paren(this=_extract("second", value, type_of, "DECIMAL")))
        return make_cast(
            mark(exp.Mul(this=seconds, expression=times)), "DECIMAL(14, 6)" if type_ == "DECIMAL" else type_
        )
    if part not in _PARTS:
        hint = f"parts are {', '.join(sorted(_PARTS))}, epoch and second"
        raise NotMaintained(f"function: extract({part})", hint)
    if type_of(value) in INTERVALS:
        raise NotMaintained(f"expression: extract({part}) of an interval", "use extract(epoch FROM later - earlier)")
    return make_cast(_PARTS[part](value), "DECIMAL(10, 0)" if type_ == "DECIMAL" else type_)


def _extract_of_span(part: str, span: exp.Expr, type_: str) -> exp.Expr:
    """A part of an interval, whose hours are those beside its days."""
    name = part.removesuffix("s") if part not in _OF_SECONDS else part
    if name in _OF_SECONDS:
        seconds = make_call("interval_part", make_text("second"), span)
        times = make_number(_OF_SECONDS[name])
        made = mark(exp.Mul(this=mark(exp.Paren(this=seconds)), expression=times))
        return make_cast(made, "DECIMAL(20, 6)" if type_ == "DECIMAL" else type_)
    if name not in ("millennium", "century", "decade", "year", "month", "day", "hour", "minute", "second", "epoch"):
        hint = "parts are year, month, day, hour, minute, second and epoch"
        raise NotMaintained(f"expression: extract({part}) of an interval", hint)
    made = make_call("interval_part", make_text(name), span)
    return made if type_ == "DECIMAL" else make_cast(made, type_)


def _extract_epoch(value: exp.Expr, type_of: TypeOf, type_: str) -> exp.Expr:
    """Seconds since 1970, or between two times."""
    exact = "DECIMAL(20, 6)" if type_ == "DECIMAL" else type_
    inner = value.unnest()
    if isinstance(inner, exp.Sub) and {type_of(inner.this), type_of(inner.expression)} <= {DATE, TIMESTAMP}:
        if type_of(inner.this) == type_of(inner.expression) == DATE:
            raise Mistake("the difference of two dates is a number of days, not an interval")
        later, earlier = (
            make_cast(make_cast(part, "TIMESTAMP"), "DECIMAL(20, 6)") for part in (inner.this, inner.expression)
        )
        return make_cast(mark(exp.Paren(this=mark(exp.Sub(this=later, expression=earlier)))), exact)
    if type_of(value) in INTERVALS:
        raise NotMaintained("expression: extract(epoch) of an interval", "use extract(epoch FROM later - earlier)")
    return make_cast(make_cast(make_cast(value, "TIMESTAMP"), "DECIMAL(20, 6)"), exact)


def _minus_one(node: exp.Expr) -> exp.Expr:
    return mark(exp.Sub(this=node, expression=make_number(1)))


def _day_from_monday(value: exp.Expr) -> exp.Expr:
    shifted = mark(exp.Add(this=make_call("dayofweek", value), expression=make_number(5)))
    rest = mark(exp.Mod(this=mark(exp.Paren(this=shifted)), expression=make_number(7)))
    return mark(exp.Add(this=rest, expression=make_number(1)))


def _plus(node: exp.Expr, number: int) -> exp.Expr:
    return mark(exp.Paren(this=mark(exp.Add(this=node, expression=make_number(number)))))


_OF_SECONDS = {
    **dict.fromkeys(("millisecond", "milliseconds", "ms", "msec"), 1_000),
    **dict.fromkeys(("microsecond", "microseconds", "us"), 1_000_000),
}
_PARTS: Mapping[str, Callable[[exp.Expr], exp.Expr]] = {
    **{
        name: (lambda value, name=name: make_call(name, value))  # type: ignore[misc]
        for name in ("year", "quarter", "month", "day", "hour", "minute")
    },
    "dow": lambda value: _minus_one(make_call("dayofweek", value)),
    "isodow": _day_from_monday,
    "century": lambda value: mark(exp.IntDiv(this=_plus(make_call("year", value), 99), expression=make_number(100))),
    "decade": lambda value: mark(exp.IntDiv(this=make_call("year", value), expression=make_number(10))),
    "doy": lambda value: make_call("dayofyear", value),
    "isoyear": lambda value: mark(exp.Extract(this=exp.var("YEAROFWEEK"), expression=value)),
    "week": lambda value: make_call("weekofyear", value),
}


def _convert_date_part(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    part, value = take("date_part", arguments, 2)
    return _extract(constant_text(part, "function: date_part of a part that changes").lower(), value, type_of, "DOUBLE")


def _format(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    value, pattern = take("to_char", arguments, 2)
    if is_time_of_day(value, type_of):
        value = clock_as_time(value)
    type_, written = type_of(value), constant_text(pattern, "function: to_char with a pattern that changes")
    if not written:
        return make_cast(exp.Null(), "STRING")
    if type_ in (DATE, TIMESTAMP):
        return _format_time(value, written)
    if type_ in INTERVALS or find_origin_type(value, type_of) is OriginType.INTERVAL:
        raise NotMaintained("function: to_char of an interval", "write x::text, or take parts: extract(day FROM x)")
    if type_ not in INTEGERS and not isinstance(type_, Decimal):
        raise NotMaintained("function: to_char of double precision", "make it numeric: to_char(x::numeric, '990.99')")
    read = read_number_pattern(written)
    if isinstance(read, str):
        hint = "its patterns are made of 9, 0, '.', ',', D, G, FM, S, MI, PR, TH and text in double quotes"
        raise NotMaintained(f'function: to_char of a number with "{read}"', hint)
    return make_call("number_to_char", value, make_text(written))


def _format_time(value: exp.Expr, written: str) -> exp.Expr:
    """The call of Spark's `date_format` where its patterns say the same, and of our own function elsewhere."""
    try:
        return make_call("date_format", value, make_text(translate_time_format(written)))
    except NotMaintained:
        read = read_time_pattern(written)
        if isinstance(read, str):
            hint = "its patterns are made of the parts that PostgreSQL lists, without zones, TM and FX"
            raise NotMaintained(f'function: to_char with "{read}"', hint) from None
        return make_call("time_to_char", value, make_text(written))


def _truncate_time(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    zone = arguments[2] if len(arguments) == 3 else None
    unit, value = take("date_trunc", arguments[:2] if zone is not None else arguments, 2)
    if write_span(value, type_of) is not None:
        raise NotMaintained("function: date_trunc of an interval", "take its parts: extract(hour FROM x)")
    name = constant_text(unit, "function: date_trunc to a unit that changes").lower()
    if name in ("decade", "century", "millennium"):
        hint = "truncate to the year, and keep (extract(year FROM x) / 10)::int beside it"
        raise NotMaintained(f"function: date_trunc to a {name}", hint)
    name = {"milliseconds": "millisecond", "microseconds": "microsecond"}.get(name, name)
    return make_call("date_trunc", make_text(name), value) if zone is None else truncate_in_zone(name, value, zone)


TIME_CALLS: Mapping[str, ConvertCall] = {
    "date_part": _convert_date_part,
    "date_trunc": _truncate_time,
    "to_char": _format,
}

TIME_NODES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], exp.Expr]] = {
    exp.Extract: _convert_extract,
    exp.Interval: _convert_interval,
    exp.Localtimestamp: lambda node, type_of: mark(exp.CurrentTimestamp()),
}
