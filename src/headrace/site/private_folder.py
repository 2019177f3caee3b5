"""Closes a folder to other users, with all that it holds: folders get mode 700, files 600."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

OTHERS = 0o077


def close_to_others(root: Path) -> bool:
    """Whether others could get in until now. What links lead to stays as it is, and so does what is gone meanwhile.

    Files in a folder that was closed already are closed as well, since they may be moved elsewhere.
    """
    was_open = bool(stat.S_IMODE(root.stat().st_mode) & OTHERS)
    root.chmod(0o700)  # first: what is inside cannot be reached from then on
    for folder, folders, files in os.walk(root):
        for names, mode in ((folders, 0o700), (files, 0o600)):
            for name in names:
                with suppress(FileNotFoundError):
                    _close(Path(folder, name), mode)
    return was_open


def _close(path: Path, mode: int) -> None:
    found = path.lstat().st_mode
    if found & OTHERS and not stat.S_ISLNK(found):
        path.chmod(mode)
