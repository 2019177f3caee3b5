"""Folders of files as a kind of source (`run.source_port`): each is looked at every half second, by a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.connect.folders.capture import FolderCapture, FolderStream, find_unreadable_file, read_folder, read_taken
from headrace.connect.folders.known_files import CHANGED
from headrace.model.catalogue import FileFolder, Source
from headrace.model.errors import ConnectError, InputError, Problem, Severity
from headrace.model.notes import GoneFiles, RejectedFile, TakenFile, note_keys, read_note, read_notes
from headrace.run.capture.clock import clock_now
from headrace.run.ports import Ledger, Store
from headrace.run.source_port import CaptureTask, Columns, Looked, ProjectPlace, SourceConnector, SourceDatabase

MEND_CHANGED = "put it back, or write new rows to a new file; `headrace sources reread {}` reads all files again"
MEND_FILE = "make the file match the declaration, or remove it; the service reads it as soon as it can"


@dataclass(frozen=True)
class FolderTask(CaptureTask):
    stream: FolderStream
    pause_s = 0.5

    @property
    def name(self) -> str:
        return self.stream.database

    @property
    def sources(self) -> frozenset[str]:
        return frozenset((self.stream.source,))

    def open(self, ledger: Ledger, store: Store) -> FolderCapture:
        return FolderCapture(self.stream, ledger, store, clock_now)

    def find_troubles(self, ledger: Ledger) -> Iterator[tuple[str, str, str]]:
        """The first of the files that cannot be read."""
        source = self.stream.source
        rejected = sorted(read_notes(ledger, RejectedFile, source).items())
        if rejected:
            _, first = rejected[0]
            more = f" (and {len(rejected) - 1} more)" if len(rejected) > 1 else ""
            hint = MEND_CHANGED.format(source) if first.why == CHANGED else MEND_FILE
            yield source, f'source "{source}" leaves out file "{first.file}"{more}: {first.why}', hint


class FolderSources(SourceConnector):
    def describe(
        self, sources: Mapping[str, Source], place: ProjectPlace
    ) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        """Columns are declared; reading a folder says which variables are not set."""
        unset: list[Problem] = []
        for source in sources.values():
            try:
                _find_folder(source, place)
            except InputError as error:
                unset += error.problems
        return sources, tuple(unset)

    def read_columns(self, source: Source, columns: Sequence[str], place: ProjectPlace) -> pa.Table:
        return read_folder(_stream(source, place)).select(list(columns))

    def check(self, sources: Sequence[Source], place: ProjectPlace) -> Iterator[Problem]:
        """Warnings, since a folder may come later."""
        for source in sources:
            if source.columns is None:
                continue
            try:
                wrong = find_unreadable_file(_stream(source, place))
                if wrong is not None:
                    file = wrong.where.file if wrong.where else ""
                    what = f'source "{source.name}" cannot read "{file}": {wrong.message}'
                    yield Problem(what, source.declared_at, MEND_FILE, Severity.WARNING)
            except ConnectError as error:
                what = f'source "{source.name}" cannot be read: {error.message}'
                yield Problem(what, source.declared_at, error.hint, Severity.WARNING)
            except InputError:
                continue

    def look_at(
        self, databases: Sequence[SourceDatabase], sources: Sequence[Source], place: ProjectPlace
    ) -> Iterator[Looked]:
        wrong = list(self.check(sources, place))
        yield from (Looked("folder", "cannot be read", problem) for problem in wrong)
        if not wrong:
            yield Looked("folders", f"{len(sources)} can be read")

    def make_task(
        self, database: SourceDatabase, sources: Sequence[Source], place: ProjectPlace, scratch: Path
    ) -> FolderTask:
        (source,) = sources
        return FolderTask(_stream(source, place))

    def find_incomparable(self, source: Source) -> None:
        return None

    def find_unchecked(self, source: Source) -> str:
        return "is a folder, whose files are not read twice; `headrace audit --recompute` compares them"

    def read_taken(
        self, source: Source, columns: Columns, t: int, ledger: Ledger, place: ProjectPlace
    ) -> Iterator[pa.Table]:
        stream = _stream(source, place)
        for taken in taken_files(ledger, source.name, t):
            for part in read_taken(stream, taken):
                arrays = [part.column(f"{source.name}.{column}") for column, _ in columns]
                yield pa.Table.from_arrays(arrays, [f"c{position}" for position in range(len(columns))])


CONNECTOR = FolderSources()


def _stream(source: Source, place: ProjectPlace) -> FolderStream:
    assert isinstance(source.origin, FileFolder) and source.columns is not None
    columns = tuple((column.name, column.type) for column in source.columns)
    folder = _find_folder(source, place)
    return FolderStream(source.name, source.site, folder, source.origin.format, columns, source.time)


def _find_folder(source: Source, place: ProjectPlace) -> Path:
    """Raises InputError if the path has a variable that is not set."""
    assert isinstance(source.origin, FileFolder)
    return place.folder / place.fill(source.origin.path, source.declared_at)


def taken_files(ledger: Ledger, source: str, t: int) -> list[TakenFile]:
    """The files whose rows a view at time t has. Raises ConnectError if one of them is gone."""
    forgotten = read_note(ledger, GoneFiles, source)
    taken = read_notes(ledger, TakenFile, source)
    gone = sorted(one.file for one in taken.values() if one.gone_at is not None)
    if forgotten is not None or gone:
        files, last = len(gone), gone[-1] if gone else ""
        if forgotten is not None:
            files, last = files + forgotten.files, last or forgotten.last
        said = f"file {last} was" if files == 1 else f"{files} files ({last} the last) were"
        raise ConnectError(f"{said} read and then deleted: their rows cannot be read again")
    unknown = [key for key in note_keys(ledger, TakenFile, source) if key not in taken]
    if unknown:
        raise ConnectError(f'the ledger no longer says when file "{unknown[0].partition(":")[2]}" was read')
    return [one for _, one in sorted(taken.items()) if one.t <= t]
