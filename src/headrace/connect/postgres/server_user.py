"""The user that the embedded PostgreSQL runs as: ourselves, or "nobody" when we are root, which PostgreSQL refuses."""

from __future__ import annotations

import hashlib
import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from headrace.model.errors import ConnectError

SHARED_FOLDER = Path("/var/lib/headrace")
"""Where root keeps what the server's user could not reach elsewhere."""

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"}
"""All that the server sees of ours: variables such as PGDATA and PGPORT would change what it does."""


@dataclass(frozen=True, slots=True)
class ServerUser:
    """Runs and owns things as the server's user. `switch` is whether that is another user than ours."""

    uid: int
    gid: int
    switch: bool

    def reachable(self, folder: Path) -> Path:
        """This folder when the user can get to it (made or not), else a place under /var/lib/headrace of its own."""
        nearest = next(parent for parent in folder.parents if parent.exists())
        if self.can_enter(nearest):
            return folder
        key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        return SHARED_FOLDER / "postgres" / key

    def can_enter(self, folder: Path) -> bool:
        return not self.switch or self.run(["/bin/sh", "-c", 'cd -- "$0"', str(folder)]).returncode == 0

    def make_folder(self, folder: Path) -> None:
        """Make a private folder of the user's, and the folders above it so that the user can get there."""
        try:
            self.make_way(folder.parent)
            folder.mkdir(mode=0o700, exist_ok=True)
            if not any(folder.iterdir()):
                self._own(folder)
        except OSError as error:
            raise ConnectError(
                f'the folder "{folder}" for PostgreSQL cannot be created: {error.strerror}',
                hint="choose a folder that you may write to",
            ) from error

    def make_way(self, folder: Path) -> None:
        """Make the missing folders, open to the user whatever our umask; those that exist stay as they are."""
        for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
            missing.mkdir(exist_ok=True)
            if self.switch:
                missing.chmod(0o755)

    def write_secret(self, file: Path, text: str) -> None:
        """Readable by the user (and root) from the first moment on."""
        file.unlink(missing_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as opened:
            opened.write(text)
        self._own(file)

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        uid, gid, groups = self._identity()
        return subprocess.run(
            command, user=uid, group=gid, extra_groups=groups, cwd="/", env=ENVIRONMENT, capture_output=True, text=True
        )

    def start(self, command: list[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """Start in a session of its own: an interrupt from the keyboard is for us, and we then stop the server."""
        uid, gid, groups = self._identity()
        return subprocess.Popen(
            command,
            user=uid,
            group=gid,
            extra_groups=groups,
            cwd="/",
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )

    def _identity(self) -> tuple[int, int, list[int]] | tuple[None, None, None]:
        return (self.uid, self.gid, []) if self.switch else (None, None, None)

    def _own(self, path: Path) -> None:
        if self.switch:
            os.chown(path, self.uid, self.gid)


def server_user() -> ServerUser:
    if os.geteuid() != 0:
        return ServerUser(os.geteuid(), os.getegid(), switch=False)
    nobody = pwd.getpwnam("nobody")
    return ServerUser(nobody.pw_uid, nobody.pw_gid, switch=True)
