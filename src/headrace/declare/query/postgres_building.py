"""JSON that PostgreSQL makes or changes, in words of our own functions, and which text is JSON.

Columns of json and of text are both text to us. What depends on the difference is known of columns whose
source says it, and has to be written elsewhere: x::jsonb or x::text.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    make_call,
    make_cast,
    make_text,
    mark,
    refuse_call,
)
from headrace.declare.query.postgres_origins import JSON_TYPES, find_origin_type
from headrace.model.types import BOOLEAN, DATE, INTEGERS, NULL, STRING, Decimal

_SAY_TYPE = "say which it is: x::jsonb, or x::text; or give the type in `columns:`"


def find_kind(node: exp.Expr, type_of: TypeOf | None = None) -> str | None:
    """`json` or `text`; None if neither the expression nor the source of a column says which of them it is."""
    found = find_origin_type(node, type_of)
    return None if found is None else "json" if found in JSON_TYPES else "text"


def _is_constant(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner, exp.Literal) and bool(inner.is_string)


def _pair_of_json(node: exp.Binary, type_of: TypeOf, what: str) -> bool:
    """Whether both sides are JSON, where a constant is what it stands beside."""
    sides = (node.this, node.expression)
    written = [find_kind(side, type_of) for side in sides]
    if "json" not in written or {type_of(side) for side in sides} - {STRING}:
        return False
    kinds = ["json" if _is_constant(side) else kind for side, kind in zip(sides, written, strict=True)]
    if None in kinds:
        raise NotMaintained(f"expression: {what} of jsonb and a column", _SAY_TYPE)
    return kinds == ["json", "json"]


def join_json(node: exp.DPipe, type_of: TypeOf) -> exp.Expr | None:
    """`||` of jsonb; None for texts."""
    if not _pair_of_json(node, type_of, "||"):
        return None
    return make_call("jsonb_joined", node.this, node.expression)


def compare_json(node: exp.Binary, type_of: TypeOf) -> exp.Expr | None:
    """`=` and `<>` of jsonb, where 1.0 is 1; None for other values."""
    if not _pair_of_json(node, type_of, "comparison"):
        return None
    if not isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ):
        hint = "compare what is in it: (x ->> 'a')::numeric < 10, or x ->> 'a' < 'b'"
        raise NotMaintained("expression: order of jsonb", hint)
    return mark(type(node)(this=make_call("jsonb_key", node.this), expression=make_call("jsonb_key", node.expression)))


def refuse_sorting(node: exp.Expr, what: str) -> None:
    """JSON is ordered and grouped by its values, and ours is text. A column of it is grouped by its text."""
    is_column = isinstance(node.unnest(), exp.Column) and not what.startswith("ORDER")
    if find_kind(node) == "json" and not is_column:
        raise NotMaintained(f"expression: {what} jsonb", "take its text: x ->> 'a', or x::text")


def delete_from_jsonb(node: exp.Sub, type_of: TypeOf) -> exp.Expr | None:
    """`- 'name'` and `- 1`; None for what is no text."""
    key = node.expression
    if type_of(node.this) != STRING or (type_of(key) != STRING and type_of(key) not in INTEGERS):
        return None
    return make_call("jsonb_without" if type_of(key) == STRING else "jsonb_without_item", node.this, key)


def write_json(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A value as JSON writes it; NULL is null."""
    type_ = type_of(node)
    if type_ == NULL:
        return make_text("null")
    if type_ == STRING:
        kind = find_kind(node, type_of)
        if kind is None:
            raise NotMaintained(
                "expression: JSON of a column", "say which it is: x::text, or x::jsonb; or give the type in `columns:`"
            )
        written = node if kind == "json" else make_call("json_quoted", node)
    elif type_ in INTEGERS or type_ == BOOLEAN or (isinstance(type_, Decimal) and type_.scale < 16):
        written = make_cast(node, "STRING")
    elif type_ == DATE:
        written = make_call("json_quoted", make_cast(node, "STRING"))
    else:
        hint = "make it text: to_char(x, 'YYYY-MM-DD\"T\"HH24:MI:SS') of a time, round(x::numeric, 2) of a number"
        raise NotMaintained(f"expression: JSON of {type_}", hint)
    return make_call("coalesce", written, make_text("null"))


def _build_object(binary: bool) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        if len(arguments) % 2:
            raise Mistake("names and values come in pairs")
        parts: list[exp.Expr] = [make_text("{")]
        for number, (name, value) in enumerate(zip(arguments[::2], arguments[1::2], strict=True)):
            parts += [make_text(", ")] if number else []
            quoted = name if type_of(name) == STRING else make_cast(name, "STRING")
            parts += [make_call("json_quoted", quoted), make_text(" : "), write_json(value, type_of)]
        return _finish([*parts, make_text("}")], binary)

    return convert


def _build_array(binary: bool) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        parts: list[exp.Expr] = [make_text("[")]
        for number, value in enumerate(arguments):
            parts += [make_text(", ")] if number else []
            parts.append(write_json(value, type_of))
        return _finish([*parts, make_text("]")], binary)

    return convert


def _finish(parts: list[exp.Expr], binary: bool) -> exp.Expr:
    joined = make_call("concat", *parts)
    return make_call("jsonb", joined) if binary else joined


def spread_lists(tree: exp.Expr) -> None:
    """Writes `json_agg(x ORDER BY y)` as a text that `string_agg` makes."""
    for call in list(tree.find_all(exp.Anonymous)):
        if call.name.lower() not in ("json_agg", "jsonb_agg") or len(call.expressions) != 1:
            continue
        whole = call.parent if isinstance(call.parent, exp.Filter) else call
        if isinstance(whole.parent, exp.Window):
            continue
        stand_in, binary = exp.Null(), call.name.lower() == "jsonb_agg"
        whole.replace(stand_in)
        call.set("this", "string_agg")
        call.set("expressions", _list_arguments(call.expressions[0]))
        made = _finish([make_text("["), whole, make_text("]")], binary)
        stand_in.replace(made)


def _list_arguments(argument: exp.Expr) -> list[exp.Expr]:
    order = argument if isinstance(argument, exp.Order) else None
    value = argument if order is None else order.this
    written = exp.Anonymous(this="json_written", expressions=[value])
    if order is None:
        return [written, exp.Literal.string(", ")]
    order.set("this", exp.Literal.string(", "))
    return [written, order]


_KEEP = "keep the JSON that is made in a column of the database"
_PATHS = "follow the path: x -> 'a' ->> 'b', x #>> '{a,0,b}', or x @> '{\"a\": 1}'"
BUILDING_CALLS: Mapping[str, ConvertCall] = {
    "json_build_array": _build_array(False),
    "json_build_object": _build_object(False),
    "json_written": lambda arguments, type_of: write_json(arguments[0], type_of),
    "jsonb_build_array": _build_array(True),
    "jsonb_build_object": _build_object(True),
    **{name: refuse_call(name, _KEEP) for name in ("jsonb_set", "jsonb_insert", "jsonb_strip_nulls", "jsonb_pretty")},
    **{
        name: refuse_call(name, "name its parts: json_build_object('a', x.a, 'b', x.b)")
        for name in ("row_to_json", "to_json", "to_jsonb", "json_object_agg", "jsonb_object_agg")
    },
    **{
        f"jsonb_path_{name}": refuse_call(f"jsonb_path_{name}", _PATHS)
        for name in ("exists", "match", "query", "query_array", "query_first", "exists_tz", "match_tz", "query_tz")
    },
}
"""By the name that is written, in lower case."""
