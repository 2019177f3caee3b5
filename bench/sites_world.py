"""A project whose sites have joined from elsewhere, over a network of their own, and all that can go wrong there.

Databases, the coordinator and each site's agent are processes of this machine. Sites and the coordinator are in network
namespaces (`world_of_sites.py`); databases are reached over Unix sockets, so that only what sites say to each other
crosses links. An agent or coordinator that is killed is started again at once, as an operating system does it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.kills_world import MARKS, descendants, read_command
from bench.workloads.posts_and_people import DATABASES, fill_database, write_project
from bench.world_of_sites import WorldOfSites
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.site.folder import Folder

if TYPE_CHECKING:
    from tests.shifted_clock import ShiftedClock

COORDINATOR = "hq"
SITES = ("people", "posts", "office")
COMMAND_WITHIN_S, ENDED_WITHIN_S = 120.0, 60.0
HEADRACE = (sys.executable, "-P", "-m", "headrace")


@dataclass
class SitesWorld:
    """`processes` are the coordinator, by the name of its place in the network, and the agents of sites."""

    root: Path
    network: WorldOfSites
    servers: dict[str, EmbeddedPostgres]
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    clocks: dict[str, ShiftedClock] = field(default_factory=dict)
    """What the processes of a site take for the time of day; of sites that are not here, it is the machine's."""

    @property
    def project(self) -> Path:
        return self.root / "project"

    def folder_of(self, site: str) -> Folder:
        """Where a site, or the coordinator, keeps its state."""
        return Folder(self.project if site == COORDINATOR else self.root / "sites" / site)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **{f"{name.upper()}_DSN": self.find_dsn(name) for name in self.servers}}

    def find_dsn(self, database: str) -> str:
        """Over a Unix socket, which leads everywhere."""
        server = self.servers[database]
        return server.dsn().replace(f"127.0.0.1:{server.port}/postgres", "/postgres") + (
            f"?host={server.folder}&port={server.port}"
        )

    # Processes

    def start(self, site: str) -> None:
        """Starts the coordinator, or the agent of a site; an agent joins if it has not yet."""
        address = self.network.address(site)
        if site == COORDINATOR:
            words = ["up", str(self.project), "--engine", "local", "--sites", "agents", "--listen", f"{address}:7700"]
        else:
            folder = self.folder_of(site)
            folder.project.mkdir(parents=True, exist_ok=True)
            words = ["agent", "--site", site, "--folder", str(folder.project), "--engine", "local"]
            if not (folder.root / "membership.json").exists():
                invited = json.loads(self.ask("sites", "invite", site, str(self.project), "--json"))
                words += ["--join", invited["url"], "--token", invited["token"], "--listen", f"{address}:7701"]
        with (self.root / f"{site}.out").open("ab") as out:
            self.processes[site] = subprocess.Popen(
                self.network.command(site, [*HEADRACE, *words]),
                env=self._environment_at(site),
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _environment_at(self, site: str) -> dict[str, str]:
        clock = self.clocks.get(site)
        return self.environment | ({} if clock is None else {"LD_PRELOAD": os.fspath(clock.library)})

    def replace(self, site: str) -> None:
        """As for an upgrade: a process is told to end, and started again once it has."""
        self.processes[site].terminate()
        try:
            self.processes[site].wait(ENDED_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.kill(site)
        self.start(site)

    def start_ended(self) -> list[str]:
        """Starts what has ended again; which that was."""
        ended = [site for site, process in self.processes.items() if process.poll() is not None]
        for site in ended:
            self.start(site)
        return ended

    def ask(self, *words: str, at: str = COORDINATOR) -> str:
        """What a command says that somebody gives at a place."""
        done = subprocess.run(
            self.network.command(at, [*HEADRACE, *words]),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_WITHIN_S,
        )
        if done.returncode:
            raise RuntimeError(f"headrace {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def read_status(self, site: str) -> dict[str, Any] | None:
        """What a process wrote down last."""
        try:
            found: dict[str, Any] = json.loads((self.folder_of(site).root / "status.json").read_bytes())
            return found
        except (OSError, ValueError):
            return None

    def kill(self, site: str) -> None:
        os.kill(self.processes[site].pid, signal.SIGKILL)
        self.processes[site].wait()

    def find_captures(self, site: str) -> list[int]:
        pids = descendants(self.processes[site].pid)
        return [pid for pid in pids if MARKS["capture"] in read_command(pid)]

    def stop(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(ENDED_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def open_sites(
    sites: Sequence[str] = SITES, keep: Path | None = None, with_clocks: bool = False
) -> Iterator[SitesWorld]:
    """Databases with their rows, a network, and a project that nobody runs yet; nothing of it is left afterwards. Each
    site has a clock of its own if that is asked for, which takes a C compiler.
    """
    with ExitStack() as ending:
        root = Path(tempfile.mkdtemp(prefix="sites-"))
        ending.callback(shutil.rmtree, root, ignore_errors=True)
        if keep is not None:
            ending.callback(lambda: shutil.copytree(root, keep, dirs_exist_ok=True, ignore=_leave_out))
        network = ending.enter_context(WorldOfSites([COORDINATOR, *sites]))
        made = SitesWorld(root, network, {})
        if with_clocks:
            from tests.shifted_clock import shifted_clock  # a library in C, for the tests of clocks

            made.clocks.update({site: ending.enter_context(shifted_clock()) for site in sites})
        for name in DATABASES:
            server = EmbeddedPostgres(root / name, {"unix_socket_directories": ""})
            server = EmbeddedPostgres(root / name, {"unix_socket_directories": str(server.folder)})
            made.servers[name] = server
            ending.callback(shutil.rmtree, server.folder, ignore_errors=True)
            ending.enter_context(server)
            fill_database(made.find_dsn(name), name)
        write_project(made.project)
        ending.callback(made.stop)
        yield made


def _leave_out(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(".s.PGSQL") or folder.endswith("/data")]
