"""Decides what a look into a folder means for files that were taken before: each file is taken once.

as it was            nothing, or it is back: a disk that was not mounted for a while is mounted again
touched              other time, same contents: as it was
changed              it is named, and its rows stay as they were taken
not there            noted; it is forgotten after `KEEP_GONE_S`
there again, other   a new file under an old name: it is taken
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

from headrace.model.notes import TakenFile

KEEP_GONE_S = 30 * 86_400.0
"""How long a file that is gone is known: if it comes back later, its rows are taken again."""
CHANGED = "it was changed after it was read, and its rows stay as they were then"


@dataclass(frozen=True, slots=True)
class FileState:
    """A file as it looked."""

    size: int
    modified_ns: int


class Found(Enum):
    """What a file that is known, and is there, is."""

    SAME = "same"
    CHANGED = "changed"
    NEW = "new"


def compare_file(taken: TakenFile, look: FileState, digest: Callable[[], str]) -> Found:
    """The contents are read only if they can be what was taken, and the time does not say so already."""
    if look.size == taken.bytes:
        if taken.modified_ns in (None, look.modified_ns):
            return Found.SAME
        if taken.digest is not None and digest() == taken.digest:
            return Found.SAME
    return Found.CHANGED if taken.gone_at is None else Found.NEW


def as_seen(taken: TakenFile, look: FileState) -> TakenFile:
    """The note of a file that is as it was, and is there."""
    modified_ns = look.modified_ns if taken.modified_ns is not None else None
    return replace(taken, modified_ns=modified_ns, gone_at=None)


@dataclass(frozen=True, slots=True)
class MissingFiles:
    """Files that are not there: `gone` since this look, and `forgotten`, since they have been gone for long."""

    gone: tuple[TakenFile, ...]
    forgotten: tuple[str, ...]


def find_missing(taken: Mapping[str, TakenFile | None], looks: Mapping[str, FileState], now: int) -> MissingFiles:
    """A file whose note cannot be read is forgotten as soon as it is gone: nobody knows when it went."""
    missing = {name: one for name, one in taken.items() if name not in looks}
    gone = tuple(replace(one, gone_at=now) for one in missing.values() if one is not None and one.gone_at is None)
    before = now - round(KEEP_GONE_S * 1e6)
    old = (name for name, one in missing.items() if one is None or (one.gone_at is not None and one.gone_at < before))
    return MissingFiles(gone, tuple(old))


def digest_file(file: Path) -> str:
    """Reads the bytes of a file again, which costs little: they were just read."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
