"""PostgreSQL's casts in Spark's words, by the type that is cast to."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_intervals import clock_of_time, is_time_of_day, stands_as_value, write_span
from headrace.declare.query.postgres_json import (
    read_array,
)
from headrace.declare.query.postgres_nodes import (
    TypeOf,
    make_call,
    make_cast,
    make_number,
    make_text,
    mark,
)
from headrace.declare.query.postgres_numbers import WHOLE_DIGITS, exact_value
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_patterns import (
    translate_interval,
)
from headrace.declare.query.postgres_strings import write_text
from headrace.declare.query.postgres_times import (
    read_infinity,
)
from headrace.meaning.scalar_intervals import read_time_of_day
from headrace.meaning.scalar_postgres import read_uuid
from headrace.model.errors import EvaluationError
from headrace.model.origin_types import OriginType
from headrace.model.types import (
    DATE,
    FRACTIONS,
    INTEGERS,
    NULL,
    STRING,
    TIMESTAMP,
    Decimal,
)

_WIDE = "DECIMAL(38, 18)"


def convert_cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    to: exp.Expr = node.args["to"]
    kind = to.this.name if isinstance(to, exp.DataType) and isinstance(to.this, exp.DType) else ""
    convert = _CASTS.get(kind)
    return node if convert is None else convert(node, type_of)


def _cast_to_interval(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    if not isinstance(node.this.unnest(), exp.Literal) or stands_as_value(node):
        return write_span(node, type_of) or node
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return mark(exp.Interval(this=exp.Literal.string(translate_interval(node.this.name))))
    hint = "intervals are constants; days are added to a date as a number: day + k"
    raise NotMaintained("expression: cast to interval", hint)


def _cast_to_text(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    made = make_cast(write_text(node.this, type_of), "STRING")
    sizes = [param.this for param in node.args["to"].expressions]
    return make_call("left", made, *sizes) if sizes else made


def _cast_to_char(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    hint = "char(n) fills text with blanks, which comparisons ignore: use varchar(n) or text"
    raise NotMaintained("expression: cast to char(n)", hint)


def _cast_to_integer(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """Rounds, where Spark cuts: halves away from zero, but to the even number for double precision."""
    type_ = type_of(node.this)
    if isinstance(type_, Decimal):
        return mark(exp.Cast(this=make_call("round", node.this), to=node.args["to"]))
    if type_ in FRACTIONS:
        return mark(exp.Cast(this=make_call("rint", node.this), to=node.args["to"]))
    return node


def _cast_to_numeric(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    type_, sized = type_of(node.this), bool(node.args["to"].expressions)
    exact = exact_value(node.this, type_of)
    if sized:
        return mark(exp.Cast(this=exact, to=node.args["to"]))
    if type_ in FRACTIONS or isinstance(type_, Decimal):
        return exact
    if type_ in INTEGERS:
        return make_cast(exact, f"DECIMAL({WHOLE_DIGITS.get(type_, 3)}, 0)") if type_ in WHOLE_DIGITS else exact
    if type_ in (NULL, STRING):
        return make_cast(exact, _WIDE)
    hint = "say how many digits: numeric(18, 6)"
    raise NotMaintained("expression: cast to numeric without digits", hint)


def _cast_to_timestamp(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    sizes = [param.name for param in node.args["to"].expressions]
    digits = _read_digits(sizes)
    far = read_infinity(node.this, TIMESTAMP)
    if far is not None:
        return far
    if node.args["to"].this is exp.DType.TIMESTAMP and type_of(node.this) == STRING:
        return _round_time(make_cast(_drop_zone(node.this), "TIMESTAMP"), digits)
    return _round_time(make_cast(node.this, "TIMESTAMP"), digits)


def _read_digits(sizes: list[str]) -> int:
    """The digits of a second that are kept, which are never more than 6."""
    if not sizes:
        return 6
    if len(sizes) > 1 or not sizes[0].isdigit():
        raise Mistake("a timestamp has from 0 to 6 digits after the point", "timestamp(3)")
    return min(int(sizes[0]), 6)


_EPOCH = 946_684_800_000_000
"""Microseconds from 1970 to 2000, from where PostgreSQL counts: halves are rounded away from there."""


def _round_time(time: exp.Expr, digits: int) -> exp.Expr:
    if digits == 6:
        return time
    step = 10 ** (6 - digits)
    since = mark(exp.Paren(this=mark(exp.Sub(this=make_call("unix_micros", time), expression=make_number(_EPOCH)))))
    is_before = mark(exp.LT(this=since, expression=make_number(0)))
    halves = [exp.If(this=is_before, true=mark(exp.Neg(this=make_number(step // 2))))]
    half = mark(exp.Case(ifs=halves, default=make_number(step // 2)))
    moved = mark(exp.Paren(this=mark(exp.Add(this=since.copy(), expression=half))))
    steps = mark(exp.Paren(this=mark(exp.IntDiv(this=moved, expression=make_number(step)))))
    micros = mark(exp.Add(this=mark(exp.Mul(this=steps, expression=make_number(step))), expression=make_number(_EPOCH)))
    return make_call("timestamp_micros", micros)


_ZONE = r"(:[0-9]{2}(?:\.[0-9]+)?) ?(?:[A-Za-z][A-Za-z_/]*|[+-][0-9]{1,2}(?::?[0-9]{2}){0,2})$"


def _drop_zone(text: exp.Expr) -> exp.Expr:
    """A timestamp without time zone takes no notice of the zone in a text."""
    inner = text.unnest()
    if isinstance(inner, exp.Literal):
        return make_text(re.sub(_ZONE, r"\1", inner.name.strip()))
    return make_call("regexp_replace", text, make_text(_ZONE), make_text("$1"))


def _cast_to_date(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    return read_infinity(node.this, DATE) or node


def _cast_to_uuid(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    inner = node.this.unnest()
    if not (isinstance(inner, exp.Literal) and inner.is_string):
        return make_call("uuid_text", node.this)
    try:
        return make_text(read_uuid(inner.name))
    except EvaluationError as error:
        raise Mistake(str(error)) from None


def _cast_to_array(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """`'{1,2}'::int[]`."""
    inner, to = node.this.unnest(), node.args["to"]
    if not (isinstance(inner, exp.Literal) and inner.is_string):
        return node
    elements = read_array(inner.name)
    if not elements:
        return mark(exp.Cast(this=make_call("array"), to=to))
    casts = [exp.Cast(this=element, to=to.expressions[0].copy()) for element in elements]
    is_uuid = to.expressions[0].this is exp.DType.UUID
    return make_call("array", *(cast if is_uuid else mark(cast) for cast in casts))


def _cast_to_clock(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """The time of day of a time, or the one that a text says."""
    if node.args["to"].expressions:
        raise NotMaintained("expression: cast to time(n)", "write x::time, which has six digits after the point")
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        try:
            return make_text(read_time_of_day(inner.name))
        except EvaluationError as error:
            raise Mistake(str(error)) from None
    if is_time_of_day(node.this, type_of):
        return mark(exp.Paren(this=node.this))
    if type_of(node.this) == TIMESTAMP:
        return clock_of_time(node.this)
    if type_of(node.this) == STRING and find_origin_type(node.this, type_of) is not OriginType.INTERVAL:
        return make_call("time_text", node.this)
    raise NotMaintained("expression: cast to time", "a time or a text has a time of day")


def _refuse_cast(kind: str, hint: str) -> Callable[[exp.Cast, TypeOf], exp.Expr]:
    def convert(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
        raise NotMaintained(f"expression: cast to {kind}", hint)

    return convert


_TRUTHS = {
    **dict.fromkeys(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"), True),
    **dict.fromkeys(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"), False),
}


def _cast_to_boolean(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """PostgreSQL reads `on`, `off` and beginnings of words, too."""
    inner = node.this.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string:
        truth = _TRUTHS.get(inner.name.strip().lower())
        return node if truth is None else mark(exp.Boolean(this=truth))
    return node


def _cast_to_bytes(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """Bytes of a constant are written in hexadecimal digits after \\x."""
    inner = node.this.unnest()
    if not (isinstance(inner, exp.Literal) and inner.is_string and "\\" in inner.name):
        return node
    if not inner.name.startswith("\\x"):
        raise NotMaintained("expression: bytea with escapes", "write all bytes in hexadecimal digits: '\\x1F'::bytea")
    return mark(exp.HexString(this=inner.name[2:]))


_CASTS: Mapping[str, Callable[[exp.Cast, TypeOf], exp.Expr]] = {
    **dict.fromkeys(("TEXT", "VARCHAR", "NAME"), _cast_to_text),
    **dict.fromkeys(("CHAR", "NCHAR", "BPCHAR"), _cast_to_char),
    **dict.fromkeys(("SMALLINT", "INT", "BIGINT"), _cast_to_integer),
    "ARRAY": _cast_to_array,
    "DATE": _cast_to_date,
    "DECIMAL": _cast_to_numeric,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ"), _cast_to_timestamp),
    "INTERVAL": _cast_to_interval,
    "JSON": lambda node, type_of: mark(exp.Paren(this=node.this)),
    "JSONB": lambda node, type_of: make_call("jsonb", node.this),
    "BOOLEAN": _cast_to_boolean,
    "UUID": _cast_to_uuid,
    "VARBINARY": _cast_to_bytes,
    "BIT": _refuse_cast("bit", "use numbers, and their operators & and |"),
    "MONEY": _refuse_cast("money", "use numeric(18, 2)"),
    "TIME": _cast_to_clock,
    "TIMETZ": _refuse_cast("timetz", "use to_char(x, 'HH24:MI:SS'), or extract(hour FROM x)"),
}
