"""Functions that PostgreSQL and Spark name differently, or that mean something else in each.

Those of text, numbers, times and JSON stand beside the operators for them: `postgres_strings.py` and its neighbours.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping

from sqlglot import exp

from headrace.declare.query.literals import duration
from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    constant_text,
    make_call,
    make_cast,
    make_number,
    make_text,
    mark,
    refuse_call,
    take,
)
from headrace.declare.query.postgres_patterns import (
    refuse_ambiguous,
    translate_interval,
    translate_regex,
    translate_time_format,
)
from headrace.model.types import BIGINT, DATE, FRACTIONS, INTEGERS

_CODES = range(1, 128)


def _trim(side: str) -> ConvertCall:
    """The characters come second, where Spark has them first."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        if len(arguments) not in (1, 2):
            raise Mistake(f"trimming takes a text and characters, not {len(arguments)} arguments")
        text, *rest = arguments
        return mark(exp.Trim(this=text, expression=rest[0] if rest else None, position=side))

    return convert


def _encode(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    data, form = take("encode", arguments, 2)
    match constant_text(form, "function: encode in a form that changes").lower():
        case "hex":
            return make_call("lower", make_call("hex", data))
        case "base64":
            return make_call("replace", make_call("base64", data), make_text("\r\n"), make_text("\n"))
        case other:
            raise NotMaintained(f"function: encode as '{other}'", "forms are 'hex' and 'base64'")


def _character(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    (code,) = take("chr", arguments, 1)
    if not (isinstance(code, exp.Literal) and code.is_int and int(code.name) in _CODES):
        raise NotMaintained("function: chr of a number that changes", "write the character itself, or E'\\n'")
    return make_call("char", code)


def _hexadecimal(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """Numbers of 32 bits have at most 8 digits; Spark's are those of 64 bits."""
    (number,) = take("to_hex", arguments, 1)
    digits = make_call("lower", make_call("hex", number))
    return digits if type_of(number) == BIGINT else make_call("right", digits, make_number(8))


def _digest(bits: int) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        (data,) = take(f"sha{bits}", arguments, 1)
        return make_call("unhex", make_call("sha2", data, make_number(bits)))

    return convert


def _by_pattern(name: str, *, decides: bool = False) -> ConvertCall:
    """A function of text and a pattern. One that only `decides` does not depend on how much a pattern takes."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        if len(arguments) != 2:
            raise NotMaintained(f"function: {name} with more than a pattern", f"write {name}(text, pattern)")
        pattern = constant_text(arguments[1], f"function: {name} with a pattern that changes")
        if not decides:
            refuse_ambiguous(pattern)
        return make_call(name, arguments[0], make_text(translate_regex(pattern)))

    return convert


def _find_first(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """The first match, which may be empty; NULL without one."""
    text, written = take("regexp_substr", arguments, 2)
    pattern = constant_text(written, "function: regexp_substr with a pattern that changes")
    refuse_ambiguous(pattern)
    java = translate_regex(pattern)
    matched = mark(exp.RegexpLike(this=text, expression=make_text(java)))
    found = make_call("regexp_extract", text.copy(), make_text(java), make_number(0))
    return mark(exp.Case(ifs=[exp.If(this=matched, true=found)]))


def _cast_result(name: str, type_: str) -> ConvertCall:
    return lambda arguments, type_of: make_cast(make_call(name, *arguments), type_)


def _read_time(type_: str) -> ConvertCall:
    """`to_date` and `to_timestamp` by a pattern; of a number, seconds since 1970."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        if len(arguments) == 1 and type_ == "TIMESTAMP":
            return make_call("timestamp_seconds", arguments[0])
        text, written = take(f"to_{type_.lower()}", arguments, 2)
        pattern = constant_text(written, f"function: to_{type_.lower()} with a pattern that changes")
        java = re.sub(_PADDED, lambda found: found[0][:1], translate_time_format(pattern))
        return make_call(f"to_{type_.lower()}", text, make_text(java))

    return convert


_PADDED = r"(?<![A-Za-z])(?:dd|MM|HH|hh|mm|ss)(?![A-Za-z])"
"""Parts between other characters, which PostgreSQL also takes with fewer digits."""


def _bin_time(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """The last multiple of a stride since an origin."""
    stride, time, origin = take("date_bin", arguments, 3)
    written = stride.this if isinstance(stride, exp.Interval | exp.Cast) else stride
    hint = "write the stride as a constant: '15 minutes'"
    if not (isinstance(written, exp.Literal) and written.is_string):
        raise NotMaintained("function: date_bin by a stride that changes", hint)
    unit = stride.args.get("unit") if isinstance(stride, exp.Interval) else None
    span = duration(translate_interval(written.name if unit is None else f"{written.name} {unit.name}"))
    micros, since = (make_call("unix_micros", make_cast(part, "TIMESTAMP")) for part in (time, origin))
    distance = mark(exp.Sub(this=micros, expression=since))
    rest = make_call("pmod", distance, make_number(span // dt.timedelta(microseconds=1)))
    return make_call("timestamp_micros", mark(exp.Sub(this=micros.copy(), expression=rest)))


def _bucket_time(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """Timescale's: buckets of days and less begin at Monday, the 3rd of January 2000."""
    if len(arguments) != 2:
        hint = "write time_bucket('15 minutes', time), or date_bin('15 minutes', time, origin)"
        raise NotMaintained("function: time_bucket with an origin or a zone", hint)
    stride, time = arguments
    written = stride.this if isinstance(stride, exp.Interval | exp.Cast) else stride
    unit = re.fullmatch(r"\s*1\s+(month|year)s?\s*", written.name.lower())
    if unit is not None:
        made = make_call("date_trunc", make_text(unit[1]), time)
    else:
        made = _bin_time([stride, time, make_cast(make_text("2000-01-03"), "TIMESTAMP")], type_of)
    return make_cast(made, "DATE") if type_of(time) == DATE else made


def _find_bucket(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """`width_bucket(x, low, high, count)`."""
    value, low, high, count = take("width_bucket", arguments, 4)
    if any(type_of(part) in FRACTIONS for part in (value, low, high)):
        return make_call("width_bucket", value, low, high, count)
    if not _is_ascending(low, high):
        raise NotMaintained("function: width_bucket", "write low and high as numbers, the lower first")
    # Spark's quotient of decimals has more digits than a value needs to be told from the next bound.
    exact = make_cast(value, "DECIMAL(20, 0)") if type_of(value) in INTEGERS else value
    reach, width = (
        mark(exp.Paren(this=mark(exp.Sub(this=one, expression=low.copy()))))
        for one in (mark(exp.Paren(this=exact)), high)
    )
    share = mark(exp.Div(this=mark(exp.Mul(this=reach, expression=mark(exp.Paren(this=count)))), expression=width))
    place = make_cast(make_call("floor", share), "INT")
    below = exp.If(this=mark(exp.LT(this=value.copy(), expression=low.copy())), true=make_number(0))
    after = mark(exp.Add(this=mark(exp.Paren(this=count.copy())), expression=make_number(1)))
    above = exp.If(this=mark(exp.GTE(this=value.copy(), expression=high.copy())), true=after)
    return mark(exp.Case(ifs=[below, above], default=mark(exp.Add(this=place, expression=make_number(1)))))


def _is_ascending(low: exp.Expr, high: exp.Expr) -> bool:
    bounds = [one.unnest() for one in (low, high)]
    numbers = [float(one.sql()) for one in bounds if re.fullmatch(r"-? ?[0-9.]+", one.sql())]
    return len(numbers) == 2 and numbers[0] < numbers[1]


CALLS: Mapping[str, ConvertCall] = {
    "btrim": _trim("BOTH"),
    "char": refuse_call("char", "use chr(n), or write the character itself"),
    "chr": _character,
    "date_bin": _bin_time,
    "decode": refuse_call("decode", "store the bytes, or decode them where they are read"),
    "encode": _encode,
    "factorial": refuse_call("factorial", "it is numeric in PostgreSQL, of more digits than we keep"),
    "hex": refuse_call("hex", "use to_hex(x) of a number, or encode(x, 'hex') of bytes"),
    "ltrim": _trim("LEADING"),
    "regexp_count": _by_pattern("regexp_count"),
    "regexp_instr": _by_pattern("regexp_instr"),
    "regexp_like": _by_pattern("rlike", decides=True),
    "regexp_substr": _find_first,
    "rtrim": _trim("TRAILING"),
    "sha224": _digest(224),
    "sha256": _digest(256),
    "sha384": _digest(384),
    "sha512": _digest(512),
    "soundex": refuse_call("soundex", "PostgreSQL's and Spark's differ: keep the code in a column"),
    "to_number": refuse_call("to_number", "use CAST(x AS numeric), or replace(x, ',', '')::numeric"),
    "to_date": _read_time("DATE"),
    "to_hex": _hexadecimal,
    "to_timestamp": _read_time("TIMESTAMP"),
    "time_bucket": _bucket_time,
    "width_bucket": _find_bucket,
}
"""By the name that is written, in lower case."""
