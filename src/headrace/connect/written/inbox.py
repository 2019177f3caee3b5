"""Rows on their way into a source that the service writes: files in a folder, each all or nothing, in their order.

Whoever writes rows numbers the file under a lock, and renames it into its place when it is whole. The capture takes
files by their numbers and deletes them once their rows are committed. So rows survive any crash, and any process of
this machine may write them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
from pyarrow import ipc

from headrace.connect.written.plain_arrays import make_array
from headrace.model.errors import ConnectError
from headrace.model.types import Row
from headrace.run.rows.arrow import arrow_type
from headrace.run.source_port import Columns

OPERATION = "__op"
UPSERT, DELETE = "u", "d"
LAST, LOCK, ENDING = "last", "lock", ".arrow"


def put_rows(inbox: Path, columns: Columns, upserts: Sequence[Row], deletes: Sequence[Row] = ()) -> None:
    """Writes rows that are there from now on, in place of those with the same key, and rows that are gone, of which
    only the key counts. Later rows of one call win. Raises ConnectError if the disk does not take them.
    """
    rows, operations = [*deletes, *upserts], [DELETE] * len(deletes) + [UPSERT] * len(upserts)
    arrays = [
        make_array([row[position] for row in rows], arrow_type(type_)) for position, (_, type_) in enumerate(columns)
    ]
    table = pa.table([*arrays, make_array(operations, pa.string())], [*(name for name, _ in columns), OPERATION])
    try:
        inbox.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished = inbox / f"{uuid4().hex}.tmp"
        with unfinished.open("wb") as file, ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
        _sync(unfinished)
        with _locked(inbox):
            number = _read_last(inbox) + 1
            (inbox / LAST).write_text(str(number))
            unfinished.rename(inbox / f"{number:019d}{ENDING}")
        _sync(inbox)
    except OSError as error:
        raise ConnectError(f'"{inbox}" cannot be written: {error.strerror}', "is there space on its disk?") from error


def list_files(inbox: Path, most: int) -> list[str]:
    """Names of the files that wait, oldest first."""
    try:
        found = sorted(path.name for path in inbox.iterdir() if path.suffix == ENDING)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ConnectError(f'"{inbox}" cannot be read: {error.strerror}') from error
    return found[:most]


def read_file(inbox: Path, name: str) -> pa.Table:
    """The rows of a file, with their operations."""
    try:
        with (inbox / name).open("rb") as file:
            return ipc.open_file(file).read_all()
    except (OSError, pa.ArrowInvalid) as error:
        hint = "its rows are lost if the file is removed; the service goes on as soon as it can be read, or is gone"
        raise ConnectError(f'"{inbox / name}" cannot be read: {error}', hint) from error


def remove_files(inbox: Path, names: Sequence[str]) -> None:
    for name in names:
        (inbox / name).unlink(missing_ok=True)


@contextmanager
def _locked(inbox: Path) -> Iterator[None]:
    with (inbox / LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read_last(inbox: Path) -> int:
    """The number of the last file, also if it was taken. Files that wait say it if the note was torn by a crash."""
    try:
        noted = int((inbox / LAST).read_text())
    except (FileNotFoundError, ValueError):
        noted = 0
    waiting = (int(path.stem) for path in inbox.iterdir() if path.suffix == ENDING)
    return max(noted, max(waiting, default=0))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
