"""GROUPING SETS, ROLLUP and CUBE: by which keys rows are grouped, once for every set.

The answer is that of one GROUP BY per set, together; keys that a set leaves out are NULL. Over nothing the empty set
has a row in PostgreSQL, and none in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product

from sqlglot import exp

from headrace.declare.query.mistakes import NotMaintained
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Filter,
    Output,
    Projection,
    Relation,
    UnionAll,
)
from headrace.model.types import BIGINT, BOOLEAN

MOST_SETS = 64

NodeSet = tuple[exp.Expr, ...]


def written_sets(group: exp.Group) -> tuple[NodeSet, ...] | None:
    """The sets that GROUP BY names, each as the keys in it; None if it names keys alone."""
    plain = group.expressions
    if group.args.get("totals"):
        raise NotMaintained("clause: with totals")
    if group.args.get("grouping_sets"):
        return _limit(chain.from_iterable(_find_sets(one) for one in group.args["grouping_sets"]))
    for clause, kind in (("rollup", exp.Rollup), ("cube", exp.Cube)):
        if group.args.get(clause):
            return _limit(_find_sets(kind(expressions=[one.copy() for one in plain])))
    if not any(isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets) for node in plain):
        return None
    return _limit(tuple(chain.from_iterable(parts)) for parts in product(*map(_find_sets, plain)))


def _limit(sets: Iterator[NodeSet] | Sequence[NodeSet]) -> tuple[NodeSet, ...]:
    found: list[NodeSet] = []
    for one in sets:
        if len(found) == MOST_SETS:
            raise NotMaintained("grouping sets")
        found.append(one)
    return tuple(found)


def _find_sets(node: exp.Expr) -> tuple[NodeSet, ...]:
    match node:
        case exp.GroupingSets():
            return tuple(chain.from_iterable(map(_find_sets, node.expressions)))
        case exp.Rollup():
            parts = [_list_keys(part) for part in node.expressions]
            return tuple(tuple(chain.from_iterable(parts[:length])) for length in range(len(parts), -1, -1))
        case exp.Cube():
            parts = [_list_keys(part) for part in node.expressions]
            if 2 ** len(parts) > MOST_SETS:
                raise NotMaintained("grouping sets")
            chosen = (combinations(parts, length) for length in range(len(parts), -1, -1))
            return tuple(tuple(chain.from_iterable(some)) for some in chain.from_iterable(chosen))
        case _:
            return (_list_keys(node),)


def _list_keys(node: exp.Expr) -> NodeSet:
    if isinstance(node, exp.Tuple):
        return tuple(chain.from_iterable(map(_list_keys, node.expressions)))
    return (node,)


@dataclass(frozen=True, slots=True)
class GroupingMark:
    """`grouping(k)` and `grouping_id(k, l)`: a bit for each key, 1 where a set leaves it out, the last key lowest."""

    field: Column
    keys: tuple[str, ...]

    def output(self, present: frozenset[str]) -> Output:
        bits = 0
        for key in self.keys:
            bits = 2 * bits + (key not in present)
        return Output(self.field.name, Literal(bits, self.field.type))


def group_by_sets(
    rows: Relation,
    keys: Mapping[str, Expr],
    sets: Sequence[frozenset[str]],
    calls: tuple[AggregateCall, ...],
    marks: Sequence[GroupingMark],
    *,
    over_nothing: bool,
) -> Relation:
    """The groups of all sets, with all keys, calls and marks. Sets and marks name keys. With `over_nothing` the empty
    set has a row also where there are no rows.
    """
    return UnionAll(
        tuple(_group_by_set(rows, keys, present, calls, marks, over_nothing=over_nothing) for present in sets)
    )


def _group_by_set(
    rows: Relation,
    keys: Mapping[str, Expr],
    present: frozenset[str],
    calls: tuple[AggregateCall, ...],
    marks: Sequence[GroupingMark],
    *,
    over_nothing: bool,
) -> Relation:
    own = tuple(Output(name, expr) for name, expr in keys.items() if name in present)
    groups: Relation = Aggregate(rows, own, calls)
    if not present and not over_nothing:
        counted = AggregateCall("rows of all sets", AggregateFunction.COUNT, None, False, BIGINT)
        there = Call(">", (Column(counted.name, BIGINT), Literal(0, BIGINT)), BOOLEAN)
        groups = Filter(Aggregate(rows, (), (*calls, counted)), there)
    outputs = (
        *(Output(name, Column(name, e.type) if name in present else Literal(None, e.type)) for name, e in keys.items()),
        *(Output(call.name, Column(call.name, call.type)) for call in calls),
        *(mark.output(present) for mark in marks),
    )
    return Projection(groups, outputs)
