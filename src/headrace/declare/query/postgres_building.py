"""JSON that PostgreSQL makes or changes, in words of our own functions, and which text is JSON.

Columns of json and of text are both text to us. What depends on the difference has to be written: x::jsonb or x::text.
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
from headrace.model.types import BOOLEAN, DATE, INTEGERS, NULL, STRING, Decimal

_JSON_TYPES, _TEXT_TYPES = ("JSON", "JSONB"), ("TEXT", "VARCHAR", "NAME", "UUID")
_MADE = ("json_build_object", "jsonb_build_object", "json_build_array", "jsonb_build_array", "json_agg", "jsonb_agg")
_GIVING_JSON = frozenset(
    (*_MADE, "to_json", "to_jsonb", "jsonb_set", "json_extract_path", "jsonb_extract_path", "jsonb")
)
_OF_ARGUMENTS = ("coalesce", "nullif", "max", "min", "any_value", "greatest", "least")


def find_kind(node: exp.Expr) -> str | None:
    """`json` or `text`; None if the expression does not say which of them it is."""
    node = node.unnest()
    match node:
        case exp.Cast(to=to) if isinstance(to, exp.DataType) and isinstance(to.this, exp.DType):
            return "json" if to.this.name in _JSON_TYPES else "text" if to.this.name in _TEXT_TYPES else None
        case exp.JSONExtract() | exp.JSONBExtract() | exp.JSONBDeleteAtPath():
            return "json"
        case exp.JSONExtractScalar() | exp.JSONBExtractScalar() | exp.Literal() | exp.Substring() | exp.Trim():
            return "text"
        case exp.DPipe() | exp.Sub():
            return "json" if "json" in (find_kind(node.this), find_kind(node.expression)) else "text"
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            return _find_common([*values, *filter(None, [node.args.get("default")])])
        case exp.Anonymous() if node.name.lower() in _OF_ARGUMENTS:
            return _find_common(node.expressions)
        case exp.Anonymous():
            return "json" if node.name.lower() in _GIVING_JSON else "text"
    return None


def _find_common(nodes: list[exp.Expr]) -> str | None:
    kinds = {find_kind(node) for node in nodes if not isinstance(node.unnest(), exp.Null | exp.Literal)}
    return next(iter(kinds)) if len(kinds) == 1 else None if kinds else "text"


def _is_constant(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner, exp.Literal) and bool(inner.is_string)


def _pair_of_json(node: exp.Binary, type_of: TypeOf, what: str) -> bool:
    """Whether both sides are JSON, where a constant is what it stands beside."""
    sides = (node.this, node.expression)
    if "json" not in map(find_kind, sides) or {type_of(side) for side in sides} - {STRING}:
        return False
    kinds = ["json" if _is_constant(side) else find_kind(side) for side in sides]
    if None in kinds:
        raise NotMaintained(f"expression: {what} of jsonb and a column", "say which it is: x::jsonb, or x::text")
    return kinds == ["json", "json"]


def join_json(node: exp.DPipe, type_of: TypeOf) -> exp.Expr | None:
    """`||` of jsonb; None for texts."""
    if not _pair_of_json(node, type_of, "||"):
        return None
    return make_call("jsonb_joined", node.this, node.expression)


def compare_json(node: exp.Binary, type_of: TypeOf) -> exp.Expr | None:
    """`=` and `<>` of jsonb, where 1.0 is 1; None for other values."""
    if "json" not in (find_kind(node.this), find_kind(node.expression)):
        return None
    if not _pair_of_json(node, type_of, "comparison"):
        return None
    if not isinstance(node, exp.EQ | exp.NEQ | exp.NullSafeEQ | exp.NullSafeNEQ):
        hint = "compare what is in it: (x ->> 'a')::numeric < 10, or x ->> 'a' < 'b'"
        raise NotMaintained("expression: order of jsonb", hint)
    return mark(type(node)(this=make_call("jsonb_key", node.this), expression=make_call("jsonb_key", node.expression)))


def refuse_sorting(node: exp.Expr, what: str) -> None:
    """JSON is ordered and grouped by its values, and ours is text."""
    if find_kind(node) == "json":
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
        kind = find_kind(node)
        if kind is None:
            raise NotMaintained("expression: JSON of a column", "say which it is: x::text, or x::jsonb")
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
