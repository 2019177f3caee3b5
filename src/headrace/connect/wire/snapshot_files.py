"""Snapshots of copies in files, part by part as they are sent: whoever is killed goes on after the last part.

    ROOT/DIGEST-OF-COPY/T/NUMBER-OF          a part, whole
    ROOT/DIGEST-OF-COPY/.T                   a snapshot that is being written, or was when somebody was killed

A site has those that it gives in one folder, and those that it receives in another. Nobody needs them for long: those
that nobody has touched for a while go.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

LEASE_S = 600.0
"""How long a snapshot stays after a part of it was read or written."""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """The part of a number, from 0, of so many; its rows as they are sent."""

    number: int
    of: int
    body: bytes


@dataclass(frozen=True, slots=True)
class HeldSnapshot:
    """A snapshot of a time, of which some parts are there: those before `there`. `of` is None if nobody knows yet."""

    t: int
    there: int
    of: int | None


@dataclass(frozen=True, slots=True)
class SnapshotFiles:
    root: Path

    def find(self, copy: str) -> HeldSnapshot | None:
        """The newest snapshot of a copy."""
        times = [int(folder.name) for folder in _list(self._folder(copy)) if folder.name.isdecimal()]
        return self.look(copy, max(times)) if times else None

    def look(self, copy: str, t: int) -> HeldSnapshot:
        """How much is there of the snapshot of a time."""
        found = dict(_split(file) for file in _list(self._folder(copy) / str(t)) if not file.name.startswith("."))
        there = next(number for number in range(len(found) + 1) if number not in found)
        return HeldSnapshot(t, there, next(iter(found.values()), None))

    def read(self, copy: str, t: int, number: int) -> SnapshotPart | None:
        """None if the part is not there."""
        folder = self._folder(copy) / str(t)
        for file in _list(folder):
            if not file.name.startswith(".") and _split(file)[0] == number:
                with suppress(FileNotFoundError):  # somebody may be taking it away
                    os.utime(folder)
                    return SnapshotPart(*_split(file), file.read_bytes())
        return None

    def add(self, copy: str, t: int, part: SnapshotPart) -> None:
        """Whole or not at all."""
        folder = self._folder(copy) / str(t)
        folder.mkdir(parents=True, exist_ok=True)
        unfinished, file = folder / f".{part.number}", folder / f"{part.number}-{part.of}"
        unfinished.write_bytes(part.body)
        unfinished.rename(file)
        os.utime(folder)

    def write(self, copy: str, t: int, bodies: Iterable[bytes]) -> None:
        """All parts of a snapshot, of which nobody sees any before all are there."""
        folder = self._folder(copy)
        unfinished = folder / f".{t}"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        of = 0
        for of, body in enumerate(bodies, start=1):
            (unfinished / str(of - 1)).write_bytes(body)
        for number in range(of):
            (unfinished / str(number)).rename(unfinished / f"{number}-{of}")
        unfinished.rename(folder / str(t))

    def forget(self, copy: str) -> None:
        shutil.rmtree(self._folder(copy), ignore_errors=True)

    def forget_idle(self, idle_s: float = LEASE_S) -> None:
        """Forgets snapshots that nobody has touched for so long."""
        for folder in _list(self.root):
            for snapshot in _list(folder):
                with suppress(FileNotFoundError):
                    if time.time() - snapshot.stat().st_mtime > idle_s:
                        shutil.rmtree(snapshot, ignore_errors=True)
            with suppress(OSError):  # there are others
                folder.rmdir()

    def _folder(self, copy: str) -> Path:
        return self.root / sha256(copy.encode()).hexdigest()[:32]


def _list(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []


def _split(file: Path) -> tuple[int, int]:
    number, _, of = file.name.partition("-")
    return int(number), int(of)
