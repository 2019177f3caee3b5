"""A folder to which files are only ever added, as a stream: every file's rows go to the source's spool, once.

A file is taken when it looks complete: its size and time are the same at two looks, and its name neither begins with a
dot or underscore nor ends as unfinished downloads do. Best is to write elsewhere and rename. All rows of a file get one
time, and a note is committed with them: a `TakenFile`. When the file goes its rows stay, and so does the note, for a
month: a file that comes back is not taken again (`known_files.py`). Then `GoneFiles` counts it. A file that cannot be
read, or was changed after it was read, is left out with the reason in a note (`RejectedFile`), until it changes; one
that the disk or its rights keep from us is tried at every look. After the second look all that was there at first is
taken: `SourceLoaded` says so. `Watermark` is the largest event time so far.

A file is committed when it was last written, by its own time; but not before we looked at the folder and it was not
there (a copy may keep the time of its original), and not after now. What is there at the very first look is committed
then. Every look is a heartbeat: it moves the log and `CapturedUpTo` on, so that lag counts from the last look while no
files come. A folder that cannot be looked at has no heartbeat, and ConnectError says why. Neither has one that is empty
and is not the folder that was read before: its disk is not mounted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as json_lines

from headrace.connect.folders.known_files import (
    CHANGED,
    FileState,
    Found,
    as_seen,
    compare_file,
    digest_file,
    find_missing,
)
from headrace.connect.ledger.holder import this_holder
from headrace.connect.tables.files import Format, batches, columns_of, readable
from headrace.model.errors import ConnectError, InputError, Location, Problem
from headrace.model.notes import (
    CapturedUpTo,
    GoneFiles,
    NoteChange,
    RejectedFile,
    SourceLoaded,
    TakenFile,
    Watermark,
    note_keys,
    read_note,
    read_notes,
)
from headrace.model.types import FRACTIONS, TIMESTAMP, Type
from headrace.run.capture.stream_spool import StreamSpool
from headrace.run.capture.text_values import plain_floats
from headrace.run.ports import Ledger, Store
from headrace.run.rows.arrow import NO_SUCH_TIME, arrow_type, has_no_such_time

FOLDER = "folder:"
"""What names of commit marks of folders begin with."""
IDENTITY = "folder"
"""By which name the position of a folder says which folder it is: device and inode."""
FILES_TRIED = 5
UNFINISHED = (".tmp", ".part", ".partial", ".crdownload", ".unfinished", "~")


@dataclass(frozen=True, slots=True)
class FolderStream:
    """A source whose rows come in files. `format` is parquet, csv or jsonl; `time` is the column of event times."""

    source: str
    site: str
    folder: Path
    format: str
    columns: tuple[tuple[str, Type], ...]
    time: str | None = None

    @property
    def database(self) -> str:
        """The name of its commit marks: each folder is a database of its own."""
        return FOLDER + self.source


def read_taken(stream: FolderStream, taken: TakenFile) -> Iterator[pa.Table]:
    """The rows of a file that was taken, with columns named `source.column`. Raises InputError if they are no longer
    what was taken.
    """
    file = stream.folder / taken.file
    try:
        status = file.stat()
        if status.st_size != taken.bytes or taken.modified_ns not in (None, status.st_mtime_ns):
            raise _say_changed(file)
        rows = 0
        for table in _tables(stream, file):
            rows += table.num_rows
            yield table
        if rows != taken.rows:
            raise _say_changed(file)
    except OSError as error:
        raise InputError(
            [Problem(f"the file has disappeared since it was read: {error.strerror}", Location(str(file)))]
        ) from error


def _say_changed(file: Path) -> InputError:
    return InputError([Problem("the file has changed since it was read", Location(str(file)))])


class FolderCapture:
    """One at a time for each source. `step` takes what is complete; the log moves on also without files."""

    def __init__(self, stream: FolderStream, ledger: Ledger, store: Store, now: Callable[[], int]) -> None:
        self._stream = stream
        self._ledger = ledger
        self._now = now
        self._spool = StreamSpool(stream.source, stream.site, stream.database, ledger, store, now, this_holder())
        # A file whose note cannot be read was taken all the same: taken again, its rows would count twice.
        self._taken: dict[str, TakenFile | None] = {
            key.partition(":")[2]: None for key in note_keys(ledger, TakenFile, stream.source)
        }
        self._taken |= {one.file: one for one in read_notes(ledger, TakenFile, stream.source).values()}
        self._rejected: dict[str, FileState] = {}
        """Files that are left out, as they looked then; those too that were changed after they were taken."""
        self._before: dict[str, FileState] = {}
        self._looked_before = False
        note = read_note(ledger, CapturedUpTo, stream.database)
        self._identity = "" if note is None else note.place.get(IDENTITY, "")
        self._looked_at: int | None = None if note is None else note.commit_time
        """When we looked last, by our clock; also in an earlier run."""
        self._not_before: dict[str, int] = {}
        """Of files that are there and not taken, when they were not there yet."""

    def step(self, wait_s: float = 0.0) -> int:
        """Takes every file that is complete and new, oldest first; how many rows came. It waits for nothing.

        Raises ConnectError if there is no such folder, or if it cannot be read.
        """
        self._spool.renew()
        now, looks = self._now(), look_into(self._stream.folder)
        self._check_mounted(looks)
        earliest = now if self._looked_at is None else min(self._looked_at, now)
        self._not_before = {name: self._not_before.get(name, earliest) for name in looks}
        rejected = note_keys(self._ledger, RejectedFile, self._stream.source)
        notes = self._note_known(looks, frozenset(rejected))
        ready = [name for name in looks if self._is_ready(name, looks[name])]
        ready.sort(key=lambda name: (self._commit_time(name, looks[name]), name))
        self._before = looks
        rows = sum(self._take(name, looks[name]) for name in ready)
        missing = find_missing(self._taken, looks, now)
        source, t = self._stream.source, self._spool.next_time()
        notes += missing.gone
        notes += [TakenFile.remove(f"{source}:{name}") for name in missing.forgotten]
        if missing.forgotten:
            notes.append(self._count_gone(missing.forgotten))
        notes += [RejectedFile.remove(key) for key in rejected if key.partition(":")[2] not in looks]
        if self._looked_before:
            notes.append(SourceLoaded(source, t))
        self._looked_before = True
        self._looked_at = now
        self._commit(t, notes, now)
        self._taken |= {one.file: one for one in notes if isinstance(one, TakenFile)}
        for name in missing.forgotten:
            del self._taken[name]
        return rows

    def _check_mounted(self, looks: Mapping[str, FileState]) -> None:
        """Raises ConnectError for an empty folder in the place of one that had files."""
        status = self._stream.folder.stat()
        identity = f"{status.st_dev}:{status.st_ino}"
        known = sum(one is not None and one.gone_at is None for one in self._taken.values())
        if not looks and known and self._identity not in ("", identity):
            raise ConnectError(
                f'folder "{self._stream.folder}" is empty, and is another one than before: {known} files that were '
                "read are gone",
                "mount its disk; if the files were deleted, the service goes on with the first new one",
            )
        self._identity = identity

    def _note_known(self, looks: Mapping[str, FileState], rejected: Set[str]) -> list[NoteChange]:
        """Notes of files that were taken before, and look different now. What is new under an old name is forgotten."""
        notes: list[NoteChange] = []
        for name, look in looks.items():
            taken = self._taken.get(name)
            if taken is None or self._before.get(name) != look or self._rejected.get(name) == look:
                continue
            match compare_file(taken, look, partial(digest_file, self._stream.folder / name)):
                case Found.SAME if (seen := as_seen(taken, look)) != taken or taken.key in rejected:
                    notes += [seen, RejectedFile.remove(taken.key)]
                case Found.CHANGED:
                    self._rejected[name] = look
                    notes.append(RejectedFile(self._stream.source, name, CHANGED))
                case Found.NEW:
                    del self._taken[name]
        return notes

    def _count_gone(self, names: Sequence[str]) -> GoneFiles:
        """Counts files that are not known any more, with those of before."""
        source = self._stream.source
        before = read_note(self._ledger, GoneFiles, source) or GoneFiles(source, 0, 0, "")
        rows = sum(taken.rows for name in names if (taken := self._taken[name]) is not None)
        return GoneFiles(source, before.files + len(names), before.rows + rows, names[-1])

    def close(self) -> None:
        self._spool.close()

    def _is_ready(self, name: str, look: FileState) -> bool:
        new = name not in self._taken and self._rejected.get(name) != look
        return new and self._before.get(name) == look

    def _take(self, name: str, look: FileState) -> int:
        """A file is one transaction; what it wrote before it turned out to be wrong is garbage."""
        source, t = self._stream.source, self._spool.next_time()
        file = self._stream.folder / name
        latest: int | None = None
        count = 0
        try:
            for table in _tables(self._stream, file):
                latest = _later(latest, table, self._stream)
                self._spool.write(table, t)
                count += table.num_rows
            digest = _digest_unchanged(file, look)
        except InputError as error:
            self._spool.discard()
            if not isinstance(error.__cause__, OSError):  # rights and disks are mended without a change of the file
                self._rejected[name] = look
            reason = error.problems[0].message
            self._commit(t, [RejectedFile(source, name, reason)], self._now())
            return 0
        taken = TakenFile(source, name, t, count, look.size, look.modified_ns, digest)
        notes: list[NoteChange] = [taken, RejectedFile.remove(taken.key)]
        if latest is not None:
            known = read_note(self._ledger, Watermark, source)
            notes.append(Watermark(source, latest if known is None else max(latest, known.t)))
        self._commit(t, notes, self._commit_time(name, look))
        self._taken[name] = taken
        return count

    def _commit_time(self, name: str, look: FileState) -> int:
        return min(max(look.modified_ns // 1000, self._not_before[name]), self._now())

    def _commit(self, t: int, notes: list[NoteChange], commit_time: int) -> None:
        # A view that has all files lacks only what came after the last look: lag counts from there, not from
        # the last file.
        looked = self._looked_at if self._looked_at is not None else commit_time
        self._spool.commit(t, commit_time, looked, notes, {IDENTITY: self._identity})


def _digest_unchanged(file: Path, look: FileState) -> str:
    """Raises InputError, because of an OSError, for a file that was written to while it was read."""
    try:
        found, status = digest_file(file), file.stat()
        if (status.st_size, status.st_mtime_ns) != (look.size, look.modified_ns):
            raise OSError(0, "it is being written")
        return found
    except OSError as error:
        raise InputError([Problem(f"the file cannot be read: {error.strerror}", Location(str(file)))]) from error


def look_into(folder: Path) -> dict[str, FileState]:
    """The files that are or may become complete, by name. Raises ConnectError if there is no such folder."""
    try:
        found = {}
        for entry in os.scandir(folder):
            if entry.is_file() and entry.name[0] not in "._" and not entry.name.endswith(UNFINISHED):
                status = entry.stat()
                found[entry.name] = FileState(status.st_size, status.st_mtime_ns)
        return found
    except FileNotFoundError:
        if folder.is_dir():
            return look_into(folder)  # a file went while we looked
        raise ConnectError(
            f'folder "{folder}" does not exist', f"mkdir -p {folder}   or correct `files.path`"
        ) from None
    except NotADirectoryError:
        raise ConnectError(f'"{folder}" is a file, not a folder', "name the folder that holds the files") from None
    except OSError as error:
        hint = "let the user that runs Headrace read it"
        raise ConnectError(f'folder "{folder}" cannot be read: {error.strerror}', hint) from None


def find_unreadable_file(stream: FolderStream) -> Problem | None:
    """The first of a few files that is not as declared. Raises ConnectError as `look_into` does."""
    for name in sorted(look_into(stream.folder))[:FILES_TRIED]:
        try:
            next(_tables(stream, stream.folder / name), None)
        except InputError as error:
            return error.problems[0]
    return None


def read_folder(stream: FolderStream) -> pa.Table:
    """All rows that there are now, under the columns' own names. Raises ConnectError as `look_into` does, or InputError
    for what is not as declared.
    """
    parts = [part for name in sorted(look_into(stream.folder)) for part in _tables(stream, stream.folder / name)]
    schema = pa.schema([(name, arrow_type(type_)) for name, type_ in stream.columns])
    return pa.concat_tables([schema.empty_table(), *(part.rename_columns(schema.names) for part in parts)])


def _tables(stream: FolderStream, file: Path) -> Iterator[pa.Table]:
    """The declared columns with their types, a part at a time. Raises InputError for what is not as declared."""
    for part in _read_parts(stream, file):
        with readable(file):
            arrays = [_cast_column(part.column(name), type_) for name, type_ in stream.columns]
        for array, (name, _) in zip(arrays, stream.columns, strict=True):
            if has_no_such_time(array):
                raise InputError([Problem(f'column "{name}" has {NO_SUCH_TIME}', Location(str(file)))])
        yield pa.table(arrays, names=[f"{stream.source}.{name}" for name, _ in stream.columns])


def _read_parts(stream: FolderStream, file: Path) -> Iterator[pa.Table]:
    names = [name for name, _ in stream.columns]
    # Texts of times come with a zone or without: they are read below.
    types = {name: pa.string() if type_ == TIMESTAMP else arrow_type(type_) for name, type_ in stream.columns}
    if stream.format == "jsonl":
        options = json_lines.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="ignore")
        with readable(file):
            yield json_lines.read_json(file, parse_options=options)
        return
    form = Format.PARQUET if stream.format == "parquet" else Format.CSV
    missing = [name for name in names if name not in columns_of(file, form)]
    if missing:
        raise InputError([Problem(f'the file has no column "{missing[0]}"', Location(str(file)))])
    for batch in batches(file, form, names, types):
        yield pa.Table.from_batches([batch])


def _cast_column(column: pa.ChunkedArray, type_: Type) -> pa.ChunkedArray:
    if type_ in FRACTIONS:
        return plain_floats(column.cast(arrow_type(type_)))
    if type_ == TIMESTAMP and getattr(column.type, "tz", None) is None:
        try:
            return column.cast(pa.timestamp("us")).cast(arrow_type(type_))
        except pa.ArrowInvalid:
            return column.cast(arrow_type(type_))
    return column.cast(arrow_type(type_))


def _later(latest: int | None, table: pa.Table, stream: FolderStream) -> int | None:
    if stream.time is None or not table.num_rows:
        return latest
    highest = pc.max(table.column(f"{stream.source}.{stream.time}").cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    found = highest.as_py()
    return found if latest is None or (found is not None and found > latest) else latest
