"""Walks over trees of relations: the nodes, the expressions in them, and trees rebuilt from below."""

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
    inputs_of,
)


def nodes(relation: Relation) -> Iterator[Relation]:
    """The relation and everything below it."""
    yield relation
    for input_ in inputs_of(relation):
        yield from nodes(input_)


def expressions_of(relation: Relation) -> tuple[Expr, ...]:
    """The expressions of one operator, over the fields of its inputs."""
    match relation:
        case Filter(_, predicate):
            return (predicate,)
        case Projection(_, outputs):
            return tuple(output.expr for output in outputs)
        case Join(_, _, _, on):
            return (on,)
        case Aggregate(_, keys, calls):
            arguments = (expr for call in calls for expr in call.inputs)
            return (*(key.expr for key in keys), *arguments)
        case Windows(_, time):
            return (time,)
        case Sessions(_, partition, time):
            return (*partition, time)
        case TopK():
            return (*relation.partition, *(key.expr for key in relation.order))
        case Over(_, partition, order, window_calls):
            inputs = (expr for call in window_calls for expr in call.inputs)
            return (*partition, *(key.expr for key in order), *inputs)
    return ()


def rebuilt(relation: Relation, change: Callable[[Relation], Relation]) -> Relation:
    """The tree with every node given to `change`, from below."""
    match relation:
        case Scan():
            return change(relation)
        case Join(_, left, right):
            return change(replace(relation, left=rebuilt(left, change), right=rebuilt(right, change)))
        case UnionAll(inputs):
            return change(replace(relation, inputs=tuple(rebuilt(input_, change) for input_ in inputs)))
        case (
            Filter()
            | Projection()
            | Aggregate()
            | Windows()
            | Sessions()
            | Unfold()
            | TopK()
            | Over()
            | Distinct()
            | Stamped()
        ):
            return change(replace(relation, input=rebuilt(relation.input, change)))
        case Negate() | Matching():
            raise AssertionError(f"no SQL gives {type(relation).__name__}")
