"""The store of `run.ports` in a folder: Arrow IPC files, a folder for each site.

    ROOT/SITE/HINT-UUID.arrow              complete, on disk, never changed
    ROOT/SITE/.HINT-UUID.arrow.unfinished  being written, or left over from a crash: garbage once it is old

Files are not compressed, and hold their rows as one batch: a column is one piece of mapped memory, and is not copied.
"""

from __future__ import annotations

import os
import re
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

import pyarrow as pa

from headrace.model.errors import ConnectError

LONGEST_HINT = 100
"""Characters; file systems allow names of 255 bytes."""


@dataclass(frozen=True, slots=True)
class FileStore:
    """Used by several processes at once, and sent to Spark's workers."""

    root: Path

    def write(self, site: str, table: pa.Table, hint: str, durable: bool = True) -> tuple[str, int]:
        folder = self._folder(site)
        name = f"{_readable(hint)}-{uuid.uuid4().hex}.arrow"
        unfinished = folder / f".{name}.unfinished"
        try:
            # In this order: the folder, the content, the name. After a loss of power a name must never stand for half
            # a file, and the ledger names the file only after this returns.
            _make_durable(folder)
            size = _write(unfinished, table.combine_chunks(), durable)
            unfinished.rename(folder / name)
            if durable:
                _sync(folder)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise ConnectError(
                f'cannot write "{folder / name}": {error}', hint="is there space on its disk?"
            ) from error
        return name, size

    def read(self, site: str, file: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The columns in the order asked for; all of the file's without."""
        path = self._folder(site) / file
        try:
            with pa.memory_map(str(path)) as source:
                return _read_columns(source, columns)
        except OSError as error:  # pa.ArrowInvalid, of a damaged file, says more than we could
            raise ConnectError(f'cannot read "{path}": {error}', hint="was it deleted by hand?") from error

    def pin(self, site: str, files: Sequence[str], folder: Path) -> FileStore:
        """Pins files by hard links: nothing is copied. Safe to repeat."""
        pinned = FileStore(folder)
        pinned._folder(site).mkdir(parents=True, exist_ok=True)
        for file in files:
            try:
                os.link(self._folder(site) / file, pinned._folder(site) / file)
            except FileExistsError:
                continue
            except OSError as error:
                raise ConnectError(f'cannot keep "{self._folder(site) / file}" for reading: {error}') from error
        return pinned

    def has(self, site: str, file: str) -> bool:
        return (self._folder(site) / file).exists()

    def list(self) -> Iterator[tuple[str, str, float]]:
        now = time.time()
        folders = sorted(self.root.iterdir()) if self.root.is_dir() else []
        for folder in folders:
            for entry in sorted(os.scandir(folder), key=lambda entry: entry.name) if folder.is_dir() else ():
                try:
                    yield unquote(folder.name), entry.name, now - entry.stat().st_mtime
                except FileNotFoundError:  # finished or deleted meanwhile
                    continue

    def delete(self, site: str, file: str) -> None:
        (self._folder(site) / file).unlink(missing_ok=True)

    def _folder(self, site: str) -> Path:
        """Every site has one of its own, and its name can be read back: what is listed is compared with the ledger."""
        assert site, "a site has a name"
        return self.root / quote(site, safe=" ").replace(".", "%2E")


def _readable(hint: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", hint)[:LONGEST_HINT].lstrip(".") or "rows"


def open_private(path: Path, flags: int = os.O_TRUNC) -> BinaryIO:
    """A file to write to, which only its owner can read from the first moment on if it is new."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600), "wb")


def _write(path: Path, table: pa.Table, durable: bool) -> int:
    with open_private(path, os.O_EXCL) as file:
        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=None)) as writer:
            writer.write_table(table)
        file.flush()
        if durable:
            os.fsync(file.fileno())
        return file.tell()


def _read_columns(source: pa.MemoryMappedFile, columns: Sequence[str] | None) -> pa.Table:
    if columns is None:
        return pa.ipc.open_file(source).read_all()
    schema = pa.ipc.open_file(source).schema
    fields = [schema.get_field_index(name) for name in columns]
    chosen = pa.ipc.IpcReadOptions(included_fields=fields)
    return pa.ipc.open_file(source, options=chosen).read_all().select(list(columns))


def _make_durable(folder: Path) -> None:
    """A folder that outlives a loss of power, with those it lies in."""
    # From the root down: a folder outlives a loss of power only if its entry in the folder above does.
    if not folder.is_dir():
        _make_durable(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
