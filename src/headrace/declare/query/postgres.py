"""PostgreSQL's expressions in Spark's words, one node at a time.

A node becomes one that means in Spark what it means in PostgreSQL, whose parts are still PostgreSQL's. Where that
depends on types, `type_of` tells those of the parts; it reads a part, and remembers its type for whoever writes the
whole text out later. What has no exact counterpart is refused.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sqlglot import exp
from sqlglot.parsers.postgres import PostgresParser

from headrace.declare.query.aggregate_syntax import WrittenAggregate, called_function, read_written
from headrace.declare.query.calls import ALIASES, CASTS, REWRITES
from headrace.declare.query.known_functions import KNOWN
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_building import (
    BUILDING_CALLS,
    compare_json,
    delete_from_jsonb,
    join_json,
    refuse_sorting,
)
from headrace.declare.query.postgres_calls import CALLS, split_format
from headrace.declare.query.postgres_json import (
    NESTED_CALLS,
    NESTED_NODES,
    compare_with_elements,
    join_arrays,
    read_array,
)
from headrace.declare.query.postgres_nodes import IN_SPARK_WORDS, TypeOf
from headrace.declare.query.postgres_nodes import constant_text as _constant_text
from headrace.declare.query.postgres_nodes import make_call as _call
from headrace.declare.query.postgres_nodes import make_cast as _cast
from headrace.declare.query.postgres_nodes import make_number as _number
from headrace.declare.query.postgres_nodes import make_text as _text
from headrace.declare.query.postgres_nodes import mark as _mark
from headrace.declare.query.postgres_nodes import refuse_call as _refuse
from headrace.declare.query.postgres_nodes import take as _take
from headrace.declare.query.postgres_numbers import LEAST_SCALE, cut_digits, divide_numeric
from headrace.declare.query.postgres_numbers import WHOLE_DIGITS as _WHOLE_DIGITS
from headrace.declare.query.postgres_patterns import (
    count_groups,
    refuse_absent_group,
    refuse_ambiguous,
    translate_interval,
    translate_regex,
    translate_similar,
    translate_time_format,
)
from headrace.declare.query.postgres_times import (
    add_interval,
    extract_of_age,
    extract_of_difference,
    names_infinity,
    read_infinity,
)
from headrace.declare.query.postgres_zones import call_timezone, convert_zone, truncate_in_zone
from headrace.meaning.functions import FUNCTIONS
from headrace.meaning.scalar_postgres import read_uuid
from headrace.meaning.scalar_to_char import read_number_pattern, read_time_pattern
from headrace.model.errors import EvaluationError
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FRACTIONS,
    INTEGERS,
    INTERVALS,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
)

_WIDE = "DECIMAL(38, 18)"


def as_spark(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """The node in Spark's words; the node itself if they are the same."""
    if node.meta.get(IN_SPARK_WORDS):
        return node
    if isinstance(node, exp.Anonymous):
        return _convert_call(node, type_of)
    convert = _NODES.get(type(node))
    return node if convert is None else _at_place_of(node, convert(node, type_of))


def _at_place_of(node: exp.Expr, made: exp.Expr) -> exp.Expr:
    """What was made, standing where the node stands."""
    if made is not node:
        made.parent, made.arg_key = node.parent, node.arg_key
        if "start" in node.meta:
            made.meta.update({key: node.meta[key] for key in ("start", "end")})
    return made


# Arithmetic


def _divide(node: exp.Div, type_of: TypeOf) -> exp.Expr:
    """Integers are divided without rest."""
    left, right = type_of(node.this), type_of(node.expression)
    if left in INTEGERS and right in INTEGERS:
        return _mark(exp.IntDiv(this=node.this, expression=node.expression))
    return divide_numeric(node, type_of) or node


def _subtract(node: exp.Sub, type_of: TypeOf) -> exp.Expr:
    changed = delete_from_jsonb(node, type_of) or add_interval(node, type_of)
    if changed is not None:
        return changed
    left, right = type_of(node.this), type_of(node.expression)
    if left == right == DATE:
        return _call("datediff", node.this, node.expression)
    if left == DATE and right in INTERVALS:
        return _mark(exp.Sub(this=_cast(node.this, "TIMESTAMP"), expression=node.expression))
    return node


def _add(node: exp.Add, type_of: TypeOf) -> exp.Expr:
    """A date plus an interval is a timestamp, and text beside a timestamp is an interval."""
    changed = add_interval(node, type_of)
    if changed is not None:
        return changed
    left, right = type_of(node.this), type_of(node.expression)
    for time, text in ((left, node.expression), (right, node.this)):
        if time == TIMESTAMP and isinstance(text, exp.Literal) and text.is_string:
            other = node.this if text is node.expression else node.expression
            made = exp.Add(this=other, expression=exp.Interval(this=text))
            return add_interval(made, type_of) or _mark(made)
    if left == DATE and right in INTERVALS:
        return _mark(exp.Add(this=_cast(node.this, "TIMESTAMP"), expression=node.expression))
    if right == DATE and left in INTERVALS:
        return _mark(exp.Add(this=node.this, expression=_cast(node.expression, "TIMESTAMP")))
    if right == DATE and left in INTEGERS:
        return _mark(exp.Add(this=node.expression, expression=node.this))
    return node


def _raise_to_power(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    return _power(node.this, node.expression, type_of)


def _call_power(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    base, exponent = _take("power", arguments, 2)
    return _power(base, exponent, type_of)


def _power(base: exp.Expr, exponent: exp.Expr, type_of: TypeOf) -> exp.Expr:
    for part in (base, exponent):
        if isinstance(type_of(part), Decimal) and not isinstance(part.unnest(), exp.Literal):
            hint = "numeric powers have more digits than we keep: write x::double precision"
            raise NotMaintained("expression: power of numeric", hint)
    return _call("power", base, exponent)


# Text


def _join_texts(node: exp.DPipe, type_of: TypeOf) -> exp.Expr:
    joined = join_arrays(node, type_of) or join_json(node, type_of)
    if joined is not None:
        return joined
    for part in (node.this, node.expression):
        _refuse_as_text(type_of(part))
    return node


def _refuse_as_text(type_: Type) -> None:
    """Types whose text differs from PostgreSQL's."""
    if type_ in FRACTIONS:
        raise NotMaintained("expression: double precision as text", "round it: x::numeric(12, 2)::text")
    if type_ == TIMESTAMP:
        raise NotMaintained("expression: timestamp as text", "give its format: to_char(x, 'YYYY-MM-DD HH24:MI:SS')")
    if isinstance(type_, Decimal) and type_.scale >= LEAST_SCALE:
        hint = "how many digits are shown depends on the value: round it, round(x, 2)::text"
        raise NotMaintained("expression: numeric of computed digits as text", hint)
    if type_ == BINARY or isinstance(type_, Array) or type_ in INTERVALS:
        raise NotMaintained(f"expression: {type_} as text", "select its parts")


def _concatenate(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """NULL counts as no text, unlike in `||`."""
    return _call("concat", *(_call("coalesce", _as_text(argument, type_of), _text("")) for argument in arguments))


def _join_with(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    return _call("concat_ws", *(_as_text(argument, type_of) for argument in arguments))


def _as_text(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A value as `concat` and `concat_ws` write it: true is `t`."""
    type_ = type_of(node)
    _refuse_as_text(type_)
    if type_ == BOOLEAN:
        is_false = _mark(exp.Not(this=_mark(exp.Paren(this=node.copy()))))
        return _mark(exp.Case(ifs=[exp.If(this=node, true=_text("t")), exp.If(this=is_false, true=_text("f"))]))
    return _cast(node, "STRING")


def _match_regex(ignore_case: bool) -> Callable[[Any, TypeOf], exp.Expr]:
    def convert(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
        words = (
            "expression: ~* with a pattern that changes" if ignore_case else "expression: ~ with a pattern that changes"
        )
        pattern = _constant_text(node.expression, words)
        translated = _text(translate_regex(pattern, ignore_case=ignore_case))
        return _mark(exp.RegexpLike(this=node.this, expression=translated))

    return convert


def _match_similar(node: exp.SimilarTo, type_of: TypeOf) -> exp.Expr:
    pattern = _constant_text(node.expression, "expression: SIMILAR TO with a pattern that changes")
    return _mark(exp.RegexpLike(this=node.this, expression=_text(translate_similar(pattern))))


def _take_part(node: exp.Substring, type_of: TypeOf) -> exp.Expr:
    start, length = node.args.get("start"), node.args.get("length")
    if isinstance(start, exp.Literal) and start.is_string:
        if length is not None:
            raise NotMaintained("expression: substring with an escape", "use substring(x FROM 'regular expression')")
        return _extract_regex(node.this, start.name)
    return _substring(node.this, start, length)


def _extract_regex(text: exp.Expr, pattern: str) -> exp.Expr:
    """The first group, or the whole match if there is none; NULL without a match."""
    translated = translate_regex(pattern)
    if any(sign in pattern for sign in "*+?{|"):
        # Which of several matches is the longest depends on the whole pattern; Java takes the first alternative.
        refuse_ambiguous(pattern)
    groups = count_groups(pattern)
    refuse_absent_group(pattern)
    matched = _mark(exp.RegexpLike(this=text, expression=_text(translated)))
    found = _call("regexp_extract", text.copy(), _text(translated), _number(min(groups, 1)))
    return _mark(exp.Case(ifs=[exp.If(this=matched, true=found)]))


def _substring(text: exp.Expr, start: exp.Expr | None, length: exp.Expr | None) -> exp.Expr:
    """Places before the first count as characters that are not there."""
    if length is not None and not (isinstance(length, exp.Literal) and length.is_int):
        length = _at_least(length, 0)
    start = _number(1) if start is None else start
    if isinstance(start, exp.Literal) and start.is_int and int(start.name) >= 1:
        return _call("substring", text, start, *([] if length is None else [length]))
    first = _at_least(start, 1)
    if length is None:
        return _call("substring", text, first)
    end = _mark(exp.Add(this=_mark(exp.Paren(this=start.copy())), expression=_mark(exp.Paren(this=length))))
    return _call("substring", text, first, _at_least(_mark(exp.Sub(this=end, expression=first.copy())), 0))


def _at_least(value: exp.Expr, least: int) -> exp.Expr:
    """Not by `greatest`, which skips NULL."""
    value = _mark(exp.Paren(this=value))
    less = _mark(exp.LT(this=value.copy(), expression=_number(least)))
    return _mark(exp.Case(ifs=[exp.If(this=less, true=_number(least))], default=value))


def _call_substring(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) not in (2, 3):
        raise Mistake(f'function "substr" takes 2 or 3 arguments, not {len(arguments)}')
    return _substring(arguments[0], arguments[1], arguments[2] if len(arguments) == 3 else None)


def _take_end(name: str) -> Callable[[list[exp.Expr], TypeOf], exp.Expr]:
    """`left` and `right`: a negative number leaves so many characters out at the other end."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        text, count = _take(name, arguments, 2)
        if isinstance(count, exp.Literal) and count.is_int:
            return _call(name, text, count)
        rest = _mark(exp.Add(this=_call("length", text.copy()), expression=count.copy()))
        negative = _mark(exp.LT(this=count.copy(), expression=_number(0)))
        return _call(name, text, _mark(exp.Case(ifs=[exp.If(this=negative, true=rest)], default=count)))

    return convert


def _replace_regex(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) not in (3, 4):
        raise NotMaintained("function: regexp_replace", "write regexp_replace(text, pattern, replacement, 'g')")
    flags = (
        _constant_text(arguments[3], "function: regexp_replace with flags that change") if len(arguments) == 4 else ""
    )
    if set(flags) - {"g", "i"}:
        raise NotMaintained(f"function: regexp_replace with flags '{flags}'", "its flags are 'g' and 'gi'")
    pattern = _constant_text(arguments[1], "function: regexp_replace with a pattern that changes")
    refuse_ambiguous(pattern)
    written = _constant_text(arguments[2], "function: regexp_replace with a replacement that changes")
    java = translate_regex(pattern, ignore_case="i" in flags)
    if "g" in flags:
        return _call("regexp_replace", arguments[0], _text(java), _text(_translate_replacement(written)))
    # The whole text is matched, with as little as there can be before the first match.
    options, last = "(?i)" if "i" in flags else "", count_groups(pattern) + 3
    if last > 9:
        raise NotMaintained("function: regexp_replace with many groups", "use at most 6 groups")
    whole = f"{options}^([\\s\\S]*?)({java.removeprefix(options)})([\\s\\S]*)"
    made = f"$1{_translate_replacement(written, shift=2)}${last}"
    return _call("regexp_replace", arguments[0], _text(whole), _text(made))


def _translate_replacement(replacement: str, shift: int = 0) -> str:
    """`\\1` is `$1`, `\\&` is `$0`; `shift` groups stand before those of the pattern."""
    made, characters = [], iter(replacement)
    for character in characters:
        if character != "\\":
            made.append("\\$" if character == "$" else character)
            continue
        following = next(characters, "")
        if following.isdigit() or following == "&":
            made.append(f"${shift if following == '&' else int(following) + shift}")
        else:
            made.append("\\\\" if following == "\\" else following)
    return "".join(made)


# Casts


def _convert_cast(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    to: exp.Expr = node.args["to"]
    kind = to.this.name if isinstance(to, exp.DataType) and isinstance(to.this, exp.DType) else ""
    convert = _CASTS.get(kind)
    return node if convert is None else convert(node, type_of)


def _cast_to_interval(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    if isinstance(node.this, exp.Literal) and node.this.is_string:
        return _mark(exp.Interval(this=exp.Literal.string(translate_interval(node.this.name))))
    hint = "intervals are constants; days are added to a date as a number: day + k"
    raise NotMaintained("expression: cast to interval", hint)


def _cast_to_text(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    _refuse_as_text(type_of(node.this))
    made = _cast(node.this, "STRING")
    sizes = [param.this for param in node.args["to"].expressions]
    return _call("left", made, *sizes) if sizes else made


def _cast_to_char(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    hint = "char(n) fills text with blanks, which comparisons ignore: use varchar(n) or text"
    raise NotMaintained("expression: cast to char(n)", hint)


def _cast_to_integer(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """Rounds, where Spark cuts: halves away from zero, but to the even number for double precision."""
    type_ = type_of(node.this)
    if isinstance(type_, Decimal):
        return _mark(exp.Cast(this=_call("round", node.this), to=node.args["to"]))
    if type_ in FRACTIONS:
        return _mark(exp.Cast(this=_call("rint", node.this), to=node.args["to"]))
    return node


def _cast_to_numeric(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    type_, sized = type_of(node.this), bool(node.args["to"].expressions)
    exact = _exact(node.this, type_of)
    if sized:
        return _mark(exp.Cast(this=exact, to=node.args["to"]))
    if type_ in FRACTIONS or isinstance(type_, Decimal):
        return exact
    if type_ in INTEGERS:
        return _cast(exact, f"DECIMAL({_WHOLE_DIGITS.get(type_, 3)}, 0)") if type_ in _WHOLE_DIGITS else exact
    if type_ in (NULL, STRING):
        return _cast(exact, _WIDE)
    hint = "say how many digits: numeric(18, 6)"
    raise NotMaintained("expression: cast to numeric without digits", hint)


def _cast_to_timestamp(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    sizes = [param.name for param in node.args["to"].expressions]
    if sizes and sizes != ["6"]:
        hint = "round it: date_trunc('second', x + interval '0.5 second')"
        raise NotMaintained(f"expression: cast to timestamp({', '.join(sizes)})", hint)
    far = read_infinity(node.this, TIMESTAMP)
    if far is not None:
        return far
    if node.args["to"].this is exp.DType.TIMESTAMP and type_of(node.this) == STRING:
        return _cast(_drop_zone(node.this), "TIMESTAMP")
    return _cast(node.this, "TIMESTAMP")


_ZONE = r"(:[0-9]{2}(?:\.[0-9]+)?) ?(?:[A-Za-z][A-Za-z_/]*|[+-][0-9]{1,2}(?::?[0-9]{2}){0,2})$"


def _drop_zone(text: exp.Expr) -> exp.Expr:
    """A timestamp without time zone takes no notice of the zone in a text."""
    inner = text.unnest()
    if isinstance(inner, exp.Literal):
        return _text(re.sub(_ZONE, r"\1", inner.name.strip()))
    return _call("regexp_replace", text, _text(_ZONE), _text("$1"))


def _cast_to_date(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    return read_infinity(node.this, DATE) or node


def _cast_to_uuid(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    inner = node.this.unnest()
    if not (isinstance(inner, exp.Literal) and inner.is_string):
        return _call("uuid_text", node.this)
    try:
        return _text(read_uuid(inner.name))
    except EvaluationError as error:
        raise Mistake(str(error)) from None


def _cast_to_array(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """`'{1,2}'::int[]`."""
    inner, to = node.this.unnest(), node.args["to"]
    if not (isinstance(inner, exp.Literal) and inner.is_string):
        return node
    elements = read_array(inner.name)
    if not elements:
        return _mark(exp.Cast(this=_call("array"), to=to))
    casts = [exp.Cast(this=element, to=to.expressions[0].copy()) for element in elements]
    is_uuid = to.expressions[0].this is exp.DType.UUID
    return _call("array", *(cast if is_uuid else _mark(cast) for cast in casts))


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
        return node if truth is None else _mark(exp.Boolean(this=truth))
    return node


def _cast_to_bytes(node: exp.Cast, type_of: TypeOf) -> exp.Expr:
    """Bytes of a constant are written in hexadecimal digits after \\x."""
    inner = node.this.unnest()
    if not (isinstance(inner, exp.Literal) and inner.is_string and "\\" in inner.name):
        return node
    if not inner.name.startswith("\\x"):
        raise NotMaintained("expression: bytea with escapes", "write all bytes in hexadecimal digits: '\\x1F'::bytea")
    return _mark(exp.HexString(this=inner.name[2:]))


def _exact(value: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """Numeric of a floating-point number, by its first 15 digits; others as they are."""
    if type_of(value) == FLOAT:
        hint = "it has 6 digits: x::double precision::numeric keeps all, round(x::double precision::numeric, 2) fewer"
        raise NotMaintained("expression: real as numeric", hint)
    return _call("decimal15", value) if type_of(value) in FRACTIONS else value


_CASTS: Mapping[str, Callable[[exp.Cast, TypeOf], exp.Expr]] = {
    **dict.fromkeys(("TEXT", "VARCHAR", "NAME"), _cast_to_text),
    **dict.fromkeys(("CHAR", "NCHAR", "BPCHAR"), _cast_to_char),
    **dict.fromkeys(("SMALLINT", "INT", "BIGINT"), _cast_to_integer),
    "ARRAY": _cast_to_array,
    "DATE": _cast_to_date,
    "DECIMAL": _cast_to_numeric,
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMPTZ"), _cast_to_timestamp),
    "INTERVAL": _cast_to_interval,
    "JSON": lambda node, type_of: _mark(exp.Paren(this=node.this)),
    "JSONB": lambda node, type_of: _call("jsonb", node.this),
    "BOOLEAN": _cast_to_boolean,
    "UUID": _cast_to_uuid,
    "VARBINARY": _cast_to_bytes,
    "BIT": _refuse_cast("bit", "use numbers, and their operators & and |"),
    "MONEY": _refuse_cast("money", "use numeric(18, 2)"),
    "TIME": _refuse_cast("time", "use to_char(x, 'HH24:MI:SS'), or extract(hour FROM x)"),
    "TIMETZ": _refuse_cast("timetz", "use to_char(x, 'HH24:MI:SS'), or extract(hour FROM x)"),
}


# Times


def _convert_interval(node: exp.Interval, type_of: TypeOf) -> exp.Expr:
    if not isinstance(node.this, exp.Literal) or not node.this.is_string:
        return node
    unit = node.args.get("unit")
    if unit is None:
        return _mark(exp.Interval(this=exp.Literal.string(translate_interval(node.this.name))))
    if isinstance(unit, exp.IntervalSpan):
        return node
    return _mark(exp.Interval(this=exp.Literal.string(translate_interval(f"{node.this.name} {unit.name}"))))


def _convert_extract(node: exp.Extract, type_of: TypeOf) -> exp.Expr:
    return _extract(node.this.name.lower(), node.expression, type_of, "DECIMAL")


def _extract(part: str, value: exp.Expr, type_of: TypeOf, type_: str) -> exp.Expr:
    """The part as a number with a fraction, as PostgreSQL gives it: dividing it is no division of integers."""
    aged = extract_of_age(part, value, type_of)
    if aged is not None:
        return _cast(aged, type_) if type_ != "DECIMAL" else aged
    between = extract_of_difference(part, value, type_of)
    if between is not None:
        exact = "DECIMAL(10, 6)" if part == "second" else "DECIMAL(19, 0)"
        return _cast(between, exact if type_ == "DECIMAL" else type_)
    if part == "epoch":
        return _extract_epoch(value, type_of, type_)
    if part in ("second", "seconds"):
        seconds = _mark(exp.Mod(this=_cast(_cast(value, "TIMESTAMP"), "DECIMAL(20, 6)"), expression=_number(60)))
        return _cast(_call("pmod", seconds.this, _number(60)), "DECIMAL(8, 6)" if type_ == "DECIMAL" else type_)
    if part not in _PARTS:
        hint = f"parts are {', '.join(sorted(_PARTS))}, epoch and second"
        raise NotMaintained(f"function: extract({part})", hint)
    if type_of(value) in INTERVALS:
        raise NotMaintained(f"expression: extract({part}) of an interval", "use extract(epoch FROM later - earlier)")
    return _cast(_PARTS[part](value), "DECIMAL(10, 0)" if type_ == "DECIMAL" else type_)


def _extract_epoch(value: exp.Expr, type_of: TypeOf, type_: str) -> exp.Expr:
    """Seconds since 1970, or between two times."""
    exact = "DECIMAL(20, 6)" if type_ == "DECIMAL" else type_
    inner = value.unnest()
    if isinstance(inner, exp.Sub) and {type_of(inner.this), type_of(inner.expression)} <= {DATE, TIMESTAMP}:
        if type_of(inner.this) == type_of(inner.expression) == DATE:
            raise Mistake("the difference of two dates is a number of days, not an interval")
        later, earlier = (_cast(_cast(part, "TIMESTAMP"), "DECIMAL(20, 6)") for part in (inner.this, inner.expression))
        return _cast(_mark(exp.Paren(this=_mark(exp.Sub(this=later, expression=earlier)))), exact)
    if type_of(value) in INTERVALS:
        raise NotMaintained("expression: extract(epoch) of an interval", "use extract(epoch FROM later - earlier)")
    return _cast(_cast(_cast(value, "TIMESTAMP"), "DECIMAL(20, 6)"), exact)


def _minus_one(node: exp.Expr) -> exp.Expr:
    return _mark(exp.Sub(this=node, expression=_number(1)))


def _day_from_monday(value: exp.Expr) -> exp.Expr:
    shifted = _mark(exp.Add(this=_call("dayofweek", value), expression=_number(5)))
    rest = _mark(exp.Mod(this=_mark(exp.Paren(this=shifted)), expression=_number(7)))
    return _mark(exp.Add(this=rest, expression=_number(1)))


def _plus(node: exp.Expr, number: int) -> exp.Expr:
    return _mark(exp.Paren(this=_mark(exp.Add(this=node, expression=_number(number)))))


_PARTS: Mapping[str, Callable[[exp.Expr], exp.Expr]] = {
    **{
        name: (lambda value, name=name: _call(name, value))  # type: ignore[misc]
        for name in ("year", "quarter", "month", "day", "hour", "minute")
    },
    "dow": lambda value: _minus_one(_call("dayofweek", value)),
    "isodow": _day_from_monday,
    "century": lambda value: _mark(exp.IntDiv(this=_plus(_call("year", value), 99), expression=_number(100))),
    "decade": lambda value: _mark(exp.IntDiv(this=_call("year", value), expression=_number(10))),
    "doy": lambda value: _call("dayofyear", value),
    "isoyear": lambda value: _mark(exp.Extract(this=exp.var("YEAROFWEEK"), expression=value)),
    "week": lambda value: _call("weekofyear", value),
}


def _convert_date_part(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    part, value = _take("date_part", arguments, 2)
    return _extract(
        _constant_text(part, "function: date_part of a part that changes").lower(), value, type_of, "DOUBLE"
    )


def _format(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    value, pattern = _take("to_char", arguments, 2)
    type_, written = type_of(value), _constant_text(pattern, "function: to_char with a pattern that changes")
    if not written:
        return _cast(exp.Null(), "STRING")
    if type_ in (DATE, TIMESTAMP):
        return _format_time(value, written)
    if type_ in INTERVALS:
        raise NotMaintained("function: to_char of an interval", "take its parts: extract(day FROM later - earlier)")
    if type_ not in INTEGERS and not isinstance(type_, Decimal):
        raise NotMaintained("function: to_char of double precision", "make it numeric: to_char(x::numeric, '990.99')")
    read = read_number_pattern(written)
    if isinstance(read, str):
        hint = "its patterns are made of 9, 0, '.', ',', D, G, FM, S, MI, PR, TH and text in double quotes"
        raise NotMaintained(f'function: to_char of a number with "{read}"', hint)
    return _call("number_to_char", value, _text(written))


def _format_time(value: exp.Expr, written: str) -> exp.Expr:
    """The call of Spark's `date_format` where its patterns say the same, and of our own function elsewhere."""
    try:
        return _call("date_format", value, _text(translate_time_format(written)))
    except NotMaintained:
        read = read_time_pattern(written)
        if isinstance(read, str):
            hint = "its patterns are made of the parts that PostgreSQL lists, without zones, TM and FX"
            raise NotMaintained(f'function: to_char with "{read}"', hint) from None
        return _call("time_to_char", value, _text(written))


def _truncate_time(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) == 3:
        unit, value, zone = arguments
        return truncate_in_zone(unit, value, zone, type_of)
    unit, value = _take("date_trunc", arguments, 2)
    name = _constant_text(unit, "function: date_trunc to a unit that changes").lower()
    if name in ("decade", "century", "millennium"):
        hint = "truncate to the year, and keep (extract(year FROM x) / 10)::int beside it"
        raise NotMaintained(f"function: date_trunc to a {name}", hint)
    name = {"milliseconds": "millisecond", "microseconds": "microsecond"}.get(name, name)
    return _call("date_trunc", _text(name), value)


# Numbers


def _round(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """Halves away from zero; of double precision to the even number."""
    if len(arguments) == 1 and type_of(arguments[0]) in INTEGERS:
        return _cast(arguments[0], "DOUBLE")
    if len(arguments) == 1:
        return _call("rint", *arguments) if type_of(arguments[0]) in FRACTIONS else _call("round", *arguments)
    value, digits = _take("round", arguments, 2)
    exact = _exact(value, type_of)
    return _call("round", _cast(exact, "DECIMAL(20, 0)") if type_of(value) in INTEGERS else exact, digits)


def _round_whole(name: str) -> Callable[[list[exp.Expr], TypeOf], exp.Expr]:
    """`ceil` and `floor` stay in the type of their argument: dividing a double by them is no division of integers."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        (value,) = _take(name, arguments, 1)
        made = _call(name, value)
        type_ = type_of(value)
        return _cast(made, "DOUBLE") if type_ in FRACTIONS or type_ in INTEGERS else made

    return convert


def _truncate(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) == 2:
        return cut_digits(arguments[0], arguments[1], type_of)
    (value,) = _take("trunc", arguments, 1)
    if type_of(value) in INTEGERS:
        return _cast(value, "DOUBLE")
    negative = _mark(exp.LT(this=value.copy(), expression=_number(0)))
    up, down = _call("ceil", value.copy()), _call("floor", value)
    made = _mark(exp.Case(ifs=[exp.If(this=negative, true=up)], default=down))
    return _cast(made, "DOUBLE") if type_of(value) in FRACTIONS else made


def _sum(arguments: list[exp.Expr], type_of: TypeOf) -> list[exp.Expr]:
    """Sums of bigint are numeric: dividing them is no division of integers. Those of real are rounded at each step, and
    depend on the order of rows.
    """
    if type_of(arguments[0]) == FLOAT:
        raise NotMaintained("aggregate: sum of real", "use sum(x::double precision)")
    return [_cast(arguments[0], "DECIMAL(19, 0)")] if type_of(arguments[0]) == BIGINT else arguments


def _average(arguments: list[exp.Expr], type_of: TypeOf) -> list[exp.Expr]:
    """Averages keep at least sixteen digits after the point."""
    type_ = type_of(arguments[0])
    whole = _WHOLE_DIGITS.get(type_) if type_ in INTEGERS else None
    if isinstance(type_, Decimal):
        whole = type_.precision - type_.scale
    if whole is None:
        return arguments
    scale = max(min(16, 34 - whole), type_.scale if isinstance(type_, Decimal) else 0)
    return [_cast(arguments[0], f"DECIMAL({min(whole + scale, 38)}, {scale})")]


AGGREGATES: Mapping[str, Callable[[list[exp.Expr], TypeOf], list[exp.Expr]]] = {"sum": _sum, "avg": _average}


# Calls


def _rename(name: str, *order: int) -> Callable[[list[exp.Expr], TypeOf], exp.Expr]:
    """Another name, and perhaps another order of the arguments."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        chosen = [arguments[position] for position in order] if len(order) == len(arguments) else arguments
        return _call(name, *chosen)

    return convert


def _logarithm(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) == 2:
        raise NotMaintained("function: log with a base", "divide two logarithms: ln(x) / ln(base)")
    return _call("log10", *arguments)


def _coalesce(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """Beside a date or a time 'infinity' is one, too."""
    if not any(map(names_infinity, arguments)):
        return _call("coalesce", *arguments)
    types = [type_of(one) for one in arguments if not names_infinity(one)]
    known = next((type_ for type_ in types if type_ in (DATE, TIMESTAMP)), None)
    return _call("coalesce", *(read_infinity(one, known) or one for one in arguments))


_FUNCTIONS: Mapping[str, Callable[[list[exp.Expr], TypeOf], exp.Expr]] = {
    **CALLS,
    **NESTED_CALLS,
    **BUILDING_CALLS,
    "age": _refuse(
        "age",
        "take a part, extract(year FROM age(later, earlier)), or compare the times: x < now() - interval '1 year'",
    ),
    "ceil": _round_whole("ceil"),
    "ceiling": _round_whole("ceil"),
    "clock_timestamp": _refuse("clock_timestamp", "use now()"),
    "coalesce": _coalesce,
    "concat": _concatenate,
    "concat_ws": _join_with,
    "date": lambda arguments, type_of: _cast(_take("date", arguments, 1)[0], "DATE"),
    "date_part": _convert_date_part,
    "date_trunc": _truncate_time,
    "floor": _round_whole("floor"),
    "format": lambda arguments, type_of: _concatenate(split_format(arguments), type_of),
    "initcap": _rename("capitalise_words"),
    "left": _take_end("left"),
    "log": _logarithm,
    "mz_now": _rename("now"),
    "pow": _call_power,
    "power": _call_power,
    "regexp_replace": _replace_regex,
    "right": _take_end("right"),
    "round": _round,
    "statement_timestamp": _rename("now"),
    "starts_with": _rename("startswith"),
    "strpos": _rename("locate", 1, 0),
    "substr": _call_substring,
    "timezone": call_timezone,
    "to_char": _format,
    "transaction_timestamp": _rename("now"),
    "trunc": _truncate,
}

_SAME_AS_SPARK = KNOWN | {*FUNCTIONS, *ALIASES, *CASTS, *REWRITES}
_ONLY_POSTGRES = frozenset(name.lower() for name in PostgresParser.FUNCTIONS) | frozenset(
    """array_position array_remove array_to_string array_upper convert_from convert_to date_bin encode format
    gen_random_uuid isfinite json_agg json_array_elements json_build_array json_build_object json_each json_object_agg
    jsonb_agg jsonb_array_elements jsonb_build_array jsonb_build_object jsonb_each jsonb_object_agg jsonb_set
    jsonb_typeof justify_days justify_hours justify_interval num_nonnulls num_nulls pg_sleep quote_ident quote_literal
    regexp_match regexp_matches regexp_split_to_array regexp_split_to_table row row_to_json scale setseed
    string_to_array string_to_table timeofday to_json to_jsonb to_regclass to_tsquery to_tsvector txid_current
    width_bucket""".split()
)


def _convert_call(node: exp.Anonymous, type_of: TypeOf) -> exp.Expr:
    name = node.name.lower()
    if name in _FUNCTIONS:
        return _at_place_of(node, _FUNCTIONS[name](list(node.expressions), type_of))
    if name in _ONLY_POSTGRES and name not in _SAME_AS_SPARK:
        raise NotMaintained(f"function: {name}", "docs/sql.md lists the functions that are maintained")
    return node


def convert_arguments(written: WrittenAggregate, type_of: TypeOf) -> WrittenAggregate:
    """An aggregate with its arguments in the types by which Spark computes what PostgreSQL does."""
    for argument in written.arguments if written.distinct else ():
        refuse_sorting(argument, "DISTINCT of")
    if written.function == "array_agg":
        return replace(written, nulls=True)
    if written.function == "percentile_disc" and len(written.order) == 1:
        type_of(written.order[0].this)  # which is the type of the result; the tree remembers it
    convert = AGGREGATES.get(written.function)
    if convert is None or len(written.arguments) != 1 or isinstance(written.arguments[0], exp.Star):
        return written
    return replace(written, arguments=tuple(convert(list(written.arguments), type_of)))


def convert_aggregate(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """An aggregate as a node, with its arguments in these types, to write it out."""
    name, arguments = node.name.lower(), list(node.expressions)
    if isinstance(node, exp.Anonymous) and name == "string_agg" and isinstance(arguments[-1], exp.Order):
        call, order = _call(name, *arguments[:-1], arguments[-1].this), exp.Order(expressions=arguments[-1].expressions)
        return _at_place_of(node, _mark(exp.WithinGroup(this=call, expression=order)))
    if isinstance(node, exp.Anonymous) and name == "array_agg":
        raise NotMaintained("aggregate: array_agg", "use string_agg(x::text, ',' ORDER BY x)")
    if isinstance(node, exp.Anonymous) and name == "grouping" and len(arguments) > 1:
        return _at_place_of(node, _cast(_call("grouping_id", *arguments), "INT"))
    if isinstance(node, exp.Filter | exp.WithinGroup) and called_function(node) == "percentile_disc":
        return _keep_type(node, type_of)
    if not isinstance(node, exp.Anonymous) or name not in AGGREGATES or len(arguments) != 1:
        return node
    if node.meta.get(IN_SPARK_WORDS) or isinstance(arguments[0], exp.Star):
        return node
    distinct = isinstance(arguments[0], exp.Distinct)
    inner = list(arguments[0].expressions) if distinct else arguments
    made = AGGREGATES[name](inner, type_of)
    if made is inner:
        return node
    new = _call(name, *([exp.Distinct(expressions=made)] if distinct else made))
    return _at_place_of(node, new)


def _keep_type(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`percentile_disc` is a value of the column, in its type; Spark's is always a double."""
    (key,) = read_written(node).order
    if node.meta.get(IN_SPARK_WORDS) or type_of(key.this) == DOUBLE:
        return node
    for inner in (node, node.this):
        _mark(inner)
    return _at_place_of(node, _cast(node, str(type_of(key.this))))


# Conditions


def _compare_any(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    """`x = ANY (ARRAY[...])` and `x <> ALL (ARRAY[...])` are IN and NOT IN."""
    word, options = _find_options(node.expression)
    elements = None if word else compare_with_elements(node, type_of)
    if elements is not None:
        return elements
    known = None if word else _compare_infinity(node, type_of) or compare_json(node, type_of)
    if known is not None:
        return known
    member = _mark(exp.In(this=node.this, expressions=options)) if word else node
    if isinstance(node, exp.EQ) and word == "any":
        return member
    if isinstance(node, exp.NEQ) and word == "all":
        return _mark(exp.Not(this=member))
    return node


def _compare_json(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    return _compare_infinity(node, type_of) or compare_json(node, type_of) or node


def _compare_infinity(node: exp.Binary, type_of: TypeOf) -> exp.Expr | None:
    """A comparison with 'infinity' of a date or a time; None without it."""
    for far, other in ((node.this, node.expression), (node.expression, node.this)):
        found = read_infinity(far, type_of(other)) if names_infinity(far) else None
        if found is not None:
            left, right = (found, other) if far is node.this else (other, found)
            return _mark(type(node)(this=left, expression=right))
    return None


def _find_options(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """`any` or `all`, and the elements of the array after it; nothing if there is no array."""
    word, inner = "", node
    if isinstance(node, exp.Any | exp.All):
        word, inner = ("any" if isinstance(node, exp.Any) else "all"), node.this.unnest()
    elif isinstance(node, exp.Anonymous) and node.name.lower() in ("any", "some", "all") and len(node.expressions) == 1:
        word, inner = ("all" if node.name.lower() == "all" else "any"), node.expressions[0].unnest()
    if word and isinstance(inner, exp.Literal) and inner.is_string:
        return word, [*read_array(inner.name)] or [exp.Null()]
    return (word, inner.expressions) if word and isinstance(inner, exp.Array) else ("", [])


def _like_any(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
    word, options = _find_options(node.expression)
    if not word or node.args.get("negate"):
        return node
    parts = [type(node)(this=node.this.copy(), expression=pattern) for pattern in options]
    joined = exp.or_(*parts, copy=False) if word == "any" else exp.and_(*parts, copy=False)
    return _mark(exp.Paren(this=joined))


def _between(node: exp.Between, type_of: TypeOf) -> exp.Expr:
    if not node.args.get("symmetric"):
        bounds = (node.args["low"], node.args["high"])
        if not any(map(names_infinity, (node.this, *bounds))):
            return node
        type_of(node.this)  # which the tree remembers for its copies
        pairs = zip((exp.GTE, exp.LTE), bounds, strict=True)
        return _mark(exp.Paren(this=exp.and_(*(kind(this=node.this.copy(), expression=b) for kind, b in pairs))))
    # Not by `least` and `greatest`, which skip a bound that is NULL.
    low, high = node.args["low"], node.args["high"]
    one = exp.Between(this=node.this, low=low, high=high)
    other = exp.Between(this=node.this.copy(), low=high.copy(), high=low.copy())
    return _mark(exp.Paren(this=_mark(exp.Or(this=one, expression=other))))


def _plain_number(node: exp.Literal, type_of: TypeOf) -> exp.Expr:
    """`1e3` is numeric."""
    if node.is_string or "e" not in node.name.lower():
        return node
    digits = f"{decimal.Decimal(node.name):f}"
    return _mark(exp.Literal(this=digits if "." in digits else f"{digits}.", is_string=False))


def _collate(node: exp.Collate, type_of: TypeOf) -> exp.Expr:
    """Text is compared by its characters, as in the collation C."""
    if node.expression.name.upper() not in ("C", "POSIX"):
        raise NotMaintained(f'expression: COLLATE "{node.expression.name}"', 'text is compared as in COLLATE "C"')
    return _mark(exp.Paren(this=node.this))


def _refuse_bits(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    raise NotMaintained("expression: bit string", "bytes are written '\\x1F'::bytea")


_NODES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], exp.Expr]] = {
    **NESTED_NODES,
    exp.Add: _add,
    exp.AtTimeZone: convert_zone,
    exp.Between: _between,
    exp.BitwiseLeftShift: lambda node, type_of: _call("shiftleft", node.this, node.expression),
    exp.BitwiseRightShift: lambda node, type_of: _call("shiftright", node.this, node.expression),
    exp.BitString: _refuse_bits,
    exp.ByteString: lambda node, type_of: _text(node.name),
    exp.Cast: _convert_cast,
    exp.Collate: _collate,
    exp.DPipe: _join_texts,
    exp.Div: _divide,
    exp.EQ: _compare_any,
    **dict.fromkeys((exp.LT, exp.LTE, exp.GT, exp.GTE), _compare_any),
    exp.Extract: _convert_extract,
    exp.HexString: _refuse_bits,
    exp.ILike: _like_any,
    exp.Interval: _convert_interval,
    exp.Like: _like_any,
    exp.Literal: _plain_number,
    exp.Localtimestamp: lambda node, type_of: _mark(exp.CurrentTimestamp()),
    exp.NEQ: _compare_any,
    exp.NullSafeEQ: _compare_json,
    exp.NullSafeNEQ: _compare_json,
    exp.Pow: _raise_to_power,
    exp.RegexpILike: _match_regex(True),
    exp.RegexpLike: _match_regex(False),
    exp.SimilarTo: _match_similar,
    exp.Sqrt: lambda node, type_of: _call("sqrt", node.this),
    exp.StrPosition: lambda node, type_of: _call("locate", node.args["substr"], node.this),
    exp.Sub: _subtract,
    exp.Substring: _take_part,
}
