"""How far the reading of one table is: what is noted of it, and what people are told."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from headrace.connect.postgres.reading import Key
from headrace.connect.postgres.slots import SqlTable
from headrace.model.notes import SourceLoading
from headrace.run.capture.chunks import next_size
from headrace.run.capture.spool import CapturedTable, TextRow


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far the reading of a table is. `estimate` of its rows is the database's, None if it has none."""

    source: str
    rows: int
    estimate: float | None
    seconds_left: float | None
    complete: bool


@dataclass(slots=True)
class Load:
    """One table to read. `again` are keys of which the log had only a part of the row.

    `repeats` is whether we hold rows of the table already; `begun` whether that was written into the spool. What the
    log has of a table before that is not looked at: it may be of another table, or of columns that it had before.
    `wait_for` are transactions that wrote to the table before its changes were published.
    """

    captured: CapturedTable
    table: SqlTable
    estimate: float | None = None
    repeats: bool = False
    begun: bool = False
    last: Key | None = None
    rows: int = 0
    again: list[Key] = field(default_factory=list)
    wait_for: frozenset[str] = frozenset()
    at_once: int = 0
    asked_writers: float | None = None
    started: float = 0.0
    started_rows: int = 0

    def note_read(self, rows: Sequence[TextRow], at_most: int) -> None:
        """Rows were read: how many to read next."""
        size = sum(len(value) for row in rows for value in row if value is not None)
        self.at_once = next_size(len(rows), size, at_most)

    def to_note(self) -> SourceLoading:
        again = tuple(self.again)
        return SourceLoading(self.captured.source, self.last, self.rows, again, self.repeats, self.begun, self.estimate)

    def resume(self, noted: SourceLoading) -> None:
        self.repeats, self.begun, self.rows = noted.repeats, noted.begun, noted.rows
        self.last, self.again = noted.last, list(noted.again)

    def progress(self, complete: bool) -> LoadProgress:
        elapsed, done = time.monotonic() - self.started, self.rows - self.started_rows
        left = None
        if self.estimate is not None and done:
            left = max(0.0, self.estimate - self.rows) * elapsed / done
        return LoadProgress(self.captured.source, self.rows, self.estimate, 0.0 if complete else left, complete)
