"""The contracts of Table 1 kept by `headrace up` as people run it: all sites in one process, or each in its own.

Every run has a database, a project and processes of its own, and ends with a comparison of all views with their
queries. Processor time and memory are those of all processes that `up` started; the server's do not count. Each machine
has a database of its own, in both ways.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.contracts_run import resident_mb
from bench.contracts_world import POSTGRES
from bench.cpu import processes
from bench.kills_watch import Look, Watch, episodes
from bench.kills_world import World
from bench.workloads.live_table1 import Live, Tweeting, address_of, fill_database, live_project
from headrace.connect.postgres.embedded import EmbeddedPostgres

INSIDE, PROCESSES = "inside", "processes"
LOADED_WITHIN_S = 300.0
LOOK_EVERY_S = 1.0
KINDS = {"headrace.connect.postgres.process": "captures", "headrace agent": "sites", "headrace up": "up"}
"""Processes by what their command line has; others, Spark for example, count with whoever started them."""


@dataclass(frozen=True, slots=True)
class SitesRun:
    """`settle_s` pass after everything is loaded before anything counts; `beside` is started then, and stopped."""

    live: Live
    sites: str
    seconds: float
    settle_s: float
    engine: str = "local"
    rate: Callable[[float], float] | None = None
    beside: Callable[[World], Reading] | None = None


class Reading:
    """Somebody who uses the views meanwhile."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


@dataclass(slots=True)
class SitesSeen:
    run: SitesRun
    contracts: int = 0
    refused: int = 0
    processes: int = 0
    cpu_s: dict[str, float] = field(default_factory=dict)
    memory_mb: dict[str, float] = field(default_factory=dict)
    """The most that was seen, by kind; pages that several processes have count in parts."""
    looks: list[Look] = field(default_factory=list)
    tweets: int = 0
    behind_s: float = 0.0
    failure: str | None = None
    equal: bool | None = None

    @property
    def cpu(self) -> float:
        return sum(self.cpu_s.values())

    @property
    def late(self) -> int:
        """Episodes of broken promises."""
        return len(list(episodes(self.looks)))

    @property
    def worst(self) -> float:
        """The largest lag as a share of its promise."""
        return max((share for look in self.looks for share in look.lags.values()), default=0.0)

    @property
    def kept_up(self) -> bool:
        return self.failure is None and self.late == 0 and self.behind_s < 1.0 and self.equal is not False


@contextmanager
def keeping_sites(root: Path, run: SitesRun, dsns: Mapping[str, str]) -> Iterator[SitesWorld]:
    """A project that runs and has loaded its views; nothing of it is left afterwards."""
    here = SitesWorld(root, {}, run.engine, run.sites, dsns=dsns)
    live_project(run.live).write(here.project)
    watch = Watch(here.folder.root / "status.json")
    try:
        here.start()
        watch.start()
        if not watch.wait_until_well(LOADED_WITHIN_S):
            raise RuntimeError(f"the project does not run: {watch.look().wrong}: {here.output.read_text()}")
        watch.stop()
        yield here
    finally:
        watch.stop()
        here.stop()
        shutil.rmtree(root, ignore_errors=True)


@dataclass
class SitesWorld(World):
    """`dsns` are by machine."""

    dsns: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, **{address_of(name): dsn for name, dsn in self.dsns.items()}}


@dataclass
class SitesBench:
    """One server for all runs, on which every machine of a run has a database."""

    root: Path
    server: EmbeddedPostgres
    runs: int = 0

    def observe(self, run: SitesRun) -> SitesSeen:
        seen = SitesSeen(run)
        try:
            self.use(run, lambda here: _watch(here, run, seen))
        except RuntimeError as error:
            seen.failure = str(error)
        return seen

    def use(self, run: SitesRun, act: Callable[[SitesWorld], None]) -> None:
        """Does something with a project that runs and has loaded its views."""
        self.runs += 1
        databases = {name: f"{name}_{self.runs}" for name in run.live.names}
        try:
            dsns = {name: self._make_database(database, name, run.live) for name, database in databases.items()}
            with keeping_sites(self.root / f"run{self.runs}", run, dsns) as here:
                act(here)
        finally:
            for database in databases.values():
                self._drop(database)

    def _make_database(self, database: str, machine: str, live: Live) -> str:
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {database}".encode())
        with psycopg.connect(self.server.dsn(database), autocommit=True) as connection:
            fill_database(connection, live, live.relations_at(machine))
        return self.server.dsn(database)

    def _drop(self, database: str) -> None:
        slots = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s"
        with psycopg.connect(self.server.dsn(), autocommit=True) as connection:
            connection.execute(slots, [database])
            connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)".encode())


@contextmanager
def sites_bench(root: Path) -> Iterator[SitesBench]:
    root.mkdir(parents=True, exist_ok=True)
    server = EmbeddedPostgres(root / "postgres", {**POSTGRES, "max_replication_slots": "40", "max_wal_senders": "40"})
    try:
        server.start()
        yield SitesBench(root, server)
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def _watch(here: SitesWorld, run: SitesRun, seen: SitesSeen) -> None:
    assert here.up is not None
    places = {here.dsns[name]: run.live.relations_at(name) for name in run.live.names}
    tweeting = Tweeting(places, run.live, run.rate or (lambda _: run.live.tweets_per_s))
    reading = Reading() if run.beside is None else run.beside(here)
    watch = Watch(here.folder.root / "status.json")
    tweeting.start()
    try:
        time.sleep(run.settle_s)
        reading.start()
        watch.start()
        cpu, first, began = CpuByKind(here.up.pid), tweeting.tweets, time.monotonic()
        while (left_s := began + run.seconds - time.monotonic()) > 0 and here.up.poll() is None:
            time.sleep(min(LOOK_EVERY_S, left_s))
            cpu.look()
            seen.behind_s = max(seen.behind_s, tweeting.behind_s)
            memory, seen.processes = memory_by_kind(here.up.pid), len(cpu.kinds)
            seen.memory_mb = {kind: max(mb, seen.memory_mb.get(kind, 0.0)) for kind, mb in memory.items()}
        seen.cpu_s, seen.tweets, seen.looks = cpu.by_kind, tweeting.tweets - first, list(watch.looks)
    finally:
        for one in (reading, tweeting, watch):
            one.stop()
    seen.contracts = max((len(look.lags) for look in seen.looks), default=0)
    seen.refused = run.live.contracts - seen.contracts
    seen.failure = tweeting.error or here.read_ended()
    if seen.failure is None:
        answer = here.command("audit", str(here.project), "--recompute")
        seen.equal = answer.returncode == 0
        seen.failure = None if seen.equal else f"{answer.stdout}{answer.stderr}".strip()


class CpuByKind:
    """Seconds of processor time by kind of process, of a process and everything below it, since this was made."""

    def __init__(self, top: int) -> None:
        self._top = top
        self.kinds: dict[int, str] = {}
        self._last = processes(top)
        self.by_kind: dict[str, float] = {}
        self._name()

    def look(self) -> None:
        """Adds what was used since the last look. What begins and ends between two looks counts with its parent."""
        self._name()
        now = processes(self._top)
        for pid, one in now.items():
            was = self._last.get(pid)
            used = one.own - (was.own if was is not None and was.started == one.started else 0.0)
            kind = self.kinds.get(pid, "others")
            self.by_kind[kind] = self.by_kind.get(kind, 0.0) + used
        self._last = now

    def _name(self) -> None:
        self.kinds = kinds_of(self._top)


def kinds_of(top: int) -> dict[int, str]:
    """A process and everything below it, by kind."""
    found: dict[int, str] = {}
    for pid, one in processes(top).items():  # parents come first
        command = ""
        with suppress(OSError):  # ended meanwhile
            command = Path(f"/proc/{pid}/cmdline").read_text(errors="replace").replace("\0", " ")
        named = next((kind for text, kind in KINDS.items() if text in command), None)
        found[pid] = named or found.get(one.parent, "others")
    return found


def memory_by_kind(top: int) -> dict[str, float]:
    """MB; pages that several processes have count in parts."""
    found: dict[str, float] = {}
    for pid, kind in kinds_of(top).items():
        found[kind] = found.get(kind, 0.0) + resident_mb(pid)
    return found


def alternate(first: str, second: str, rounds: int) -> Sequence[str]:
    """Each equally often first and second, so that what the machine does meanwhile falls on both: a b, b a, a b."""
    pairs = [(first, second) if number % 2 == 0 else (second, first) for number in range(rounds)]
    return [one for pair in pairs for one in pair]


def tell_seen(name: str, seen: SitesSeen) -> Iterator[str]:
    cpu = ", ".join(f"{kind} {used:.1f}" for kind, used in sorted(seen.cpu_s.items()))
    memory = ", ".join(f"{kind} {mb:.0f}" for kind, mb in sorted(seen.memory_mb.items()))
    yield (
        f"{name:24} {seen.contracts:9} {seen.processes:9} {seen.tweets:8} {seen.cpu:8.2f} {seen.late:5}"
        f" {100 * seen.worst:8.0f} % {_say_equal(seen):>6}"
    )
    yield f"  processor s: {cpu}; MB: {memory}"
    if seen.failure is not None:
        yield f"  {seen.failure}"


HEAD = (
    f"{'':24} {'contracts':>9} {'processes':>9} {'tweets':>8} {'cpu s':>8} {'late':>5} {'worst lag':>10} {'equal':>6}"
)


def _say_equal(seen: SitesSeen) -> str:
    return {True: "yes", False: "NO", None: "?"}[seen.equal]


def cost_per_tweet(runs: Sequence[SitesSeen], sites: str) -> Mapping[str, float]:
    """Processor seconds per thousand tweets, of all runs of a kind."""
    chosen = [seen for seen in runs if seen.run.sites == sites and seen.failure is None]
    tweets = sum(seen.tweets for seen in chosen)
    kinds = {kind for seen in chosen for kind in seen.cpu_s}
    return {kind: 1000 * sum(seen.cpu_s.get(kind, 0.0) for seen in chosen) / max(1, tweets) for kind in kinds}
