"""Experiments with the contracts of Table 1 where each site is a process: `headrace bench contracts --sites processes`.

`cost` runs the same contracts with all sites in one process and with each in its own, in turn, and compares processor
time. `machines` looks for the largest rate that is kept by 2 to 5 machines (SMILE, figure 11a), which here share the
cores of one. `replay` writes at a recorded rate (figure 8c). `readers` has people read the views while the rate and
their number jump (figure 14).
"""

from __future__ import annotations

import argparse
import math
import random
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import csv

from bench.contracts_sites import (
    HEAD,
    INSIDE,
    PROCESSES,
    Reading,
    SitesBench,
    SitesRun,
    SitesSeen,
    alternate,
    cost_per_tweet,
    sites_bench,
    tell_seen,
)
from bench.kills_world import World
from bench.workloads.live_table1 import Live
from headrace.connect.service_client import ask
from headrace.model.errors import HeadraceError
from headrace.site.process import running_process
from headrace.site.site_folders import site_folder

COST_BAR = 1.25
PLENTY = 64
"""Cores that plans count with, so that every contract is admitted in both ways."""
SETTLE_S = 20.0
PHASES = ((2, 1.0), (8, 1.0), (16, 2.0), (32, 3.0), (50, 3.0))
"""Figure 14: users of each view, and how many times the first rate."""
ROWS_READ = 100
RECORDED_RATE = Path(__file__).parents[2] / "shared" / "data" / "rates" / "tweet_volume_5min.parquet"
"""Tweets that were counted every five minutes; beside a checkout, not in it."""


@dataclass
class ApartBench:
    sites: SitesBench
    live: Live
    seconds: float
    engine: str
    seen: dict[str, list[SitesSeen]] = field(default_factory=dict)

    def run(self, experiment: str, name: str, live: Live, sites: str = PROCESSES, **more: object) -> SitesSeen:
        run = replace(SitesRun(live, sites, self.seconds, SETTLE_S, self.engine), **more)  # type: ignore[arg-type]
        seen = self.sites.observe(run)
        self.seen.setdefault(experiment, []).append(seen)
        print(*tell_seen(name, seen), sep="\n", flush=True)
        return seen


def run_apart(live: Live, seconds: float, options: argparse.Namespace) -> None:
    with sites_bench(Path(tempfile.mkdtemp(prefix="contracts-"))) as sites:
        bench = ApartBench(sites, replace(live, apart=True, cores=PLENTY), seconds, options.engine)
        for name in options.only:
            APART[name](bench, options)


def compare_cost(bench: ApartBench, options: argparse.Namespace) -> None:
    print(f"\nprocessor time, all sites in one process and each in its own, {options.rounds} times each\n{HEAD}")
    for sites in alternate(INSIDE, PROCESSES, options.rounds):
        bench.run("cost", sites, bench.live, sites)
    both = {sites: cost_per_tweet(bench.seen["cost"], sites) for sites in (INSIDE, PROCESSES)}
    for sites, by_kind in both.items():
        parts = ", ".join(f"{kind} {spent:.2f}" for kind, spent in sorted(by_kind.items()))
        print(f"  {sites:10} {sum(by_kind.values()):8.2f} processor s per 1000 tweets: {parts}")
    ratio = sum(both[PROCESSES].values()) / max(1e-9, sum(both[INSIDE].values()))
    print(f"  processes / inside: {ratio:.2f} (the bar is {COST_BAR})", flush=True)


def by_machines(bench: ApartBench, options: argparse.Namespace) -> None:
    print(f"\nlargest rate that is kept, against the number of machines (figure 11a)\n{HEAD}")
    for machines in options.machines:
        kept, rate = 0.0, bench.live.tweets_per_s
        while rate <= options.most:
            live = replace(bench.live, machines=machines, tweets_per_s=rate)
            if not bench.run("machines", f"{machines} at {rate:g}/s", live).kept_up:
                break
            kept, rate = rate, 2 * rate
        print(f"  {machines} machines: {kept:g} tweets/s kept" + ("" if rate <= options.most else ", more not tried"))
    print("paper: each further machine adds 25-30 k tuples/s; here all of them share the cores of one")


def replay_rate(bench: ApartBench, options: argparse.Namespace) -> None:
    file: Path | None = options.replay or (RECORDED_RATE if RECORDED_RATE.exists() else None)
    seconds = bench.seconds + SETTLE_S
    if file is None:
        name, rate = "generated", scale_counts(generate_counts(), options.rate, seconds)
        print(f"\nthere is no recorded rate at {RECORDED_RATE}, and none was given (--replay FILE):\none is generated")
    else:
        name, rate = file.stem, read_rate(file, options.rate, seconds)
    print(f"\n{name}: a rate that changes, {options.rate:g} tweets/s in the mean (figure 8c)\n{HEAD}")
    bench.run("replay", name[:24], bench.live, rate=rate)
    peak = max(rate(float(at)) for at in range(round(seconds)))
    print(f"  at most {peak:.0f} tweets/s; paper: a stream of 100/s in the mean had no violations")


def generate_counts() -> list[float]:
    """A shape like that of a recorded rate, for where none is: two days, each with a night, and a few sudden bursts
    that die down.
    """
    chance, burst, found = random.Random(1), 0.0, list[float]()
    for minute in range(0, 2 * 24 * 60, 5):
        burst = 4.0 if chance.random() < 0.01 else burst * 0.7
        found.append((1.0 - 0.7 * math.cos(2 * math.pi * minute / (24 * 60)) + burst) * chance.uniform(0.8, 1.2))
    return found


def read_rate(file: Path, mean: float, seconds: float) -> Callable[[float], float]:
    """Tweets per second from the seconds since the start: the file's counts in the order of their times, stretched so
    that all of them fit, and scaled to a mean. The last column of numbers has the counts.
    """
    table = csv.read_csv(file) if file.suffix == ".csv" else pq.read_table(file)
    numbers = [name for name, kind in zip(table.column_names, table.schema.types, strict=True) if _is_count(kind)]
    times = [
        name for name, kind in zip(table.column_names, table.schema.types, strict=True) if pa.types.is_temporal(kind)
    ]
    if not numbers:
        raise SystemExit(f"{file} has no column of counts")
    if times:  # of several series the sum counts
        table = table.group_by(times[0]).aggregate([(numbers[-1], "sum")]).sort_by(times[0])
        counts = table.column(f"{numbers[-1]}_sum")
    else:
        counts = table.column(numbers[-1])
    return scale_counts(counts.to_pylist(), mean, seconds)


def scale_counts(counts: Sequence[float], mean: float, seconds: float) -> Callable[[float], float]:
    average = sum(counts) / len(counts) or 1.0
    found = [mean * float(count) / average for count in counts]
    return lambda at_s: found[min(len(found) - 1, int(at_s / seconds * len(found)))]


def _is_count(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def with_readers(bench: ApartBench, options: argparse.Namespace) -> None:
    print(f"\npeople read the views, more and more of them (figure 14)\n{HEAD}")
    live = replace(bench.live, contracts=4, machines=4, freshness_s=(20.0, 40.0, 70.0, 50.0))
    seconds = SETTLE_S + bench.seconds

    def rate(at_s: float) -> float:
        return live.tweets_per_s * PHASES[phase_at(at_s - SETTLE_S, bench.seconds)][1]

    readers: list[Readers] = []

    def read(here: World) -> Reading:
        readers.append(Readers(here, live.contracts, bench.seconds))
        return readers[-1]

    bench.run("readers", "with readers", live, rate=rate, beside=read)
    for users, _ in PHASES:
        reads = [took for made in readers for at, took in made.took_s if at == users]
        middle = sorted(reads)[len(reads) // 2] if reads else 0.0
        print(f"  {users:3} users of each view: {len(reads)} reads, {1000 * middle:.0f} ms in the middle")
    print(
        f"  {sum(one.failed for one in readers)} reads failed; {seconds:g} s; paper: S4 of 50 s never above 40 s (80 %)"
    )


def phase_at(at_s: float, seconds: float) -> int:
    return min(len(PHASES) - 1, max(0, int(at_s / seconds * len(PHASES))))


@dataclass
class Readers(Reading):
    """Users who read a view again and again, each as soon as the last answer is there."""

    here: World
    views: int
    seconds: float
    took_s: list[tuple[int, float]] = field(default_factory=list)
    """Of each read: the users of each view then, and the seconds."""
    failed: int = 0

    def __post_init__(self) -> None:
        self._stopping = threading.Event()
        self._began = 0.0
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        self._began = time.monotonic()
        most = max(users for users, _ in PHASES)
        for view in range(1, self.views + 1):
            for number in range(most):
                thread = threading.Thread(target=self._read, args=(f"V{view}", number), daemon=True)
                self._threads.append(thread)
                thread.start()

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def _read(self, view: str, number: int) -> None:
        where = self._find_address(view)
        while not self._stopping.is_set():
            users = PHASES[phase_at(time.monotonic() - self._began, self.seconds)][0]
            if number >= users:
                self._stopping.wait(0.5)
                continue
            began = time.monotonic()
            try:
                ask(*where, "GET", f"/views/{view}?limit={ROWS_READ}", within_s=30.0)
                self.took_s.append((users, time.monotonic() - began))
            except HeadraceError:
                self.failed += 1
                self._stopping.wait(0.5)
                where = self._find_address(view)

    def _find_address(self, view: str) -> tuple[int, str]:
        """That of the site that has the view."""
        while not self._stopping.is_set():
            status: Mapping[str, Sequence[Mapping[str, str]]] = self.here.folder.read_json("status.json") or {}
            site = next((one["site"] for one in status.get("contracts", ()) if one.get("view") == view), None)
            process = None if site is None else running_process(site_folder(self.here.folder, site))
            if process is not None and process.port:
                return process.port, process.token
            self._stopping.wait(0.5)
        return 0, ""


APART: dict[str, Callable[[ApartBench, argparse.Namespace], None]] = {
    "cost": compare_cost,
    "machines": by_machines,
    "replay": replay_rate,
    "readers": with_readers,
}
