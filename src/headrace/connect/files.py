"""The store of `run.ports` in a folder: Arrow IPC files, a folder for each site.

    ROOT/SITE/HINT-UUID.arrow              complete, on disk, never changed
    ROOT/SITE/.HINT-UUID.arrow.unfinished  being written, or left over from a crash: garbage once it is old

    ROOT/SITE/HINT-UUID.arrow.sums         checksums of the blocks of a file that is larger than one
    ROOT/.damaged/SITE/HINT-UUID.arrow     what is wrong with a file, until it is replaced

Files are not compressed, and hold their rows as one batch: a column of a large file is one piece of mapped memory, and
is not copied. Small files are read. Nothing is read of a file that is not what was written (`checksums.py`).
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
import uuid
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, unquote

import pyarrow as pa

from headrace.connect.checksums import (
    BLOCK,
    SummingFile,
    find_wrong_block,
    identify,
    identify_known,
    is_right,
    pack_sums,
    remember_written,
    root_of,
    sum_slowly,
    sums_beside,
)
from headrace.connect.damage_notes import NOTED, DamageNotes
from headrace.connect.opened_files import OpenedFiles
from headrace.model.damage import DamagedFile, DamageKind, FileDamage
from headrace.model.errors import ConnectError
from headrace.model.log import StoredFile

_PLAIN = pa.ipc.IpcWriteOptions(compression=None)
NO_LINKS = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})
"""What a file system says that has no hard links, or no more of a file."""
LONGEST_HINT = 100
"""Characters; file systems allow names of 255 bytes."""


@dataclass(frozen=True, slots=True)
class FileStore:
    """Used by several processes at once, and sent to Spark's workers."""

    root: Path
    noted_in: Path | None = None
    """The store that damage is noted in, if it is another one: one that these files were pinned from."""

    def write(self, site: str, table: pa.Table, hint: str, durable: bool = True) -> StoredFile:
        folder = self._folder(site)
        name = f"{_readable(hint)}-{uuid.uuid4().hex}.arrow"
        unfinished = folder / f".{name}.unfinished"
        try:
            # In this order: the folder, the content, the name. After a loss of power a name must never stand for half
            # a file, and the ledger names the file only after this returns.
            _make_durable(folder)
            sums, found = _write(unfinished, table.combine_chunks(), durable)
            if found.st_size > BLOCK:
                with open_private(sums_beside(folder / name)) as beside:
                    beside.write(pack_sums(sums, found.st_mtime_ns))
            unfinished.rename(folder / name)
            if durable:
                _sync(folder)
        except OSError as error:
            unfinished.unlink(missing_ok=True)
            raise ConnectError(
                f'cannot write "{folder / name}": {error}', hint="is there space on its disk?"
            ) from error
        root = root_of(sums)
        remember_written(found, root)
        return StoredFile(name, found.st_size, root)

    def link(self, site: str, file: StoredFile, hint: str, durable: bool = True) -> StoredFile:
        """A hard link, or a copy where the file system has none. It is as durable as the file itself."""
        folder = self._folder(site)
        name = f"{_readable(hint)}-{uuid.uuid4().hex}.arrow"
        try:
            if file.bytes > BLOCK:
                with suppress(FileNotFoundError):  # without the checksums the file is checked as a whole
                    _link(sums_beside(folder / file.file), sums_beside(folder / name))
            _link(folder / file.file, folder / name)
            if durable:
                _sync(folder)
        except OSError as error:
            raise ConnectError(
                f'cannot name "{folder / file.file}" once more: {error}', hint="is there space on its disk?"
            ) from error
        return StoredFile(name, file.bytes, file.root)

    def read(self, site: str, file: StoredFile, columns: Sequence[str] | None = None, whole: bool = True) -> pa.Table:
        """The columns in the order asked for; all of the file's without."""
        path = self._folder(site) / file.file
        try:
            table = _read_checked(path, file, whole)
            return table if columns is None else table.select(list(columns))
        except (_Wrong, OSError) as error:
            if (found := _find_damage(error)) is not None:
                raise self._note_damage(site, file.file, *found) from error
            raise ConnectError(f'cannot read "{path}": {error}', hint="may we read it?") from error
        except (pa.ArrowException, ValueError, KeyError) as error:
            if file.root is not None:
                raise
            # Of a file without checksums nothing else tells. To whoever reads, it would look like a bad row.
            raise self._note_damage(site, file.file, DamageKind.CONTENTS, f"is damaged: {error}") from error

    def pin(self, site: str, files: Sequence[str], folder: Path) -> FileStore:
        """Pins files by hard links: nothing is copied. Safe to repeat."""
        pinned = FileStore(folder, self.root if self.noted_in is None else self.noted_in)
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
        for folder in (one for one in folders if one.is_dir() and one.name != NOTED):
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            names = {entry.name for entry in entries}
            for entry in entries:
                if entry.name.removesuffix(".sums") != entry.name and entry.name.removesuffix(".sums") in names:
                    continue  # it goes with its file
                try:
                    yield unquote(folder.name), entry.name, now - entry.stat().st_mtime
                except FileNotFoundError:  # finished or deleted meanwhile
                    continue

    def delete(self, site: str, file: str) -> None:
        path = self._folder(site) / file
        with suppress(IsADirectoryError):  # somebody else made it
            path.unlink(missing_ok=True)
        sums_beside(path).unlink(missing_ok=True)

    # Damage

    def find_damaged(self, site: str, files: Iterable[StoredFile]) -> Sequence[FileDamage]:
        """Looks whether files are there, and as large as they were written."""
        folder = str(self._folder(site))
        found = []
        for file in files:
            try:
                # Thousands at a time: to make a Path of each takes longer than to ask.
                _check_size(os.stat(f"{folder}/{file.file}").st_size, file.bytes)  # noqa: PTH116
            except (_Wrong, OSError) as error:
                if (wrong := _find_damage(error)) is not None:
                    found.append(self._note_damage(site, file.file, *wrong).damage)
        return found

    def check_slowly(self, site: str, file: StoredFile) -> Generator[int, None, int | None]:
        """Reads a whole file, and yields the bytes of every part of it. In the end returns its root.

        None if it could not be read, though it may be right. Raises DamagedFile.
        """
        path = self._folder(site) / file.file
        try:
            _check_size(path.stat().st_size, file.bytes)
            root = yield from sum_slowly(path)
        except (_Wrong, OSError) as error:
            if (found := _find_damage(error)) is not None:
                raise self._note_damage(site, file.file, *found) from error
            return None
        if file.root is not None and root != file.root:
            why = "is damaged: its content has changed"
            raise self._note_damage(site, file.file, DamageKind.CONTENTS, why)
        return root

    def damaged(self) -> Sequence[FileDamage]:
        """Files that anybody found to be damaged, in any process, until they are forgotten."""
        return self._notes.read()

    def forget_damage(self, site: str, file: str) -> None:
        """The file was replaced, or nobody needs it any more."""
        self._notes.forget(self._folder(site).name, file)

    def _note_damage(self, site: str, file: str, kind: DamageKind, why: str) -> DamagedFile:
        """What to raise."""
        damage = FileDamage(site, file, kind, why, time.time())
        self._notes.add(self._folder(site).name, damage)
        return DamagedFile(str(self._folder(site) / file), damage)

    @property
    def _notes(self) -> DamageNotes:
        return DamageNotes(self.root if self.noted_in is None else self.noted_in)

    def _folder(self, site: str) -> Path:
        """Every site has one of its own, and its name can be read back: what is listed is compared with the ledger."""
        assert site, "a site has a name"
        return self.root / quote(site, safe=" ").replace(".", "%2E")


def _readable(hint: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", hint)[:LONGEST_HINT].lstrip(".") or "rows"


def open_private(path: Path, flags: int = os.O_TRUNC) -> BinaryIO:
    """A file to write to, which only its owner can read from the first moment on if it is new."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | flags, 0o600), "wb")


def _link(path: Path, name: Path) -> None:
    try:
        os.link(path, name)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        _copy(path, name)


def _copy(path: Path, name: Path) -> None:
    """Finished before it has its name, as all files are; with the time of the original, which its checksums have."""
    unfinished = name.with_name(f".{name.name}.unfinished")
    shutil.copy2(path, unfinished)
    with unfinished.open("rb") as copied:
        os.fsync(copied.fileno())
    unfinished.rename(name)


def _write(path: Path, table: pa.Table, durable: bool) -> tuple[bytes, os.stat_result]:
    """The checksums of the blocks, and the file as it was written. What is small goes to the file at once."""
    with open_private(path, os.O_EXCL) as opened:
        file = SummingFile(opened)
        small = pa.BufferOutputStream() if table.nbytes < BLOCK else None
        with pa.ipc.new_file(small or file, table.schema, options=_PLAIN) as writer:
            writer.write_table(table)
        if small is not None:
            file.write(small.getvalue())
        return file.finish(durable)


class _Wrong(Exception):
    """A file is not what was written."""

    def __init__(self, kind: DamageKind, why: str) -> None:
        self.kind, self.why = kind, why
        super().__init__(why)


_in_memory, _mapped = OpenedFiles(100_000_000), OpenedFiles(1_000_000_000)
"""Of this process, whatever the number of stores: workers get a new store with every item."""


def _read_checked(path: Path, file: StoredFile, whole: bool) -> pa.Table:
    """The rows of a file that is what was written, as far as it is checked."""
    found = path.stat()
    _check_size(found.st_size, file.bytes)
    who = None if file.root is None else identify_known(found, file.root, whole)
    opened = _mapped if file.bytes > BLOCK else _in_memory
    table = None if who is None else opened.find(who)
    if table is None:
        with _open_checked(path, found, file, whole) as source:
            # All columns: Arrow would copy some of them out of a mapped file, and all together it copies none.
            table = pa.ipc.open_file(source).read_all()
        if file.root is not None:
            opened.keep(identify(found, file.root), table, file.bytes)
    return table


def _open_checked(path: Path, found: os.stat_result, file: StoredFile, whole: bool) -> pa.NativeFile:
    if file.bytes > BLOCK:
        wrong = None if file.root is None else find_wrong_block(path, found, file.root, whole)
        if wrong is not None:
            raise _Wrong(DamageKind.CONTENTS, f"is damaged: block {wrong + 1} of {-(-file.bytes // BLOCK)} has changed")
        return pa.memory_map(str(path))
    # What is used is what was checked: a file that somebody cuts short after this is in memory, and not mapped.
    content = path.read_bytes()
    _check_size(len(content), file.bytes)
    if file.root is not None and not is_right(found, file.root, content):
        raise _Wrong(DamageKind.CONTENTS, "is damaged: its content has changed")
    return pa.BufferReader(content)


def _check_size(found: int, written: int) -> None:
    if found != written:
        raise _Wrong(DamageKind.SIZE, f"has {found} bytes, {written} were written")


def _find_damage(error: _Wrong | OSError) -> tuple[DamageKind, str] | None:
    """What is wrong with a file; None if that is not the file's fault: it may be read another time."""
    if isinstance(error, _Wrong):
        return error.kind, error.why
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR:
            return DamageKind.MISSING, "is missing"
        case errno.EISDIR | errno.EIO | errno.ENXIO:
            return DamageKind.CONTENTS, f"is damaged: {error.strerror}"
        case _:
            return None


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
