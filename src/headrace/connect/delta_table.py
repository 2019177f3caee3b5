"""A Delta table that Headrace writes: its files, and commits that say how far it is.

Every commit carries versions of application transactions: whose table it is and the writer's epoch, the number of the
step that it belongs to, the time that its rows are as of, how many there are, and the meaning that they have. Of two
writers that read the same version only one can commit. Files are named by the step that made them, and never changed:
by that, and by the number of rows, one sees what somebody else has done to a table.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions
from pyarrow import parquet

from headrace.model.errors import Conflict, ConnectError, CopyChanged, Fenced, NotOurs

ROWS_PER_FILE = 250_000
PREFIX = "headrace-"
LOG = "_delta_log"
LATER_MS = 1_000
"""By how much the time of a file may be later than what its commit says."""
SETTINGS = {"delta.logRetentionDuration": "interval 1 days"}
"""Otherwise a month of commits is kept, each a file."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a commit says of the table. `meaning` is None where rows are not those of the meaning that is asked for."""

    step: int
    t: int
    meaning: str | None


@dataclass(frozen=True, slots=True)
class File:
    """`last` is the largest value of the column that the table is ordered by, if it has one. `written_ms` is when it
    was written, in milliseconds since 1970.
    """

    name: str
    rows: int
    last: int | None
    bytes: int
    written_ms: int


@dataclass(frozen=True, slots=True)
class TableVersion:
    """A table as it was read: what is committed on it fails if someone else was faster.

    `delivered` is how many rows we have left in it; None if an earlier version of Headrace did.
    """

    handle: DeltaTable
    mark: Mark
    files: tuple[File, ...]
    delivered: int | None = None

    @property
    def schema(self) -> Schema:
        return self.handle.schema()


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A folder for a table. `owner` names the contract in all projects; `ordered_by` has its range in every file."""

    path: Path
    owner: str
    epoch: int
    description: str
    ordered_by: str | None = None

    def read(self, meaning: str) -> TableVersion | None:
        """The newest version; None if there is none. Raises an error if it is not ours, or not any more."""
        if not DeltaTable.is_deltatable(str(self.path)):
            self._check_empty()
            return None
        handle = self._open()
        if handle is None:
            return None
        epoch = handle.transaction_version(self.owner)
        if epoch is None:
            raise self._foreign()
        if epoch > self.epoch:
            raise Fenced(f'another service has taken over the Delta table "{self.path}"')
        step, t = (handle.transaction_version(f"{self.owner}#{name}") for name in ("step", "t"))
        assert step is not None and t is not None, f"every commit to {self.path} says its step and time"
        meant = handle.transaction_version(f"{self.owner}#meaning-{meaning}") == step
        rows = handle.transaction_version(f"{self.owner}#rows")
        return TableVersion(handle, Mark(step, t, meaning if meant else None), tuple(self._files(handle)), rows)

    def _open(self) -> DeltaTable | None:
        """None for a table of ours whose log somebody has damaged: all files in the folder have our names."""
        try:
            return DeltaTable(str(self.path))
        except DeltaError:
            self._check_empty()
            return None

    def find_change(self, version: TableVersion) -> str | None:
        """What somebody else has done to the table, in words; None if it holds what we have left in it.

        The rows themselves are not read: a file of another size, or one that was written later, is not ours any more.
        """
        if version.delivered is None:
            return "nobody knows how many rows were delivered"
        for file in version.files:
            if not file.name.startswith(PREFIX):
                return f'file "{file.name}" was added'
            try:
                found = (self.path / file.name).stat()
            except FileNotFoundError:
                return f'file "{file.name}" was deleted'
            if found.st_size != file.bytes or found.st_mtime_ns // 1_000_000 > file.written_ms + LATER_MS:
                return f'file "{file.name}" was changed'
        rows = sum(file.rows for file in version.files)
        return None if rows == version.delivered else f"it has {rows} rows instead of {version.delivered}"

    def create(self, schema: pa.Schema, rows: pa.Table, mark: Mark) -> None:
        """The first version, or one that replaces all there is, its columns too."""
        if self._is_damaged():
            self.delete()
        self.path.mkdir(parents=True, exist_ok=True)
        create_table_with_add_actions(
            str(self.path),
            Schema.from_arrow(schema),
            self._write_files(rows, mark.step),
            mode="overwrite" if DeltaTable.is_deltatable(str(self.path)) else "error",
            description=self.description,
            configuration=SETTINGS,
            commit_properties=self._properties(mark, rows.num_rows),
        )

    def _is_damaged(self) -> bool:
        """Whether there is a log, ours by the names of all files, that cannot be read."""
        return DeltaTable.is_deltatable(str(self.path)) and self._open() is None

    def commit(
        self, on: TableVersion, rows: pa.Table, drop: Sequence[File], mark: Mark, same_rows: bool = False
    ) -> None:
        """Adds rows and drops files. `same_rows`: they were only moved, which readers of changes need not know."""
        now = _milliseconds()
        left = sum(file.rows for file in on.files) - sum(file.rows for file in drop) + rows.num_rows
        actions: list[AddAction | RemoveAction] = list(self._write_files(rows, mark.step, not same_rows))
        actions += [RemoveAction(file.name, not same_rows, now) for file in drop]
        on.handle.create_write_transaction(actions, "append", on.schema, commit_properties=self._properties(mark, left))

    def rows_of(self, file: File, schema: pa.Schema) -> pa.Table:
        """Raises CopyChanged if the file is gone, or no file of ours any more."""
        try:
            return parquet.read_table(self.path / file.name).select(schema.names).cast(schema)
        except (FileNotFoundError, pa.ArrowInvalid, KeyError) as error:
            how = "deleted" if isinstance(error, FileNotFoundError) else "changed"
            raise self.say_changed(f'file "{file.name}" was {how}') from error

    def say_changed(self, how: str) -> CopyChanged:
        return CopyChanged(
            f'the Delta table "{self.path}" was changed by someone else: {how}',
            hint="the service fills it again; whoever changes it should write to another folder",
        )

    def vacuum(self, kept_s: float) -> None:
        """Deletes files that no version of this time names, those of broken commits too."""
        hours = int(kept_s // 3600)
        DeltaTable(str(self.path)).vacuum(hours, dry_run=False, enforce_retention_duration=False, full=True)

    def delete(self) -> None:
        """Only what we made."""
        if not self.path.exists():
            return
        for file in sorted(self.path.glob(f"{LOG}/**/*"), reverse=True) + list(self.path.glob(f"{PREFIX}*.parquet")):
            file.rmdir() if file.is_dir() else file.unlink()
        for folder in (self.path / LOG, self.path):
            if folder.exists() and not any(folder.iterdir()):
                folder.rmdir()

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Errors of files and of the library as ours."""
        try:
            yield
        except CommitFailedError as error:
            raise Conflict(f'someone else has written to the Delta table "{self.path}"') from error
        except (DeltaError, OSError, pa.ArrowInvalid) as error:
            said = " ".join(str(error).split())
            raise ConnectError(f'the Delta table "{self.path}" cannot be written: {said}') from error

    def _check_empty(self) -> None:
        if self.path.is_dir():
            others = [file.name for file in self.path.iterdir() if not file.name.startswith((PREFIX, LOG))]
            if others:
                raise self._foreign()
        elif self.path.exists():
            raise self._foreign()

    def _foreign(self) -> NotOurs:
        return NotOurs(
            f'"{self.path}" already exists, and was not created by Headrace for this contract',
            hint="deliver to another folder, or move this one away",
        )

    def _files(self, handle: DeltaTable) -> Iterator[File]:
        actions = pa.table(handle.get_add_actions(flatten=True))
        last = f"max.{self.ordered_by}"
        for row in actions.to_pylist():
            yield File(row["path"], row["num_records"], row.get(last), row["size_bytes"], row["modification_time"])

    def _properties(self, mark: Mark, rows: int) -> CommitProperties:
        said = {
            self.owner: self.epoch,
            f"{self.owner}#step": mark.step,
            f"{self.owner}#t": mark.t,
            f"{self.owner}#rows": rows,
        }
        if mark.meaning is not None:
            said[f"{self.owner}#meaning-{mark.meaning}"] = mark.step
        transactions = [Transaction(name, version) for name, version in said.items()]
        return CommitProperties(app_transactions=transactions, max_commit_retries=1)

    def _write_files(self, rows: pa.Table, step: int, new: bool = True) -> list[AddAction]:
        made = []
        for start in range(0, rows.num_rows, ROWS_PER_FILE):
            part = rows.slice(start, ROWS_PER_FILE)
            name = f"{step_prefix(step)}{uuid.uuid4().hex}.parquet"
            with (self.path / name).open("xb") as file:
                parquet.write_table(part, file, compression="zstd")
                file.flush()
                os.fsync(file.fileno())
            # The time is the file server's, as it is when others look: its clock may not be ours.
            found = (self.path / name).stat()
            written_ms = found.st_mtime_ns // 1_000_000
            made.append(AddAction(name, found.st_size, {}, written_ms, new, json.dumps(self._statistics(part))))
        return made

    def _statistics(self, rows: pa.Table) -> Mapping[str, object]:
        found: dict[str, object] = {"numRecords": rows.num_rows}
        if self.ordered_by is not None:
            ends = pc.min_max(rows.column(self.ordered_by)).as_py()
            found |= {"minValues": {self.ordered_by: ends["min"]}, "maxValues": {self.ordered_by: ends["max"]}}
        return found


def step_prefix(step: int) -> str:
    """How the names of the files of a step start."""
    return f"{PREFIX}{step}-"


def small_files(files: Sequence[File], rows: int) -> list[File]:
    """Files to write together with new rows, so that there are ever few: those at most twice as large as the rest.

    So there are about as many files as a number of all rows has binary digits, and a row is rewritten as often.
    """
    found = []
    for file in sorted(files, key=lambda file: (file.rows, file.name)):
        if file.rows > 2 * rows or rows + file.rows > ROWS_PER_FILE:
            break
        found.append(file)
        rows += file.rows
    return found


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
