"""Stores rows whose time is not known yet in files: rows of open transactions, and of tables while they are read.

The files belong to this process alone: after a crash, the log delivers open transactions again from their beginning.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.checksums import SummingFile, sum_file
from headrace.connect.files import open_private
from headrace.model.errors import ConnectError
from headrace.run.capture.spool import CapturedTable, SpoolRows, spool_schema

ROWS_IN_MEMORY = 20_000
READ_AGAIN = "the capture starts again by itself, and reads the rows from the database once more"


class SpillFolder:
    """A folder of this process's own, inside `parent`; gone when closed."""

    def __init__(self, parent: Path) -> None:
        parent.mkdir(parents=True, exist_ok=True)
        self._folder = Path(tempfile.mkdtemp(prefix="open-", dir=parent))
        self._made = 0

    def new(self) -> Spill:
        self._made += 1
        return Spill(self._folder / str(self._made))

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Spill:
    """The rows of several sources, in order for each. A row's stamp says which part of a transaction it is of."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._rows: dict[str, SpoolRows] = {}
        self._paths: dict[str, Path] = {}
        self._files: dict[str, tuple[SummingFile, pa.RecordBatchStreamWriter]] = {}
        self._aborted: set[int] = set()
        self._made = 0

    def rows_of(self, captured: CapturedTable) -> SpoolRows:
        """Where to add rows; `settle` afterwards."""
        if captured.source not in self._rows:
            self._rows[captured.source] = SpoolRows(captured)
        return self._rows[captured.source]

    def settle(self, rows: SpoolRows, at_once: bool = False) -> None:
        """Write to the file what is too much for memory, or all of it."""
        if len(rows) >= ROWS_IN_MEMORY or (at_once and len(rows)):
            self._write(rows)

    def abort(self, part: int) -> None:
        self._aborted.add(part)

    def add_table(self, captured: CapturedTable, table: pa.Table) -> None:
        """Rows that are columns already, after those added before."""
        self._write(self.rows_of(captured))
        self._files[captured.source][1].write_table(table)

    def forget_source(self, source: str) -> None:
        """Its file goes with the folder."""
        self._rows.pop(source, None)
        opened = self._files.pop(source, None)
        if opened:
            opened[1].close()
            opened[0].close()

    def release(self, source: str, t: int) -> Iterator[pa.Table]:
        """The rows that were not rolled back, with their time, in parts. None if there never were any."""
        if source not in self._rows:
            return
        self._write(self._rows.pop(source))
        path = self._paths.pop(source)
        _end_file(path, *self._files.pop(source))
        with pa.memory_map(str(path)) as mapped, pa.ipc.open_stream(mapped) as reader:
            for batch in reader:
                table = _without(pa.Table.from_batches([batch]), self._aborted)
                if table.num_rows:
                    position = table.schema.get_field_index("__t")
                    yield table.set_column(position, "__t", pa.array([t] * table.num_rows, pa.int64()))
        path.unlink()

    @property
    def in_memory(self) -> tuple[SpoolRows, ...]:
        return tuple(self._rows.values())

    @property
    def sources(self) -> Collection[str]:
        return tuple(self._rows)

    def delete(self) -> None:
        for source in tuple(self._rows):
            self.forget_source(source)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, rows: SpoolRows) -> None:
        source = rows.captured.source
        if source not in self._files:
            self._folder.mkdir(exist_ok=True)
            self._paths[source] = self._folder / f"{self._made}.arrows"
            self._made += 1
            file = SummingFile(open_private(self._paths[source]))
            self._files[source] = file, pa.ipc.new_stream(file, spool_schema(rows.captured))
        if len(rows):
            self._files[source][1].write_table(rows.take())


def _end_file(path: Path, file: SummingFile, writer: pa.RecordBatchStreamWriter) -> None:
    """Ends a file that is read from now on. Raises ConnectError if it does not hold what was written."""
    writer.close()
    sums, _ = file.finish(durable=False)
    file.close()
    try:
        found = sum_file(path)
    except OSError as error:
        raise ConnectError(f'the file "{path}" cannot be read: {error}', READ_AGAIN) from error
    if found != sums:
        raise ConnectError(f'the file "{path}" is damaged: its content has changed', READ_AGAIN)


def _without(table: pa.Table, parts: Collection[int]) -> pa.Table:
    if not parts:
        return table
    return table.filter(pc.invert(pc.is_in(table["__t"], value_set=pa.array(sorted(parts), pa.int64()))))
