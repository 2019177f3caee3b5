"""Rows that the service writes, as a kind of source (`run.source_port`): decisions of feeds, and what people post."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.connect.ledger.holder import this_holder
from headrace.connect.written.inbox import OPERATION, list_files, read_file, remove_files
from headrace.model.catalogue import Source
from headrace.model.notes import CapturedUpTo, SourceLoaded, read_note
from headrace.run.capture.clock import clock_now
from headrace.run.capture.stream_spool import StreamSpool
from headrace.run.ports import Ledger, Store
from headrace.run.source_port import CaptureTask, ProjectPlace, SourceConnector, SourceDatabase

TAKEN = "taken"
"""By which name a position lists the files whose rows it has: they may still be there after a crash."""

MOST_FILES = 200
"""Files that one commit takes."""


@dataclass(frozen=True)
class WrittenTask(CaptureTask):
    source: str
    site: str
    database: str
    inbox: Path
    pause_s: float = 0.2

    @property
    def name(self) -> str:
        return self.database

    @property
    def sources(self) -> frozenset[str]:
        return frozenset((self.source,))

    def open(self, ledger: Ledger, store: Store) -> WrittenCapture:
        return WrittenCapture(self, ledger, store)


class WrittenCapture:
    """Every step is a heartbeat: nobody but us writes the source, so what waits is all that there is."""

    def __init__(self, task: WrittenTask, ledger: Ledger, store: Store) -> None:
        self._task = task
        self._spool = StreamSpool(task.source, task.site, task.database, ledger, store, clock_now, this_holder())
        position = read_note(ledger, CapturedUpTo, task.database)
        taken = "" if position is None else position.place.get(TAKEN, "")
        remove_files(task.inbox, taken.split())

    def step(self, wait_s: float) -> int:
        self._spool.renew()
        names, t, count = list_files(self._task.inbox, MOST_FILES), self._spool.next_time(), 0
        for name in names:
            rows = read_file(self._task.inbox, name)
            operations = rows.column(OPERATION)
            renamed = rows.drop_columns([OPERATION])
            renamed = renamed.rename_columns([f"{self._task.source}.{column}" for column in renamed.column_names])
            self._spool.write(renamed, t, operations)
            count += rows.num_rows
        now = clock_now()
        self._spool.commit(t, now, now, [SourceLoaded(self._task.source, t)], {TAKEN: " ".join(names)})
        remove_files(self._task.inbox, names)
        return count

    def close(self) -> None:
        self._spool.close()


class WrittenSources(SourceConnector):
    is_only_copy = True

    def make_task(
        self, database: SourceDatabase, sources: Sequence[Source], place: ProjectPlace, scratch: Path
    ) -> WrittenTask:
        (source,) = sources
        return WrittenTask(source.name, source.site, database.name, scratch, min(0.2, database.step_s))

    def find_incomparable(self, source: Source) -> None:
        return None

    def find_unchecked(self, source: Source) -> str:
        return "is written by the service itself: nothing else has its rows"


CONNECTOR = WrittenSources()
