"""Computes the contents of new vertices from scratch, as of the time at which they are loaded.

A delta log starts empty at that time; a relation starts with its contents, an operator with its state. Contents follow
the plan backwards to the nearest relation whose contents are kept. The two terms of a join need not be told apart
here: the contents of both are the whole join.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.meaning.python_functions import surroundings_of
from headrace.meaning.scalar import Surroundings
from headrace.model.block import DerivationKind
from headrace.model.plan import Stage
from headrace.run.logs.key_index import KeyIndex, make_indexes
from headrace.run.operators import aggregate
from headrace.run.operators.derive import derive, derive_over, derive_top
from headrace.run.operators.expressions import keep
from headrace.run.operators.join import join
from headrace.run.operators.prepare import prepare
from headrace.run.operators.reading import Contents, read_rows, schema_of, with_key
from headrace.run.operators.recompute import each_as_often, evaluate_view
from headrace.run.operators.timed import apply_timed_conditions
from headrace.run.operators.top import Partitions
from headrace.run.ports import Evaluate
from headrace.run.program import (
    AggregateStep,
    DeriveStep,
    Ingest,
    JoinStep,
    LogReading,
    Pass,
    Program,
    RecomputeStep,
    TimedPass,
)
from headrace.run.push.evaluate_here import evaluate_here
from headrace.run.rows.changes import consolidate, stamp_rows


@dataclass(frozen=True, slots=True)
class LoadSent:
    """Bytes that go from one site to another."""

    origin: str
    site: str
    bytes: int


@dataclass(slots=True)
class DatasetLoad:
    """All at time `t`. `kept` gives the contents of logs that have them, each row once, stamped anyhow; else None.

    `sent` are the contents that came from another site, by vertex: as many bytes as a push of them would send.
    """

    program: Program
    t: int
    kept: Callable[[str], pa.Table | None]
    evaluate: Evaluate = evaluate_here
    known: dict[str, pa.Table] = field(default_factory=dict)
    states: dict[str, pa.Table] = field(default_factory=dict)
    sent: dict[str, LoadSent] = field(default_factory=dict)

    @property
    def around(self) -> Surroundings:
        return surroundings_of(self.program.functions)

    def contents(self, vertex: str) -> pa.Table:
        """Rows of a vertex's dataset, stamped (t, 0)."""
        if vertex not in self.known:
            kept = self.kept(vertex)
            table = self._make_rows(vertex) if kept is None else kept
            schema = schema_of(self.program.logs[vertex].columns)
            table = stamp_rows(table, self.t).select(schema.names).cast(schema)
            each_once = kept is not None or isinstance(self.program.tasks[vertex].step, JoinStep)
            self.known[vertex] = table if each_once else consolidate(table)
            if kept is None:
                self._count_vertex(vertex)
        return self.known[vertex]

    def _count_vertex(self, vertex: str) -> None:
        site = self.program.logs[vertex].site
        reads = self.program.tasks[vertex].reads
        origin = next((log.site for name in reads if (log := self.program.logs[name]).site != site), None)
        if origin is not None:
            batches = self.known[vertex].to_batches()
            self.sent[vertex] = LoadSent(origin, site, sum(pa.ipc.get_record_batch_size(batch) for batch in batches))

    def state(self, vertex: str) -> pa.Table:
        """The private state of a vertex's operator."""
        if vertex not in self.states:
            self.known.pop(vertex, None)
            self._make_rows(vertex)
        return self.states[vertex]

    def _make_rows(self, vertex: str) -> pa.Table:
        task = self.program.tasks[vertex]
        match task.step:
            case Ingest():
                raise AssertionError(f'nothing is kept of source "{vertex}" at {self.t}')
            case Pass(inputs):
                return self._read_rows(inputs[0])
            case TimedPass() as step:
                made, self.states[vertex] = apply_timed_conditions(
                    step.conditions, self._read_rows(step.input), None, self.t - 1, self.t
                )
                return made
            case JoinStep() as step:
                return self._join_rows(vertex, step)
            case AggregateStep() as step:
                return self._aggregate_rows(vertex, step)
            case DeriveStep() as step:
                return self._derive_rows(step) if step.state is None else self._derive_with_state(vertex, step)
            case RecomputeStep() as step:
                return self._recompute_rows(vertex, step)

    def _read_rows(self, reading: LogReading) -> pa.Table:
        return read_rows(reading, self.contents(reading.log), self.around)

    def _join_rows(self, vertex: str, step: JoinStep) -> pa.Table:
        relation = self._index_rows(step.relation, stamp_rows(self.contents(step.relation.log), self.t - 1))
        return join(step, self._read_rows(step.changes), relation, self.program.logs[vertex].columns, self.around)

    def _index_rows(self, reading: LogReading, table: pa.Table) -> Contents:
        assert reading.key is not None, f'"{reading.log}" is looked up without a key'
        table = table.select(schema_of(self.program.logs[reading.log].columns).names)
        if reading.key.computed:  # rows that nobody asks for need no key
            table = keep(reading.filter, table, self.around)
        rows = with_key(reading.key, table, self.around)
        indexes = tuple(index for index in make_indexes(rows, reading.key.columns, 1) if index.num_rows)
        return Contents(reading, KeyIndex(reading.key.columns, indexes, rows.schema), self.t, self.around)

    def _aggregate_rows(self, vertex: str, step: AggregateStep) -> pa.Table:
        rows = self._read_rows(step.input)
        prepared = rows if step.stage is Stage.MERGE else prepare(step.aggregation, rows, self.around)
        if step.stage is Stage.PARTIAL:
            return prepared
        groups, self.states[vertex] = aggregate.accumulate(step.aggregation, prepared, None)
        first = aggregate.initial(step.aggregation, self.t)
        groups = pa.concat_tables([first, groups.select(first.column_names).cast(first.schema)])
        return aggregate.make_outputs(step.aggregation, step.outputs, groups, self.around)

    def _derive_rows(self, step: DeriveStep) -> pa.Table:
        changes = tuple(self._read_rows(input_.changes) for input_ in step.inputs)
        kept = tuple(
            self._index_rows(input_.contents, self.contents(input_.contents.log))
            for input_ in step.inputs
            if input_.contents is not None
        )
        return derive(step, changes, kept, self.t - 1, self.around, loads=True)

    def _derive_with_state(self, vertex: str, step: DeriveStep) -> pa.Table:
        """All rows come at once, to partitions that are not there yet: nothing is read again. Of changes that came
        before only the state knows when.
        """
        if step.derivation.stamp is not None:
            assert step.state is not None, f'nobody remembers when changes of "{vertex}" came'
            kept = self.kept(step.state)
            self.states[vertex] = self._derive_rows(step) if kept is None else kept
            return self.states[vertex]
        rows = self._read_rows(step.inputs[0].changes)
        if step.derivation.kind is DerivationKind.WINDOW:
            over = derive_over(step, rows, None, self.around)
            self.states[vertex] = over.state
            return over.shown
        made = derive_top(step, rows, Partitions(None, None), self.t - 1, self.around)
        self.states[vertex] = made.state
        return made.shown

    def _recompute_rows(self, vertex: str, step: RecomputeStep) -> pa.Table:
        """What the operator remembers is what it makes; it is evaluated once."""
        if vertex not in self.states:
            tables = {source: each_as_often(self._read_rows(reading)) for source, reading in step.inputs.items()}
            engine = self.evaluate, self.program.functions
            self.states[vertex] = evaluate_view(step, self.program.logs[vertex], tables, self.t, engine)
        return self.states[vertex]
