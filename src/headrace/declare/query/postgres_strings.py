"""PostgreSQL's functions and operators of text in Spark's words: joining, cutting, patterns."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_building import (
    join_json,
)
from headrace.declare.query.postgres_intervals import write_span
from headrace.declare.query.postgres_json import (
    join_arrays,
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
from headrace.declare.query.postgres_numbers import refuse_digits
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.declare.query.postgres_patterns import (
    count_groups,
    refuse_absent_group,
    refuse_ambiguous,
    translate_regex,
    translate_similar,
)
from headrace.declare.query.postgres_quotes import quote_any, quote_name, quote_value
from headrace.model.origin_types import OriginType
from headrace.model.types import (
    BINARY,
    BOOLEAN,
    FRACTIONS,
    INTERVALS,
    TIMESTAMP,
    Array,
)


def _join_texts(node: exp.DPipe, type_of: TypeOf) -> exp.Expr:
    joined = join_arrays(node, type_of) or join_json(node, type_of)
    if joined is not None:
        return joined
    parts = _find_parts(node)
    written = [write_text(part, type_of) for part in parts]
    if all(text is part for text, part in zip(written, parts, strict=True)):
        return node
    return functools.reduce(lambda left, right: mark(exp.DPipe(this=left, expression=right)), written)


def _find_parts(node: exp.Expr) -> list[exp.Expr]:
    """What `||` joins, however long the chain is."""
    parts = list[exp.Expr]()
    while isinstance(node, exp.DPipe):
        parts.append(node.expression)
        node = node.this.unnest()
    return [node, *reversed(parts)]


def write_text(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A value as PostgreSQL writes it; the node itself where Spark writes the same."""
    type_ = type_of(node)
    if type_ in FRACTIONS:
        return make_call("float_text", node)
    if isinstance(type_, Array):
        refuse_digits(node, type_of, "text", "round each element, round(x, 2)")
        return make_call("array_text", node)
    if type_ == TIMESTAMP:
        return _write_time(node, type_of)
    if type_ == BINARY:
        return mark(exp.DPipe(this=make_text("\\x"), expression=make_call("lower", make_call("hex", node))))
    refuse_digits(node, type_of, "text", "round(x, 2)::text")
    if type_ in INTERVALS:
        written = write_span(node, type_of)
        if written is None:
            raise NotMaintained(f"expression: {type_} as text", "select its parts")
        return written
    return node


def _write_time(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    written = make_cast(node, "STRING")
    match find_origin_type(node, type_of):
        case OriginType.TIMESTAMP:
            return written
        case OriginType.TIMESTAMPTZ:
            return mark(exp.Paren(this=mark(exp.DPipe(this=written, expression=make_text("+00")))))
    hint = "say which it is: x::timestamp::text, x::timestamptz::text, or to_char(x, 'YYYY-MM-DD HH24:MI:SS')"
    raise NotMaintained("expression: timestamp as text", hint)


def _concatenate(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """NULL counts as no text, unlike in `||`."""
    return make_call(
        "concat", *(make_call("coalesce", _as_text(argument, type_of), make_text("")) for argument in arguments)
    )


def _format(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """Texts put together by a pattern of %s, %I and %L."""
    if not arguments:
        raise Mistake('function "format" takes a pattern, and values')
    pattern = constant_text(arguments[0], "function: format with a pattern that changes")
    pieces = re.split(r"(%[%sIL])", pattern)
    marks = [piece for piece in pieces[1::2] if piece != "%%"]
    if any("%" in piece for piece in pieces[::2]) or len(marks) != len(arguments) - 1:
        raise NotMaintained("function: format", "its patterns are made of %s, %I and %L, one for each value, and %%")
    values, made = iter(arguments[1:]), []
    for piece in pieces:
        if piece == "%%" or (piece and piece not in _MARKS):
            made.append(make_text("%" if piece == "%%" else piece))
        elif piece:
            made.append(_MARKS[piece](next(values), type_of))
    return make_call("concat", *(made or [make_text("")]))


def _format_name(value: exp.Expr, type_of: TypeOf) -> exp.Expr:
    inner = value.unnest()
    if not (isinstance(inner, exp.Literal) and inner.is_string):
        raise NotMaintained("function: format with %I of a value that may be NULL", "use %s and quote_ident(x)")
    return quote_name(make_text(inner.name))


_MARKS: Mapping[str, Callable[[exp.Expr, TypeOf], exp.Expr]] = {
    "%s": lambda value, type_of: make_call("coalesce", _as_text(value, type_of), make_text("")),
    "%I": _format_name,
    "%L": lambda value, type_of: quote_any(_as_text(value, type_of)),
}


def _quote(name: str, make: Callable[[exp.Expr], exp.Expr]) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        (value,) = take(name, arguments, 1)
        return make(make_cast(write_text(value, type_of), "STRING"))

    return convert


def _join_with(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    return make_call("concat_ws", *(_as_text(argument, type_of) for argument in arguments))


def _as_text(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A value as `concat` and `concat_ws` write it: true is `t`."""
    written = write_text(node, type_of)
    if written is not node:
        return written
    if type_of(node) == BOOLEAN:
        is_false = mark(exp.Not(this=mark(exp.Paren(this=node.copy()))))
        return mark(exp.Case(ifs=[exp.If(this=node, true=make_text("t")), exp.If(this=is_false, true=make_text("f"))]))
    return make_cast(node, "STRING")


def _match_regex(ignore_case: bool) -> Callable[[Any, TypeOf], exp.Expr]:
    def convert(node: exp.Binary, type_of: TypeOf) -> exp.Expr:
        words = (
            "expression: ~* with a pattern that changes" if ignore_case else "expression: ~ with a pattern that changes"
        )
        pattern = constant_text(node.expression, words)
        translated = make_text(translate_regex(pattern, ignore_case=ignore_case))
        return mark(exp.RegexpLike(this=node.this, expression=translated))

    return convert


def _match_similar(node: exp.SimilarTo, type_of: TypeOf) -> exp.Expr:
    pattern = constant_text(node.expression, "expression: SIMILAR TO with a pattern that changes")
    return mark(exp.RegexpLike(this=node.this, expression=make_text(translate_similar(pattern))))


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
    matched = mark(exp.RegexpLike(this=text, expression=make_text(translated)))
    found = make_call("regexp_extract", text.copy(), make_text(translated), make_number(min(groups, 1)))
    return mark(exp.Case(ifs=[exp.If(this=matched, true=found)]))


def _substring(text: exp.Expr, start: exp.Expr | None, length: exp.Expr | None) -> exp.Expr:
    """Places before the first count as characters that are not there."""
    if length is not None and not (isinstance(length, exp.Literal) and length.is_int):
        length = _at_least(length, 0)
    start = make_number(1) if start is None else start
    if isinstance(start, exp.Literal) and start.is_int and int(start.name) >= 1:
        return make_call("substring", text, start, *([] if length is None else [length]))
    first = _at_least(start, 1)
    if length is None:
        return make_call("substring", text, first)
    end = mark(exp.Add(this=mark(exp.Paren(this=start.copy())), expression=mark(exp.Paren(this=length))))
    return make_call("substring", text, first, _at_least(mark(exp.Sub(this=end, expression=first.copy())), 0))


def _at_least(value: exp.Expr, least: int) -> exp.Expr:
    """Not by `greatest`, which skips NULL."""
    value = mark(exp.Paren(this=value))
    less = mark(exp.LT(this=value.copy(), expression=make_number(least)))
    return mark(exp.Case(ifs=[exp.If(this=less, true=make_number(least))], default=value))


def _call_substring(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) not in (2, 3):
        raise Mistake(f'function "substr" takes 2 or 3 arguments, not {len(arguments)}')
    return _substring(arguments[0], arguments[1], arguments[2] if len(arguments) == 3 else None)


def _take_end(name: str) -> Callable[[list[exp.Expr], TypeOf], exp.Expr]:
    """`left` and `right`: a negative number leaves so many characters out at the other end."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        text, count = take(name, arguments, 2)
        if isinstance(count, exp.Literal) and count.is_int:
            return make_call(name, text, count)
        rest = mark(exp.Add(this=make_call("length", text.copy()), expression=count.copy()))
        negative = mark(exp.LT(this=count.copy(), expression=make_number(0)))
        return make_call(name, text, mark(exp.Case(ifs=[exp.If(this=negative, true=rest)], default=count)))

    return convert


def _replace_regex(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) not in (3, 4):
        raise NotMaintained("function: regexp_replace", "write regexp_replace(text, pattern, replacement, 'g')")
    flags = (
        constant_text(arguments[3], "function: regexp_replace with flags that change") if len(arguments) == 4 else ""
    )
    if set(flags) - {"g", "i"}:
        raise NotMaintained(f"function: regexp_replace with flags '{flags}'", "its flags are 'g' and 'gi'")
    pattern = constant_text(arguments[1], "function: regexp_replace with a pattern that changes")
    refuse_ambiguous(pattern)
    written = constant_text(arguments[2], "function: regexp_replace with a replacement that changes")
    java = translate_regex(pattern, ignore_case="i" in flags)
    if "g" in flags:
        return make_call("regexp_replace", arguments[0], make_text(java), make_text(_translate_replacement(written)))
    # The whole text is matched, with as little as there can be before the first match.
    options, last = "(?i)" if "i" in flags else "", count_groups(pattern) + 3
    if last > 9:
        raise NotMaintained("function: regexp_replace with many groups", "use at most 6 groups")
    whole = f"{options}^([\\s\\S]*?)({java.removeprefix(options)})([\\s\\S]*)"
    made = f"$1{_translate_replacement(written, shift=2)}${last}"
    return make_call("regexp_replace", arguments[0], make_text(whole), make_text(made))


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


def _measure(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    (value,) = take("length", arguments, 1)
    return make_call("octet_length" if type_of(value) == BINARY else "length", value)


def _call_regex(name: str) -> ConvertCall:
    """Functions that Spark has by the same names, with patterns of Java's."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        if len(arguments) != 2:
            raise NotMaintained(f"function: {name} with more than a pattern", f"write {name}(text, 'pattern')")
        pattern = constant_text(arguments[1], f"function: {name} with a pattern that changes")
        refuse_ambiguous(pattern)
        return make_call(name, arguments[0], make_text(translate_regex(pattern)))

    return convert


def _call_regexp_like(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    if len(arguments) not in (2, 3):
        raise Mistake(f'function "regexp_like" takes 2 or 3 arguments, not {len(arguments)}')
    flags = constant_text(arguments[2], "function: regexp_like with flags that change") if len(arguments) == 3 else ""
    if set(flags) - {"i"}:
        raise NotMaintained(f"function: regexp_like with flags '{flags}'", "its flag is 'i'")
    pattern = constant_text(arguments[1], "function: regexp_like with a pattern that changes")
    translated = make_text(translate_regex(pattern, ignore_case="i" in flags))
    return mark(exp.RegexpLike(this=arguments[0], expression=translated))


def _count_nulls(*, are_null: bool) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        tests = (mark(exp.Is(this=mark(exp.Paren(this=one)), expression=exp.Null())) for one in arguments)
        zero, one = make_number(0), make_number(1)
        counts: list[exp.Expr] = [
            mark(exp.Case(ifs=[exp.If(this=test, true=one if are_null else zero)], default=zero if are_null else one))
            for test in tests
        ]
        if not counts:
            raise Mistake("it takes the values to count")
        total = functools.reduce(lambda left, right: mark(exp.Add(this=left, expression=right)), counts)
        return mark(exp.Paren(this=total))

    return convert


STRING_CALLS: Mapping[str, ConvertCall] = {
    "num_nonnulls": _count_nulls(are_null=False),
    "num_nulls": _count_nulls(are_null=True),
    "regexp_like": _call_regexp_like,
    **{name: _call_regex(name) for name in ("regexp_count", "regexp_instr", "regexp_substr")},
    "length": _measure,
    "concat": _concatenate,
    "concat_ws": _join_with,
    "format": _format,
    "left": _take_end("left"),
    "quote_ident": _quote("quote_ident", quote_name),
    "quote_literal": _quote("quote_literal", quote_value),
    "quote_nullable": _quote("quote_nullable", quote_any),
    "regexp_replace": _replace_regex,
    "right": _take_end("right"),
    "substr": _call_substring,
}

STRING_NODES: Mapping[type[exp.Expr], Callable[[Any, TypeOf], exp.Expr]] = {
    exp.DPipe: _join_texts,
    exp.RegexpILike: _match_regex(True),
    exp.RegexpLike: _match_regex(False),
    exp.SimilarTo: _match_similar,
    exp.StrPosition: lambda node, type_of: make_call("locate", node.args["substr"], node.this),
    exp.Substring: _take_part,
}
