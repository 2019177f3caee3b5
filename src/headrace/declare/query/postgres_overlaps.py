"""PostgreSQL's OVERLAPS, as the comparisons that it stands for."""

from __future__ import annotations

from sqlglot import exp

from headrace.declare.query.mistakes import Mistake, NotMaintained
from headrace.declare.query.postgres_intervals import write_span
from headrace.declare.query.postgres_nodes import TypeOf, mark
from headrace.declare.query.postgres_origins import find_origin_type
from headrace.model.origin_types import OriginType
from headrace.model.types import DATE, NULL, TIMESTAMP

_HINT = "two spans overlap where each begins before the other ends: a < d AND c < b"


def compare_overlap(node: exp.Overlaps, type_of: TypeOf) -> exp.Expr:
    """Whether two spans of time share an instant.

    Each ends before its end, unless that is where it begins. Its sides stand in any order, and one may be NULL: the
    answer is NULL where it would decide.
    """
    first, second = _find_sides(node.this), _find_sides(node.expression)
    kind = _find_kind([first[0], second[0]], [first[1], second[1]], type_of)
    (start, end), (other_start, other_end) = (_order(*_as_times(side, kind, type_of)) for side in (first, second))
    later = _choose(exp.GT(this=start, expression=other_start), _reach(start, other_end, end))
    earlier = _choose(exp.LT(this=start, expression=other_start), _reach(other_start, end, other_end))
    ends = exp.and_(_is_known(end), _is_known(other_end), copy=True)
    together = _choose(exp.and_(exp.EQ(this=start, expression=other_start), ends, copy=True), exp.true())
    return mark(exp.Paren(this=exp.Case(ifs=[later, earlier, together]).copy()))


def _find_sides(node: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    inner = node.unnest()
    is_row = isinstance(inner, exp.Tuple) or (isinstance(inner, exp.Anonymous) and inner.name.lower() == "row")
    if not is_row or len(inner.expressions) != 2:
        raise Mistake("OVERLAPS compares two spans", "(a, b) OVERLAPS (c, d)")
    return inner.expressions[0], inner.expressions[1]


def _find_kind(starts: list[exp.Expr], ends: list[exp.Expr], type_of: TypeOf) -> exp.DType:
    """What the sides are cast to: to times with a zone as soon as one of them is such."""
    sides = [*starts, *(end for end in ends if write_span(end, type_of) is None)]
    read = [(type_of(side), side) for side in sides]  # all, since the tree remembers it for their copies
    types = {type_ for type_, side in read if not _is_constant(side)}
    if not types <= {DATE, TIMESTAMP, NULL} or types <= {NULL}:
        raise NotMaintained("expression: OVERLAPS of other than dates and times", _HINT)
    found = {find_origin_type(side, type_of) for side in sides}
    return exp.DType.TIMESTAMPTZ if OriginType.TIMESTAMPTZ in found else exp.DType.TIMESTAMP


def _is_constant(node: exp.Expr) -> bool:
    inner = node.unnest()
    return isinstance(inner, exp.Literal) and bool(inner.is_string)


def _as_times(side: tuple[exp.Expr, exp.Expr], kind: exp.DType, type_of: TypeOf) -> tuple[exp.Expr, exp.Expr]:
    start = _cast(side[0], kind)
    if write_span(side[1], type_of) is not None:
        if isinstance(side[1], exp.Interval):
            type_of(side[1])  # which the tree remembers for its copies
        return start, exp.Paren(this=exp.Add(this=start.copy(), expression=side[1].copy()))
    return start, _cast(side[1], kind)


def _cast(node: exp.Expr, kind: exp.DType) -> exp.Expr:
    made = exp.Cast(this=node.copy(), to=exp.DataType(this=kind))
    made.meta["type"] = TIMESTAMP  # as for the parts that were read
    return made


def _order(one: exp.Expr, other: exp.Expr) -> tuple[exp.Expr, exp.Expr]:
    """The earlier time, or the one that is known, and the later one, if both are."""
    start = exp.Anonymous(this="least", expressions=[one.copy(), other.copy()])
    later = exp.Anonymous(this="greatest", expressions=[one.copy(), other.copy()])
    both = exp.and_(_is_known(one), _is_known(other), copy=True)
    return start, exp.Case(ifs=[exp.If(this=both, true=later)])


def _is_known(node: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=exp.Paren(this=node.copy()), expression=exp.Null()))


def _choose(condition: exp.Expr, value: exp.Expr) -> exp.If:
    return exp.If(this=condition.copy(), true=value)


def _reach(start: exp.Expr, end: exp.Expr, own_end: exp.Expr) -> exp.Expr:
    """Whether a span begins before the end of the one that began earlier; NULL if its own end is not known."""
    before = exp.LT(this=start.copy(), expression=end.copy())
    nothing = exp.LT(this=own_end.copy(), expression=own_end.copy())
    return exp.Paren(this=exp.Or(this=before, expression=nothing))
