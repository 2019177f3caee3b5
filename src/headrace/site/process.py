"""The process that runs a project, identified by its id and its start time, because ids are reused.

`service.json` says how to reach the process; only the owner may read it, because it contains the token. A process that
died leaves the file behind, with its lease. The next process releases that lease instead of waiting until it expires.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.connect.processes import birth_of
from headrace.model.log import Lease
from headrace.site.folder import Folder

FILE = "service.json"
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """`birth` is in ticks of the kernel since it started, `started` in seconds since 1970; port 0 is not known yet."""

    pid: int
    birth: int
    started: float
    holder: str
    epoch: int
    port: int = 0
    token: str = ""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_this(self) -> bool:
        """Whether it is the process that asks."""
        return self.pid == os.getpid()

    @property
    def is_alive(self) -> bool:
        return birth_of(self.pid) == self.birth


def this_process(lease: Lease, port: int, token: str) -> ServiceProcess:
    pid = os.getpid()
    return ServiceProcess(pid, birth_of(pid) or 0, time.time(), lease.holder, lease.epoch, port, token)


def write_process(folder: Folder, process: ServiceProcess) -> None:
    folder.write_json(FILE, asdict(process))


def read_process(folder: Folder) -> ServiceProcess | None:
    """What the file says, whether it is alive or not. Raises UnreadableState: a service may run all the same."""
    found = folder.read_json(FILE)
    try:
        return None if found is None else ServiceProcess(**found)
    except TypeError as error:
        raise folder.unreadable(FILE, "it does not say which process runs the project") from error


def running_process(folder: Folder) -> ServiceProcess | None:
    process = read_process(folder)
    return process if process is not None and process.is_alive else None


def forget_process(folder: Folder) -> None:
    """Removes this process's record, but not a newer one."""
    process = read_process(folder)
    if process is not None and process.is_this:
        folder.remove(FILE)


def release_remains(folder: Folder) -> ServiceProcess | None:
    """Gives back what a process that died held; that process, or None if the last one ended as it should."""
    dead = read_process(folder)
    if dead is None or dead.is_alive:
        return None
    ledger = folder.ledger()
    ledger.release(Lease("service", dead.holder, dead.epoch))
    ledger.close()
    folder.remove(FILE)
    return dead


def end_process(process: ServiceProcess, within_s: float) -> bool:
    """Asks a process to end; whether it did in time."""
    until = time.monotonic() + within_s
    if process.is_alive:
        os.kill(process.pid, signal.SIGTERM)
    while process.is_alive:
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def module_command(module: str, *words: str) -> list[str]:
    """The command that runs a module of ours.

    With `-P`, since Python would otherwise look for modules in the current folder first, which may be anybody's.
    """
    return [sys.executable, "-P", "-m", module, *words]


def spawn_detached(command: list[str], out: BinaryIO, err: BinaryIO) -> int:
    """Starts a process that outlives this one, in a session of its own: what a terminal sends does not reach it."""
    with Path(os.devnull).open("rb") as nothing:
        actions = [(os.POSIX_SPAWN_DUP2, ours.fileno(), theirs) for ours, theirs in ((nothing, 0), (out, 1), (err, 2))]
        return os.posix_spawn(command[0], command, os.environ, file_actions=actions, setsid=True)


def exit_status(child: int) -> int | None:
    """The exit status of a process that this one started; None while it lives."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None
