"""What does a project cost in which nothing, or little, happens, and what would refreshing its views cost instead?

`headrace up` as people run it, with everything that looks and checks, on the contracts of SMILE (Table 1) and a
PostgreSQL of its own. When all views are loaded and the service has settled, processor time is counted by process.
Then the service ends, and the same views as materialised views of the same server are refreshed, one after the other,
each as late as its promise allows. The lag is what the service says, looked at four times a second; in the end the
views are compared with their queries.

    headrace bench idle [--contracts 25] [--freshness mixed] [--tweets 20000] [--rate 0] [--engine local]
                        [--settle 60] [--seconds 120]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psycopg

from bench.beside import Beside
from bench.contracts_run import Cpu
from bench.contracts_world import POSTGRES
from bench.kills_watch import Watch
from bench.kills_world import World
from bench.workloads.live_table1 import MIXED_S, Live, Tweeting, fill_database, live_project
from bench.workloads.table1 import SHARINGS, query_of
from headrace.connect.postgres.embedded import EmbeddedPostgres

LOADED_WITHIN_S = 300.0
LOOK_EVERY_S = 1.0
OURS = ("service", "spark", "workers", "capture")
SERVER = "postgres"


@dataclass(frozen=True, slots=True)
class Spent:
    """Cores by part."""

    cores: dict[str, float]

    @property
    def ours(self) -> float:
        return sum(self.cores.get(part, 0.0) for part in OURS)

    @property
    def server(self) -> float:
        return self.cores.get(SERVER, 0.0)


def spend(seconds: float) -> Spent:
    """Counts while others work: everything that this process has started, but not itself."""
    own, cpu, began = time.process_time(), Cpu(), time.monotonic()
    while (left_s := began + seconds - time.monotonic()) > 0:
        time.sleep(min(LOOK_EVERY_S, left_s))
        cpu.look()
    found = cpu.by_part
    # Whatever is not of another kind counts with the process at the top, which here is the benchmark.
    found["service"] -= time.process_time() - own
    return Spent({part: used / seconds for part, used in found.items()})


@dataclass
class Refreshing(Beside):
    """Refreshes materialised views in one session, each before it is older than promised; the most urgent first."""

    dsn: str
    live: Live
    refreshes: int = 0
    lags_s: list[float] = field(default_factory=list)
    """Of each view when its refresh was done."""

    def __post_init__(self) -> None:
        super().__init__("refresh")

    def run(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            views = {f"mv{number + 1}": self._promise(number) for number in range(self.live.contracts)}
            for number, name in enumerate(views):
                query = query_of(SHARINGS[number % len(SHARINGS)].split())
                connection.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}".encode())
            self._refresh(connection, views)

    def _promise(self, number: int) -> float:
        return self.live.freshness_s[number % len(self.live.freshness_s)]

    def _refresh(self, connection: psycopg.Connection[tuple[object, ...]], views: dict[str, float]) -> None:
        as_of, takes_s = dict.fromkeys(views, time.monotonic()), dict.fromkeys(views, 0.0)
        while not self.stopping.is_set():
            name = min(views, key=lambda one: as_of[one] + views[one] - 2 * takes_s[one])
            due = as_of[name] + views[name] - 2 * takes_s[name]
            if self.stopping.wait(max(0.0, due - time.monotonic())):
                return
            began = time.monotonic()
            connection.execute(f"REFRESH MATERIALIZED VIEW {name}".encode())
            self.lags_s.append((time.monotonic() - as_of[name]) / views[name])
            as_of[name], takes_s[name] = began, time.monotonic() - began
            self.refreshes += 1


@contextmanager
def idling(live: Live, engine: str) -> Iterator[World]:
    """A database with its rows and a project that does not run yet; nothing of it is left afterwards."""
    root = Path(tempfile.mkdtemp(prefix="idle-"))
    server = EmbeddedPostgres(root / "smile", POSTGRES)
    here = World(root, {"smile": server}, engine)
    try:
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            fill_database(connection, live)
        live_project(live).write(here.project)
        yield here
    finally:
        here.stop()
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    freshness_s = MIXED_S if options.freshness == "mixed" else (float(options.freshness),)
    live = Live(options.contracts, options.tweets, options.rate, freshness_s)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    print(
        f"{options.contracts} contracts of {options.freshness} s over {options.tweets} tweets, {options.rate:g} more a"
        f" second, engine {options.engine}, {options.seconds:g} s, {os.cpu_count()} cores,"
        f" load before {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    with idling(live, options.engine) as here:
        sys.exit(_run(here, live, options))


def _run(here: World, live: Live, options: argparse.Namespace) -> int:
    tweeting = Tweeting(here.servers["smile"].dsn(), live, lambda _: live.tweets_per_s)
    watch = Watch(here.folder.root / "status.json")
    here.start()
    watch.start()
    try:
        if not watch.wait_until_well(LOADED_WITHIN_S):
            raise RuntimeError(f"the project does not run: {here.output.read_text()}")
        if live.tweets_per_s:
            tweeting.start()
        time.sleep(options.settle)
        seen = len(watch.looks)
        kept = spend(options.seconds)
        looks = watch.looks[seen:]
        watch.stop()
        print(f"headrace up: {kept.ours:.4f} cores, and the server {kept.server:.4f}", flush=True)
        answer = here.command("audit", str(here.project), "--recompute")
        here.stop()
        refreshing = Refreshing(here.servers["smile"].dsn(), live)
        refreshing.start()
        time.sleep(min(options.settle, max(live.freshness_s)))
        refreshed = spend(options.seconds)
        refreshing.stop()
    finally:
        for one in (watch, tweeting):
            one.stop()
    for line in (*_table(kept, refreshed), _lags([share for look in looks for share in look.lags.values()], "service")):
        print(line)
    print(_lags(refreshing.lags_s, f"{refreshing.refreshes} refreshes"))
    wrong = [look.wrong for look in looks if look.wrong is not None]
    print(f"looks that found something wrong: {len(wrong)} of {len(looks)}" + (f": {wrong[0]}" if wrong else ""))
    print("all views equal their queries" if answer.returncode == 0 else f"{answer.stdout}{answer.stderr}".strip())
    return answer.returncode


def _table(kept: Spent, refreshed: Spent) -> Iterator[str]:
    yield f"{'cores':24} {'headrace up':>12} {'REFRESH':>10}"
    for part in OURS:
        yield f"{part:24} {kept.cores.get(part, 0.0):12.4f} {0:10.4f}"
    yield f"{SERVER:24} {kept.server:12.4f} {refreshed.server:10.4f}"
    yield f"{'all but the server':24} {kept.ours:12.4f} {0:10.4f}"
    yield f"{'all':24} {kept.ours + kept.server:12.4f} {refreshed.server:10.4f}"
    yield f"headrace / REFRESH: {(kept.ours + kept.server) / max(refreshed.server, 1e-9):.3f}"


def _lags(shares: Sequence[float], whose: str) -> str:
    if not shares:
        return f"lags of {whose}: none"
    at = np.quantile(np.array(shares), (0.5, 0.99, 1.0))
    return f"lags of {whose}, as shares of promises: median {at[0]:.2f}, p99 {at[1]:.2f}, largest {at[2]:.2f}"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench idle", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--contracts", type=int, default=25)
    parser.add_argument("--freshness", default="mixed", help="seconds, or `mixed`: 10, 40 and 60")
    parser.add_argument("--tweets", type=int, default=20_000, help="tweets that are stored before")
    parser.add_argument("--rate", type=float, default=0.0, help="tweets per second")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--settle", type=float, default=60.0, help="seconds before counting begins")
    parser.add_argument("--seconds", type=float, default=120.0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
