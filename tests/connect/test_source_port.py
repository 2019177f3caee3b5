"""The contract of the source port, kept by every kind: all changes, each once, whatever happens in between."""

from __future__ import annotations

import datetime as dt
import re
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from headrace.connect.files import FileStore
from headrace.connect.ledger.ledger import SqlLedger
from headrace.connect.ledger.sqlite import open_sqlite
from headrace.connect.postgres.sessions import connect_session
from headrace.connect.postgres.slots import capture_names, slot_state
from headrace.connect.sources import SOURCE_MODULES, SourceModule, connector_of
from headrace.connect.written.inbox import list_files, put_rows
from headrace.declare.project_file import SourceEntry
from headrace.model.catalogue import (
    WRITTEN_HERE,
    FileFolder,
    Origin,
    OtherOrigin,
    PostgresTable,
    Source,
    SourceColumn,
    SourceKind,
)
from headrace.model.errors import Fenced, LeaseHeld, Location
from headrace.model.log import Commit, Lease
from headrace.model.notes import CapturedUpTo, SourceLoaded, read_note
from headrace.model.source_clock import clock_of
from headrace.model.types import BIGINT, TIMESTAMP
from headrace.run.capture.position import Position
from headrace.run.capture.spool import spool_log
from headrace.run.ports import Ledger
from headrace.run.source_port import CaptureTask, ProjectPlace, SourceCapture, SourceDatabase
from headrace.site.sources.databases import place_of
from tests.connect.simulated_source import LISTS, SimulatedList

NOON = dt.datetime(2026, 2, 28, 12, tzinfo=dt.UTC)
LEASE_S = 100.0
"""Longer than any capture asks for."""


class Killed(Exception):
    """Stands for the end of the process: nobody catches it, and nothing is closed."""


@dataclass
class DyingLedger:
    """Ends the process at a commit that has rows: before it, or right after."""

    ledger: SqlLedger
    before: bool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)

    def commit(self, lease: Lease, commit: Commit) -> None:
        has_rows = any(edit.add for edit in commit.edits)
        if has_rows and self.before:
            raise Killed
        self.ledger.commit(lease, commit)
        if has_rows:
            raise Killed


class PortWorld(ABC):
    """A source with a key `id`, and how somebody else adds rows to it."""

    def __init__(self, folder: Path, origin: Origin) -> None:
        self.now = time.time()
        self.ledger = open_sqlite(folder / "ledger.db", lambda: self.now)
        self.store = FileStore(folder / "data")
        columns = (SourceColumn("id", BIGINT), SourceColumn("at", TIMESTAMP))
        where = Location("headrace.yml")
        self.source = Source(
            "clicks", SourceKind.STREAM, "us", (), columns, None, None, False, False, None, "at", 3600.0, origin, where
        )
        self.folder = folder

    @abstractmethod
    def add(self, number: int) -> None: ...

    @abstractmethod
    def check_confirmed(self) -> None:
        """What was committed is confirmed to the source, and nothing else."""

    @property
    def environment(self) -> dict[str, str]:
        return {}

    @property
    def place(self) -> ProjectPlace:
        return place_of("port", self.folder, self.environment)

    @property
    def database(self) -> SourceDatabase:
        origin = self.source.origin
        assert origin is not None
        return SourceDatabase(origin.kind, clock_of(self.source), origin.address, (self.source.name,))

    @property
    def task(self) -> CaptureTask:
        scratch = self.folder / "scratch"
        return connector_of(self.database.kind).make_task(self.database, [self.source], self.place, scratch)

    def open(self, ledger: Ledger | None = None) -> SourceCapture:
        return self.task.open(ledger or self.ledger, self.store)

    def ids(self) -> Counter[int]:
        log = self.ledger.logs([spool_log("clicks")]).get(spool_log("clicks"))
        tables = [] if log is None else [self.store.read("us", piece.stored) for piece in log.pieces]
        return Counter(number for table in tables for number in table.column("clicks.id").to_pylist())

    def take(self, capture: SourceCapture, *numbers: int) -> None:
        """Steps until exactly these rows are there, and all that there was at first has been read."""
        deadline = time.monotonic() + 60
        while self.ids() != Counter(numbers) or read_note(self.ledger, SourceLoaded, "clicks") is None:
            assert time.monotonic() < deadline, self.ids()
            capture.step(0.05)

    def lose_leases(self) -> None:
        """As if whoever holds them had stood still for longer than they were given."""
        self.now += LEASE_S

    def bury(self, capture: SourceCapture) -> None:
        """The system closes what a process that was killed had open."""
        self.lose_leases()


class PostgresWorld(PortWorld):
    def __init__(self, folder: Path, dsn: str) -> None:
        super().__init__(folder, PostgresTable("${DSN}", "clicks"))
        self.dsn = dsn
        self._execute("CREATE TABLE clicks (id bigint PRIMARY KEY, at timestamptz)")

    @property
    def environment(self) -> dict[str, str]:
        return {"DSN": self.dsn}

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as session:
            session.execute(statement.encode())

    def add(self, number: int) -> None:
        self._execute(f"INSERT INTO clicks VALUES ({number}, '{NOON.isoformat()}')")

    def check_confirmed(self) -> None:
        with connect_session(self.dsn) as session:
            state = slot_state(session, capture_names(self.place.project_here, self.database.name).slot)
        note = read_note(self.ledger, CapturedUpTo, self.database.name)
        position = None if note is None else Position.from_note(note)
        assert state is not None and position is not None
        assert 0 < state.confirmed_lsn <= position.lsn

    def bury(self, capture: SourceCapture) -> None:
        super().bury(capture)
        capture._stream.close()  # type: ignore[attr-defined]
        capture._session.close()  # type: ignore[attr-defined]


class FolderWorld(PortWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, FileFolder("in", "csv"))
        (folder / "in").mkdir()

    def add(self, number: int) -> None:
        (self.folder / f"{number}.tmp").write_text(f"id,at\n{number},{NOON.isoformat()}\n")
        (self.folder / f"{number}.tmp").rename(self.folder / "in" / f"{number}.csv")

    def check_confirmed(self) -> None:
        """Files stay where they are: nobody is told anything."""


class SimulatedWorld(PortWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, OtherOrigin("simulated", None, (("list", "port"),)))
        LISTS["port"] = SimulatedList([])

    def add(self, number: int) -> None:
        LISTS["port"].rows.append((number, NOON))

    def check_confirmed(self) -> None:
        note = read_note(self.ledger, CapturedUpTo, "simulated:clicks")
        assert note is not None and note.place == {"rows": str(LISTS["port"].confirmed)}


class WrittenWorld(PortWorld):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, WRITTEN_HERE)
        self.source = replace(self.source, kind=SourceKind.TABLE, key=("id",), time=None, retention_s=None)
        self.columns = tuple((column.name, column.type) for column in self.source.columns or ())

    def add(self, number: int) -> None:
        put_rows(self.folder / "scratch", self.columns, [(number, NOON)])

    def check_confirmed(self) -> None:
        assert list_files(self.folder / "scratch", 10) == []


@pytest.fixture(params=["files", "written", "simulated", pytest.param("postgres", marks=pytest.mark.live)])
def world(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PortWorld]:
    monkeypatch.setitem(SOURCE_MODULES, "simulated", SourceModule("tests.connect.simulated_source", asked=False))
    makers: dict[str, Callable[[], PortWorld]] = {
        "files": lambda: FolderWorld(tmp_path),
        "written": lambda: WrittenWorld(tmp_path),
        "simulated": lambda: SimulatedWorld(tmp_path),
        "postgres": lambda: PostgresWorld(tmp_path, request.getfixturevalue("postgres_dsn")),
    }
    made = makers[request.param]()
    with closing(made.ledger):
        yield made


def test_a_capture_starts_with_what_is_there_and_the_next_one_goes_on_from_its_position(world: PortWorld):
    world.add(1)
    with closing(world.open()) as capture:
        world.take(capture, 1)
        world.add(2)
        world.take(capture, 1, 2)
        world.check_confirmed()
    world.add(3)
    with closing(world.open()) as capture:
        world.take(capture, 1, 2, 3)
        capture.step(0.05)
        world.check_confirmed()
    assert world.ids() == Counter((1, 2, 3))


@pytest.mark.parametrize("before", [True, False], ids=["before it commits", "after it commits"])
def test_a_capture_that_is_killed_leaves_all_rows_to_the_next_one_and_none_twice(world: PortWorld, before: bool):
    with closing(world.open()) as capture:
        world.take(capture)
    world.add(1)
    dying: Any = DyingLedger(world.ledger, before)
    capture = world.open(dying)
    with pytest.raises(Killed):
        world.take(capture, 1, 1)
    assert world.ids() == (Counter() if before else Counter((1,)))
    world.bury(capture)
    world.add(2)
    with closing(world.open()) as capture:
        world.take(capture, 1, 2)
        world.check_confirmed()


def test_there_is_one_capture_at_a_time_and_closing_one_lets_the_next_one_start(world: PortWorld):
    with closing(world.open()), pytest.raises(LeaseHeld):
        world.open()
    world.open().close()


def test_a_capture_that_somebody_took_over_from_commits_nothing_more(world: PortWorld):
    with closing(world.open()) as capture:
        world.take(capture)
        world.lose_leases()
        world.ledger.acquire(f"capture:{world.database.name}", "another:1", LEASE_S)
        world.add(1)
        with pytest.raises(Fenced):
            world.take(capture, 1)
        assert world.ids() == Counter()


def test_tasks_of_the_same_sources_are_equal_and_name_their_clock_and_their_sources(world: PortWorld):
    assert world.task == world.task
    assert (world.task.name, world.task.sources) == (world.database.name, frozenset(("clicks",)))


SOURCE = Path(__file__).parents[2] / "src" / "headrace"
NAMES_OF_KINDS = re.compile(
    r"\b(FileFolder|OtherOrigin|FolderStream|FolderTask|CaptureSettings|DatabaseTask)\b"
    r"|headrace\.connect\.(folders|postgres)\b"
)
MAY_NAME_KINDS = {
    "connect",
    "model/catalogue.py",
    "declare/project_file.py",
    "app/demo_service.py",  # starts a PostgreSQL of its own
    "app/demo.py",  # writes to it
    "site/deliver/copies.py",  # delivers to PostgreSQL
}


def test_nobody_but_connect_and_the_project_file_names_kinds_of_sources():
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        module = file.relative_to(SOURCE).as_posix()
        if not module.startswith(tuple(MAY_NAME_KINDS)) and NAMES_OF_KINDS.search(file.read_text(encoding="utf-8")):
            found.append(module)
    assert found == []


def test_every_field_that_says_where_rows_are_has_a_kind_and_every_kind_a_field():
    """But for rows that the service writes: no project has them."""
    assert set(SourceEntry.origin_fields()) == set(SOURCE_MODULES) - {WRITTEN_HERE.kind}
