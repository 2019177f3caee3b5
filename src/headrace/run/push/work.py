"""One push of one vertex as a work item: everything that it reads is named in it, and what it writes is new files.

Performed anywhere that reaches the files, it needs no ledger. What it returns is committed by the caller; if
nobody does, its files are garbage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.meaning.scalar import Surroundings
from headrace.model.block import DerivationKind
from headrace.model.expr import Column
from headrace.model.log import Piece, PieceKind
from headrace.model.plan import Stage
from headrace.run.logs.key_index import HASH_BYTES, KeyIndex
from headrace.run.logs.write import RowsToWrite, count_written, write_indexes, write_log_rows
from headrace.run.operators import aggregate
from headrace.run.operators.derive import derive, derive_over, derive_top
from headrace.run.operators.ingest import Stored, ingest
from headrace.run.operators.join import join
from headrace.run.operators.prepare import prepare
from headrace.run.operators.reading import Contents, read_rows, schema_of, with_key
from headrace.run.operators.recompute import difference, each_as_often, evaluate_view
from headrace.run.operators.timed import apply_timed_conditions
from headrace.run.operators.top import Partitions
from headrace.run.ports import Evaluate, Store
from headrace.run.program import (
    AggregateStep,
    DeriveStep,
    Ingest,
    JoinStep,
    LogReading,
    LogSpec,
    LookupKey,
    Pass,
    RecomputeStep,
    Task,
    TimedPass,
    reads_time,
)
from headrace.run.push.evaluate_here import evaluate_here
from headrace.run.push.unchanged import hands_on
from headrace.run.rows.changes import consolidate, contents, interval, stamp_rows


@dataclass(frozen=True, slots=True)
class Files:
    """Some files of a log."""

    site: str
    pieces: tuple[Piece, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(piece.file for piece in self.pieces)

    def and_also(self, piece: Piece) -> Files:
        return Files(self.site, (*self.pieces, piece))


@dataclass(frozen=True, slots=True)
class WorkItem:
    """A push of `task` from `after` to `upto`. `changes` has the files by log, `indexes` those by log and key.

    `own` are base and changes of the vertex's own log, `earlier` what its spool holds of before; both are read only
    when a whole table goes at once. `whole` are base and changes of logs of which all rows are read. `shards` says how
    indexes of each key are cut. `part` is (number, count) for one of several items that share the changes of a push.
    `expected_s` is what nine of ten such pushes take at most; 0 if nobody knows.
    """

    task: Task
    log: LogSpec
    after: int
    upto: int
    store: Store
    changes: Mapping[str, Files]
    indexes: Mapping[tuple[str, tuple[str, ...]], Files]
    own: Files
    earlier: Files
    specs: Mapping[str, LogSpec]
    whole: Mapping[str, Files] = field(default_factory=dict)
    shards: Mapping[tuple[str, tuple[str, ...]], int] = field(default_factory=dict)
    initial: bool = False
    weight: float = 1.0
    part: tuple[int, int] = (0, 1)
    functions: Functions = ()
    expected_s: float = 0.0

    @property
    def around(self) -> Surroundings:
        return surroundings_of(self.functions)

    @property
    def name(self) -> str:
        return self.task.vertex

    @property
    def files(self) -> frozenset[str]:
        """All that it reads, as `SITE/FILE`."""
        read = (*self.changes.values(), *self.indexes.values(), *self.whole.values(), self.own, self.earlier)
        return frozenset(f"{files.site}/{name}" for files in read for name in files.names)

    @property
    def written(self) -> dict[str, LogSpec]:
        """Logs that it writes to."""
        state = self.task.state
        return {self.log.name: self.log, **({} if state is None else {state.name: state})}

    def files_of(self, produced: Produced) -> frozenset[str]:
        """All that it made, as `SITE/FILE`."""
        return frozenset(f"{self.log.site}/{piece.file}" for _, piece in produced.pieces)

    @property
    def origin(self) -> str | None:
        """The site that its changes come from, if that is another one: then the push is a transfer."""
        return next((files.site for files in self.changes.values() if files.site != self.log.site), None)


@dataclass(frozen=True, slots=True)
class Produced:
    """What a push made: new pieces by log, rows read and made, and bytes written."""

    vertex: str
    after: int
    upto: int
    pieces: tuple[tuple[str, Piece], ...]
    rows_in: int
    rows_out: int
    bytes: int


def perform_push(item: WorkItem, evaluate: Evaluate = evaluate_here) -> Produced:
    """Does the work. Reads and writes files, nothing else; queries from scratch are evaluated by `evaluate`."""
    if not reads_time(item.task.step) and not any(files.names for files in item.changes.values()):
        return Produced(item.name, item.after, item.upto, (), 0, 0, 0)
    return _Work(item, evaluate).produced()


def count_sent_bytes(item: WorkItem, produced: Produced) -> int:
    """Bytes that came from another site: the changes; indexes and states are made of them where they arrive."""
    if item.origin is None:
        return 0
    pieces = [piece for log, piece in produced.pieces if log == item.log.name]
    indexes = {(piece.root, piece.bytes) for piece in pieces if piece.kind is PieceKind.INDEX}
    changes = [piece for piece in pieces if piece.kind is PieceKind.CHANGE]
    hashes = HASH_BYTES * sum(piece.rows for piece in changes if (piece.root, piece.bytes) in indexes)
    return sum(piece.bytes for piece in changes) - hashes


def is_free(item: WorkItem) -> bool:
    """Whether a push reads and writes no file."""
    return _can_name_inputs(item) and not item.log.keys


def _can_name_inputs(item: WorkItem) -> bool:
    """Whether a push hands on its inputs' rows, and their files hold nothing else."""
    pieces = [piece for files in item.changes.values() for piece in files.pieces]
    return (
        hands_on(item.task.step, item.log, item.specs)
        and item.part == (0, 1)
        and all(item.after <= piece.after and piece.upto <= item.upto for piece in pieces)
        and len({piece.file for piece in pieces}) == len(pieces)
    )


def make_rows(item: WorkItem) -> pa.Table:
    """The changes that a push makes, without writing them; for a task that keeps no state."""
    return _Work(item, evaluate_here).make_rows()[0]


@dataclass(slots=True)
class _Work:
    item: WorkItem
    evaluate: Evaluate
    rows_in: int = 0

    def produced(self) -> Produced:
        return self._hand_on() if _can_name_inputs(self.item) else self._anew()

    def _hand_on(self) -> Produced:
        """The files of the inputs are those of the output, too; only its indexes are its own."""
        item = self.item
        span = item.after, item.upto
        files = [piece for input_ in item.changes.values() for piece in input_.pieces]
        pieces = [replace(piece, after=item.after, upto=item.upto) for piece in files]
        rows = sum(piece.rows for piece in pieces)
        made = list[Piece]()
        if item.log.keys:
            names = schema_of(item.log.columns).names
            tables = [table for input_ in item.changes.values() for table in self._tables(input_, names)]
            made += write_indexes(item.store, item.log, pa.concat_tables(tables), span, item.shards, around=item.around)
        size = sum(piece.bytes for piece in made)
        return Produced(item.name, *span, tuple((item.log.name, p) for p in (*pieces, *made)), rows, rows, size)

    def _anew(self) -> Produced:
        item = self.item
        made, state = self.make_rows()
        schema = schema_of(item.log.columns)
        pieces = [
            (item.log.name, piece) for piece in self._write_pieces(item.log, made.select(schema.names).cast(schema))
        ]
        if item.task.state is not None and state is not None:
            schema = schema_of(item.task.state.columns)
            table = state.select(schema.names).cast(schema)
            pieces += [(item.task.state.name, piece) for piece in self._write_pieces(item.task.state, table)]
        size = count_written(piece for _, piece in pieces)
        return Produced(item.task.vertex, item.after, item.upto, tuple(pieces), self.rows_in, made.num_rows, size)

    def make_rows(self) -> tuple[pa.Table, pa.Table | None]:
        """The rows of the vertex, and of its state if it has one."""
        step = self.item.task.step
        match step:
            case Ingest():
                return self._ingest_rows(step), None
            case Pass(inputs):
                return self._pass_rows(inputs), None
            case TimedPass():
                return self._pass_rows_in_time(step)
            case JoinStep():
                changes = self._read_changes(step.changes)
                if not changes.num_rows:
                    return schema_of(self.item.log.columns).empty_table(), None
                return join(step, changes, self._contents(step.relation), self.item.log.columns, self.item.around), None
            case AggregateStep():
                return self._aggregate_rows(step)
            case DeriveStep():
                return self._derive_rows(step) if step.state is None else self._derive_with_state(step)
            case RecomputeStep():
                made = self._recompute_rows(step)
                return made, made

    # Operators

    def _ingest_rows(self, step: Ingest) -> pa.Table:
        spool = self._changes(step.spool)
        if spool is None:
            return schema_of(step.columns).empty_table()
        self.rows_in += spool.num_rows
        by_key = self._key_index(self.item.log.name, LookupKey(step.key), schema_of(step.columns)) if step.key else None
        return ingest(step, spool, Stored(by_key, self._own_contents, self._earlier_spool))

    def _own_contents(self) -> pa.Table:
        schema = schema_of(self.item.log.columns)
        return contents([schema.empty_table(), *self._tables(self.item.own, schema.names)], self.item.after)

    def _earlier_spool(self) -> pa.Table:
        tables = list(self._tables(self.item.earlier))
        return pa.concat_tables(tables) if tables else pa.table({})

    def _pass_rows(self, inputs: Sequence[LogReading]) -> pa.Table:
        """Summed up where columns were left out: what changed in those alone has not changed here."""
        schema = schema_of(self.item.log.columns)
        rows = pa.concat_tables([self._read_changes(reading).select(schema.names).cast(schema) for reading in inputs])
        fewer = any(len(self.item.specs[reading.log].columns) > len(reading.values) for reading in inputs)
        computed = any(not isinstance(value, Column) for reading in inputs for value in reading.values.values())
        return consolidate(rows) if fewer or computed else rows

    def _pass_rows_in_time(self, step: TimedPass) -> tuple[pa.Table, pa.Table]:
        spec = self.item.task.state
        assert spec is not None, f'"{self.item.name}" has no state'
        events = self._key_index(spec.name, spec.keys[0], schema_of(spec.columns))
        return apply_timed_conditions(
            step.conditions, self._read_changes(step.input), events, self.item.after, self.item.upto
        )

    def _aggregate_rows(self, step: AggregateStep) -> tuple[pa.Table, pa.Table | None]:
        changes = self._read_changes(step.input)
        prepared = changes if step.stage is Stage.MERGE else prepare(step.aggregation, changes, self.item.around)
        if step.stage is Stage.PARTIAL:
            return prepared, None
        spec = self.item.task.state
        assert spec is not None, f'"{self.item.name}" has no state'
        state = self._key_index(spec.name, spec.keys[0], schema_of(spec.columns))
        groups, state_changes = aggregate.accumulate(step.aggregation, prepared, state)
        if self.item.initial:
            first = aggregate.initial(step.aggregation, self.item.upto)
            groups = pa.concat_tables([first, groups.select(first.column_names).cast(first.schema)])
        return aggregate.make_outputs(step.aggregation, step.outputs, groups, self.item.around), state_changes

    def _derive_rows(self, step: DeriveStep) -> tuple[pa.Table, None]:
        changes = tuple(self._read_changes(input_.changes) for input_ in step.inputs)
        if not any(table.num_rows for table in changes):
            return schema_of(self.item.log.columns).empty_table(), None
        kept = tuple(self._contents(input_.contents) for input_ in step.inputs if input_.contents is not None)
        return derive(step, changes, kept, self.item.after, self.item.around), None

    def _derive_with_state(self, step: DeriveStep) -> tuple[pa.Table, pa.Table]:
        if step.derivation.stamp is not None:
            made, _ = self._derive_rows(step)
            return made, made
        spec, (input_,) = self.item.task.state, step.inputs
        assert spec is not None, f'"{self.item.name}" has no state'
        states = self._key_index(spec.name, spec.keys[0], schema_of(spec.columns))
        if step.derivation.kind is DerivationKind.WINDOW:
            over = derive_over(step, self._read_changes(input_.changes), states, self.item.around)
            self.rows_in += over.read
            return over.shown, over.state
        assert input_.contents is not None, f'"{self.item.name}" looks up nothing'
        partitions = Partitions(states, self._contents(input_.contents))
        made = derive_top(step, self._read_changes(input_.changes), partitions, self.item.after, self.item.around)
        self.rows_in += made.read_again
        return made.shown, made.state

    def _recompute_rows(self, step: RecomputeStep) -> pa.Table:
        item = self.item
        tables = {}
        for source, reading in step.inputs.items():
            rows = self._whole(reading.log, item.upto)
            tables[source] = each_as_often(read_rows(reading, stamp_rows(rows, item.upto), item.around))
            self.rows_in += tables[source].num_rows
        now = evaluate_view(step, item.log, tables, item.upto, (self.evaluate, item.functions))
        return difference(now, self._whole(step.state, item.after), item.upto)

    def _whole(self, log: str, t: int) -> pa.Table:
        schema = schema_of(self.item.specs[log].columns)
        return contents([schema.empty_table(), *self._tables(self.item.whole[log], schema.names)], t)

    # Reading

    def _changes(self, log: str) -> pa.Table | None:
        """The rows of the interval; None if there is no file."""
        spec = self.item.specs.get(log)
        names = None if spec is None else schema_of(spec.columns).names
        found = self._tables(self.item.changes[log], names)
        tables = [interval(table, self.item.after, self.item.upto) for table in found]
        return self._part(pa.concat_tables(tables)) if tables else None

    def _part(self, changes: pa.Table) -> pa.Table:
        number, count = self.item.part
        start, end = (changes.num_rows * at // count for at in (number, number + 1))
        return changes if count == 1 else changes.slice(start, end - start)

    def _read_changes(self, reading: LogReading) -> pa.Table:
        table = self._changes(reading.log)
        if table is None:
            table = schema_of(self.item.specs[reading.log].columns).empty_table()
        self.rows_in += table.num_rows
        return read_rows(reading, table, self.item.around)

    def _tables(self, files: Files, columns: Sequence[str] | None = None, whole: bool = True) -> Iterator[pa.Table]:
        return (self.item.store.read(files.site, piece.stored, columns, whole) for piece in files.pieces)

    def _contents(self, reading: LogReading) -> Contents:
        assert reading.key is not None, f'"{reading.log}" is looked up without a key'
        spec = self.item.specs[reading.log]
        return Contents(
            reading,
            self._key_index(spec.name, reading.key, schema_of(spec.columns)),
            self.item.upto,
            self.item.around,
            self.item.after,
        )

    def _key_index(self, log: str, key: LookupKey, schema: pa.Schema) -> KeyIndex:
        schema = with_key(key, schema.empty_table(), self.item.around).schema
        files = self.item.indexes.get((log, key.columns), Files(self.item.log.site))
        return KeyIndex(key.columns, tuple(self._tables(files, whole=False)), schema)

    # Writing

    def _write_pieces(self, spec: LogSpec, table: pa.Table) -> Iterator[Piece]:
        if table.num_rows:
            item = self.item
            durable = isinstance(item.task.step, Ingest)  # all else is derived from sources
            rows = RowsToWrite(PieceKind.CHANGE, f"{spec.name}-{item.upto}", (item.after, item.upto), durable)
            yield from write_log_rows(item.store, spec, table, rows, item.shards, item.around)
