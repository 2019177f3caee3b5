"""Marks items that are being worked on with files, so that the runner of a job sees which items make progress.

Spark workers are processes, perhaps on other machines, that see the project's folder at the same path.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from headrace.model.damage import FileDamage
from headrace.model.log import StoredFile
from headrace.run.ports import Store


@contextmanager
def mark_item(mark: Path | None) -> Iterator[None]:
    """While this holds an item is in work. An item is done even where no mark can be written."""
    with suppress(OSError):
        if mark is not None:
            mark.touch()
    try:
        yield
    finally:
        with suppress(OSError):
            if mark is not None:
                mark.unlink(missing_ok=True)


def read_marks(folder: Path) -> dict[int, object]:
    """The marks by the item's position: each changes when the item makes progress."""
    found: dict[int, object] = {}
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                with suppress(OSError):
                    found[int(entry.name)] = entry.stat().st_mtime_ns
    except OSError:  # there is no such job, or not any more
        return {}
    return found


@dataclass(frozen=True, slots=True)
class MarkingStore:
    """A store that changes a mark with whatever is read or written."""

    inner: Store
    mark: Path

    def write(self, site: str, table: pa.Table, hint: str, durable: bool = True) -> StoredFile:
        made = self.inner.write(site, table, hint, durable)
        self._move_on()
        return made

    def link(self, site: str, file: StoredFile, hint: str, durable: bool = True) -> StoredFile:
        return self.inner.link(site, file, hint, durable)

    def read(self, site: str, file: StoredFile, columns: Sequence[str] | None = None, whole: bool = True) -> pa.Table:
        found = self.inner.read(site, file, columns, whole)
        self._move_on()
        return found

    def pin(self, site: str, files: Sequence[str], folder: Path) -> Store:
        return self.inner.pin(site, files, folder)

    def find_damaged(self, site: str, files: Iterable[StoredFile]) -> Sequence[FileDamage]:
        return self.inner.find_damaged(site, files)

    def check_slowly(self, site: str, file: StoredFile) -> Generator[int, None, int | None]:
        return self.inner.check_slowly(site, file)

    def damaged(self) -> Sequence[FileDamage]:
        return self.inner.damaged()

    def forget_damage(self, site: str, file: str) -> None:
        self.inner.forget_damage(site, file)

    def list(self) -> Iterable[tuple[str, str, float]]:
        return self.inner.list()

    def delete(self, site: str, file: str) -> None:
        self.inner.delete(site, file)

    def _move_on(self) -> None:
        with suppress(OSError):
            os.utime(self.mark)
