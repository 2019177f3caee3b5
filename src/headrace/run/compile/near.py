"""Joins without an equality of columns: by which key the other side can still be looked up.

An equality of computed values is one. So is a bound on a distance in time, `a.ts BETWEEN b.ts - INTERVAL 1 HOUR AND
b.ts`: rows lie in stretches of time as long as the bound is wide, and what is near a row lies in two of them. Without
either, a change is compared with all rows of the other side.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from headrace.meaning.fallible import can_fail
from headrace.model.expr import Call, Column, Expr, Literal, columns_of, conjuncts, is_deterministic, walk
from headrace.model.relation import Output
from headrace.model.types import BIGINT, DATE, DAY_TIME, FRACTIONS, INT, TIMESTAMP
from headrace.run.program import NearTime

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
MICROSECOND = dt.timedelta(microseconds=1)
EQUAL = "equal"


@dataclass(frozen=True, slots=True)
class ComputedKey:
    """How changes find rows: `theirs` is the key, over the names of the relation; `ours` are columns that are computed
    of the changes, or `near` says in which stretches of time to look.
    """

    theirs: tuple[Expr, ...]
    ours: tuple[Output, ...] = ()
    near: NearTime | None = None


def find_computed_key(residual: Expr, ours: Collection[str], theirs: Collection[str]) -> ComputedKey | None:
    """`ours` and `theirs` are the names that a join reads of the changes and of the relation."""
    parts = [part for part in conjuncts(residual) if isinstance(part, Call) and is_deterministic(part)]
    equal = [pair for part in parts for pair in _find_equality(part, ours, theirs)]
    if equal:
        outputs = tuple(Output(f"{EQUAL}{number}", mine) for number, (mine, _) in enumerate(equal))
        return ComputedKey(tuple(other for _, other in equal), outputs)
    return _find_near([bound for part in parts for bound in _find_bounds(part, ours, theirs)])


def _find_equality(part: Call, ours: Collection[str], theirs: Collection[str]) -> Iterator[tuple[Expr, Expr]]:
    if part.function != "=":
        return
    left, right = part.arguments
    mine, other = (left, right) if columns_of(left) <= set(ours) else (right, left)
    sides = (
        columns_of(mine) <= set(ours) and columns_of(other) <= set(theirs) and columns_of(mine) and columns_of(other)
    )
    if sides and mine.type == other.type and mine.type not in FRACTIONS and _is_safe(mine) and _is_safe(other):
        yield mine, other


def _is_safe(expr: Expr) -> bool:
    """Whether every row has a value: indexes hold rows that nobody asks for."""
    return all(not can_fail(node) or _is_date(node) for node in walk(expr) if isinstance(node, Call))


def _is_date(expr: Expr) -> bool:
    match expr:
        case Call("date_trunc", (Literal(), inner)) | Call("cast", (inner,)):
            return expr.type in (DATE, TIMESTAMP) and inner.type in (DATE, TIMESTAMP)
    return False


@dataclass(frozen=True, slots=True)
class _Bound:
    """`theirs` is at least, or at most, `ours` plus a span."""

    theirs: Expr
    ours: Expr
    span: dt.timedelta
    is_low: bool


def _find_near(bounds: list[_Bound]) -> ComputedKey | None:
    by_sides: dict[tuple[Expr, Expr], Mapping[bool, list[dt.timedelta]]] = {}
    for bound in bounds:
        by_sides.setdefault((bound.theirs, bound.ours), {True: [], False: []})[bound.is_low].append(bound.span)
    for (theirs, ours), spans in by_sides.items():
        if not spans[True] or not spans[False] or max(spans[True]) > min(spans[False]):
            continue
        low, high = max(spans[True]), min(spans[False])
        length_ms = max(1, -((low - high) // dt.timedelta(milliseconds=1)))
        lengths = (Literal(length_ms, BIGINT), Literal(0, BIGINT))
        key = Call("window_start", (_as_time(theirs), *lengths), TIMESTAMP)
        return ComputedKey((key,), near=NearTime(_as_time(ours), low // MICROSECOND, length_ms))
    return None


def _as_time(expr: Expr) -> Expr:
    return expr if expr.type == TIMESTAMP else Call("cast", (expr,), TIMESTAMP)


def _find_bounds(part: Call, ours: Collection[str], theirs: Collection[str]) -> Iterator[_Bound]:
    if part.function == "=":
        for operator in ("<=", ">="):
            yield from _find_bounds(Call(operator, part.arguments, part.type), ours, theirs)
    if part.function not in MIRRORED:
        return
    operator, (left, right) = part.function, part.arguments
    if left.type == DAY_TIME:
        left, right, operator = _split_difference(left, right, operator) or (left, right, operator)
    (left, after_left), (right, after_right) = _split_span(left), _split_span(right)
    if not isinstance(left, Column) or not isinstance(right, Column) or left.type not in (DATE, TIMESTAMP):
        return
    if left.name in ours and right.name in theirs:
        left, after_left, right, after_right = right, after_right, left, after_left
        operator = MIRRORED[operator]
    if left.name in theirs and right.name in ours and left.type == right.type:
        yield _Bound(left, right, after_right - after_left, operator in (">", ">="))


def _split_difference(left: Expr, right: Expr, operator: str) -> tuple[Expr, Expr, str] | None:
    """`a - b < span` as `a < b + span`."""
    match left, right:
        case Call("-", (one, other)), Literal() if one.type == TIMESTAMP:
            return one, Call("+", (other, right), TIMESTAMP), operator
        case Literal(), Call("-", (one, other)) if one.type == TIMESTAMP:
            return one, Call("+", (other, left), TIMESTAMP), MIRRORED[operator]
    return None


def _split_span(expr: Expr) -> tuple[Expr, dt.timedelta]:
    """A time, and the constant that is added to it."""
    match expr:
        case Call("+" | "-" | "date_add" | "date_sub" as function, (inner, Literal(amount, type_))):
            sign = 1 if function in ("+", "date_add") else -1
            if type_ == DAY_TIME and isinstance(amount, dt.timedelta) and inner.type == expr.type:
                return inner, sign * amount
            if type_ == INT and isinstance(amount, int) and expr.type == DATE:
                return inner, sign * dt.timedelta(days=amount)
    return expr, dt.timedelta()
