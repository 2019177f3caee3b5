"""Operators on top of a block's join core: aggregates, what is derived from contents, and views in full."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from headrace.meaning.derive_keys import keys_of
from headrace.model.block import BlockFilter, DerivationKind
from headrace.model.expr import TRUE, Expr, substitute
from headrace.model.plan import Edge, PlannedBlock, Stage, Vertex, VertexKind
from headrace.model.relation import Field, Output
from headrace.run.compile.columns import VertexColumns, source_fields
from headrace.run.compile.known import Known, lookup_key
from headrace.run.operators import over, top
from headrace.run.operators.aggregate import state_fields
from headrace.run.operators.prepare import key_column, key_fields, prepared_fields
from headrace.run.program import AggregateStep, DerivedInput, DeriveStep, LogReading, LogSpec, LookupKey, RecomputeStep

STATE = "#state"
OVER_A_CORE = (
    DerivationKind.DISTINCT,
    DerivationKind.TOPK,
    DerivationKind.SESSIONS,
    DerivationKind.WINDOW,
    DerivationKind.PYTHON,
)
"""Derivations that read the join core of their block; others read its inputs as they are."""


def aggregate_step(known: Known, vertex: Vertex, edge: Edge) -> AggregateStep:
    planned, grouping = known.planned(edge), edge.grouping
    assert planned is not None and grouping is not None, f'no block groups "{vertex.id}"'
    aggregation = grouping.aggregation
    held = known.held(edge.inputs[0])
    if grouping.stage is Stage.MERGE:
        reading = LogReading(edge.inputs[0], dict(held.file), (0,) * len(held.vertex.scope))
    else:
        reading = _core_reading(known, planned, edge, edge.inputs[0])
    if grouping.stage is Stage.PARTIAL:
        known.columns[vertex.id] = prepared_fields(aggregation)
        return AggregateStep(reading, aggregation, grouping.stage, (), None)
    outputs = _outputs(planned)
    known.columns[vertex.id] = tuple(Field(output.name, output.expr.type) for output in outputs)
    state = vertex.id + STATE
    key = LookupKey(tuple(key_column(field) for field in key_fields(aggregation)))
    known.states[vertex.id] = LogSpec(state, vertex.site, state_fields(aggregation), (key,), True)
    return AggregateStep(reading, aggregation, grouping.stage, outputs, state)


def derive_step(known: Known, vertex: Vertex, edge: Edge) -> DeriveStep:
    planned, derivation = known.planned(edge), edge.derivation
    assert planned is not None and derivation is not None, f'no block derives "{vertex.id}"'
    over_core = derivation.kind in OVER_A_CORE
    has_contents = derivation.kind not in (DerivationKind.UNION_ALL, DerivationKind.WINDOW)
    step = 2 if has_contents else 1
    groups = [edge.inputs[at : at + step] for at in range(0, len(edge.inputs), step)]
    aliases = [None] if over_core else [input_.alias for input_ in planned.block.inputs]
    inputs = tuple(
        _make_derived_input(known, planned, edge, alias, group) for alias, group in zip(aliases, groups, strict=True)
    )
    keys = keys_of(derivation, tuple(input_.fields for input_ in inputs))
    inputs = tuple(_add_key(known, input_, key) for input_, key in zip(inputs, keys, strict=True))
    outputs = _outputs(planned)
    known.columns[vertex.id] = tuple(Field(output.name, output.expr.type) for output in outputs)
    state = vertex.id + STATE
    if derivation.stamp is not None:
        known.states[vertex.id] = LogSpec(state, vertex.site, known.columns[vertex.id], has_contents=True)
        return DeriveStep(inputs, derivation, keys, outputs, state)
    if derivation.kind not in (DerivationKind.TOPK, DerivationKind.WINDOW):
        return DeriveStep(inputs, derivation, keys, outputs)
    operator = top if derivation.kind is DerivationKind.TOPK else over
    key = LookupKey(operator.state_key(keys[0]))
    known.states[vertex.id] = LogSpec(state, vertex.site, operator.state_fields(derivation, keys[0]), (key,), True)
    return DeriveStep(inputs, derivation, keys, outputs, state)


def _make_derived_input(
    known: Known, planned: PlannedBlock, edge: Edge, alias: str | None, group: tuple[str, ...]
) -> DerivedInput:
    """The core, or one alias: its changes, and its contents where the operator looks at them."""
    if alias is None:
        readings = [_core_reading(known, planned, edge, name) for name in group]
    else:
        readings = [_alias_reading(known, planned, edge, name, alias) for name in group]
    fields = tuple(Field(name, value.type) for name, value in readings[0].values.items())
    return DerivedInput(readings[0], readings[1] if len(readings) > 1 else None, fields)


def _add_key(known: Known, input_: DerivedInput, key: tuple[Expr, ...]) -> DerivedInput:
    if input_.contents is None:
        return input_
    contents = input_.contents
    lookup = lookup_key(tuple(substitute(part, contents.values) for part in key))
    return replace(input_, contents=replace(contents, key=known.look_up(contents.log, lookup)))


def recompute_step(known: Known, vertex: Vertex, edge: Edge) -> RecomputeStep:
    planned = known.planned(edge)
    assert planned is not None and edge.derivation is not None, f'no block makes "{vertex.id}"'
    assert edge.derivation.recomputed is not None, f'no query makes "{vertex.id}"'
    aliases = [input_.alias for input_ in planned.block.inputs]
    groups = [edge.inputs[at : at + 2] for at in range(0, len(edge.inputs), 2)]
    inputs = {
        alias: _whole_source(known, planned, edge, contents, alias)
        for alias, (_, contents) in zip(aliases, groups, strict=True)
    }
    outputs = _outputs(planned)
    columns = known.columns[vertex.id] = tuple(Field(output.name, output.expr.type) for output in outputs)
    state = vertex.id + STATE
    known.states[vertex.id] = LogSpec(state, vertex.site, columns, has_contents=True)
    return RecomputeStep(inputs, edge.derivation.recomputed, outputs, state)


def _whole_source(known: Known, planned: PlannedBlock, edge: Edge, name: str, source: str) -> LogReading:
    """Its columns in the order in which they are declared: `*` means them so."""
    reading = _alias_reading(known, planned, edge, name, source)
    order = [field.name for field in source_fields(known.plan.catalogue, source)]
    return replace(reading, values={column: reading.values[column] for column in order})


def _core_reading(known: Known, planned: PlannedBlock, edge: Edge, name: str) -> LogReading:
    """The whole join core of a block."""
    held = known.held(name)
    values = {
        f"{alias}.{column}": _must(held, planned, alias, column)
        for alias, columns in planned.keep.items()
        for column in columns
    }
    return LogReading(name, values, (0,) * len(held.vertex.scope), _still_filtered(held, planned, edge.select))


def _alias_reading(known: Known, planned: PlannedBlock, edge: Edge, name: str, alias: str) -> LogReading:
    held = known.held(name)
    values = {f"{alias}.{column}": _must(held, planned, alias, column) for column in planned.keep[alias]}
    select = [filter_ for filter_ in edge.select if filter_.alias == alias]
    return LogReading(name, values, (0,) * len(held.vertex.scope), _still_filtered(held, planned, select))


def _still_filtered(held: VertexColumns, planned: PlannedBlock, select: Iterable[BlockFilter]) -> Expr:
    """Filters of an edge are those of changes as they are captured; of relations, only a source's is as raw."""
    is_raw = held.vertex.kind is VertexKind.DELTA or held.vertex.base
    return held.rewrite_filters(planned, select) if is_raw else TRUE


def _must(held: VertexColumns, planned: PlannedBlock, alias: str, column: str) -> Expr:
    value = held.of_alias(planned, alias, column)
    assert value is not None, f'"{held.vertex.id}" has no column "{alias}.{column}" of block "{planned.block.id}"'
    return value


def _outputs(planned: PlannedBlock) -> tuple[Output, ...]:
    """A block's columns under the names that vertices use."""
    found = {
        f"{planned.name}.{planned.stored[output.name]}": Output(
            f"{planned.name}.{planned.stored[output.name]}", output.expr
        )
        for output in planned.block.outputs
    }
    return tuple(found[name] for name in sorted(found))
