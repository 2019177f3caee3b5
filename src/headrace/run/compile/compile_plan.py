"""Compiles one vertex after another, inputs first: its step, then its log. Also compiles steps that pass rows on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from graphlib import TopologicalSorter

from headrace.meaning.python_functions import functions_of
from headrace.model.expr import Expr
from headrace.model.plan import Edge, Operator, Plan, Vertex, VertexKind
from headrace.model.relation import Field
from headrace.run.capture.spool import spool_log
from headrace.run.compile.answers import with_answers
from headrace.run.compile.columns import VertexColumns, source_fields
from headrace.run.compile.join import join_step
from headrace.run.compile.known import Known
from headrace.run.compile.on_top import aggregate_step, derive_step, recompute_step
from headrace.run.compile.site_program import take_part
from headrace.run.compile.timers import with_timers
from headrace.run.program import (
    Ingest,
    LogReading,
    LogSpec,
    LookupKey,
    OperatorStep,
    Pass,
    Program,
    RecomputeStep,
    SiteCopy,
    Task,
)


def compile_plan(plan: Plan) -> Program:
    """Raises AssertionError where a plan does not fit together: that is our own fault."""
    whole = with_answers(with_timers(_program(Known(plan))), plan)
    return whole if plan.site is None else _mark_whole(take_part(whole, plan.site), plan)


def _mark_whole(part: Program, plan: Plan) -> Program:
    def mark(copies: Mapping[str, SiteCopy]) -> dict[str, SiteCopy]:
        return {name: replace(copy, is_whole=_is_whole(plan.graph.vertices[name])) for name, copy in copies.items()}

    return replace(part, imports=mark(part.imports), exports=mark(part.exports))


def _is_whole(vertex: Vertex) -> bool:
    return set(vertex.scope) <= set(vertex.delta_of or vertex.scope)


def _program(known: Known) -> Program:
    tasks: dict[str, Task] = {}
    for name in _order(known):
        tasks[name] = _task(known, known.vertices[name], tasks)
    logs = {name: _log(known, vertex) for name, vertex in known.vertices.items()}
    tasks = {name: replace(task, state=known.states.get(name)) for name, task in tasks.items()}
    return Program(
        tasks, logs | {spec.name: spec for spec in known.states.values()}, functions_of(known.plan.catalogue)
    )


def _order(known: Known) -> Iterable[str]:
    edges = known.plan.graph.edges
    graph = {name: edges[name].inputs if name in edges else () for name in known.vertices}
    return TopologicalSorter(graph).static_order()


def _log(known: Known, vertex: Vertex) -> LogSpec:
    keys = tuple(known.keys.get(vertex.id, {}).values())
    kept = vertex.kind is VertexKind.RELATION
    return LogSpec(vertex.id, vertex.site, known.columns[vertex.id], keys, kept)


def _task(known: Known, vertex: Vertex, before: Mapping[str, Task]) -> Task:
    edge = known.plan.graph.edges.get(vertex.id)
    step = _ingest_step(known, vertex) if edge is None else _step(known, vertex, edge)
    reads = (step.spool,) if isinstance(step, Ingest) else _drop_repeated(edge.inputs if edge else ())
    inputs = [before[name] for name in reads if name in before]
    follows = any(task.follows or isinstance(task.step, RecomputeStep) for task in inputs)
    return Task(vertex.id, vertex.site, step, reads, follows=follows)


def _step(known: Known, vertex: Vertex, edge: Edge) -> OperatorStep:
    match edge.op:
        case Operator.CAPTURE | Operator.COPY | Operator.APPLY | Operator.UNION:
            return _pass_step(known, vertex, edge)
        case Operator.JOIN:
            return join_step(known, vertex, edge)
        case Operator.AGGREGATE:
            return aggregate_step(known, vertex, edge)
        case Operator.DERIVE if edge.is_recomputed:
            return recompute_step(known, vertex, edge)
        case Operator.DERIVE:
            return derive_step(known, vertex, edge)


def _ingest_step(known: Known, vertex: Vertex) -> Ingest:
    source = known.plan.catalogue.sources[vertex.scope[0]]
    known.columns[vertex.id] = source_fields(known.plan.catalogue, source.name)
    key = tuple(f"{source.name}.{column}" for column in source.key)
    if key:
        known.look_up(vertex.id, LookupKey(key))
    return Ingest(spool_log(source.name), known.columns[vertex.id], key)


def _pass_step(known: Known, vertex: Vertex, edge: Edge) -> Pass:
    readings = []
    for name in edge.inputs:
        held, planned = known.held(name), known.planned(edge)
        wanted = _choose_columns(vertex, held)
        readings.append(
            LogReading(name, wanted, _same_order(known, name, vertex), held.rewrite_filters(planned, edge.select))
        )
    known.columns[vertex.id] = tuple(Field(name, value.type) for name, value in readings[0].values.items())
    return Pass(tuple(readings))


def _choose_columns(vertex: Vertex, held: VertexColumns) -> dict[str, Expr]:
    """What the vertex holds, of what its input does; rows of partial aggregates go on as they are."""
    if any(alias == "" for alias, _ in vertex.columns):
        return dict(held.file)
    found: dict[str, Expr] = {}
    for alias, column in vertex.columns:
        value = held.stored(f"{alias}.{column}")
        assert value is not None, f'"{held.vertex.id}" has no column "{alias}.{column}" for "{vertex.id}"'
        found[f"{alias}.{column}"] = value
    return found


def _same_order(known: Known, name: str, vertex: Vertex) -> tuple[int, ...]:
    scope = known.vertices[name].scope
    return tuple(range(len(scope))) if scope == vertex.scope else (0,) * len(scope)


def _drop_repeated(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
