"""What a capture is told, what its steps tell, and what it asks of the stream that brings it the log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from headrace.connect.postgres.load_state import LoadProgress
from headrace.connect.postgres.replication import LogStream
from headrace.connect.postgres.slots import CaptureNames, capture_names
from headrace.model.errors import ConnectError
from headrace.run.capture.spool import CapturedTable
from headrace.run.source_port import LONGEST_STEP_S


class MessageStream(Protocol):
    """Where messages come from. `receive` gives None when no more come within the time, or before `confirm`.

    Everything up to `lsn` was committed, and everything up to `forget` is never asked for again. `comes_again` is
    whether what is between the two comes again from a later stream.

    `silent_s` is for how many seconds nobody has answered our question whether somebody is there.
    """

    comes_again: bool

    @property
    def silent_s(self) -> float: ...
    def receive(self, wait_s: float) -> bytes | None: ...
    def confirm(self, lsn: int, forget: int) -> None: ...
    def answer(self, at_once: bool = False) -> None: ...
    def close(self) -> None: ...


StreamFrom = Callable[[str, str, Sequence[str], int], MessageStream]


@dataclass(frozen=True, slots=True)
class CaptureSettings:
    """`database` names the database in notes and commit marks; the address stays out of everything that is stored.

    What comes is committed every `step_s` seconds.
    """

    project: str
    database: str
    dsn: str = field(repr=False)
    tables: tuple[CapturedTable, ...]
    scratch: Path
    stream: StreamFrom = LogStream
    step_s: float = LONGEST_STEP_S

    @property
    def names(self) -> CaptureNames:
        return capture_names(self.project, self.database)

    @property
    def digest(self) -> str:
        """A digest of the tables; what a capture notes (`CapturingTables`) once it captures exactly these."""
        return hashlib.sha256(repr(self.tables).encode()).hexdigest()[:16]


class SourceRecovered(ConnectError):
    """A source that was stopped can be captured again: the next capture, opened anew, reads it. Nothing failed."""


class SourceChanged(ConnectError):
    """A source has to be read again, as is noted: the next capture, opened anew, reads it. Nothing failed."""


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """What a step did: how far, how many rows it wrote, and how far the reading of tables is."""

    t: int
    rows: int
    progress: tuple[LoadProgress, ...]
