"""How many contracts can one machine keep, at what rate, and what does keeping them together save?

SMILE's experiments on the real service: its 9 relations in a PostgreSQL that people tweet into, 25 contracts at 6
sites planned by Headrace, captured, pushed by Spark, and audited. Violations and cost against rate and against
freshness, lag before and after pushes, rows moved and processor time together and alone, predicted and measured ways,
a load that jumps, and how many contracts fit. The same views are computed anew by PostgreSQL, DuckDB and Spark in the
same run, and kept by Flink if a Python that has it is given. A violation is an episode of a broken promise after the
first minute.

    headrace bench contracts [--quick] [--only rate,freshness] [--minutes M] [--rate R] [--rows N] [--plot FOLDER]
    headrace bench contracts --sites processes [--only cost,machines,replay,readers] [--replay FILE] [--engine local]

With `--sites processes` each site is a process, as `headrace up --sites processes` runs it; experiments are others.
`--quick` is few contracts of 10 s for half a minute, to see that all is there. `--rows 1000000 --minutes 10` is the
full run; nothing else should run then.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bench.contracts_apart import APART, run_apart
from bench.contracts_cpu import work_of
from bench.contracts_flink import Flink, kept_by_flink
from bench.contracts_peers import Peer, recomputed_by_peers
from bench.contracts_run import Run, Seen, observe
from bench.contracts_sites import INSIDE, PROCESSES
from bench.contracts_text import HEAD, SHARING_BAR, details, flink, peers, row, sharing
from bench.contracts_world import Machine, machine
from bench.flink import FlinkFailed, flink_version
from bench.workloads.live_table1 import MIXED_S, Live
from headrace.model.plan import PlanOptions
from headrace.model.plan_modes import Sharing

SETTLE_S = 60.0
FRESHNESS: dict[str, tuple[float, ...]] = {
    **{f"{seconds:g}": (seconds,) for seconds in (10.0, 20.0, 30.0, 45.0, 60.0)},
    "mixed": MIXED_S,
}
"""Seconds; mixed are 10, 40 and 60."""
STEPS = ((0.0, 1.0), (0.2, 1.5), (0.4, 3.0), (0.6, 6.0), (0.8, 9.0))
"""Robustness: from which share of the run on the load is how many times the first (SMILE: 50 to 150 x 50 users)."""


@dataclass
class Bench:
    """One benchmark: what it runs on, what was asked, and all that was seen, by experiment."""

    machine: Machine
    live: Live
    """Its freshness is that of all contracts, where the experiment is not about it."""
    seconds: float
    record: Path | None = None
    """A file that gets a line of JSON for every push of a contract, to try other predictions with."""
    seen: dict[str, list[tuple[str, Seen]]] = field(default_factory=dict)
    peers: list[Peer] = field(default_factory=list)
    flink: Flink | None = None

    def run(self, experiment: str, name: str, live: Live, **more: object) -> Seen:
        """Runs once, prints a line, and keeps it for the figures."""
        settle_s = min(SETTLE_S, self.seconds / 3)
        run = replace(Run(live, PlanOptions(), self.seconds, settle_s), **more)  # type: ignore[arg-type]
        seen = observe(self.machine, run, lambda text: _say(f"{name}: {text}"))
        self.seen.setdefault(experiment, []).append((name, seen))
        print(row(name, seen), *details(seen), sep="\n", flush=True)
        if self.record is not None:
            with self.record.open("a") as file:
                file.writelines(json.dumps({"run": name, **asdict(push)}) + "\n" for push in seen.pushes)
        return seen


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    seconds, freshness_s = options.minutes * 60, 10.0 if options.quick else 45.0
    live = Live(options.contracts, tweets=options.rows, tweets_per_s=options.rate, freshness_s=(freshness_s,))
    print(
        f"{live.contracts} contracts, {live.tweets} tweets stored, {seconds:g} s a run, {os.cpu_count()} cores,"
        f" load before {os.getloadavg()[0]:.1f}"
    )
    if options.sites == PROCESSES:
        run_apart(live, seconds, options)
        return
    with machine(live.cores) as here:
        here.fill(live)
        bench = Bench(here, live, seconds, options.record)
        for name in options.only:
            EXPERIMENTS[name](bench, options)
            if options.plot is not None:
                _draw(bench, name, options.plot)


def _draw(bench: Bench, experiment: str, folder: Path) -> None:
    from bench.contracts_plots import plot

    for file in plot({experiment: bench.seen.get(experiment, [])}, bench.peers, folder):
        print(f"drawn: {file}", flush=True)


def by_rate(bench: Bench, options: argparse.Namespace) -> None:
    print(f"\nviolations and cost against the rate, {_promise(bench)} (figures 6 and 8)\n{HEAD}")
    for rate in options.rates or (bench.live.tweets_per_s, 2 * bench.live.tweets_per_s, 4 * bench.live.tweets_per_s):
        bench.run("rate", f"{rate:g} tweets/s", replace(bench.live, tweets_per_s=rate))
    print("paper, 6 machines: none at 100 and 1000 tweets/s, 3 episodes per sharing and hour at 6000;")
    print("  lag just below 45 s before a push and below 10 s after, pushes of 25-40 s; $6 to $25 per sharing and hour")


def by_freshness(bench: Bench, options: argparse.Namespace) -> None:
    print(f"\nviolations and cost against the freshness (figure 10)\n{HEAD}")
    for name in options.freshness:
        bench.run("freshness", name, replace(bench.live, freshness_s=FRESHNESS[name]))
    print("paper, 1000 tweets/s: episodes per sharing and hour 4 (10 s), 1 (20), 2 (30), 1 (40), 0 (50, 60, mixed)")


def processor_time(bench: Bench, options: argparse.Namespace) -> None:
    """Alone, contracts are admitted as if there were cores enough: what is compared is the same 25 views."""
    print("\nprocessor time of pushes alone, without Spark, database or capture (busy machines do not matter)")
    print(f"{'':26} {'contracts':>9} {'push s':>7} {'upkeep s':>8} {'cores':>6} {'rows':>9} {'of alone':>8}")
    for rate, freshness_s in ((bench.live.tweets_per_s, 45.0), (500.0, 20.0), (1000.0, 45.0)):
        live = replace(bench.live, tweets_per_s=rate, freshness_s=(freshness_s,), cores=64)
        alone = work_of(live, PlanOptions(sharing=Sharing.NONE))
        together = work_of(live, PlanOptions())
        for name, work in (("alone", alone), ("together", together)):
            ratio = (work.push_s + work.upkeep_s) / (alone.push_s + alone.upkeep_s)
            print(
                f"{f'{rate:g}/s, {freshness_s:g} s, {name}':26} {work.contracts:9} {work.push_s:7.2f}"
                f" {work.upkeep_s:8.2f} {work.cores:6.3f} {work.rows:9} {ratio:8.2f}",
                flush=True,
            )
    print(f"the bar is {SHARING_BAR}")


def together_and_alone(bench: Bench, options: argparse.Namespace) -> None:
    print(f"\ntogether and alone, {_promise(bench)}\n{HEAD}")
    together = bench.run("sharing", "together", bench.live, compare=options.check)
    alone = bench.run("sharing", "alone", bench.live, options=PlanOptions(sharing=Sharing.NONE))
    print(*sharing(together, alone), sep="\n")


def load_step(bench: Bench, options: argparse.Namespace) -> None:
    print(f"\na load that jumps: {', '.join(f'x {factor:g}' for _, factor in STEPS)} (figure 14)\n{HEAD}")
    first, seconds = bench.live.tweets_per_s / 2, bench.seconds

    def rate(at_s: float) -> float:
        return first * next(factor for share, factor in reversed(STEPS) if at_s >= share * seconds)

    seen = bench.run(
        "step", "jumps", replace(bench.live, tweets_per_s=first, freshness_s=(20.0, 40.0, 70.0, 50.0)), rate=rate
    )
    print(f"  planned for {first:g} tweets/s; largest lag {100 * seen.worst:.0f} % of the promise")
    print("paper, 4 machines: a sharing of 50 s never above 40 s (80 %)")


def by_count(bench: Bench, options: argparse.Namespace) -> None:
    print(f"\nlargest rate that is kept, against the number of contracts; {_promise(bench)} (figure 11)\n{HEAD}")
    for count in options.counts:
        kept = _largest_rate(bench, count, options.most)
        print(
            f"  {count} contracts: {kept:g} tweets/s kept"
            + (", more were not tried" if 2 * kept > options.most else "")
        )
    print("paper, 6 machines: falls with the number of sharings, from about 8000 (20) to 2000 (50)")


def _largest_rate(bench: Bench, count: int, most: float) -> float:
    """Doubles the rate until a promise breaks; if the first one is too much, halves it some times."""
    first = kept = bench.live.tweets_per_s
    if not _keeps(bench, count, first):
        return next((first / less for less in (2, 4, 8) if _keeps(bench, count, first / less)), 0.0)
    while 2 * kept <= most and _keeps(bench, count, 2 * kept):
        kept *= 2
    return kept


def _keeps(bench: Bench, count: int, rate: float) -> bool:
    live = replace(bench.live, contracts=count, tweets_per_s=rate)
    seen = bench.run("count", f"{count} at {rate:g}/s", live)
    return seen.kept_up and not seen.refused


def next_to_peers(bench: Bench, options: argparse.Namespace) -> None:
    print(f"\nnext to computing all views anew, {_promise(bench)}\n{HEAD}")
    ours = bench.run("peers", "pushes", bench.live)
    bench.peers = list(recomputed_by_peers(bench.machine, bench.live))
    print(*peers(bench.peers, ours), sep="\n", flush=True)
    if options.flink_python is None:
        print("Flink was not asked: give a Python that has apache-flink by --flink-python")
    else:
        _next_to_flink(bench, options.flink_python, ours)


def _next_to_flink(bench: Bench, python: str, ours: Seen) -> None:
    version = flink_version(python)
    if version is None:
        print(f"there is no Flink in {python}")
        return
    tweets, alone = round(bench.live.tweets_per_s * bench.seconds), work_of(bench.live, PlanOptions())
    folder = bench.machine.folder / "flink"
    try:
        theirs = kept_by_flink(python, version, bench.live, tweets, folder, lambda text: _say(f"Flink: {text}"))
    except FlinkFailed as error:
        print(f"Flink failed: {error}")
        return
    bench.flink = theirs
    print(*flink(theirs, ours, alone), sep="\n", flush=True)


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _promise(bench: Bench) -> str:
    return f"freshness {bench.live.freshness_s[0]:g} s"


EXPERIMENTS: dict[str, Callable[[Bench, argparse.Namespace], None]] = {
    "rate": by_rate,
    "freshness": by_freshness,
    "cpu": processor_time,
    "sharing": together_and_alone,
    "step": load_step,
    "count": by_count,
    "peers": next_to_peers,
}


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench contracts", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument(
        "--quick", action="store_true", help="5 contracts of 10 s, half a minute a run, together and alone"
    )
    parser.add_argument("--only", help=f"experiments, of {','.join(EXPERIMENTS)}; of sites {','.join(APART)}")
    parser.add_argument("--sites", choices=(INSIDE, PROCESSES), default=INSIDE)
    parser.add_argument("--engine", choices=("local", "spark"), default="local", help="of sites that are processes")
    parser.add_argument("--rounds", type=int, default=2, help="how often `cost` runs each of both")
    parser.add_argument("--machines", type=_counts, default=(2, 3, 4, 5), help="numbers of machines of `machines`")
    parser.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="a table of counts over time, CSV or Parquet; else tweets of 2015 if they are there",
    )
    parser.add_argument("--contracts", type=int)
    parser.add_argument("--check", action="store_true", help="compare views with their queries after `sharing`; slow")
    parser.add_argument(
        "--rows", type=int, help="tweets that are stored before, 100000 by default; 1000000 is the full run"
    )
    parser.add_argument("--minutes", type=float, help="of each run; 3 by default")
    parser.add_argument("--rate", type=float, default=50.0, help="tweets per second")
    parser.add_argument("--rates", type=_numbers, help="of the experiment `rate`, instead of 1, 2 and 4 times --rate")
    parser.add_argument("--freshness", type=_freshness, default=tuple(FRESHNESS), help=f"of {','.join(FRESHNESS)}")
    parser.add_argument("--counts", type=_counts, default=(10, 25, 50), help="numbers of contracts of `count`")
    parser.add_argument("--most", type=float, default=1000.0, help="tweets per second up to which `count` looks")
    parser.add_argument("--record", type=Path, help="append each push of a contract to this file, as JSON")
    parser.add_argument("--plot", type=Path, metavar="FOLDER", help="draws figures")
    parser.add_argument("--flink-python", metavar="FILE", help="a Python that has apache-flink")
    options = parser.parse_args(arguments)
    options.contracts = options.contracts or (5 if options.quick else 25)
    options.minutes = options.minutes or (0.5 if options.quick else 3.0)
    options.rows = options.rows or (5_000 if options.quick else 100_000)
    options.check = options.check or options.quick
    known, quick = (APART, "cost") if options.sites == PROCESSES else (EXPERIMENTS, "sharing")
    try:
        options.only = _among(options.only, known) if options.only else (quick,) if options.quick else tuple(known)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    return options


def _freshness(text: str) -> tuple[str, ...]:
    return _among(text, FRESHNESS)


def _among(text: str, known: Mapping[str, object]) -> tuple[str, ...]:
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f'there is no "{unknown[0]}", only {", ".join(known)}')
    return names


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(map(float, text.split(",")))


def _counts(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(",")))


if __name__ == "__main__":
    main()
