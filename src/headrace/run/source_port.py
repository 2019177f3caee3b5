"""The source port: what a kind of source does for Headrace. Whatever delivers changes in an order can be one.

Each kind is a folder `connect/KIND/` with one module that implements the port, and a row in the table of
`connect/sources.py`. Nothing else asks which kind a source is of. `docs/sources.md` says how to add one.

    describe, check, try_capture, look_at, ask    before a project runs: the planner, `check`, `doctor`, `up`
    find_differences                              what `check --connect` warns of
    make_task, then open, step, close             while it runs: a capture takes changes, commits them, confirms them
    find_incomparable, open_cut, read_taken       when an audit compares views with the rows of their sources
    find_unchecked, open_sight, has_passed        when what was captured is checked in the background
    describe_made, give_back                      when nobody needs a source any more

Every method that is not abstract has a default that does nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Protocol

import pyarrow as pa

from headrace.model.catalogue import Source
from headrace.model.errors import ConnectError, Location, Problem
from headrace.model.notes import CapturedUpTo, CaptureSlot, CapturingTables
from headrace.model.types import Row, Type
from headrace.run.ports import Ledger, Store

Columns = tuple[tuple[str, Type], ...]

LONGEST_STEP_S = 0.5
"""How long changes wait for others before a capture commits them, where nobody is promised rows sooner."""


@dataclass(frozen=True, slots=True)
class SourceDatabase:
    """Sources whose changes come in one order, by one clock.

    `name` names the clock in notes and commit marks, and holds no secret; a clock of one source alone is called
    `KIND:SOURCE`. `address` is as written in the project, variables unfilled; None if there is none. Changes are
    committed every `step_s` seconds while there are some: no promise has more time than that for them.
    """

    kind: str
    name: str
    address: str | None
    sources: tuple[str, ...]
    step_s: float = LONGEST_STEP_S


@dataclass(frozen=True, slots=True)
class ProjectPlace:
    """The project that asks: its name and folder, and how variables in its texts are filled in.

    `fill` raises InputError for a variable that is not set; the second argument is where the text is declared.
    """

    project: str
    folder: Path
    fill: Callable[[str, Location | None], str]

    @property
    def project_here(self) -> str:
        """What things of the project are called elsewhere: two checkouts on one database do not share a slot."""
        return f"{self.project}:{self.folder.absolute()}"


@dataclass(frozen=True, slots=True)
class Looked:
    """One thing that was looked at: what was seen, and what is wrong with it, if anything."""

    at: str
    seen: str
    problem: Problem | None = None


# While a project runs


class SourceCapture(Protocol):
    """Takes changes of some sources in the order of their commits. Opening one starts where the ledger says.

    One at a time for each database: opening raises `LeaseHeld` while another one is open. After an error, close it and
    open another one; what was not committed comes again.
    """

    def step(self, wait_s: float) -> object:
        """Takes what has come, or comes within the time: commits it, and only then confirms it to the source.

        Rows, position and commit marks are one commit of the ledger. Raises `Fenced`, and commits nothing, if someone
        else has taken over; `ConnectError` if the source does not answer.
        """

    def close(self) -> None:
        """Lets go of the source and of the lease; the next one goes on from the last commit."""


class LogWatch(Protocol):
    """Looks at how much a source keeps for us until we have read it."""

    def look(self) -> dict[str, object]:
        """The log that is kept, as `status` shows it; what went wrong is under "error"."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class CaptureProcess:
    """A capture as a process of its own: a module to run, more variables, and what it reads from standard input.

    A line tells it what to capture from now on; the end of its input, to end. Its output goes to a log.
    """

    module: str
    environment: Mapping[str, str]
    line: bytes


class CaptureTask(ABC):
    """What a capture is to do: a value. Equal tasks need nothing done when a plan follows another."""

    pause_s: float = 0.0
    """Between two steps."""
    in_own_process: bool = False
    """Whether it is a process, unless everything is to run in threads; its log then says why it stands still."""

    @property
    @abstractmethod
    def name(self) -> str:
        """That of its database."""

    @property
    @abstractmethod
    def sources(self) -> frozenset[str]: ...

    @abstractmethod
    def open(self, ledger: Ledger, store: Store) -> SourceCapture: ...

    @property
    def settled(self) -> CapturingTables | None:
        """The note that says that exactly these sources are captured; None if starting it is enough."""
        return None

    def make_process(self, ledger: Path, store: Path) -> CaptureProcess:
        raise NotImplementedError

    def can_become(self, other: CaptureTask) -> bool:
        """Whether a process that runs can be told to go over to another task."""
        return False

    def find_troubles(self, ledger: Ledger) -> Iterator[tuple[str, str, str]]:
        """Finds which source has a trouble, what is wrong and what to do, as far as the capture has told the ledger."""
        yield from ()

    def watch_log(self) -> LogWatch | None:
        return None


# When views are compared with the rows of their sources


class SourceCut(Protocol):
    """A snapshot of sources of one database, bound to a place in the order of its changes.

    `mark` may be set without `lock`, to see how far behind the capture is. `missing` are sources without rows to read,
    and why; `rows` is how many rows others have, as far as known.
    """

    missing: dict[str, str]
    rows: dict[str, float | None]

    def __enter__(self) -> SourceCut: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def lock(self) -> bool:
        """Nobody writes from now on; False if somebody went on writing for too long."""

    def mark(self) -> str:
        """Writes a mark into the changes. The capture notes it as `CutReached` when it comes to it."""

    def take_snapshot(self) -> None: ...
    def release(self) -> None:
        """Writers go on; the snapshot stays."""

    def drop_snapshot(self) -> None: ...
    def parts(self, source: str, columns: Columns) -> Iterator[pa.Table]:
        """The rows of the snapshot, a part at a time; columns are called c0, c1, ..."""


# When what was captured is checked in the background


@dataclass(frozen=True, slots=True)
class SeenRows:
    """Rows of a source as one snapshot showed them: columns are called `source.column`.

    `running` are transactions that had not ended for the snapshot, of those that began before the last call of
    `count_transactions`; it may be more. `position` is where the log stood when all had been
    read, in the words of the kind: the snapshot shows nothing that comes after it.
    """

    rows: pa.Table
    running: frozenset[int]
    position: str


class SourceSight(Protocol):
    """Looks at rows of one source through short snapshots. Locks nothing that a writer waits for.

    Each method raises ConnectError if the source does not answer soon, somebody has locked it, or a value is none of
    ours. `asked_s` and `bytes` count how long the source worked for us, and what it sent.
    """

    asked_s: float
    bytes: int

    def __enter__(self) -> SourceSight: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def find_mark(self) -> str | None:
        """A text that is another one when rows have changed; None if the source cannot tell."""

    def count_transactions(self) -> int:
        """A number: those of all transactions that have begun are lower, and of all others higher."""

    def read_after(self, key: Row | None, limit: int) -> SeenRows:
        """The first rows after a key, in the order of the source."""

    def read_keys(self, keys: Sequence[Row]) -> SeenRows: ...
    def read_first(self, limit: int) -> SeenRows:
        """Reads rows of the source in any order, as many as it has up to a limit."""


class SourceConnector(ABC):
    """A kind of source. It holds nothing: what it needs to know is passed in."""

    # Before a project runs

    def describe(
        self, sources: Mapping[str, Source], place: ProjectPlace
    ) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        """The sources with what is known of their columns, keys and rows filled in under what is declared."""
        return sources, ()

    def read_columns(self, source: Source, columns: Sequence[str], place: ProjectPlace) -> pa.Table | None:
        """Columns of all rows that there are now, for a plan that has to know them; None if this kind cannot be asked.

        Raises ConnectError or InputError.
        """
        return None

    def check(self, sources: Sequence[Source], place: ProjectPlace) -> Iterator[Problem]:
        """What is wrong with them, as far as this machine can see. A variable that is not set is somebody else's."""
        yield from ()

    def try_capture(self, sources: Sequence[Source], place: ProjectPlace) -> Iterator[Problem]:
        """All that keeps a capture from working now, each with what to do about it."""
        yield from ()

    def find_differences(self, sources: Sequence[Source], place: ProjectPlace) -> Iterator[Problem]:
        """Warns of columns for which the source's system answers queries otherwise than we do."""
        yield from ()

    def look_at(
        self, databases: Sequence[SourceDatabase], sources: Sequence[Source], place: ProjectPlace
    ) -> Iterator[Looked]:
        """What `doctor` says about them."""
        yield from ()

    def ask(self, database: SourceDatabase, place: ProjectPlace) -> None:
        """Raises ConnectError if it does not answer now."""
        return

    # While it runs

    @abstractmethod
    def make_task(
        self, database: SourceDatabase, sources: Sequence[Source], place: ProjectPlace, scratch: Path
    ) -> CaptureTask:
        """`scratch` is a folder of the capture's own, which may not exist yet."""

    # When views are compared with the rows of their sources

    is_only_copy: ClassVar[bool] = False
    """Whether nobody but us has the rows: views are then compared with what was captured, as our log has it."""

    def find_incomparable(self, source: Source) -> str | None:
        """Why rows that were captured cannot be read again, now or ever; None if they can."""
        return "is of a kind that cannot be read again"

    def open_cut(self, database: SourceDatabase, sources: Sequence[Source], place: ProjectPlace) -> SourceCut | None:
        """None for sources whose rows of any time can be read again, with `read_taken`."""
        return None

    def read_taken(
        self, source: Source, columns: Columns, t: int, ledger: Ledger, place: ProjectPlace
    ) -> Iterator[pa.Table]:
        """The rows that were captured up to a time, a part at a time; columns are called c0, c1, ..."""
        raise ConnectError("its kind of source cannot be read again")

    # When what was captured is checked in the background

    def find_unchecked(self, source: Source) -> str | None:
        """Why rows that were captured cannot be compared with those of the source; None if they can."""
        return "is of a kind whose rows cannot be looked at again"

    def open_sight(self, source: Source, place: ProjectPlace) -> SourceSight:
        raise ConnectError("its kind of source cannot be looked at")

    def has_passed(self, position: str, captured: CapturedUpTo) -> bool:
        """Whether all up to a position of the log (`SeenRows.position`) was captured."""
        raise NotImplementedError

    # When nobody needs it any more

    def describe_made(self, database: SourceDatabase, place: ProjectPlace) -> CaptureSlot | None:
        """What a capture makes in other people's systems, noted before it does; None if it makes nothing."""
        return None

    def give_back(self, made: CaptureSlot, place: ProjectPlace, ledger: Ledger, called_off: Callable[[], bool]) -> None:
        """Removes it; it may be gone already. Raises `LeaseHeld` while somebody captures with it."""
        return
