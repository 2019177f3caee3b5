"""Values that we hold as text and PostgreSQL sorts otherwise: enums by their declaration, intervals by their length.

They are compared and sorted by a number. What would take them for text is refused. Times of day are in the order of
their text.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_building import find_kind
from headrace.declare.query.postgres_intervals import compare_spans, write_span
from headrace.declare.query.postgres_nodes import TypeOf, make_call, make_text
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.model.expr import Call, Expr, Literal
from headrace.model.origin_types import ColumnOrigin, Enumeration, OriginType
from headrace.model.types import INT, STRING, Array, Decimal

SORTING = ("enum_place", "interval_order")
"""Functions whose values are sorted in place of their arguments."""
_TIMETZ = "keep times of day without a zone: time, and the zone in a column of its own"


def compare_by_order(sides: Sequence[exp.Expr], type_of: TypeOf, *, is_order: bool) -> list[exp.Expr] | None:
    """What to compare in place of these values; None if they are compared as they are. Enums are equal by text."""
    _refuse_zoned(sides, "comparison", type_of)
    spans = compare_spans(sides, type_of)
    if spans is not None:
        return spans
    found = next((one for side in sides if isinstance(one := find_origin_type(side, type_of), Enumeration)), None)
    if found is None or not is_order:
        return None
    return [_place_in_enum(side, found, type_of) for side in sides]


def _place_in_enum(node: exp.Expr, enum: Enumeration, type_of: TypeOf) -> exp.Expr:
    inner = node.unnest()
    if isinstance(inner, exp.Literal) and inner.is_string and inner.name not in enum.labels:
        raise Mistake(f"'{inner.name}' is no value of the enum", f"it has {', '.join(enum.labels)}")
    if not isinstance(inner, exp.Literal | exp.Null) and find_origin_type(node, type_of) != enum:
        raise NotMaintained("expression: order of an enum and text", "compare it with a value of its own type")
    return make_call("enum_place", node, make_call("array", *map(make_text, enum.labels)))


def choose_by_order(value: exp.Expr, type_of: TypeOf) -> exp.Expr | None:
    """What tells which of such values is the largest; None for others, which compare as they are."""
    _refuse_zoned([value], "order", type_of)
    span = write_span(value, type_of)
    if span is not None:
        return make_call("interval_order", span)
    enum = find_origin_type(value, type_of)
    return _place_in_enum(value.copy(), enum, type_of) if isinstance(enum, Enumeration) else None


def sort_value(value: Expr, origin: ColumnOrigin | None) -> Expr:
    """A key of ORDER BY as what it is sorted by."""
    if value.type != STRING:
        return value
    if origin is OriginType.TIMETZ:
        raise NotMaintained("expression: ORDER BY of timetz", _TIMETZ)
    if origin is OriginType.INTERVAL:
        return Call("interval_order", (value,), Decimal(38, 0))
    if isinstance(origin, Enumeration):
        return Call("enum_place", (value, Literal(origin.labels, Array(STRING))), INT)
    return value


def compare_value(value: Expr, origin: ColumnOrigin | None, *, is_order: bool) -> Expr:
    """What is compared in place of a value that was read."""
    if origin is OriginType.TIMETZ:
        raise NotMaintained("expression: comparison of timetz", _TIMETZ)
    return sort_value(value, origin) if origin is OriginType.INTERVAL or is_order else value


def refuse_greatest(name: str, arguments: Sequence[exp.Expr], type_of: TypeOf) -> None:
    for argument in arguments:
        if choose_by_order(argument, type_of) is not None:
            hint = "compare two of them: CASE WHEN a > b THEN a ELSE b END"
            raise NotMaintained(f"function: {name} of {find_origin_type(argument, type_of)}", hint)


def refuse_sorting(node: exp.Expr, what: str, type_of: TypeOf | None = None) -> None:
    """JSON is ordered and grouped by its values, and ours is text. A column of it is grouped by its text."""
    if not what.startswith(("ORDER", "GROUP")):
        refuse_span_column(node, what, type_of)
    is_column = isinstance(node.unnest(), exp.Column) and not what.startswith("ORDER")
    if find_kind(node, type_of) == "json" and not is_column:
        raise NotMaintained(f"expression: {what} jsonb", "take its text: x ->> 'a', or x::text")


def refuse_span_column(node: exp.Expr, what: str, type_of: TypeOf | None = None) -> None:
    """Refuses to take intervals that are equal for different because their texts are."""
    refuse_span(find_origin_type(node, type_of), what)


def refuse_span(found: ColumnOrigin | None, what: str) -> None:
    if found is OriginType.INTERVAL:
        hint = "take its seconds, extract(epoch FROM x), or GROUP BY x"
        raise NotMaintained(f"expression: {what} {found}", hint)
    if found is OriginType.TIMETZ:
        raise NotMaintained(f"expression: {what} {found}", _TIMETZ)


def _refuse_zoned(nodes: Sequence[exp.Expr], what: str, type_of: TypeOf) -> None:
    for node in nodes:
        if find_origin_type(node, type_of) is OriginType.TIMETZ and type_of(node) == STRING:
            raise NotMaintained(f"expression: {what} of timetz", _TIMETZ)
