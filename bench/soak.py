"""Does the memory of a service stay the same when it runs for hours?

`headrace up` as people run it, on the contracts of SMILE with a PostgreSQL of its own, while people tweet. Memory is
looked at every few seconds: of the service, its captures, Spark and its workers; pages that several share count in
parts. Exit 1 if the service has grown, or if a promise was broken after the first minute. Its disk grows with what is
written: tables and views have more rows in the end. `--forced 3` has so many contracts kept beside them that nobody
can keep: they are refused first, and then forced; the others must not notice.

    headrace bench soak [--minutes 60] [--rate 500] [--rows 1000000] [--contracts 25] [--freshness mixed] [--forced 0]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from bench.beside import Beside
from bench.contracts_run import memory_by_part
from bench.contracts_world import POSTGRES
from bench.kills_watch import Watch, episodes
from bench.kills_world import World
from bench.workloads.live_table1 import MIXED_S, Live, Tweeting, fill_database, live_project
from headrace.connect.postgres.embedded import EmbeddedPostgres

LOADED_WITHIN_S = 300.0
SETTLE_S = 60.0
LOOK_EVERY_S = 5.0
SAY_EVERY_S = 300.0
IMPOSSIBLE_S = 0.1
"""Freshness that nobody can keep."""
GROWN = 0.1
"""Of the memory in the second quarter of the run, that the last may have more: what is learnt and noted comes first."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """MB in memory by part, and of the project's folder with its files, at a time in seconds since the load began."""

    at_s: float
    memory_mb: dict[str, float]
    disk_mb: float
    files: int


@dataclass
class Scales(Beside):
    """Looks at the memory of a service."""

    world: World
    began: float = field(default_factory=time.monotonic)
    sizes: list[Sizes] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__("scales")

    def run(self) -> None:
        while not self.stopping.wait(LOOK_EVERY_S):
            for service in self.world.find("service"):
                blocks = [found.stat().st_blocks for found in self.world.folder.root.rglob("*") if found.exists()]
                at_s = time.monotonic() - self.began
                self.sizes.append(Sizes(at_s, memory_by_part(service), sum(blocks) * 512 / 1e6, len(blocks)))

    def median_mb(self, part: str, since: float, until: float) -> float:
        """Between two shares of the run so far."""
        end = self.sizes[-1].at_s
        seen = [one.memory_mb.get(part, 0.0) for one in self.sizes if since * end <= one.at_s <= until * end]
        return statistics.median(seen) if seen else 0.0

    @property
    def parts(self) -> list[str]:
        return sorted({part for one in self.sizes for part in one.memory_mb})


@dataclass(frozen=True, slots=True)
class Findings:
    """`late` are contracts that were late, and when, in seconds since the load began."""

    scales: Scales
    late: list[tuple[str, float]]
    load: float

    def table(self) -> Iterator[str]:
        yield f"\n{'median MB':12} {'2nd quarter':>12} {'3rd':>8} {'last':>8} {'last / 2nd':>11}"
        for part in self.scales.parts:
            second, third, last = (self.scales.median_mb(part, n / 4, (n + 1) / 4) for n in (1, 2, 3))
            yield f"{part:12} {second:12.0f} {third:8.0f} {last:8.0f} {last / max(second, 1e-9):11.2f}"
        yield f"promises broken after the first minute: {len(self.late)} times; load up to {self.load:.1f}"

    def wrong(self) -> Iterator[str]:
        second, last = self.scales.median_mb("service", 0.25, 0.5), self.scales.median_mb("service", 0.75, 1.0)
        if last > (1 + GROWN) * second:
            yield f"the service has grown from {second:.0f} to {last:.0f} MB"
        yield from (f"{contract} was late after {at_s:.0f} s" for contract, at_s in self.late)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    freshness_s = MIXED_S if options.freshness == "mixed" else (float(options.freshness),)
    live = Live(options.contracts, options.rows, options.rate, freshness_s)
    print(
        f"{options.contracts} contracts of {options.freshness} s, {options.rate:g} tweets/s on {options.rows} for"
        f" {options.minutes:g} minutes, {os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    forced = tuple(f"F{number + 1}" for number in range(options.forced))
    with soaking(live, forced) as here:
        found = _run(here, live, options.minutes * 60, forced)
    wrong = list(found.wrong())
    print(*found.table(), *wrong, sep="\n")
    sys.exit(1 if wrong else 0)


@contextmanager
def soaking(live: Live, forced: Sequence[str]) -> Iterator[World]:
    """A database with its rows and a project that does not run yet; nothing of it is left afterwards."""
    root = Path(tempfile.mkdtemp(prefix="soak-"))
    server = EmbeddedPostgres(root / "smile", POSTGRES)
    here = World(root, {"smile": server}, "spark")
    try:
        server.start()
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            fill_database(connection, live)
        project = live_project(live)
        for number, name in enumerate(forced):
            view = f"V{live.contracts - number}"
            project.contract(name, view=view, at="m1", freshness=IMPOSSIBLE_S, penalty=0.001)
        project.write(here.project)
        yield here
    finally:
        here.stop()
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


def _run(here: World, live: Live, seconds: float, forced: Sequence[str]) -> Findings:
    watch = Watch(here.folder.root / "status.json")
    here.start()
    watch.start()
    if not watch.wait_until_well(LOADED_WITHIN_S):
        raise RuntimeError(f"the project does not run: {here.output.read_text()}")
    if forced:
        _force(here, forced)
    tweeting = Tweeting(here.servers["smile"].dsn(), live, lambda _: live.tweets_per_s)
    scales = Scales(here)
    tweeting.start()
    scales.start()
    began, load = time.time(), 0.0
    while (left_s := began + seconds - time.time()) > 0 and tweeting.error is None:
        time.sleep(min(SAY_EVERY_S, left_s))
        load = max(load, os.getloadavg()[0])
        print(_line(scales.sizes[-1], tweeting.tweets), flush=True)
    for one in (tweeting, scales, watch):
        one.stop()
    if tweeting.error is not None:
        raise RuntimeError(f"nobody could tweet: {tweeting.error}")
    late = [one for one in episodes(watch.looks) if one.at >= began + SETTLE_S and one.contract not in forced]
    return Findings(scales, [(one.contract, one.at - began) for one in late], load)


def _force(here: World, names: Sequence[str]) -> None:
    words = [word for name in names for word in ("--force", name)]
    answer = here.command("apply", str(here.project), *words)
    print(answer.stdout.strip(), flush=True)
    if answer.returncode:
        raise RuntimeError(f"the contracts were not forced: {answer.stderr}")


def _line(sizes: Sizes, tweets: int) -> str:
    memory = ", ".join(f"{part} {mb:.0f} MB" for part, mb in sorted(sizes.memory_mb.items()))
    return f"{sizes.at_s / 60:5.1f} min, {tweets} tweets: {memory}; disk {sizes.disk_mb:.0f} MB in {sizes.files} files"


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench soak", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=500.0, help="tweets per second")
    parser.add_argument("--rows", type=int, default=1_000_000, help="tweets that are stored before")
    parser.add_argument("--contracts", type=int, default=25)
    parser.add_argument("--freshness", choices=("10", "20", "30", "45", "60", "mixed"), default="mixed")
    parser.add_argument("--forced", type=int, default=0, help="contracts beside them that nobody can keep")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
