"""A kind of source that is simulated: its rows are in a list in memory. It is all that a new kind of source needs.

The two registrations are in `tests/running/test_new_source_kind.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.connect.ledger.holder import this_holder
from headrace.model.catalogue import OtherOrigin, Source
from headrace.model.notes import CapturedUpTo, SourceLoaded, read_note
from headrace.run.capture.clock import clock_now
from headrace.run.capture.stream_spool import StreamSpool
from headrace.run.ports import Ledger, Store
from headrace.run.rows.arrow import arrow_type
from headrace.run.source_port import CaptureTask, Columns, ProjectPlace, SourceConnector, SourceDatabase


@dataclass
class SimulatedList:
    """Rows, and how many of them the capture has confirmed: it has no use for those any more."""

    rows: list[tuple[Any, ...]]
    confirmed: int = 0


LISTS: dict[str, SimulatedList] = {}
"""By name, as the project file gives it."""


@dataclass(frozen=True)
class SimulatedTask(CaptureTask):
    source: str
    site: str
    columns: Columns
    list_name: str
    pause_s = 0.05

    @property
    def name(self) -> str:
        return f"simulated:{self.source}"

    @property
    def sources(self) -> frozenset[str]:
        return frozenset((self.source,))

    def open(self, ledger: Ledger, store: Store) -> SimulatedCapture:
        return SimulatedCapture(self, ledger, store)


class SimulatedCapture:
    def __init__(self, task: SimulatedTask, ledger: Ledger, store: Store) -> None:
        self._task = task
        self._spool = StreamSpool(task.source, task.site, task.name, ledger, store, clock_now, this_holder())
        position = read_note(ledger, CapturedUpTo, task.name)
        self._taken = 0 if position is None else int(position.place["rows"])

    def step(self, wait_s: float) -> int:
        self._spool.renew()
        given, t = LISTS[self._task.list_name], self._spool.next_time()
        new = given.rows[self._taken :]
        if new:
            self._spool.write(_table(self._task.source, self._task.columns, new), t)
        taken, now = self._taken + len(new), clock_now()
        self._spool.commit(t, now, now, [SourceLoaded(self._task.source, t)], {"rows": str(taken)})
        self._taken = given.confirmed = taken
        return len(new)

    def close(self) -> None:
        self._spool.close()


def _table(source: str, columns: Columns, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    arrays = zip(*rows, strict=True)
    typed = [pa.array(values, arrow_type(type_)) for values, (_, type_) in zip(arrays, columns, strict=True)]
    return pa.table(typed, names=[f"{source}.{name}" for name, _ in columns])


class SimulatedSources(SourceConnector):
    def make_task(
        self, database: SourceDatabase, sources: Sequence[Source], place: ProjectPlace, scratch: Path
    ) -> SimulatedTask:
        (source,) = sources
        assert isinstance(source.origin, OtherOrigin)
        columns = tuple((column.name, column.type) for column in source.columns or ())
        return SimulatedTask(source.name, source.site, columns, dict(source.origin.settings)["list"])

    def find_incomparable(self, source: Source) -> None:
        return None

    def read_taken(
        self, source: Source, columns: Columns, t: int, ledger: Ledger, place: ProjectPlace
    ) -> Iterator[pa.Table]:
        assert isinstance(source.origin, OtherOrigin)
        names = [column.name for column in source.columns or ()]
        rows = LISTS[dict(source.origin.settings)["list"]].rows
        arrays = [pa.array([row[names.index(name)] for row in rows], arrow_type(type_)) for name, type_ in columns]
        yield pa.Table.from_arrays(arrays, [f"c{position}" for position in range(len(columns))])


CONNECTOR = SimulatedSources()
