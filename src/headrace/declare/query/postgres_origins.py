"""Which of PostgreSQL's types an expression has, where ours does not tell: jsonb or text, timestamptz or timestamp.

Some expressions say it by themselves. Of a column its source may say it, and the node remembers it once it was read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_nodes import TypeOf
from headrace.model.origin_types import ColumnOrigin, Enumeration, OriginType
from headrace.model.types import DATE, TIMESTAMP

_MEMORY = "origin_type"

_CASTS = {
    "JSON": OriginType.JSON,
    "JSONB": OriginType.JSONB,
    **dict.fromkeys(("TEXT", "VARCHAR", "NAME"), OriginType.TEXT),
    "UUID": OriginType.UUID,
    "INTERVAL": OriginType.INTERVAL,
    "TIME": OriginType.TIME,
    "TIMETZ": OriginType.TIMETZ,
    "TIMESTAMP": OriginType.TIMESTAMP,
    "TIMESTAMPTZ": OriginType.TIMESTAMPTZ,
}
_OPPOSITE: Mapping[ColumnOrigin, OriginType] = {
    OriginType.TIMESTAMP: OriginType.TIMESTAMPTZ,
    OriginType.TIMESTAMPTZ: OriginType.TIMESTAMP,
}
JSON_TYPES = (OriginType.JSON, OriginType.JSONB)
_GIVING_JSON = frozenset(
    """json_build_object json_build_array json_agg to_json json_object_agg json_extract_path json_row
    row_to_json""".split()
)
_GIVING_JSONB = frozenset(
    """jsonb_build_object jsonb_build_array jsonb_agg to_jsonb jsonb_set jsonb_insert jsonb_strip_nulls
    jsonb_extract_path jsonb_object_agg jsonb""".split()
)
_GIVING_INSTANTS = frozenset("now transaction_timestamp statement_timestamp to_timestamp make_timestamptz".split())
_GIVING_INTERVALS = ("age", "make_interval", "justify_hours", "justify_days", "justify_interval")
_OF_FIRST = ("lag", "lead", "first_value", "last_value", "nth_value", "min_by", "max_by")
_OF_ARGUMENTS = ("coalesce", "nullif", "max", "min", "any_value", "greatest", "least")


def remember_origin_type(node: exp.Expr, type_: ColumnOrigin | None) -> None:
    """Called where a column is read. The tree may be read again, with other columns of that name."""
    node.meta[_MEMORY] = type_


def find_origin_type(node: exp.Expr, type_of: TypeOf | None = None) -> ColumnOrigin | None:
    """None if the expression does not say. What is neither text nor a time may be called text here.

    With `type_of`, columns that were not read before are read.
    """
    node = node.unnest()
    match node:
        case exp.Column():
            return _recall_origin_type(node, type_of)
        case exp.Cast(to=to) if isinstance(to, exp.DataType) and isinstance(to.this, exp.DType):
            return _CASTS.get(to.this.name)
        case exp.Cast(to=to) if to.sql().upper().startswith("INTERVAL"):
            return OriginType.INTERVAL
        case exp.Interval():
            return OriginType.INTERVAL
        case exp.JSONExtract() | exp.JSONBExtract() | exp.JSONBDeleteAtPath() | exp.Bracket():
            inner = find_origin_type(node.this, type_of)
            return inner if inner in JSON_TYPES else None if isinstance(node, exp.Bracket) else OriginType.JSONB
        case exp.JSONExtractScalar() | exp.JSONBExtractScalar() | exp.Literal() | exp.Substring() | exp.Trim():
            return OriginType.TEXT
        case exp.Neg() | exp.Mul() | exp.Div() | exp.DPipe() | exp.Add() | exp.Sub():
            return _find_of_operator(node, type_of)
        case exp.AtTimeZone(this=inner):
            return _OPPOSITE.get(find_origin_type(inner, type_of) or OriginType.TEXT)
        case exp.CurrentTimestamp() | exp.Localtimestamp():
            return OriginType.TIMESTAMPTZ if isinstance(node, exp.CurrentTimestamp) else OriginType.TIMESTAMP
        case exp.Case():
            values = [branch.args["true"] for branch in node.args["ifs"]]
            return _find_common([*values, *filter(None, [node.args.get("default")])], type_of)
        case exp.Filter() | exp.Window():
            return find_origin_type(node.this, type_of)
        case exp.Query():
            return _find_of_query(node)
        case exp.Anonymous():
            made = node.meta.get(_MEMORY)
            is_known = isinstance(made, OriginType)
            return made if is_known else _find_of_call(node.name.lower(), node.expressions, type_of)
    return None


def _recall_origin_type(node: exp.Column, type_of: TypeOf | None) -> ColumnOrigin | None:
    if type_of is not None and _MEMORY not in node.meta:
        # A text that is written out for Spark may have parts that nobody read.
        with contextlib.suppress(NotMaintained):
            type_of(node)
    found = node.meta.get(_MEMORY)
    return found if isinstance(found, OriginType | Enumeration) else None


def _find_of_query(node: exp.Query) -> ColumnOrigin | None:
    """That of the one column of a query, which was read before."""
    inner = node.this if isinstance(node, exp.Subquery) else node
    is_one = isinstance(inner, exp.Select) and len(inner.selects) == 1
    return find_origin_type(inner.selects[0].unalias()) if is_one else None


def _find_of_operator(node: exp.Expr, type_of: TypeOf | None) -> ColumnOrigin | None:
    if isinstance(node, exp.Sub) and _is_between_times(node):
        return OriginType.INTERVAL
    parts = (node.this, node.expression) if isinstance(node, exp.Binary) else (node.this,)
    found = [find_origin_type(part, type_of) for part in parts]
    if isinstance(node, exp.DPipe | exp.Add | exp.Sub):
        return _find_of_pair(node, found[0], found[1])
    return OriginType.INTERVAL if OriginType.INTERVAL in found else None


def _is_between_times(node: exp.Sub) -> bool:
    """Whether it was found to be the difference of two times."""
    types = [part.unnest().meta.get("type") for part in (node.this, node.expression)]
    return set(types) <= {DATE, TIMESTAMP} and types != [DATE, DATE]


def _find_of_pair(node: exp.Expr, left: ColumnOrigin | None, right: ColumnOrigin | None) -> ColumnOrigin | None:
    """Two times are an interval apart; a time and an interval are a time."""
    if isinstance(node, exp.DPipe):
        return OriginType.TEXT if {left, right}.isdisjoint(JSON_TYPES) else OriginType.JSONB
    if isinstance(node, exp.Sub) and left in JSON_TYPES:
        return OriginType.JSONB
    if isinstance(node, exp.Sub) and left in _OPPOSITE and right in _OPPOSITE:
        return OriginType.INTERVAL
    if OriginType.TIME in (left, right):
        return _find_of_clocks(node, left, right)
    time = next((one for one in (left, right) if one in _OPPOSITE), None)
    return time or (left if left == right else None)


def _find_of_clocks(node: exp.Expr, left: ColumnOrigin | None, right: ColumnOrigin | None) -> OriginType | None:
    """Two times of day are an interval apart; a day and a time of day are a time."""
    if left == right:
        return OriginType.INTERVAL if isinstance(node, exp.Sub) else None
    if OriginType.INTERVAL in (left, right) or isinstance(node, exp.Sub):
        return OriginType.TIME
    return OriginType.TIMESTAMP


def _find_of_call(name: str, arguments: list[exp.Expr], type_of: TypeOf | None) -> ColumnOrigin | None:
    if name in _OF_ARGUMENTS:
        return _find_common(arguments, type_of)
    if name in _OF_FIRST and arguments:
        return find_origin_type(arguments[0], type_of)
    if name in ("sum", "avg") and arguments:
        found = find_origin_type(arguments[0], type_of)
        return found if found is OriginType.INTERVAL else OriginType.TEXT
    if name in _GIVING_INTERVALS:
        return OriginType.INTERVAL
    if name in _GIVING_JSON:
        return OriginType.JSON
    if name in _GIVING_JSONB:
        return OriginType.JSONB
    if name in _GIVING_INSTANTS or (name == "date_trunc" and len(arguments) == 3):
        return OriginType.TIMESTAMPTZ
    if name in ("make_timestamp", "localtimestamp"):
        return OriginType.TIMESTAMP
    if name in ("date_trunc", "date_bin", "time_bucket") and len(arguments) >= 2:
        found = find_origin_type(arguments[1], type_of)
        return found if found in _OPPOSITE else None
    if name == "timezone" and len(arguments) == 2:
        return _OPPOSITE.get(find_origin_type(arguments[1], type_of) or OriginType.TEXT)
    return OriginType.TEXT


def _find_common(nodes: Iterable[exp.Expr], type_of: TypeOf | None) -> ColumnOrigin | None:
    """That of the parts, if they have one. Constants are what they stand beside."""
    types = {find_origin_type(node, type_of) for node in nodes if not isinstance(node.unnest(), exp.Null | exp.Literal)}
    return next(iter(types)) if len(types) == 1 else None if types else OriginType.TEXT
