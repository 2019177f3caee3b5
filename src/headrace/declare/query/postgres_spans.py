"""Columns of intervals and times of day, which are text to us: what would take them for text is refused.

As text, `1 day` is less than `02:00:00`, and is not `24:00:00`. Times of day are in the order of their text.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.declare.query.postgres_nodes import TypeOf
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.model.origin_types import OriginType
from headrace.model.types import STRING

_SPANS = (OriginType.INTERVAL, OriginType.TIMETZ)
_KEEP = "keep its seconds as a number, in a column of the database"


def refuse_spans(nodes: list[exp.Expr], what: str, type_of: TypeOf) -> None:
    """Refuses intervals, and times of day with a zone, that are held as text."""
    for node in (one for one in nodes if isinstance(one.unnest(), exp.Column)):
        found = find_origin_type(node, type_of)
        if found in _SPANS and type_of(node) == STRING:
            raise NotMaintained(f"expression: {what} of {found}", _KEEP)


def refuse_span_column(node: exp.Expr, what: str) -> None:
    """Refuses to sort or group by a column of intervals."""
    found = find_origin_type(node) if isinstance(node.unnest(), exp.Column) else None
    if found in _SPANS:
        raise NotMaintained(f"expression: {what} {found}", _KEEP)


def refuse_part_of_text(part: str, node: exp.Expr, type_of: TypeOf) -> None:
    """Refuses to take a part of a value that is held as text."""
    refuse_spans([node], f"extract({part})", type_of)
    is_column = isinstance(node.unnest(), exp.Column)
    if is_column and find_origin_type(node, type_of) is OriginType.TIME and type_of(node) == STRING:
        hint = "take it from the text: split_part(x::text, ':', 1)::int is the hour"
        raise NotMaintained(f"expression: extract({part}) of time", hint)
