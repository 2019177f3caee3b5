"""The PostgreSQL of another version than the embedded one that is installed here, if one is."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.connect.postgres.binaries import INSTALLATION

DEBIAN = Path("/usr/lib/postgresql")
EMBEDDED = INSTALLATION.removeprefix("pginstall")


def find_installed() -> Path:
    """The folder of its binaries, of the newest one; where none is installed, the test that asks is skipped."""
    found = [one.parent for one in DEBIAN.glob("*/bin/postgres") if one.parts[-3] != EMBEDDED]
    if not found:
        pytest.skip(f"no PostgreSQL of another version than the embedded one ({EMBEDDED}) is installed in {DEBIAN}")
    return max(found, key=lambda folder: int(folder.parent.name))
