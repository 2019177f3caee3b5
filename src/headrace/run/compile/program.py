"""From a plan to a program: for every vertex the step that moves it on, and what its log holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter

from headrace.model.block import BlockFilter, DerivationKind
from headrace.model.catalogue import Catalogue
from headrace.model.expr import TRUE, Column, Expr, columns_of, conjunction, substitute
from headrace.model.plan import Edge, Operator, Plan, PlannedBlock, Stage, Vertex, VertexKind
from headrace.model.relation import Field, Output
from headrace.run.capture.spool import spool_log
from headrace.run.columns import Held, Names, split
from headrace.run.derive_keys import keys_of
from headrace.run.functions import functions_of
from headrace.run.operators.aggregate import state_fields
from headrace.run.operators.prepare import key_column, key_fields, prepared_fields
from headrace.run.steps import (
    AggregateStep,
    DerivedInput,
    DeriveStep,
    Ingest,
    JoinStep,
    LogSpec,
    LookupKey,
    Pass,
    Program,
    Reading,
    RecomputeStep,
    Step,
    Task,
)
from headrace.run.timers import with_timers

SPOOL = "spool:"
STATE = "#state"


def compile_plan(plan: Plan) -> Program:
    """Raises AssertionError where a plan does not fit together: that is our own fault."""
    return with_timers(_Compilation(plan).program())


@dataclass
class _Compilation:
    plan: Plan
    columns: dict[str, tuple[Field, ...]] = field(default_factory=dict)
    keys: dict[str, dict[tuple[str, ...], LookupKey]] = field(default_factory=dict)
    states: dict[str, LogSpec] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.vertices = self.plan.graph.vertices
        self.names = Names({planned.block.id: planned for planned in self.plan.blocks})

    def program(self) -> Program:
        tasks: dict[str, Task] = {}
        for name in self._order():
            tasks[name] = self._task(self.vertices[name], tasks)
        logs = {name: self._log(vertex) for name, vertex in self.vertices.items()}
        tasks = {name: replace(task, state=self.states.get(name)) for name, task in tasks.items()}
        return Program(
            tasks, logs | {spec.name: spec for spec in self.states.values()}, functions_of(self.plan.catalogue)
        )

    def _order(self) -> Iterable[str]:
        edges = self.plan.graph.edges
        graph = {name: edges[name].inputs if name in edges else () for name in self.vertices}
        return TopologicalSorter(graph).static_order()

    def _log(self, vertex: Vertex) -> LogSpec:
        keys = tuple(self.keys.get(vertex.id, {}).values())
        kept = vertex.kind is VertexKind.RELATION
        return LogSpec(vertex.id, vertex.site, self.columns[vertex.id], keys, kept)

    def _task(self, vertex: Vertex, before: Mapping[str, Task]) -> Task:
        edge = self.plan.graph.edges.get(vertex.id)
        step = self._ingest(vertex) if edge is None else self._step(vertex, edge)
        reads = (step.spool,) if isinstance(step, Ingest) else _distinct(edge.inputs if edge else ())
        inputs = [before[name] for name in reads if name in before]
        follows = any(task.follows or isinstance(task.step, RecomputeStep) for task in inputs)
        return Task(vertex.id, vertex.site, step, reads, follows=follows)

    def _step(self, vertex: Vertex, edge: Edge) -> Step:
        match edge.op:
            case Operator.CAPTURE | Operator.COPY | Operator.APPLY | Operator.UNION:
                return self._pass(vertex, edge)
            case Operator.JOIN:
                return self._join(vertex, edge)
            case Operator.AGGREGATE:
                return self._aggregate(vertex, edge)
            case Operator.DERIVE if edge.is_recomputed:
                return self._recompute(vertex, edge)
            case Operator.DERIVE:
                return self._derive(vertex, edge)

    # Sources

    def _ingest(self, vertex: Vertex) -> Ingest:
        source = self.plan.catalogue.sources[vertex.scope[0]]
        self.columns[vertex.id] = source_fields(self.plan.catalogue, source.name)
        key = tuple(f"{source.name}.{column}" for column in source.key)
        if key:
            self._look_up(vertex.id, LookupKey(key))
        return Ingest(spool_log(source.name), self.columns[vertex.id], key)

    # Rows that go on

    def _pass(self, vertex: Vertex, edge: Edge) -> Pass:
        readings = []
        for name in edge.inputs:
            held, planned = self._held(name), self._planned(edge)
            wanted = self._passed_columns(vertex, held)
            readings.append(Reading(name, wanted, self._same_order(name, vertex), held.filtered(planned, edge.select)))
        self.columns[vertex.id] = tuple(Field(name, value.type) for name, value in readings[0].values.items())
        return Pass(tuple(readings))

    def _passed_columns(self, vertex: Vertex, held: Held) -> dict[str, Expr]:
        """What the vertex holds, of what its input does; rows of partial aggregates go on as they are."""
        if any(alias == "" for alias, _ in vertex.columns):
            return dict(held.file)
        found: dict[str, Expr] = {}
        for alias, column in vertex.columns:
            value = held.stored(f"{alias}.{column}")
            assert value is not None, f'"{held.vertex.id}" has no column "{alias}.{column}" for "{vertex.id}"'
            found[f"{alias}.{column}"] = value
        return found

    def _same_order(self, name: str, vertex: Vertex) -> tuple[int, ...]:
        scope = self.vertices[name].scope
        return tuple(range(len(scope))) if scope == vertex.scope else (0,) * len(scope)

    # Joins

    def _join(self, vertex: Vertex, edge: Edge) -> JoinStep:
        planned = self._planned(edge)
        assert planned is not None, f'a join without a block makes "{vertex.id}"'
        first, second = (self.vertices[name] for name in edge.inputs)
        delta, relation = (first, second) if first.kind is VertexKind.DELTA else (second, first)
        changed, kept = self._sides(planned, vertex, delta, relation)
        changes = self._side(planned, vertex, edge, delta, changed)
        contents = self._side(planned, vertex, edge, relation, kept)
        on, key = self._on(edge, changed, contents)
        contents = replace(contents, key=self._look_up(relation.id, key))
        residual = conjunction(tuple(one.predicate for one in edge.residual))
        values = {**changes.values, **contents.values}
        self.columns[vertex.id] = tuple(
            Field(name, values[name].type) for name in (f"{alias}.{column}" for alias, column in vertex.columns)
        )
        return JoinStep(changes, contents, on, residual)

    def _sides(
        self, planned: PlannedBlock, out: Vertex, delta: Vertex, relation: Vertex
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The aliases of the output that each input stands for."""
        whole = set(out.scope)
        if len(relation.scope) > 1 and set(relation.scope) < whole and not self._reads(planned, out, relation):
            return tuple(sorted(whole - set(relation.scope))), relation.scope
        if len(delta.scope) > 1 and set(delta.scope) < whole and not self._reads(planned, out, delta):
            return delta.scope, tuple(sorted(whole - set(delta.scope)))
        changed = tuple(out.delta_of or ())
        if len(changed) != 1:
            changed = self._reads(planned, out, delta)[:1]
        return changed, tuple(sorted(whole - set(changed)))

    def _reads(self, planned: PlannedBlock, out: Vertex, vertex: Vertex) -> tuple[str, ...]:
        """The single aliases of the output that a vertex could be."""
        return tuple(
            alias
            for alias in out.scope
            if vertex.scope == (planned.reads[alias],) or vertex.stands_for == planned.reads[alias]
        )

    def _side(
        self, planned: PlannedBlock, out: Vertex, edge: Edge, vertex: Vertex, aliases: tuple[str, ...]
    ) -> Reading:
        held = self._held(vertex.id)
        values: dict[str, Expr] = {}
        for alias, column in self._needed(planned, edge, out):
            if alias in aliases:
                value = held.of_alias(planned, alias, column)
                assert value is not None, f'"{vertex.id}" has no column "{alias}.{column}" for "{out.id}"'
                values[f"{alias}.{column}"] = value
        select = [filter_ for filter_ in edge.select if filter_.alias in aliases]
        if vertex.scope == aliases:
            order = tuple(out.scope.index(alias) for alias in aliases)
        else:
            order = (out.scope.index(aliases[0]),) * len(vertex.scope)
        return Reading(vertex.id, values, order, held.filtered(planned, select))

    def _needed(self, planned: PlannedBlock, edge: Edge, out: Vertex) -> list[tuple[str, str]]:
        """Columns that a join reads: what goes on, what is compared, and what its predicates read."""
        found = dict.fromkeys(out.columns)
        found |= dict.fromkeys(column for pair in edge.on for column in pair)
        for residual in edge.residual:
            found |= dict.fromkeys(split(planned, name) for name in sorted(columns_of(residual.predicate)))
        return list(found)

    def _on(self, edge: Edge, changed: tuple[str, ...], contents: Reading) -> tuple[tuple[str, ...], LookupKey]:
        """Names of the changes' columns, and the relation's key in the same order."""
        pairs = []
        for one, other in edge.on:
            ours, theirs = (one, other) if one[0] in changed else (other, one)
            pairs.append((".".join(theirs), ".".join(ours)))
        pairs.sort()
        key = _lookup_key(tuple(contents.values[theirs] for theirs, _ in pairs))
        return tuple(ours for _, ours in pairs), key

    # Operators on top

    def _aggregate(self, vertex: Vertex, edge: Edge) -> AggregateStep:
        planned, grouping = self._planned(edge), edge.grouping
        assert planned is not None and grouping is not None, f'no block groups "{vertex.id}"'
        aggregation = grouping.aggregation
        held = self._held(edge.inputs[0])
        if grouping.stage is Stage.MERGE:
            reading = Reading(edge.inputs[0], dict(held.file), (0,) * len(held.vertex.scope))
        else:
            reading = self._core_reading(planned, edge, edge.inputs[0])
        if grouping.stage is Stage.PARTIAL:
            self.columns[vertex.id] = prepared_fields(aggregation)
            return AggregateStep(reading, aggregation, grouping.stage, (), None)
        outputs = self._outputs(planned)
        self.columns[vertex.id] = tuple(Field(output.name, output.expr.type) for output in outputs)
        state = vertex.id + STATE
        key = LookupKey(tuple(key_column(field) for field in key_fields(aggregation)))
        self.states[vertex.id] = LogSpec(state, vertex.site, state_fields(aggregation), (key,), True)
        return AggregateStep(reading, aggregation, grouping.stage, outputs, state)

    def _core_reading(self, planned: PlannedBlock, edge: Edge, name: str) -> Reading:
        """The whole join core of a block."""
        held = self._held(name)
        values = {
            f"{alias}.{column}": self._must(held, planned, alias, column)
            for alias, columns in planned.keep.items()
            for column in columns
        }
        return Reading(name, values, (0,) * len(held.vertex.scope), self._still_filtered(held, planned, edge.select))

    def _still_filtered(self, held: Held, planned: PlannedBlock, select: Iterable[BlockFilter]) -> Expr:
        """Filters of an edge are those of changes as they are captured; of relations, only a source's is as raw."""
        is_raw = held.vertex.kind is VertexKind.DELTA or held.vertex.base
        return held.filtered(planned, select) if is_raw else TRUE

    def _must(self, held: Held, planned: PlannedBlock, alias: str, column: str) -> Expr:
        value = held.of_alias(planned, alias, column)
        assert value is not None, f'"{held.vertex.id}" has no column "{alias}.{column}" of block "{planned.block.id}"'
        return value

    def _outputs(self, planned: PlannedBlock) -> tuple[Output, ...]:
        """A block's columns under the names that vertices use."""
        found = {
            f"{planned.name}.{planned.stored[output.name]}": Output(
                f"{planned.name}.{planned.stored[output.name]}", output.expr
            )
            for output in planned.block.outputs
        }
        return tuple(found[name] for name in sorted(found))

    def _derive(self, vertex: Vertex, edge: Edge) -> DeriveStep:
        planned, derivation = self._planned(edge), edge.derivation
        assert planned is not None and derivation is not None, f'no block derives "{vertex.id}"'
        over_core = derivation.kind in (DerivationKind.DISTINCT, DerivationKind.TOPK, DerivationKind.PYTHON)
        has_contents = derivation.kind is not DerivationKind.UNION_ALL
        step = 2 if has_contents else 1
        groups = [edge.inputs[at : at + step] for at in range(0, len(edge.inputs), step)]
        aliases = [None] if over_core else [input_.alias for input_ in planned.block.inputs]
        inputs = tuple(
            self._derived_input(planned, edge, alias, group) for alias, group in zip(aliases, groups, strict=True)
        )
        keys = keys_of(derivation, tuple(input_.fields for input_ in inputs))
        inputs = tuple(self._keyed(input_, key) for input_, key in zip(inputs, keys, strict=True))
        outputs = self._outputs(planned)
        self.columns[vertex.id] = tuple(Field(output.name, output.expr.type) for output in outputs)
        return DeriveStep(inputs, derivation, keys, outputs)

    def _derived_input(
        self, planned: PlannedBlock, edge: Edge, alias: str | None, group: tuple[str, ...]
    ) -> DerivedInput:
        """The core, or one alias: its changes, and its contents where the operator looks at them."""
        if alias is None:
            readings = [self._core_reading(planned, edge, name) for name in group]
        else:
            readings = [self._alias_reading(planned, edge, name, alias) for name in group]
        fields = tuple(Field(name, value.type) for name, value in readings[0].values.items())
        return DerivedInput(readings[0], readings[1] if len(readings) > 1 else None, fields)

    def _alias_reading(self, planned: PlannedBlock, edge: Edge, name: str, alias: str) -> Reading:
        held = self._held(name)
        values = {f"{alias}.{column}": self._must(held, planned, alias, column) for column in planned.keep[alias]}
        select = [filter_ for filter_ in edge.select if filter_.alias == alias]
        return Reading(name, values, (0,) * len(held.vertex.scope), self._still_filtered(held, planned, select))

    def _keyed(self, input_: DerivedInput, key: tuple[Expr, ...]) -> DerivedInput:
        if input_.contents is None:
            return input_
        contents = input_.contents
        lookup = _lookup_key(tuple(substitute(part, contents.values) for part in key))
        return replace(input_, contents=replace(contents, key=self._look_up(contents.log, lookup)))

    def _recompute(self, vertex: Vertex, edge: Edge) -> RecomputeStep:
        planned = self._planned(edge)
        assert planned is not None and edge.derivation is not None, f'no block makes "{vertex.id}"'
        assert edge.derivation.recomputed is not None, f'no query makes "{vertex.id}"'
        aliases = [input_.alias for input_ in planned.block.inputs]
        groups = [edge.inputs[at : at + 2] for at in range(0, len(edge.inputs), 2)]
        inputs = {
            alias: self._whole_source(planned, edge, contents, alias)
            for alias, (_, contents) in zip(aliases, groups, strict=True)
        }
        outputs = self._outputs(planned)
        columns = self.columns[vertex.id] = tuple(Field(output.name, output.expr.type) for output in outputs)
        state = vertex.id + STATE
        self.states[vertex.id] = LogSpec(state, vertex.site, columns, has_contents=True)
        return RecomputeStep(inputs, edge.derivation.recomputed, outputs, state)

    def _whole_source(self, planned: PlannedBlock, edge: Edge, name: str, source: str) -> Reading:
        """Its columns in the order in which they are declared: `*` means them so."""
        reading = self._alias_reading(planned, edge, name, source)
        order = [field.name for field in source_fields(self.plan.catalogue, source)]
        return replace(reading, values={column: reading.values[column] for column in order})

    # Help

    def _held(self, name: str) -> Held:
        return self.names.held(self.vertices[name], self.columns[name])

    def _planned(self, edge: Edge) -> PlannedBlock | None:
        return None if edge.block is None else self.names.blocks[edge.block]

    def _look_up(self, log: str, key: LookupKey) -> LookupKey:
        """Notes that a log is looked up by a key."""
        return self.keys.setdefault(log, {}).setdefault(key.columns, key)


def source_fields(catalogue: Catalogue, source: str) -> tuple[Field, ...]:
    """The columns of a source's log."""
    columns = catalogue.sources[source].columns
    assert columns is not None, f'the columns of source "{source}" are not known'
    return tuple(Field(f"{source}.{column.name}", column.type) for column in columns)


def view_outputs(plan: Plan, program: Program, view: str, vertex: str) -> tuple[Output, ...]:
    """The columns of a view, as expressions over what its vertex holds."""
    names = Names({planned.block.id: planned for planned in plan.blocks})
    held = names.held(plan.graph.vertices[vertex], program.logs[vertex].columns)
    planned = names.blocks[view]
    found = []
    for output in planned.block.outputs:
        expr = held.of_output(planned, output.name)
        assert expr is not None, f'"{vertex}" does not hold column "{output.name}" of view "{view}"'
        found.append(Output(output.name, expr))
    return tuple(found)


def _lookup_key(parts: tuple[Expr, ...]) -> LookupKey:
    """Plain columns are looked up as they are, others are computed."""
    names, computed = [], []
    for part in parts:
        if isinstance(part, Column):
            names.append(part.name)
        else:
            output = Output(f"__k:{part}", part)
            names.append(output.name)
            computed.append(output)
    return LookupKey(tuple(names), tuple(computed))


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
