"""Whether a folder runs a site of a project that is coordinated elsewhere. Nothing is loaded that joining one needs."""

from __future__ import annotations

from pathlib import Path

from headrace.site.folder import Folder
from headrace.site.membership import read_membership


def is_member(directory: Path) -> bool:
    """Whether a folder has joined a project."""
    return read_membership(Folder(directory.absolute())) is not None
