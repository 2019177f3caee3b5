"""Closes a folder to other users, with all that it holds: folders get mode 700, files 600."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from headrace.model.errors import UsageError

OTHERS = 0o077


def close_to_others(root: Path) -> bool:
    """Whether others could get in until now. Raises UsageError if the folder cannot be closed.

    What links lead to stays as it is, and so does what is gone meanwhile. Files in a folder that was closed already are
    closed as well, since they may be moved elsewhere; those of other users, such as the executors of a cluster, cannot
    be, and are behind the closed folder.
    """
    was_open = bool(stat.S_IMODE(root.stat().st_mode) & OTHERS)
    if was_open:  # first: what is inside cannot be reached from then on
        try:
            root.chmod(0o700)
        except OSError as error:
            what = f'other users can read "{root}", and it cannot be closed to them: {error.strerror}'
            raise UsageError(what, f"chmod 700 {root}   as its owner, or run Headrace as its owner") from error
    for folder, folders, files in os.walk(root):
        for names, mode in ((folders, 0o700), (files, 0o600)):
            for name in names:
                with suppress(OSError):
                    _close(Path(folder, name), mode)
    return was_open


def _close(path: Path, mode: int) -> None:
    found = path.lstat().st_mode
    if found & OTHERS and not stat.S_ISLNK(found):
        path.chmod(mode)
