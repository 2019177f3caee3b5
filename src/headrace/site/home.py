"""Tells the folder of a project's state from a copy of it: what was made in databases belongs to one of them.

A folder that was moved is the same, and so is one that was restored from a backup where it was. A copy is not: both
would read one replication slot, and write one table. Nobody can tell a copy on another machine from a move.
"""

from __future__ import annotations

import platform
from contextlib import closing
from enum import Enum
from pathlib import Path

from headrace.model.errors import UsageError
from headrace.model.notes import ProjectHome, read_note
from headrace.site.folder import Folder


class Whose(Enum):
    """Whose state a folder holds: its own, that of a folder which is gone, or that of another folder."""

    OWN = "own"
    MOVED = "moved"
    COPIED = "copied"


def home_of(folder: Folder) -> ProjectHome:
    root = folder.root
    return ProjectHome(platform.node(), str(root.resolve()), _number_of(root), _number_of(root / "ledger.db"))


def _number_of(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0


def decide_whose(noted: ProjectHome | None, here: ProjectHome, is_there: bool) -> Whose:
    """`is_there` is whether the folder that is noted holds state, as seen from here."""
    if noted is None or noted.is_same(here):
        return Whose.OWN
    return Whose.MOVED if noted.machine == here.machine and not is_there else Whose.COPIED


def refuse_copy(folder: Folder, goes_on: str = "headrace up --moved") -> None:
    """Raises UsageError if the state in a folder was copied from another one. The command `goes_on` takes it anyway."""
    if not folder.exists:
        return
    with closing(folder.ledger()) as ledger:
        noted = read_note(ledger, ProjectHome)
    if noted is None or decide_whose(noted, home_of(folder), _holds_state(noted.folder)) is not Whose.COPIED:
        return
    here = platform.node()
    where = f'"{noted.folder}"' + ("" if noted.machine == here else f' on machine "{noted.machine}"')
    raise UsageError(
        f'"{folder.root}" is a copy of {where}: its replication slots and copies belong to the project there',
        f'remove "{folder.root}" to start from nothing; or, if the other one is gone for good, `{goes_on}`'
        " continues here",
    )


def _holds_state(folder: str) -> bool:
    return (Path(folder) / "ledger.db").exists()
