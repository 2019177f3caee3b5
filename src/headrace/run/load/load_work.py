"""Loading as a work item: reads what is kept, writes the contents and states of new vertices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.model.log import NEVER, Log, Piece, PieceKind
from headrace.run.load.load import DatasetLoad, LoadSent
from headrace.run.logs.merge import shards_wanted
from headrace.run.logs.write import RowsToWrite, write_log_rows
from headrace.run.operators.reading import schema_of
from headrace.run.operators.recompute import difference
from headrace.run.ports import Evaluate, Store
from headrace.run.program import LogSpec, Program
from headrace.run.push.evaluate_here import evaluate_here
from headrace.run.push.work import Files
from headrace.run.rows.changes import consolidate, contents, stamp_rows


@dataclass(frozen=True, slots=True)
class LoadItem:
    """New vertices at time `t`; `kept` are base and changes of the logs that have contents.

    With `states_only` just the states of their operators. Logs that are there already, and are computed again, are in
    `before` with what they hold: only what has changed is written, as a change.
    """

    program: Program
    new: tuple[str, ...]
    t: int
    store: Store
    kept: Mapping[str, Files]
    states_only: bool = False
    weight: float = 1e9
    before: Mapping[str, Log] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"load {len(self.new)} vertices"


@dataclass(frozen=True, slots=True)
class Loaded:
    """New pieces by log, rows of contents, and what came from other sites."""

    pieces: tuple[tuple[str, Piece], ...]
    rows: int
    sent: tuple[LoadSent, ...] = ()


def perform_load(item: LoadItem, evaluate: Evaluate = evaluate_here) -> Loaded:
    loading = DatasetLoad(item.program, item.t, lambda name: _read_contents(item, name), evaluate)
    pieces = tuple(_pieces(item, loading))
    rows = sum(piece.rows for _, piece in pieces if piece.kind is PieceKind.BASE)
    return Loaded(pieces, rows, tuple(loading.sent.values()))


def _read_contents(item: LoadItem, name: str) -> pa.Table | None:
    files = item.kept.get(name)
    if files is None:
        return None
    schema = schema_of(item.program.logs[name].columns)
    tables = [item.store.read(files.site, piece.stored, schema.names) for piece in files.pieces]
    return contents([schema.empty_table(), *tables], item.t)


def _pieces(item: LoadItem, loading: DatasetLoad) -> Iterator[tuple[str, Piece]]:
    for name in item.new:
        spec, state = item.program.logs[name], item.program.tasks[name].state
        if spec.has_contents and not item.states_only:
            yield from ((spec.name, piece) for piece in _base(item, spec, loading.contents(name)))
        if state is not None:
            yield from ((state.name, piece) for piece in _base(item, state, loading.state(name)))


def _base(item: LoadItem, spec: LogSpec, table: pa.Table) -> Iterator[Piece]:
    schema = schema_of(spec.columns)
    table = table.select(schema.names).cast(schema)
    if spec.name in item.before:
        yield from _write_change(item, spec, table, item.before[spec.name])
        return
    yield from write_base(item.store, spec, table, item.t, item.program.functions)


def write_base(store: Store, spec: LogSpec, table: pa.Table, t: int, functions: Functions) -> tuple[Piece, ...]:
    """Rows as what a log holds at a time, with its indexes."""
    schema = schema_of(spec.columns)
    table = stamp_rows(table, t).select(schema.names).cast(schema)
    rows = RowsToWrite(PieceKind.BASE, f"base-{spec.name}-{t}", (NEVER, t), durable=False)
    shards = {(spec.name, key.columns): shards_wanted((), key.columns, table.num_rows) for key in spec.keys}
    return tuple(write_log_rows(store, spec, table, rows, shards, surroundings_of(functions)))


def _write_change(item: LoadItem, spec: LogSpec, table: pa.Table, log: Log) -> Iterator[Piece]:
    """What turns that which a log holds into a table, all at the time of loading."""
    names = schema_of(spec.columns).names
    tables = [item.store.read(log.site, piece.stored, names) for piece in log.contents]
    before = contents([table.slice(0, 0), *tables], log.t)
    made = difference(consolidate(stamp_rows(table, item.t)).select(names).cast(table.schema), before, item.t)
    if made.num_rows:
        rows = RowsToWrite(PieceKind.CHANGE, f"{spec.name}-{item.t}", (log.t, item.t), durable=False)
        shards = {(spec.name, key.columns): shards_wanted(log.pieces, key.columns, made.num_rows) for key in spec.keys}
        yield from write_log_rows(item.store, spec, made, rows, shards, surroundings_of(item.program.functions))
