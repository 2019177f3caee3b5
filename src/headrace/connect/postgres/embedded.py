"""Runs a PostgreSQL of our own: one folder, one child process, loopback only, from binaries that come as a package.

For development and single machines. The server is a child of this process, so a crash is seen by `poll`. PostgreSQL
refuses to run as root; then it runs as "nobody", and whatever that user could not reach (a folder in a private home,
the binaries in such a folder) is kept under /var/lib/headrace instead. Rights of existing folders are never changed.

    folder/data       the database cluster       folder/password   of the user "postgres", mode 600
    folder/log        the server's messages      folder/lock       held while a process runs the server
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from headrace.connect.free_port import free_port
from headrace.connect.postgres.binaries import find_binaries
from headrace.connect.postgres.server_user import server_user
from headrace.model.errors import ConnectError

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "shared_buffers": "32MB",
    "max_connections": "40",
    "jit": "off",
    "io_method": "sync",
}
"""Small, and ready for change capture. Commits stay synchronous: capture would see asynchronous ones 200 ms late."""

NEW = ("io_method",)
"""Settings that older versions do not know."""

ATTEMPTS = 5
"""A port that was free may be taken when the server asks for it; a killed server's children may take a moment to go."""

READY_WITHIN_S = 60.0
STOPPED_WITHIN_S = 20.0
LOOK_EVERY_S = 0.02


class EmbeddedPostgres:
    """A server over `folder`, made when missing. Use it as a context manager, or call `start` and `stop`.

    `settings` are added to `SETTINGS` and win; changing them takes effect at the next start. `binaries` is the folder
    of another PostgreSQL, of any version, than the one that comes as a package.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, str] | None = None,
        find_port: Callable[[], int] | None = None,
        binaries: Path | None = None,
    ) -> None:
        self._user = server_user()
        self.folder = self._user.reachable(folder.absolute())
        self.port = 0
        self._find_port = find_port or free_port
        self._binaries = binaries
        known = SETTINGS if binaries is None else {name: SETTINGS[name] for name in SETTINGS if name not in NEW}
        self._settings = {**known, **(settings or {})}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None

    def __enter__(self) -> EmbeddedPostgres:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Return when the server accepts connections. Does nothing when it already runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self.stop()
        binaries = self._binaries or find_binaries(self._user)
        self._user.make_folder(self.folder)
        self._hold_folder()
        try:
            _clear_remains(self._data)
            if not self._data.exists():
                self._create_cluster(binaries)
            self._check_version(binaries)
            self._start_server(binaries)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Disconnect everyone, write everything, end. Does nothing when it does not run."""
        if self._process is not None:
            _end(self._process)
            self._process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def kill(self) -> None:
        """End as in a power cut, for tests of recovery. `start` then recovers from the log."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def poll(self) -> int | None:
        """None while the server runs (or was never started), else the status it ended with."""
        return None if self._process is None else self._process.poll()

    def dsn(self, database: str = "postgres") -> str:
        """The address of a database of this server, password included: not for logs."""
        return f"postgresql://postgres:{self._password_file.read_text()}@127.0.0.1:{self.port}/{database}"

    @property
    def log_file(self) -> Path:
        return self.folder / "log"

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def _hold_folder(self) -> None:
        lock = (self.folder / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise ConnectError(
                f'another process runs the PostgreSQL in "{self.folder}"',
                hint="`headrace down` stops the service that does; or give this one another folder",
            ) from error
        self._lock = lock

    def _create_cluster(self, binaries: Path) -> None:
        """Made aside and renamed, so that an interruption leaves either nothing or all of it."""
        half_made = self.folder / "data.new"
        shutil.rmtree(half_made, ignore_errors=True)
        self._user.write_secret(self._password_file, secrets.token_urlsafe(24))
        options = ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync"]
        files = [f"--pgdata={half_made}", f"--pwfile={self._password_file}"]
        made = self._user.run([str(binaries / "initdb"), *options, *files])
        if made.returncode != 0:
            raise ConnectError(
                f'PostgreSQL could not create a database in "{self.folder}": {_last_line(made.stderr + made.stdout)}',
                hint="the folder must be on a disk with 50 MB to spare and writable by the user who runs the server",
            )
        half_made.rename(self._data)

    def _check_version(self, binaries: Path) -> None:
        made_with = (self._data / "PG_VERSION").read_text().strip()
        running = self._user.run([str(binaries / "postgres"), "--version"]).stdout.split()[-1]
        if running.split(".")[0] != made_with:
            raise ConnectError(
                f'the database in "{self.folder}" was created by PostgreSQL {made_with}, '
                f"the installed one is {running}",
                hint="dump it with the old version and load it with the new one, or remove the folder to start afresh",
            )

    def _start_server(self, binaries: Path) -> None:
        for _ in range(ATTEMPTS):
            self.port = self._find_port()
            settings = {**self._settings, "port": str(self.port)}
            options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
            with self.log_file.open("ab") as log:
                self._process = self._user.start([str(binaries / "postgres"), "-D", str(self._data), *options], log)
            if self._becomes_ready(self._process):
                return
        raise ConnectError(
            f'PostgreSQL in "{self.folder}" does not start: {_last_line(self.log_file.read_text(errors="replace"))}',
            hint=f"its messages are in {self.log_file}",
        )

    def _becomes_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """The server writes its state to the last line of its pid file; asking that needs no connection."""
        deadline = time.monotonic() + READY_WITHIN_S
        while process.poll() is None and time.monotonic() < deadline:
            state = _read_lines(self._data / "postmaster.pid")
            if len(state) >= 8 and state[0] == str(process.pid) and state[7].strip() == "ready":
                return True
            time.sleep(LOOK_EVERY_S)
        _end(process)
        return False


class WatchedPostgres:
    """The server over a folder that another process runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = server_user().reachable(folder.absolute())  # asked once: as root, that takes a process

    def find_address(self) -> str | None:
        """None while it does not run."""
        state, data = _read_lines(self._folder / "data" / "postmaster.pid"), self._folder / "data"
        if len(state) < 8 or state[7].strip() != "ready" or not _serves(int(state[0]), data):
            return None
        password = (self._folder / "password").read_text()
        return f"postgresql://postgres:{password}@127.0.0.1:{state[3].strip()}/postgres"


def _end(process: subprocess.Popen[bytes]) -> None:
    for how in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        if process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(STOPPED_WITHIN_S)
        except subprocess.TimeoutExpired:
            continue


def _clear_remains(data: Path) -> None:
    """Stop a server that outlived the process which ran it, and forget a pid that is not such a server any more.

    The caller holds the folder's lock, so nobody else runs this server.
    """
    pid_file = data / "postmaster.pid"
    lines = _read_lines(pid_file)
    if not lines:
        return
    pid = int(lines[0])
    for how in (signal.SIGINT, signal.SIGKILL):
        if _serves(pid, data):
            os.kill(pid, how)
        deadline = time.monotonic() + STOPPED_WITHIN_S
        while _serves(pid, data) and time.monotonic() < deadline:
            time.sleep(LOOK_EVERY_S)
    pid_file.unlink(missing_ok=True)


def _serves(pid: int, data: Path) -> bool:
    """Whether the process is a live server over this data. A dead one that nobody waited for has no command line."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return os.fsencode(data) in command


def _read_lines(file: Path) -> list[str]:
    try:
        return file.read_text().splitlines()
    except FileNotFoundError:
        return []


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it gave no message"
