"""Divides a view for a check: finds a column by whose hash the view and the rows that it is made of fall into parts.

A part of a view are the rows whose value in that column has a certain hash. Where the column comes unchanged from a
column of a source, other rows of that source cannot make rows of the part, and are left out before the query is
evaluated. What is left out changes nothing about the part; it only costs less.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.expr import Call, Column, Expr, conjuncts
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Matching,
    Negate,
    Over,
    Projection,
    Relation,
    Scan,
    Sessions,
    Stamped,
    TopK,
    Unfold,
    UnionAll,
    Windows,
    fields_of,
    scans_of,
)

ScanColumns = tuple[str | None, ...]
"""For each scan of a relation, left to right: its column that has the value, None if all of its rows count."""


@dataclass(frozen=True, slots=True)
class ViewDivision:
    """`column` is the position of the output column; `by_source` the columns of sources that have its value."""

    column: int
    by_source: Mapping[str, str]


def divide_view(query: Relation, rows: Mapping[str, int]) -> ViewDivision | None:
    """The division that leaves out the most rows; `rows` says how many each source has. None if there is none."""
    fields = fields_of(query)
    found = [ViewDivision(position, _find_divided(query, field.name)) for position, field in enumerate(fields)]
    best = min(found, key=lambda one: (_count_whole(one, rows), one.column), default=None)
    return best if best is not None and best.by_source else None


def _count_whole(division: ViewDivision, rows: Mapping[str, int]) -> int:
    return sum(count for source, count in rows.items() if source not in division.by_source)


def _find_divided(query: Relation, name: str) -> dict[str, str]:
    """Sources all of whose scans have the value in one and the same column."""
    found: dict[str, set[str | None]] = {}
    for scan, column in zip(scans_of(query), _push(query, name), strict=True):
        found.setdefault(scan.source, set()).add(column)
    return {
        source: column
        for source, columns in sorted(found.items())
        if len(columns) == 1 and (column := next(iter(columns))) is not None
    }


def _push(relation: Relation, name: str) -> ScanColumns:
    """Which scans may leave out rows if only those rows of a relation are wanted whose `name` has certain values."""
    match relation:
        case Scan(_, alias, columns):
            return (next((column for column in columns if f"{alias}.{column}" == name), None),)
        case Filter(input_) | Distinct(input_) | Negate(input_):
            return _push(input_, name)
        case Projection(input_, outputs):
            return _push_expression(input_, next(output.expr for output in outputs if output.name == name))
        case Aggregate(input_, keys):
            key = next((key.expr for key in keys if key.name == name), None)
            return _none(relation) if key is None else _push_expression(input_, key)
        case Unfold(input_, columns):
            return _push(input_, name) if _has(input_, name) and name not in columns else _none(relation)
        case Windows(input_):
            return _push(input_, name) if _has(input_, name) else _none(relation)
        case TopK(input_, partition) | Over(input_, partition) | Sessions(input_, partition):
            # Rows of one partition have one value: none of them is missing where the others are.
            divided = any(isinstance(expr, Column) and expr.name == name for expr in partition)
            return _push(input_, name) if divided else _none(relation)
        case UnionAll(inputs):
            position = [field.name for field in fields_of(relation)].index(name)
            return tuple(column for one in inputs for column in _push(one, fields_of(one)[position].name))
        case Join():
            return _push_join(relation, name)
        case Matching() | Stamped():
            return _none(relation)


def _push_expression(input_: Relation, expr: Expr) -> ScanColumns:
    return _push(input_, expr.name) if isinstance(expr, Column) else _none(input_)


def _push_join(join: Join, name: str) -> ScanColumns:
    """The side that has the column, if all its rows are kept or none is without a partner; then the other side, by the
    column that has to be equal. A row of the other side that is left out has no partner in the part.
    """
    on_left = _has(join.left, name)
    divided = {
        JoinKind.INNER: True,
        JoinKind.LEFT: on_left,
        JoinKind.SEMI: on_left,
        JoinKind.ANTI: on_left,
        JoinKind.RIGHT: not on_left,
        JoinKind.FULL: False,
    }[join.kind]
    if not divided:
        return _none(join)
    own, other = (join.left, join.right) if on_left else (join.right, join.left)
    partner = _find_partner(join.on, name, other)
    pushed = _push(own, name), _none(other) if partner is None else _push(other, partner)
    return (*pushed[0], *pushed[1]) if on_left else (*pushed[1], *pushed[0])


def _find_partner(on: Expr, name: str, other: Relation) -> str | None:
    """A column of the other side that equals `name` in every pair, and has its type: then it has its hash, too."""
    for part in conjuncts(on):
        match part:
            case Call("=", (Column(left, type_), Column(right, other_type))) if type_ == other_type:
                for mine, theirs in ((left, right), (right, left)):
                    if mine == name and _has(other, theirs):
                        return theirs
    return None


def _has(relation: Relation, name: str) -> bool:
    return any(field.name == name for field in fields_of(relation))


def _none(relation: Relation) -> ScanColumns:
    return (None,) * len(scans_of(relation))


def count_parts(rows: Mapping[str, int], division: ViewDivision | None, at_once: int) -> int | None:
    """How many parts a view is checked in, so that each reads about `at_once` rows; None if it cannot be done.

    Sources that are not divided are read whole for every part.
    """
    total = sum(rows.values())
    if total <= at_once:
        return 1
    whole = total if division is None else _count_whole(division, rows)
    if whole > at_once // 2:
        return None
    return -(-(total - whole) // (at_once - whole))
