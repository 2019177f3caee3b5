"""Rebuilding relations: the same operator over other inputs, or with other expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from headrace.model.expr import Expr
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    Matching,
    Negate,
    Output,
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
)


def with_inputs(relation: Relation, inputs: tuple[Relation, ...]) -> Relation:
    """The operator over other inputs, given in the order of `inputs_of`."""
    match relation:
        case Scan():
            return relation
        case Join():
            return replace(relation, left=inputs[0], right=inputs[1])
        case UnionAll():
            return UnionAll(inputs)
        case Matching():
            return replace(relation, input=inputs[0], touched=inputs[1])
        case _:
            return replace(relation, input=inputs[0])


def with_expressions(relation: Relation, change: Callable[[Expr], Expr]) -> Relation:
    """The operator with each of its own expressions changed; its inputs stay."""
    match relation:
        case Filter():
            return replace(relation, predicate=change(relation.predicate))
        case Projection(_, outputs):
            return replace(relation, outputs=_change_outputs(outputs, change))
        case Join():
            return replace(relation, on=change(relation.on))
        case Aggregate(_, keys, calls):
            return replace(
                relation, keys=_change_outputs(keys, change), calls=tuple(call.over(change) for call in calls)
            )
        case Windows():
            return replace(relation, time=change(relation.time))
        case Sessions(_, partition, time):
            return replace(relation, partition=tuple(map(change, partition)), time=change(time))
        case TopK(_, partition, order):
            changed = tuple(replace(key, expr=change(key.expr)) for key in order)
            return replace(relation, partition=tuple(map(change, partition)), order=changed)
        case Over(_, partition, order, window_calls):
            return replace(
                relation,
                partition=tuple(map(change, partition)),
                order=tuple(replace(key, expr=change(key.expr)) for key in order),
                calls=tuple(call.over(change) for call in window_calls),
            )
        case Matching(_, _, pairs, on):
            return replace(relation, keys=tuple((change(a), change(b)) for a, b in pairs), on=change(on))
        case Scan() | UnionAll() | Distinct() | Unfold() | Stamped() | Negate():
            return relation


def _change_outputs(outputs: tuple[Output, ...], change: Callable[[Expr], Expr]) -> tuple[Output, ...]:
    return tuple(replace(output, expr=change(output.expr)) for output in outputs)


def expressions_of(relation: Relation) -> Iterator[Expr]:
    """An operator's own expressions, not those of its inputs."""
    found: list[Expr] = []

    def note(expr: Expr) -> Expr:
        found.append(expr)
        return expr

    with_expressions(relation, note)
    return iter(found)
