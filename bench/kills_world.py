"""A project that runs as people run it, with two databases of its own, and which of its processes can be killed."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.cpu import processes
from bench.workloads.posts_and_people import DATABASES, fill_database, write_project
from headrace.connect.free_port import free_port
from headrace.connect.postgres.embedded import EmbeddedPostgres
from headrace.site.folder import Folder
from headrace.site.process import running_process
from headrace.site.site_folders import read_sites, site_folder

KINDS = ("service", "site", "spark", "daemon", "worker", "capture", *(f"database {name}" for name in DATABASES))
"""A site has a process where sites run apart; the service is then the process that coordinates them."""
OF_SPARK = ("spark", "daemon", "worker")
MARKS = {
    "spark": b"SparkSubmit",
    "daemon": b"pyspark.daemon",
    "capture": b"headrace.connect.postgres.process",
    "feed server": b"headrace.doors.api.feed_server",
}
"""What the command line of a process of the service has in it."""
DATABASE_AWAY_S = 2.0
UP = (sys.executable, "-m", "headrace", "up")


@dataclass
class World:
    """`servers` are by database; each keeps its port."""

    root: Path
    servers: dict[str, EmbeddedPostgres]
    engine: str
    sites: str = "inside"
    up: subprocess.Popen[bytes] | None = None
    starts: int = 0

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def folder(self) -> Folder:
        return Folder(self.project)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, **{f"{name.upper()}_DSN": one.dsn() for name, one in self.servers.items()}}

    # The service

    def start(self) -> None:
        """As somebody would who sees that it is gone."""
        self.starts += 1
        with self.output.open("wb") as output:
            self.up = subprocess.Popen(
                [*UP, *self.words],
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def words(self) -> tuple[str, ...]:
        """What comes after `headrace up`."""
        return str(self.project), "--engine", self.engine, "--sites", self.sites

    @property
    def output(self) -> Path:
        return self.root / f"up.{self.starts}"

    def read_ended(self) -> str | None:
        """What a service said that ended without being killed; None if it runs."""
        ended = self.up is not None and self.up.poll() is not None
        return self.output.read_text().strip() if ended else None

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "headrace", *words], env=self.environment, capture_output=True, text=True
        )

    def stop(self) -> None:
        if self.up is not None and self.up.poll() is None:
            self.up.terminate()
            try:
                self.up.wait(60)
            except subprocess.TimeoutExpired:
                self.up.kill()
                self.up.wait()

    # Killing

    def find(self, kind: str) -> list[int]:
        """Processes of a kind that live now."""
        if kind.startswith("database "):
            server = self.servers[kind.removeprefix("database ")]
            return [int((server.folder / "data" / "postmaster.pid").read_text().split()[0])]
        service = running_process(self.folder)
        if service is None or kind == "service":
            return [] if service is None else [service.pid]
        sites = self.find_sites()
        if kind == "site":
            return sites
        mark = MARKS["daemon" if kind == "worker" else kind]
        # Sites outlive the process that started them: they are no children of the next one.
        roots = [service.pid, *sites]
        found = sorted({pid for root in roots for pid in descendants(root) if mark in read_command(pid)})
        daemons = {pid for pid in found if b"pyspark.daemon" in read_command(_parent(pid))}
        return [pid for pid in found if (pid in daemons) == (kind == "worker")]

    def find_sites(self) -> list[int]:
        """The processes of sites that run apart."""
        found = (running_process(site_folder(self.folder, site)) for site in read_sites(self.folder))
        return [process.pid for process in found if process is not None]

    def kill(self, kind: str, pid: int) -> None:
        """A database is killed with all its processes; it and the service are started again, as by an operating system
        or by a person. The rest is the service's to mend.
        """
        if kind.startswith("database "):
            self._kill_database(self.servers[kind.removeprefix("database ")], pid)
        elif kind == "service":
            os.kill(pid, signal.SIGKILL)
            assert self.up is not None
            self.up.wait()
            self.start()
        else:
            os.kill(pid, signal.SIGKILL)

    def _kill_database(self, server: EmbeddedPostgres, pid: int) -> None:
        family = [pid, *descendants(pid)]
        for one in family:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        time.sleep(DATABASE_AWAY_S)
        server.start()


def descendants(pid: int) -> list[int]:
    """Children before grandchildren."""
    known = processes()
    found = [pid]
    for one in found:
        found += [child for child, process in known.items() if process.parent == one]
    return found[1:]


def read_command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _parent(pid: int) -> int:
    found = processes().get(pid)
    return 0 if found is None else found.parent


@contextmanager
def world(engine: str, sites: str = "inside") -> Iterator[World]:
    """Databases with their rows and a project that does not run yet; nothing of it is left afterwards."""
    root = Path(tempfile.mkdtemp(prefix="kills-"))
    servers: dict[str, EmbeddedPostgres] = {}
    made = World(root, servers, engine, sites)
    try:
        for name in DATABASES:
            port = free_port()
            servers[name] = EmbeddedPostgres(root / name, find_port=lambda port=port: port)  # type: ignore[misc]
            servers[name].start()
            fill_database(servers[name].dsn(), name)
        write_project(made.project)
        yield made
    finally:
        made.stop()
        for server in servers.values():
            server.stop()
            shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)
