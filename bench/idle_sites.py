"""What does a site take that has nothing to do: memory and processor time, next to one process that has all sites?

`headrace up` with `--sites inside` and `--sites processes`, one after the other, on contracts of SMILE (Table 1) with a
database for each site, into which nobody writes. When all views are loaded and have settled, memory and processor time
are read of each process that `up` started, for a while. RSS counts pages that several processes have for each of them,
PSS in parts. In the end all views are compared with their queries.

    headrace bench idle-sites [--machines 2] [--contracts 4] [--freshness 10] [--tweets 2000] [--engine local]
                              [--settle 30] [--seconds 60] [--sites inside,processes]
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.contracts_sites import INSIDE, PROCESSES, SitesRun, kinds_of, sites_bench
from bench.cpu import processes
from bench.kills_world import World
from bench.workloads.live_table1 import Live

MEMORY_BAR_MB, CPU_BAR = 120.0, 0.01


@dataclass(frozen=True, slots=True)
class IdleProcess:
    """MB as the kernel counts them (1024 x 1024 bytes); `cores` is the share of one that it used."""

    pid: int
    kind: str
    rss_mb: float
    pss_mb: float
    threads: int
    cores: float


def look_at(top: int, seconds: float) -> list[IdleProcess]:
    """A process and everything below it, looked at for some seconds."""
    kinds, before, began = kinds_of(top), processes(top), time.monotonic()
    time.sleep(seconds)
    after, took_s = processes(top), time.monotonic() - began
    return [
        IdleProcess(pid, kinds[pid], *_memory_of(pid), (after[pid].own - before[pid].own) / took_s)
        for pid in sorted(kinds.keys() & before.keys() & after.keys())
    ]


def _memory_of(pid: int) -> tuple[float, float, int]:
    """RSS, PSS and the number of threads."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    rss, pss = (int(re.findall(rf"^{name}:\s+(\d+)", text, re.MULTILINE)[0]) / 1024 for name in ("Rss", "Pss"))
    return rss, pss, len(list(Path(f"/proc/{pid}/task").iterdir()))


def table(found: Sequence[IdleProcess]) -> Iterator[str]:
    yield f"  {'':10} {'pid':>8} {'RSS MB':>8} {'PSS MB':>8} {'threads':>8} {'% of a core':>12}"
    for one in found:
        yield (
            f"  {one.kind:10} {one.pid:8} {one.rss_mb:8.1f} {one.pss_mb:8.1f} {one.threads:8} {100 * one.cores:12.2f}"
        )
    pss, cores = sum(one.pss_mb for one in found), sum(one.cores for one in found)
    yield f"  {'together':10} {'':8} {'':8} {pss:8.1f} {sum(one.threads for one in found):8} {100 * cores:12.2f}"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    live = Live(
        options.contracts, options.tweets, 1.0, (options.freshness,), cores=64, machines=options.machines, apart=True
    )
    print(
        f"{options.contracts} contracts of {options.freshness:g} s at {options.machines} sites, nobody writes,"
        f" engine {options.engine}, {options.seconds:g} s, {os.cpu_count()} cores,"
        f" load before {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    with sites_bench(Path(tempfile.mkdtemp(prefix="idle-sites-"))) as bench:
        for sites in options.sites.split(","):
            run = SitesRun(live, sites, options.seconds, options.settle, options.engine)
            print(f"--sites {sites}")
            bench.use(run, lambda here: _look(here, options.settle, options.seconds))


def _look(here: World, settle_s: float, seconds: float) -> None:
    assert here.up is not None
    time.sleep(settle_s)
    found = look_at(here.up.pid, seconds)
    print(*table(found), sep="\n", flush=True)
    agents = [one for one in found if one.kind == "sites"]
    if agents:
        rss, cores = max(one.rss_mb for one in agents), max(one.cores for one in agents)
        print(f"  the largest agent: {rss:.0f} MB (the bar is {MEMORY_BAR_MB:g}), {100 * cores:.2f} % of a core (1 %)")
    answer = here.command("audit", str(here.project), "--recompute")
    print("  all views equal their queries" if answer.returncode == 0 else f"{answer.stdout}{answer.stderr}".strip())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench idle-sites", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--contracts", type=int, default=4)
    parser.add_argument("--freshness", type=float, default=10.0)
    parser.add_argument("--tweets", type=int, default=2000, help="tweets that are stored before")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--settle", type=float, default=30.0, help="seconds before counting begins")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--sites", default=f"{INSIDE},{PROCESSES}")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
