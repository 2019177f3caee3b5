"""JSON that PostgreSQL makes or changes, in words of our own functions, and which text is JSON.

Columns of json and of text are both text to us. What depends on the difference is known of columns whose
source says it, and has to be written elsewhere: x::jsonb or x::text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_json import read_path
from headrace.declare.query.postgres_nodes import (
    ConvertCall,
    TypeOf,
    make_call,
    make_cast,
    make_text,
    mark,
    refuse_call,
    take,
)
from headrace.declare.query.postgres_numbers import refuse_digits
from headrace.declare.query.postgres_origins import JSON_TYPES, find_origin_type, remember_origin_type
from headrace.model.origin_types import ColumnOrigin, OriginType
from headrace.model.types import (
    BOOLEAN,
    DATE,
    FRACTIONS,
    INTEGERS,
    NULL,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Type,
)

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


def delete_from_jsonb(node: exp.Sub, type_of: TypeOf) -> exp.Expr | None:
    """`- 'name'` and `- 1`; None for what is no text."""
    key = node.expression
    if type_of(node.this) != STRING or (type_of(key) != STRING and type_of(key) not in INTEGERS):
        return None
    return make_call("jsonb_without" if type_of(key) == STRING else "jsonb_without_item", node.this, key)


def write_json(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """A value as JSON writes it; NULL is null."""
    return make_call("coalesce", _write_value(node, type_of), make_text("null"))


def _write_value(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    type_ = type_of(node)
    if type_ == NULL:
        return make_text("null")
    if type_ == STRING:
        kind = find_kind(node, type_of)
        if kind is None:
            raise NotMaintained(
                "expression: JSON of a column", "say which it is: x::text, or x::jsonb; or give the type in `columns:`"
            )
        return node if kind == "json" else make_call("json_quoted", node)
    refuse_digits(node, type_of, "JSON", "round(x, 2)")
    if isinstance(type_, Array):
        return _write_json_array(node, type_, type_of)
    return _write_simple(node, type_, find_origin_type(node, type_of))


def _write_simple(node: exp.Expr, type_: Type, origin: ColumnOrigin | None) -> exp.Expr:
    """Numbers, truths and times as JSON writes them."""
    if type_ in INTEGERS or type_ == BOOLEAN or isinstance(type_, Decimal):
        return make_cast(node, "STRING")
    if type_ == DATE:
        return make_call("json_quoted", make_cast(node, "STRING"))
    if type_ in FRACTIONS:
        return _quote_names(make_call("float_text", node))
    if type_ == TIMESTAMP and origin in _AFTER_TIMES:
        time = make_call("replace", make_cast(node, "STRING"), make_text(" "), make_text("T"))
        return make_call("concat", make_text('"'), time, make_text(f'{_AFTER_TIMES[origin]}"'))
    hint = "select its parts"
    if type_ == TIMESTAMP:
        hint = "say which it is: x::timestamp, or x::timestamptz; or give the type in `columns:`"
    raise NotMaintained(f"expression: JSON of {type_}", hint)


_AFTER_TIMES: Mapping[ColumnOrigin | None, str] = {OriginType.TIMESTAMP: "", OriginType.TIMESTAMPTZ: "+00:00"}


def _quote_names(text: exp.Expr) -> exp.Expr:
    """`NaN` and `Infinity` are no numbers to JSON."""
    is_name = mark(exp.RegexpLike(this=text, expression=make_text("[a-zI]{3}")))
    return mark(exp.Case(ifs=[exp.If(this=is_name, true=make_call("json_quoted", text.copy()))], default=text.copy()))


def _write_json_array(node: exp.Expr, type_: Array, type_of: TypeOf) -> exp.Expr:
    """`[1,2]`, as PostgreSQL writes an array in JSON."""
    name = "element"
    element = exp.Column(this=exp.to_identifier(name))
    remember_origin_type(element, OriginType.TEXT if type_.element == STRING else None)
    body = write_json(element, lambda part: type_.element if part is element else type_of(part))
    items = make_call("transform", node, exp.Lambda(this=body, expressions=[exp.to_identifier(name)]))
    return make_call("concat", make_text("["), make_call("array_join", items, make_text(",")), make_text("]"))


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


def _build_row(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """A row by its names and values, as `row_to_json` writes it."""
    parts: list[exp.Expr] = [make_text("{")]
    for number, (name, value) in enumerate(zip(arguments[::2], arguments[1::2], strict=True)):
        parts += [make_text(f"{',' if number else ''}{json.dumps(name.name, ensure_ascii=False)}:")]
        parts.append(write_json(value, type_of))
    return make_call("concat", *parts, make_text("}"))


def _take_row(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    (row,) = take("row_to_json", arguments, 1)
    if not (isinstance(row, exp.Anonymous) and row.name == "json_row"):
        raise NotMaintained("function: row_to_json", "name its parts: json_build_object('a', x.a, 'b', x.b)")
    return _build_row(row.expressions, type_of)


def _build_array(binary: bool) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        parts: list[exp.Expr] = [make_text("[")]
        for number, value in enumerate(arguments):
            parts += [make_text(", ")] if number else []
            parts.append(write_json(value, type_of))
        return _finish([*parts, make_text("]")], binary)

    return convert


def _to_json(binary: bool) -> ConvertCall:
    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        (value,) = take("to_jsonb" if binary else "to_json", arguments, 1)
        written = _write_value(value, type_of)
        has_parts = isinstance(type_of(value), Array) or find_kind(value, type_of) == "json"
        return make_call("jsonb", written) if binary and has_parts else written

    return convert


def _write_member(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
    """One member of an object, of its name and value."""
    name, value = arguments
    quoted = make_call("json_quoted", name if type_of(name) == STRING else make_cast(name, "STRING"))
    return make_call("concat", quoted, make_text(" : "), write_json(value, type_of))


def _change_at(name: str) -> ConvertCall:
    """`jsonb_set` and `jsonb_insert`: the path is a constant, and what is said after the value true or false."""

    def convert(arguments: list[exp.Expr], type_of: TypeOf) -> exp.Expr:
        if len(arguments) not in (3, 4):
            raise Mistake("these are a jsonb, a path, a value, and perhaps true or false")
        whole, path, value, *option = arguments
        default = exp.Boolean(this=name == "jsonb_changed")
        return make_call(name, whole, _write_path(path), value, *(option or [mark(default)]))

    return convert


def _write_path(node: exp.Expr) -> exp.Expr:
    steps = read_path(node)
    if not all(isinstance(step, exp.Literal) for step in steps):
        raise NotMaintained("expression: a path in jsonb that changes", "write the path like '{a,b,0}'")
    return make_text(json.dumps([step.name for step in steps]))


def delete_path(node: exp.Expr, type_of: TypeOf) -> exp.Expr:
    """`#-`."""
    return make_call("jsonb_without_path", node.this, _write_path(node.expression))


def _finish(parts: list[exp.Expr], binary: bool) -> exp.Expr:
    joined = make_call("concat", *parts)
    remember_origin_type(joined, OriginType.JSON)
    return make_call("jsonb", joined) if binary else joined


_LISTS = {
    "json_agg": ("[", "]"),
    "jsonb_agg": ("[", "]"),
    "json_object_agg": ("{ ", " }"),
    "jsonb_object_agg": ("{", "}"),
}
"""Aggregates that make JSON, and what stands around their members."""


def spread_lists(tree: exp.Expr) -> None:
    """Writes `json_agg(x ORDER BY y)` as a text that `string_agg` makes."""
    for call in list(tree.find_all(exp.Anonymous)):
        name = call.name.lower()
        if name not in _LISTS or len(call.expressions) != (2 if "object" in name else 1):
            continue
        whole = call.parent if isinstance(call.parent, exp.Filter) else call
        if isinstance(whole.parent, exp.Window):
            continue
        stand_in, (first, last) = exp.Null(), _LISTS[name]
        between = ", \n " if name == "json_agg" and _is_row(call) else ", "
        whole.replace(stand_in)
        call.set("this", "string_agg")
        call.set("expressions", _list_arguments(call.expressions, between))
        made = _finish([make_text(first), whole, make_text(last)], name.startswith("jsonb"))
        stand_in.replace(made)


def _is_row(call: exp.Anonymous) -> bool:
    """Whether an aggregate is of whole rows, which stand on lines of their own."""
    (argument,) = call.expressions
    value = argument.this if isinstance(argument, exp.Order) else argument
    select = call.find_ancestor(exp.Select)
    if select is None or not isinstance(value, exp.Column) or value.table:
        return False
    items = [select.args.get("from_"), *(select.args.get("joins") or [])]
    return any(item is not None and item.this.alias_or_name == value.name for item in items)


def _list_arguments(arguments: list[exp.Expr], between: str) -> list[exp.Expr]:
    order = arguments[-1] if isinstance(arguments[-1], exp.Order) else None
    values = arguments if order is None else [*arguments[:-1], order.this]
    written = exp.Anonymous(this="json_written" if len(values) == 1 else "json_member", expressions=values)
    if order is None:
        return [written, exp.Literal.string(between)]
    order.set("this", exp.Literal.string(between))
    return [written, order]


_PATHS = "follow the path: x -> 'a' ->> 'b', x #>> '{a,0,b}', or x @> '{\"a\": 1}'"
BUILDING_CALLS: Mapping[str, ConvertCall] = {
    "json_build_array": _build_array(False),
    "json_build_object": _build_object(False),
    "json_written": lambda arguments, type_of: write_json(arguments[0], type_of),
    "jsonb_build_array": _build_array(True),
    "jsonb_build_object": _build_object(True),
    "json_member": _write_member,
    "json_row": _build_row,
    "row_to_json": _take_row,
    "jsonb_insert": _change_at("jsonb_inserted"),
    "jsonb_pretty": lambda arguments, type_of: make_call("jsonb_pretty_text", *take("jsonb_pretty", arguments, 1)),
    "jsonb_set": _change_at("jsonb_changed"),
    "jsonb_strip_nulls": lambda arguments, type_of: make_call(
        "jsonb_without_nulls", *take("jsonb_strip_nulls", arguments, 1)
    ),
    "to_json": _to_json(False),
    "to_jsonb": _to_json(True),
    **{
        name: refuse_call(name, "name its parts: json_build_object('a', x.a, 'b', x.b)")
        for name in ("json_object_agg", "jsonb_object_agg")
    },
    **{
        f"jsonb_path_{name}": refuse_call(f"jsonb_path_{name}", _PATHS)
        for name in ("exists", "match", "query", "query_array", "query_first", "exists_tz", "match_tz", "query_tz")
    },
}
"""By the name that is written, in lower case."""
