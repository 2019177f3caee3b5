"""Joins of streams: rows of both sides are kept only so long as a bound on their distance in time says that they can
still meet.

A stream is append-only, so its rows never leave by themselves. What a stream is aggregated to without its time is like
a table: it has one row per group, which changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.declare.query.environment import Environment
from headrace.declare.query.report import refuse
from headrace.declare.query.trees import nodes
from headrace.model.catalogue import SourceKind
from headrace.model.expr import FALSE, Call, Expr, columns_of, conjuncts
from headrace.model.relation import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
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
    fields_of,
)

_EQUAL = ("=", "<=>")
_BELOW, _ABOVE = ("<", "<="), (">", ">=")


@dataclass(frozen=True, slots=True)
class _Flow:
    """Whether rows are a stream's, and which of their fields tell event time."""

    stream: bool
    times: frozenset[str]


@dataclass(frozen=True, slots=True)
class StreamCheck:
    """Looks for joins of two streams without a bound on time."""

    environment: Environment

    def flow(self, relation: Relation, known: Sequence[Expr] = ()) -> _Flow:
        """`known` are conditions that hold for all rows that are kept above."""
        match relation:
            case Scan():
                return self._scan(relation)
            case Filter(input_, predicate):
                return self.flow(input_, (*known, *conjuncts(predicate)))
            case Projection(input_, outputs):
                inner = self.flow(input_)
                return _Flow(inner.stream, _find_timed(outputs, inner.times))
            case Windows() | Sessions():
                input_, time = relation.input, relation.time
                inner = self.flow(input_)
                bounds = {relation.start, relation.end} if _tells(time, inner.times) else set()
                return _Flow(inner.stream, inner.times | bounds)
            case Unfold(input_, columns):
                inner = self.flow(input_)
                return _Flow(inner.stream, inner.times - set(columns))
            case Aggregate(input_, keys):
                inner = self.flow(input_)
                times = _find_timed(keys, inner.times)
                return _Flow(inner.stream and bool(times), times)
            case TopK(input_, partition) | Over(input_, partition):
                inner = self.flow(input_)
                return _Flow(inner.stream and any(_tells(part, inner.times) for part in partition), inner.times)
            case Join():
                return self._join(relation, known)
            case UnionAll(inputs):
                return self._union(inputs)
            case Distinct(input_) | Stamped(input_):
                return self.flow(input_)
        raise AssertionError(f"no SQL gives {type(relation).__name__}")

    def _scan(self, scan: Scan) -> _Flow:
        source = self.environment.declared.sources.get(scan.source)
        if source is None or source.kind != SourceKind.STREAM:
            return _Flow(False, frozenset())
        return _Flow(True, frozenset((f"{scan.alias}.{source.time}",)) if source.time else frozenset())

    def _union(self, inputs: Sequence[Relation]) -> _Flow:
        names = [[field.name for field in fields_of(input_)] for input_ in inputs]
        flows = [self.flow(input_) for input_ in inputs]
        told = [[name in flow.times for name in row] for row, flow in zip(names, flows, strict=True)]
        times = (name for name, *telling in zip(names[0], *told, strict=True) if all(telling))
        return _Flow(any(flow.stream for flow in flows), frozenset(times))

    def _join(self, join: Join, known: Sequence[Expr]) -> _Flow:
        inner = join.kind == JoinKind.INNER
        parts = (*conjuncts(join.on), *(known if inner else ()))
        left, right = (self.flow(side, parts if inner else ()) for side in (join.left, join.right))
        if left.stream and right.stream and not _is_bounded(parts, left.times, right.times):
            scan = next(node for node in nodes(join.right) if isinstance(node, Scan))
            refuse("stream-stream join without a window", self.environment.books.places[scan.alias])
        if join.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return left
        return _Flow(left.stream or right.stream, left.times | right.times)


def is_constant(relation: Relation) -> bool:
    """Whether rows are of no source: those of a filter that nothing passes."""
    kept = [node for node in nodes(relation) if isinstance(node, Filter) and node.predicate == FALSE]
    return len(kept) == sum(isinstance(node, Scan) for node in nodes(relation))


def _tells(expr: Expr, times: frozenset[str]) -> bool:
    """Whether an expression is of event times alone."""
    return bool(columns_of(expr)) and columns_of(expr) <= times


def _find_timed(outputs: Sequence[Output], times: frozenset[str]) -> frozenset[str]:
    return frozenset(output.name for output in outputs if _tells(output.expr, times))


def _is_bounded(parts: Sequence[Expr], left: frozenset[str], right: frozenset[str]) -> bool:
    directions = {direction for part in parts for direction in _bounds(part, left, right)}
    return "=" in directions or directions >= {"<", ">"}


def _bounds(part: Expr, left: frozenset[str], right: frozenset[str]) -> tuple[str, ...]:
    """Tells on which side a condition bounds the left time minus the right one."""
    if not isinstance(part, Call) or not _tells(part, left | right):
        return ()
    if not columns_of(part) & left or not columns_of(part) & right or len(part.arguments) != 2:
        return ()
    if part.function in _EQUAL:
        return ("=",)
    first, second = part.arguments
    if isinstance(first, Call) and first.function == "-" and not columns_of(second):
        first, second = first.arguments
    forward = columns_of(first) <= left and columns_of(second) <= right
    backward = columns_of(first) <= right and columns_of(second) <= left
    if part.function in _BELOW:
        return ("<",) if forward else (">",) if backward else ()
    if part.function in _ABOVE:
        return (">",) if forward else ("<",) if backward else ()
    return ()
