"""PostgreSQL as a kind of source (`run.source_port`): a database is captured from its log, by a process of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from headrace.connect.postgres.capture import Capture
from headrace.connect.postgres.capture_settings import CaptureSettings
from headrace.connect.postgres.cut import DatabaseCut
from headrace.connect.postgres.give_back import give_back, is_left
from headrace.connect.postgres.inspect import inspect_differences, inspect_sources
from headrace.connect.postgres.look import look_at_database
from headrace.connect.postgres.read_columns import read_columns
from headrace.connect.postgres.sessions import connect_reading
from headrace.connect.postgres.sight import TableSight
from headrace.connect.postgres.slot_watch import SlotWatch
from headrace.connect.postgres.slots import capture_names
from headrace.connect.postgres.trial import try_capture
from headrace.model.catalogue import PostgresTable, Source, SourceKind
from headrace.model.errors import ConnectError, InputError, Problem
from headrace.model.notes import CapturedUpTo, CaptureSlot, CapturingTables
from headrace.model.source_clock import name_database
from headrace.run.capture.position import Position, parse_lsn
from headrace.run.capture.spool import CapturedTable
from headrace.run.ports import Ledger, Store
from headrace.run.source_port import CaptureProcess, CaptureTask, Looked, ProjectPlace, SourceConnector, SourceDatabase

DSN_VARIABLE = "HEADRACE_CAPTURE_DSN"


@dataclass(frozen=True)
class DatabaseTask(CaptureTask):
    settings: CaptureSettings
    in_own_process = True

    @property
    def name(self) -> str:
        return self.settings.database

    @property
    def sources(self) -> frozenset[str]:
        return frozenset(table.source for table in self.settings.tables)

    def open(self, ledger: Ledger, store: Store) -> Capture:
        self.settings.scratch.mkdir(parents=True, exist_ok=True)
        return Capture(self.settings, ledger, store)

    @property
    def settled(self) -> CapturingTables:
        return CapturingTables(self.settings.database, self.settings.digest)

    def make_process(self, ledger: Path, store: Path) -> CaptureProcess:
        """The address with its password goes through the environment, which other users cannot read."""
        settings = self.settings
        config = {
            "project": settings.project,
            "database": settings.database,
            "dsn_variable": DSN_VARIABLE,
            "ledger": str(ledger),
            "store": str(store),
            "scratch": str(settings.scratch),
            "tables": [_table_config(table) for table in settings.tables],
            "step_s": settings.step_s,
        }
        line = json.dumps(config).encode() + b"\n"
        return CaptureProcess("headrace.connect.postgres.process", {DSN_VARIABLE: settings.dsn}, line)

    def can_become(self, other: CaptureTask) -> bool:
        """It captures other tables of its database, or in other steps, without being started again."""
        if not isinstance(other, DatabaseTask):
            return False
        wanted = other.settings
        return replace(self.settings, tables=wanted.tables, step_s=wanted.step_s) == wanted

    def watch_log(self) -> SlotWatch:
        return SlotWatch(self.settings)


class PostgresSources(SourceConnector):
    def describe(
        self, sources: Mapping[str, Source], place: ProjectPlace
    ) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        addresses: dict[str, str] = {}
        unset: list[Problem] = []
        for source in sources.values():
            try:
                addresses[_table(source).dsn] = place.fill(_table(source).dsn, source.declared_at)
            except InputError as error:
                unset += error.problems
        found, findings = inspect_sources(sources, addresses)
        return found, (*unset, *findings)

    def read_columns(self, source: Source, columns: Sequence[str], place: ProjectPlace) -> pa.Table:
        known = {one.name: one for one in source.columns or ()}
        address = place.fill(_table(source).dsn, source.declared_at)
        return read_columns(address, _table(source).table, [known[name] for name in columns])

    def try_capture(self, sources: Sequence[Source], place: ProjectPlace) -> Iterator[Problem]:
        for written, address, own in _by_address(sources, place):
            yield from try_capture(address, capture_names(place.project_here, name_database(written)), own)

    def find_differences(self, sources: Sequence[Source], place: ProjectPlace) -> Iterator[Problem]:
        for _, address, own in _by_address(sources, place):
            yield from inspect_differences(address, own)

    def look_at(
        self, databases: Sequence[SourceDatabase], sources: Sequence[Source], place: ProjectPlace
    ) -> Iterator[Looked]:
        for database in databases:
            try:
                address = place.fill(database.address or "", None)
            except InputError as error:
                yield from (Looked(database.name, "not known", problem) for problem in error.problems)
            else:
                names = capture_names(place.project_here, database.name)
                watched = any(source.has_trigger for source in sources if source.name in database.sources)
                yield from look_at_database(database.name, address, names, watched)

    def ask(self, database: SourceDatabase, place: ProjectPlace) -> None:
        connect_reading(place.fill(database.address or "", None)).close()

    def make_task(
        self, database: SourceDatabase, sources: Sequence[Source], place: ProjectPlace, scratch: Path
    ) -> DatabaseTask:
        tables = tuple(make_captured_table(source) for source in sources)
        dsn = place.fill(database.address or "", None)
        settings = CaptureSettings(place.project_here, database.name, dsn, tables, scratch, step_s=database.step_s)
        return DatabaseTask(settings)

    def find_incomparable(self, source: Source) -> str | None:
        if source.kind is SourceKind.STREAM:
            return "is a stream: rows that were deleted since still count, and cannot be read"
        return None

    def open_cut(self, database: SourceDatabase, sources: Sequence[Source], place: ProjectPlace) -> DatabaseCut:
        tables = tuple(make_captured_table(source) for source in sources)
        return DatabaseCut(place.fill(database.address or "", None), tables)

    def find_unchecked(self, source: Source) -> str | None:
        return self.find_incomparable(source)

    def open_sight(self, source: Source, place: ProjectPlace) -> TableSight:
        return TableSight(place.fill(_table(source).dsn, source.declared_at), make_captured_table(source))

    def has_passed(self, position: str, captured: CapturedUpTo) -> bool:
        reached = Position.from_note(captured)
        return reached is not None and reached.lsn >= parse_lsn(position)

    def describe_made(self, database: SourceDatabase, place: ProjectPlace) -> CaptureSlot:
        return slot_of(place.project_here, database.name, database.address or "")

    def give_back(self, made: CaptureSlot, place: ProjectPlace, ledger: Ledger, called_off: Callable[[], bool]) -> None:
        """A folder that was moved or copied has notes of another folder's slots, which may be in use."""
        address, folder = place.fill(made.dsn, None), Path(made.project.partition(":")[2])
        if folder.resolve() == place.folder.resolve():
            give_back(capture_names(made.project, made.database), address, ledger, called_off)
        elif is_left(made.slot, address):
            why = f'it belongs to the project in "{folder}", and nobody reads it'
            raise ConnectError(f"{why}: if no project is there any more, drop it with pg_drop_replication_slot")


CONNECTOR = PostgresSources()


def make_captured_table(source: Source) -> CapturedTable:
    """A source whose columns are known, declared or inspected, as its capture sees it."""
    assert source.columns is not None
    return CapturedTable(
        source=source.name,
        site=source.site,
        table=_table(source).table,
        columns=tuple((column.name, column.type) for column in source.columns),
        key=source.key,
        appends=source.kind is SourceKind.STREAM,
        static=source.static,
        has_trigger=source.has_trigger,
    )


def slot_of(project: str, database: str, dsn: str) -> CaptureSlot:
    """What the capture of a database makes there; `project` is the project's name and folder."""
    return CaptureSlot(capture_names(project, database).slot, project, database, dsn)


def _by_address(sources: Sequence[Source], place: ProjectPlace) -> Iterator[tuple[str, str, list[Source]]]:
    """Addresses as written and filled in, with their sources. Those whose variables are not set are passed over:
    `describe` tells of these.
    """
    for written in dict.fromkeys(_table(source).dsn for source in sources):
        own = [source for source in sources if _table(source).dsn == written]
        try:
            yield written, place.fill(written, own[0].declared_at), own
        except InputError:
            continue


def _table(source: Source) -> PostgresTable:
    assert isinstance(source.origin, PostgresTable)
    return source.origin


def _table_config(table: CapturedTable) -> dict[str, object]:
    return {
        "source": table.source,
        "site": table.site,
        "table": table.table,
        "columns": {name: str(type_) for name, type_ in table.columns},
        "key": list(table.key),
        "appends": table.appends,
        "static": table.static,
        "has_trigger": table.has_trigger,
    }
