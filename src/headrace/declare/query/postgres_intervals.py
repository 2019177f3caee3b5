"""Intervals of PostgreSQL as values: columns of them, differences of times, ages, and what is computed with these.

Such a value is the text that PostgreSQL writes (`meaning/scalar_intervals.py`). A constant that is added to a time, and
a difference that is compared with one, stay what they are to Spark, too: a number of months, or a length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    make_call,
    make_cast,
    make_number,
    make_text,
    mark,
)
from headrace.declare.query.postgres_origins import find_origin_type, remember_origin_type
from headrace.declare.query.postgres_times import is_interval_cast, written_interval
from headrace.meaning.scalar_intervals import read_interval, write_interval
from headrace.model.errors import EvaluationError
from headrace.model.origin_types import OriginType
from headrace.model.types import DATE, DOUBLE, STRING, TIMESTAMP, Type, is_numeric

_TIMES = (DATE, TIMESTAMP)
_BRANCHING = ("coalesce", "nullif")
_UNITS = {
    "years": "1 year",
    "months": "1 mon",
    "weeks": "7 days",
    "days": "1 day",
    "hours": "01:00:00",
    "mins": "00:01:00",
    "secs": "00:00:01",
}
_PLACES = tuple(_UNITS)


def write_span(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """An interval as the text that PostgreSQL writes; None if the node is no interval."""
    inner = node.unnest()
    text = written_interval(inner)
    if text is not None:
        return make_text(_read_constant(text))
    made = _write_span(inner, type_of)
    if made is not None:
        remember_origin_type(made, OriginType.INTERVAL)
    return made


def _write_span(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    match node:
        case exp.Neg(this=inner):
            span = write_span(inner, type_of)
            return None if span is None else make_call("interval_times", span, make_number(-1))
        case exp.Mul() | exp.Div():
            return _write_scaled(node, type_of)
        case exp.Add() | exp.Sub():
            return _write_pair(node, type_of)
        case exp.Case():
            return _write_case(node, type_of)
        case exp.Cast() if is_interval_cast(node):
            inner = node.this.unnest()
            return write_span(inner, type_of) or make_call("interval_text", node.this)
        case exp.Anonymous() if not node.meta.get("spark"):
            return _write_call(node, type_of)
    return _take_text(node, type_of)


def _take_text(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """What is held as the text of an interval."""
    return node if find_origin_type(node, type_of) is OriginType.INTERVAL and type_of(node) == STRING else None


def _read_constant(text: str) -> str:
    try:
        return write_interval(read_interval(text))
    except EvaluationError as error:
        raise Mistake(str(error)) from None


def _write_scaled(node: exp.Mul | exp.Div, type_of: TypeOf) -> exp.Expr | None:
    sides = [(node.this, node.expression)]
    sides += [(node.expression, node.this)] if isinstance(node, exp.Mul) else []
    for span_node, factor in sides:
        span = write_span(span_node, type_of)
        if span is not None and is_numeric(type_of(factor)):
            name = "interval_times" if isinstance(node, exp.Mul) else "interval_divided"
            return make_call(name, span, _as_double(factor, type_of))
    return None


def _as_double(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return node if type_of(node) == DOUBLE else make_cast(mark(exp.Paren(this=node)), "DOUBLE")


def _write_pair(node: exp.Add | exp.Sub, type_of: TypeOf) -> exp.Expr | None:
    left, right = node.this, node.expression
    one, other = write_span(left, type_of), write_span(right, type_of)
    if one is not None and other is not None:
        return make_call("interval_sum" if isinstance(node, exp.Add) else "interval_difference", one, other)
    if one is not None or other is not None or isinstance(node, exp.Add):
        return None
    return subtract_times(left, right, type_of)


def subtract_times(left: exp.Expr, right: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """The interval between two times, or two times of day; None if they are none, or two dates."""
    if is_time_of_day(left, type_of) and is_time_of_day(right, type_of):
        return make_call("interval_between", clock_as_time(left), clock_as_time(right))
    types = (_find_time_type(left, right, type_of), _find_time_type(right, left, type_of))
    if not set(types) <= set(_TIMES) or types == (DATE, DATE):
        return None
    return make_call("interval_between", make_cast(left, "TIMESTAMP"), make_cast(right, "TIMESTAMP"))


def _find_time_type(node: exp.Expr, other: exp.Expr, type_of: TypeOf) -> Type:
    """A constant text beside a time is a time."""
    inner = node.unnest()
    return type_of(other) if isinstance(inner, exp.Literal) and inner.is_string else type_of(node)


def _write_case(node: exp.Case, type_of: TypeOf) -> exp.Expr | None:
    values = [branch.args["true"] for branch in node.args["ifs"]]
    default = node.args.get("default")
    written = _write_all([*values, *([] if default is None else [default])], type_of)
    if written is None:
        return None
    subject, made = node.this, []
    for branch, value in zip(node.args["ifs"], written, strict=False):
        condition = branch.this.copy()
        if subject is not None:
            condition = exp.EQ(this=subject.copy(), expression=condition)
        made.append(exp.If(this=condition, true=value))
    return mark(exp.Case(ifs=made, default=None if default is None else written[-1]))


def _write_all(nodes: Sequence[exp.Expr], type_of: TypeOf) -> list[exp.Expr] | None:
    """All as texts of intervals, NULL as itself; None if one of them is something else, or all are NULL."""
    if all(_is_unknown(node) for node in nodes):
        return None
    if any(write_span(node, type_of) is None for node in nodes if not _is_unknown(node)):
        return None
    return [found for node in nodes if (found := _write_compared(node, type_of)) is not None]


def _is_unknown(node: exp.Expr) -> bool:
    """A constant that takes the type of what it stands beside."""
    inner = node.unnest()
    return isinstance(inner, exp.Null) or (isinstance(inner, exp.Literal) and bool(inner.is_string))


def _write_call(node: exp.Anonymous, type_of: TypeOf) -> exp.Expr | None:
    name, arguments = node.name.lower(), list(node.expressions)
    if name in _BRANCHING:
        written = _write_all(arguments, type_of)
        if written is None:
            return None
        return make_call(name, *written) if name == "coalesce" else _leave_out_equal(*written)
    if name == "age":
        return _write_age(arguments)
    if name == "make_interval":
        return _build(arguments, type_of)
    if name in ("justify_hours", "justify_days", "justify_interval") and len(arguments) == 1:
        span = write_span(arguments[0], type_of)
        return None if span is None else make_call("interval_justified", make_text(name.partition("_")[2]), span)
    return _take_text(node, type_of)


def _leave_out_equal(value: exp.Expr, other: exp.Expr) -> exp.Expr:
    """`nullif` of intervals, which are equal where their lengths are."""
    one, two = (make_call("interval_order", side.copy()) for side in (value, other))
    is_equal = exp.If(this=mark(exp.EQ(this=one, expression=two)), true=exp.Null())
    return mark(exp.Case(ifs=[is_equal], default=value))


def _write_age(arguments: list[exp.Expr]) -> exp.Expr:
    if len(arguments) not in (1, 2):
        raise Mistake(f'function "age" takes 1 or 2 arguments, not {len(arguments)}')
    later, earlier = arguments if len(arguments) == 2 else (exp.CurrentDate(), arguments[0])
    return make_call("interval_age", *(make_cast(time, "TIMESTAMP") for time in (later, earlier)))


def _build(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """`make_interval(days => 1, hours => n)`, or all parts in their order."""
    made: exp.Expr = make_text("00:00:00")
    for place, argument in enumerate(arguments):
        name = argument.this.name.lower() if isinstance(argument, exp.Kwarg) else (*_PLACES, "")[min(place, 7)]
        value = argument.expression if isinstance(argument, exp.Kwarg) else argument
        if name not in _UNITS:
            hint = f"it has {', '.join(_UNITS)}: make_interval(days => n)"
            raise NotMaintained("function: make_interval", hint)
        part = make_call("interval_times", make_text(_UNITS[name]), _as_double(value, type_of))
        made = part if place == 0 else make_call("interval_sum", made, part)
    return made


# Where they stand


_TAKING = frozenset(
    """avg sum min max count lag lead first_value last_value nth_value array_agg max_by min_by any_value to_char concat
    concat_ws format json_build_object jsonb_build_object json_build_array jsonb_build_array to_json to_jsonb
    json_agg jsonb_agg string_agg""".split()
)
_PASSING = (exp.Paren, exp.Case, exp.If, exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.Window)


def stands_as_value(node: exp.Expr) -> bool:
    """Whether an interval is selected, aggregated or sorted by, rather than added to a time or compared."""
    inner, around = node, node.parent
    while around is not None:
        if isinstance(around, _PASSING) or (isinstance(around, exp.Anonymous) and around.name.lower() in _BRANCHING):
            if isinstance(around, exp.If) and inner is around.this:
                return False
            inner, around = around, around.parent
            continue
        if isinstance(around, exp.Anonymous):
            return around.name.lower() in _TAKING
        if isinstance(around, exp.Cast):
            return str(around.args["to"].this.name if isinstance(around.args["to"], exp.DataType) else "") in (
                "TEXT",
                "VARCHAR",
            )
        return isinstance(
            around, exp.Alias | exp.Select | exp.Ordered | exp.Order | exp.Group | exp.DPipe | exp.Distinct
        )
    return False


def as_value(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """The text of an interval where one stands as a value, or is none of Spark's; None for anything else."""
    if stands_as_value(node):
        return write_span(node, type_of)
    return write_span(node, type_of) if _has_names(node) and not is_plain(node, type_of) else None


def _has_names(node: exp.Expr) -> bool:
    """Whether it is more than constants, which Spark adds up as well."""
    return node.find(exp.Column, exp.Anonymous) is not None


# Times of day


def is_time_of_day(node: exp.Expr, type_of: TypeOf) -> bool:
    return find_origin_type(node, type_of) is OriginType.TIME and type_of(node) == STRING


def clock_as_time(node: exp.Expr) -> exp.Expr:
    """A time of day as one of the first of January 1970."""
    written = mark(exp.DPipe(this=make_text("1970-01-01 "), expression=mark(exp.Paren(this=node))))
    return make_cast(mark(exp.Paren(this=written)), "TIMESTAMP")


def clock_of_time(time: exp.Expr) -> exp.Expr:
    """What stands after the day."""
    made = make_call("substring", make_cast(time, "STRING"), make_number(12))
    remember_origin_type(made, OriginType.TIME)
    return made


# Sums and differences with times


def add_span(node: exp.Add | exp.Sub, type_of: TypeOf) -> exp.Expr | None:
    """A time, a date or a time of day plus or minus an interval that is no constant; None for anything else."""
    sides = [(node.this, node.expression)]
    sides += [(node.expression, node.this)] if isinstance(node, exp.Add) else []
    for time, written in sides:
        on_clock = is_time_of_day(time, type_of)
        if on_clock or written_interval(written) is None:
            is_computed = _has_names(written) or isinstance(written.unnest(), exp.Mul | exp.Div)
            is_time = on_clock or (is_computed and _may_be_time(time, type_of))
            span = write_span(written, type_of) if is_time else None
            if span is not None:
                name = "interval_added" if isinstance(node, exp.Add) else "interval_taken"
                moved = make_call(name, clock_as_time(time) if on_clock else make_cast(time, "TIMESTAMP"), span)
                return clock_of_time(moved) if on_clock else moved
        if isinstance(node, exp.Add) and is_time_of_day(written, type_of) and type_of(time) == DATE:
            joined = mark(exp.DPipe(this=make_cast(time, "STRING"), expression=make_text(" ")))
            joined = mark(exp.DPipe(this=joined, expression=mark(exp.Paren(this=written))))
            return make_cast(mark(exp.Paren(this=joined)), "TIMESTAMP")
    return None


def _may_be_time(node: exp.Expr, type_of: TypeOf) -> bool:
    return written_interval(node) is None and type_of(node) in _TIMES


# Comparisons


def compare_spans(sides: Sequence[exp.Expr], type_of: TypeOf) -> list[exp.Expr] | None:
    """Both sides as numbers in the order of intervals, or as times of day; None where the sides are no such values, or
    are what Spark compares as well.
    """
    if any(is_time_of_day(side, type_of) for side in sides):
        return [_read_clock(side) for side in sides]
    if all(is_plain(side, type_of) for side in sides):
        return None
    if not any(_is_span(side, type_of) for side in sides):
        return None
    written = [_write_compared(side, type_of) for side in sides]
    return None if None in written else [make_call("interval_order", one) for one in written if one is not None]


def _is_span(node: exp.Expr, type_of: TypeOf) -> bool:
    return find_origin_type(node, type_of) is OriginType.INTERVAL or _count_parts(node) > 0


def _write_compared(node: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """A constant text beside an interval is one, too."""
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        return make_text(_read_constant(inner.name))
    return inner if isinstance(inner, exp.Null) else write_span(node, type_of)


def _count_parts(node: exp.Expr) -> int:
    text = written_interval(node)
    return 0 if text is None else 1


def is_plain(node: exp.Expr, type_of: TypeOf) -> bool:
    """A length that Spark has, too: a constant without months, or the difference of two times."""
    inner = node.unnest()
    text = written_interval(inner)
    if text is not None:
        try:
            return read_interval(text).months == 0
        except EvaluationError:
            return False
    if isinstance(inner, exp.Sub):
        parts = (inner.this, inner.expression)
        if all(written_interval(part) is None for part in parts):
            is_span = any(find_origin_type(part, type_of) in (OriginType.INTERVAL, OriginType.TIME) for part in parts)
            return not is_span and {type_of(part) for part in parts} <= set(_TIMES)
    return False


def _read_clock(node: exp.Expr) -> exp.Expr:
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        return make_call("time_text", inner)
    return node


def _call_span(name: str) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        made = write_span(exp.Anonymous(this=name, expressions=arguments), type_of)
        if made is None:
            raise Mistake(f'function "{name}" takes an interval')
        return made

    return convert


INTERVAL_CALLS: Mapping[str, ConvertCall] = {
    name: _call_span(name) for name in ("age", "make_interval", "justify_hours", "justify_days", "justify_interval")
}
"""By the name that is written, in lower case."""
