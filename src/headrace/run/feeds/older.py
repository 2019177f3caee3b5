"""Reads events that are older than those a feed's store keeps, from the relation that its newest events are taken from.

The engine keeps that relation for the top-k of the feed (`run/operators/top.py`), with an index by producer: all rows
of a source, of what people have posted, or of a view. So old events are those of the page's own time, wherever they
come from, and nobody else is asked. Reading takes time for all events of the producers that are asked for.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headrace.meaning.python_functions import surroundings_of
from headrace.model.block import DerivationKind
from headrace.model.errors import ConnectError
from headrace.model.log import Log
from headrace.model.types import BOOLEAN, Type, Value
from headrace.run.feeds.logs import FeedLogs
from headrace.run.feeds.page import PageEntry, Place
from headrace.run.feeds.rank import read_json
from headrace.run.logs.key_index import KeyIndex
from headrace.run.operators.expressions import column_of, with_outputs
from headrace.run.operators.reading import read_rows, schema_of, with_key, with_key_if_any
from headrace.run.ports import Store
from headrace.run.program import DeriveStep, LogReading, LogSpec, LookupKey, Pass, Program
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, contents, interval, stamp_rows

PROBE = "producer"
FOREVER = 2**62


class NotKnown(ConnectError):
    """Old events cannot be told as of the time that was asked for."""


@dataclass(frozen=True, slots=True)
class OlderEvents:
    """How a feed's newest events are derived: from the rows of a log, found by `key`, by `step`, and handed on."""

    spec: LogSpec
    key: LookupKey
    step: DeriveStep
    passes: tuple[LogReading, ...]
    reading: FeedLogs

    @property
    def log(self) -> str:
        return self.spec.name

    def read(self, store: Store, log: Log, below: Mapping[str, Place], t: int, most: int) -> tuple[PageEntry, ...]:
        """The newest events of some producers that come before a place of each, at most so many, as of a time.

        Raises `NotKnown`, and what reading files raises if they are gone: then the log has moved on.
        """
        if t > log.t or (t < log.t and t < log.start):
            raise NotKnown(f"events are known from {log.start} to {log.t}, not at {t}")
        names = sorted(below)
        rows = self._find_rows(store, log, self._name_producers(names), t)
        rows = rows.take(pa.array(_choose_recent(*self.reading.time_events(rows), below, most)))
        chosen = _choose_newest(self.reading.place_events(rows), below, most)
        made = self.reading.make_events(rows.take(pa.array(chosen, pa.int64())))
        return tuple(PageEntry(row[0], row[1], row[2], json.loads(row[3])) for row in made)

    def _name_producers(self, names: Sequence[str]) -> pa.Table:
        """Producers as their column has them, from the texts that a store calls them by."""
        (partition,) = self.step.keys[0]
        return arrow_table({PROBE: partition.type}, [(_read_name(partition.type, name),) for name in names])

    def _find_rows(self, store: Store, log: Log, probe: pa.Table, t: int) -> pa.Table:
        """Rows of the feed's newest events, had it kept all, of some producers as of a time."""
        around = surroundings_of(self.reading.functions)
        schema = with_key(self.key, schema_of(self.spec.columns).empty_table(), around).schema
        indexes = tuple(store.read(log.site, piece.stored, None, False) for piece in log.indexes(self.key.columns))
        held = KeyIndex(self.key.columns, indexes, schema).meet(probe, [PROBE], null_safe=False)[1]
        # Indexes do not tell times that nobody pushes from any more; what has changed since can be taken back.
        names = schema_of(self.spec.columns).names
        later = [
            interval(store.read(log.site, piece.stored, names), t, log.t).select(names)
            for piece in log.changes(t, log.t)
        ]
        undone = [_negate(self._choose_changes(table, probe).select(names)) for table in later]
        rows = read_rows(self._contents, stamp_rows(_sum_up(held.select(names), undone), t), around)
        ranked = {one.name: column_of(one.expr, rows, around) for one in self.step.derivation.columns[0]}
        stamps = {name: rows.column(name) for name in (TIME, ORDER, WEIGHT)}
        made = with_outputs(self.step.outputs, pa.table({**ranked, **stamps}), around)
        for reading in self.passes:
            made = read_rows(reading, made, around)
        return made

    @property
    def _contents(self) -> LogReading:
        found = self.step.inputs[0].contents
        assert found is not None, f'"{self.log}" is not kept'
        return found

    def _choose_changes(self, changes: pa.Table, probe: pa.Table) -> pa.Table:
        keyed = with_key_if_any(self.key, changes, surroundings_of(self.reading.functions))
        return keyed.filter(pc.is_in(keyed.column(self.key.columns[0]), value_set=probe.column(PROBE).combine_chunks()))


def find_older(program: Program, reading: FeedLogs) -> OlderEvents | None:
    """Where older events of a feed are; None if its newest events are not taken from rows that are kept by producer."""
    passes: list[LogReading] = []
    task = program.tasks.get(reading.newest.name)
    while task is not None and isinstance(task.step, Pass) and len(task.step.inputs) == 1:
        passes.insert(0, task.step.inputs[0])
        task = program.tasks.get(task.step.inputs[0].log)
    step = None if task is None else task.step
    if not isinstance(step, DeriveStep) or step.derivation.kind is not DerivationKind.TOPK:
        return None
    kept = step.inputs[0].contents
    if kept is None or kept.key is None or len(kept.key.columns) != 1 or len(step.keys[0]) != 1:
        return None
    return OlderEvents(program.logs[kept.log], kept.key, step, tuple(passes), reading)


def _sum_up(held: pa.Table, undone: Sequence[pa.Table]) -> pa.Table:
    """What is there; where nothing has ever gone, that is all that is held."""
    changed = any(table.num_rows for table in undone) or pc.any(pc.not_equal(held.column(WEIGHT), 1)).as_py()
    return contents([held, *undone], FOREVER) if changed else held.drop_columns([TIME, ORDER])


def _choose_recent(
    producers: pa.ChunkedArray, times: pa.ChunkedArray, below: Mapping[str, Place], most: int
) -> npt.NDArray[np.int64]:
    """Positions of events that may be among the newest of their producers before a place, by their times alone."""
    found = [np.zeros(0, np.int64)]
    micros = times.fill_null(2**63 - 1).to_numpy()
    for producer, (ts, _) in below.items():
        own = np.flatnonzero(pc.fill_null(pc.equal(producers, producer), False).to_numpy(zero_copy_only=False))
        before = own[micros[own] < ts]
        different = np.unique(micros[before])  # without ids, events of one time are one
        if len(different) > most:
            before = before[micros[before] >= different[-most]]
        found += [before, own[micros[own] == ts]]
    return np.concatenate(found)


def _choose_newest(events: pa.Table, below: Mapping[str, Place], most: int) -> list[int]:
    """Positions of the newest events of each producer that come before its place."""
    found: dict[str, dict[Place, int]] = {}
    columns = (events.column(name).to_pylist() for name in ("producer", "ts", "id"))
    for position, (producer, ts, id_) in enumerate(zip(*columns, strict=True)):
        place = below.get(producer)
        if place is not None and ts is not None and id_ is not None and (ts, id_) < place:
            found.setdefault(producer, {})[ts, id_] = position
    return [own[place] for own in found.values() for place in sorted(own, reverse=True)[:most]]


def _read_name(type_: Type, name: str) -> Value:
    return name == "True" if type_ == BOOLEAN else read_json(type_, name)


def _negate(changes: pa.Table) -> pa.Table:
    weights = pa.array(-np.asarray(changes.column(WEIGHT).to_numpy()))
    return changes.set_column(changes.column_names.index(WEIGHT), WEIGHT, weights)
