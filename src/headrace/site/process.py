"""The process that runs a project, identified by its machine, its id and its start time, because ids are reused.

`service.json` says how to reach the process; only the owner may read it, because it contains the token. A process that
died leaves the file behind, with its lease. The next process releases that lease instead of waiting until it expires.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from headrace.connect.processes import birth_of, name_of_machine, this_machine
from headrace.model.log import HeldLease, Lease
from headrace.model.notes import ProjectHome
from headrace.site.folder import Folder
from headrace.site.home import home_of

FILE = "service.json"
SERVICE = "service"
"""The lease of whoever runs a project."""
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class ServiceProcess:
    """`birth` is in ticks of the kernel since it started, `started` in seconds since 1970; port 0 is not known yet.

    `machine` is where its id means something (`connect.processes`), `home` the folder of state that it runs. Records of
    earlier versions say neither.
    """

    pid: int
    birth: int
    started: float
    holder: str
    epoch: int
    port: int = 0
    token: str = ""
    machine: str = ""
    home: ProjectHome | None = None
    wire_port: int = 0
    """Where other sites ask, if it runs one site alone."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_here(self) -> bool:
        """Whether its id is one of ours: other machines and containers have their own."""
        return self.machine in ("", this_machine())

    @property
    def is_this(self) -> bool:
        """Whether it is the process that asks."""
        return self.is_here and self.pid == os.getpid()

    @property
    def is_alive(self) -> bool:
        """Only of one that `is_here`: of others the lease says more."""
        return self.is_here and birth_of(self.pid) == self.birth

    @property
    def words(self) -> str:
        where = "" if self.is_here else f' of "{name_of_machine(self.machine)}", in another container or machine'
        return f"process {self.pid}{where}"

    def belongs_to(self, folder: Folder) -> bool:
        """Whether it runs the project in a folder, or the one that this folder is a copy of."""
        return self.home is None or self.home.is_same(home_of(folder))


def this_process(lease: Lease, port: int, token: str, folder: Folder, wire_port: int = 0) -> ServiceProcess:
    pid = os.getpid()
    return ServiceProcess(
        pid,
        birth_of(pid) or 0,
        time.time(),
        lease.holder,
        lease.epoch,
        port,
        token,
        this_machine(),
        home_of(folder),
        wire_port,
    )


def write_process(folder: Folder, process: ServiceProcess) -> None:
    folder.write_json(FILE, asdict(process))


def read_process(folder: Folder) -> ServiceProcess | None:
    """What the file says, whether it is alive or not. Raises UnreadableState: a service may run all the same."""
    found = folder.read_json(FILE)
    try:
        if found is None:
            return None
        home = found.get("home")
        return ServiceProcess(**{**found, "home": None if home is None else ProjectHome(**home)})
    except (TypeError, AttributeError) as error:
        raise folder.unreadable(FILE, "it does not say which process runs the project") from error


def running_process(folder: Folder) -> ServiceProcess | None:
    """The process that runs the project, here or elsewhere."""
    process = read_process(folder)
    if process is None or not process.belongs_to(folder):
        return None
    return process if (process.is_alive if process.is_here else _holds_lease(process, folder)) else None


def _holds_lease(process: ServiceProcess, folder: Folder) -> bool:
    """Whether the lease of a process that nobody here can look at has not run out."""
    held = find_service_lease(folder)
    return held is not None and held.lease == Lease(SERVICE, process.holder, process.epoch) and held.left_s > 0.0


def find_service_lease(folder: Folder) -> HeldLease | None:
    """Who may commit for the project; None if nobody does."""
    if not folder.exists:
        return None
    with closing(folder.ledger()) as ledger:
        return ledger.find_lease(SERVICE)


def forget_process(folder: Folder) -> None:
    """Removes this process's record, but not a newer one."""
    process = read_process(folder)
    if process is not None and process.is_this:
        folder.remove(FILE)


def release_remains(folder: Folder) -> ServiceProcess | None:
    """Gives back what a process that died held; that process, or None if the last one ended as it should."""
    dead = read_process(folder)
    if dead is None or running_process(folder) is not None:
        return None
    with closing(folder.ledger()) as ledger:
        ledger.release(Lease(SERVICE, dead.holder, dead.epoch))
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


def spawn_detached(
    command: list[str], out: BinaryIO, err: BinaryIO, environment: Mapping[str, str] | None = None
) -> int:
    """Starts a process that outlives this one, in a session of its own: what a terminal sends does not reach it.

    `environment` is added to that of this process.
    """
    with Path(os.devnull).open("rb") as nothing:
        actions = [(os.POSIX_SPAWN_DUP2, ours.fileno(), theirs) for ours, theirs in ((nothing, 0), (out, 1), (err, 2))]
        known = {**os.environ, **(environment or {})}
        return os.posix_spawn(command[0], command, known, file_actions=actions, setsid=True)


def exit_status(child: int) -> int | None:
    """The exit status of a process that this one started; None while it lives."""
    pid, status = os.waitpid(child, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if pid else None
