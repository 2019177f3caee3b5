"""Joins: which input stands for which aliases of the output, what is read of each, and by which key."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.expr import Expr, columns_of, conjunction, substitute
from headrace.model.plan import Edge, PlannedBlock, Vertex, VertexKind
from headrace.model.relation import Field
from headrace.run.compile.columns import split
from headrace.run.compile.known import Known, lookup_key
from headrace.run.compile.near import find_computed_key
from headrace.run.program import JoinStep, LogReading, LookupKey


def join_step(known: Known, vertex: Vertex, edge: Edge) -> JoinStep:
    planned = known.planned(edge)
    assert planned is not None, f'a join without a block makes "{vertex.id}"'
    first, second = (known.vertices[name] for name in edge.inputs)
    delta, relation = (first, second) if first.kind is VertexKind.DELTA else (second, first)
    changed, kept = _sides(planned, vertex, delta, relation)
    changes = _side(known, planned, vertex, edge, delta, changed)
    contents = _side(known, planned, vertex, edge, relation, kept)
    on, key = _on(edge, changed, contents)
    residual = conjunction(tuple(one.predicate for one in edge.residual))
    computed = None if on else find_computed_key(residual, changes.values.keys(), contents.values.keys())
    if computed is not None:
        key = lookup_key(tuple(substitute(part, contents.values) for part in computed.theirs))
    contents = replace(contents, key=known.look_up(relation.id, key))
    values = {**changes.values, **contents.values}
    known.columns[vertex.id] = tuple(
        Field(name, values[name].type) for name in (f"{alias}.{column}" for alias, column in vertex.columns)
    )
    if computed is None:
        return JoinStep(changes, contents, on, residual)
    return JoinStep(changes, contents, on, residual, computed.ours, computed.near)


def _sides(
    planned: PlannedBlock, out: Vertex, delta: Vertex, relation: Vertex
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The aliases of the output that each input stands for."""
    whole = set(out.scope)
    if len(relation.scope) > 1 and set(relation.scope) < whole and not _find_aliases(planned, out, relation):
        return tuple(sorted(whole - set(relation.scope))), relation.scope
    if len(delta.scope) > 1 and set(delta.scope) < whole and not _find_aliases(planned, out, delta):
        return delta.scope, tuple(sorted(whole - set(delta.scope)))
    changed = tuple(out.delta_of or ())
    if len(changed) != 1:
        changed = _find_aliases(planned, out, delta)[:1]
    return changed, tuple(sorted(whole - set(changed)))


def _find_aliases(planned: PlannedBlock, out: Vertex, vertex: Vertex) -> tuple[str, ...]:
    """The single aliases of the output that a vertex could be."""
    return tuple(
        alias
        for alias in out.scope
        if vertex.scope == (planned.reads[alias],) or vertex.stands_for == planned.reads[alias]
    )


def _side(
    known: Known, planned: PlannedBlock, out: Vertex, edge: Edge, vertex: Vertex, aliases: tuple[str, ...]
) -> LogReading:
    held = known.held(vertex.id)
    values: dict[str, Expr] = {}
    for alias, column in _find_needed_columns(planned, edge, out):
        if alias in aliases:
            value = held.of_alias(planned, alias, column)
            assert value is not None, f'"{vertex.id}" has no column "{alias}.{column}" for "{out.id}"'
            values[f"{alias}.{column}"] = value
    select = [filter_ for filter_ in edge.select if filter_.alias in aliases]
    if vertex.scope == aliases:
        order = tuple(out.scope.index(alias) for alias in aliases)
    else:
        order = (out.scope.index(aliases[0]),) * len(vertex.scope)
    return LogReading(vertex.id, values, order, held.rewrite_filters(planned, select))


def _find_needed_columns(planned: PlannedBlock, edge: Edge, out: Vertex) -> list[tuple[str, str]]:
    """Columns that a join reads: what goes on, what is compared, and what its predicates read."""
    found = dict.fromkeys(out.columns)
    found |= dict.fromkeys(column for pair in edge.on for column in pair)
    for residual in edge.residual:
        found |= dict.fromkeys(split(planned, name) for name in sorted(columns_of(residual.predicate)))
    return list(found)


def _on(edge: Edge, changed: tuple[str, ...], contents: LogReading) -> tuple[tuple[str, ...], LookupKey]:
    """Names of the changes' columns, and the relation's key in the same order."""
    pairs = []
    for one, other in edge.on:
        ours, theirs = (one, other) if one[0] in changed else (other, one)
        pairs.append((".".join(theirs), ".".join(ours)))
    pairs.sort()
    key = lookup_key(tuple(contents.values[theirs] for theirs, _ in pairs))
    return tuple(ours for _, ours in pairs), key
