"""How much cheaper is placing each small view by itself than running all of them in the cloud, and how far does it
scale?

RACE's experiments 1 and 2 (VLDB 2013, section 5.3) on friendships made from a seed, and on public graphs with rates
from the GeoLife trace where these files are: the factor over everything in the cloud for download / upload prices
from 2.0 to 0.2; seconds and memory for up to 100 million view ends; the minimum cuts that the paper compares with, in
both readings; and the command from its start to the written table.

    python -m bench.place [--users 100000] [--friendships 8600000] [--largest 100000000] [--plot DIR] [--seed 1]
    python -m bench.place --users 2000 --friendships 60000 --largest 1000000      # a minute

Every cost is checked to be proven optimal, and every baseline to find the same cost.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from bench.place_baselines import compare
from bench.place_plots import plot
from bench.place_results import Baseline, Command, Factor, Results, Scale
from bench.workloads.friends import MEAN_FRIENDS, RATES, geolife_draw, make_friends, real_graphs, with_rates
from headrace.plan.place.pairs import Pairs, find_wanted_twice
from headrace.plan.place.several import added_downloads
from headrace.plan.place.single import decide_pairs
from headrace.plan.place.tables import uniform_star
from headrace.plan.place.threshold import local_thresholds

DOWN_PER_UP = ("2", "1", "0.8", "0.5", "0.2")
PAPER = {"2": 3.5, "0.2": 7.3}
SMALL_USERS, SMALL_FRIENDSHIPS = 20_000, 186_000
SAMPLE = 4

LAUNCH = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
subprocess.run(sys.argv[1:], check=True)
print(json.dumps([time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024]))
"""
"""Runs a command and tells its seconds and peak. A small process in between: a peak starts with that of the parent."""


def main() -> None:
    options = _options()
    if options.measure:
        users, friendships = map(int, options.measure.split(","))
        print(json.dumps(_measured(users, friendships, options.seed)))
        return
    results = Results(
        seed=options.seed,
        factors=tuple(_all_factors(options)),
        scales=tuple(_scales(options.largest, options.seed)),
        baselines=_baselines(options.users, options.seed),
        commands=tuple(_commands(options)),
    )
    print(text(results))
    for file in plot(results, options.plot) if options.plot else ():
        print(f"drawn: {file}")
    if not all(factor.optimal for factor in results.factors) or not all(one.same_cost for one in results.baselines):
        sys.exit("a cost was not proven, or a baseline found another one")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--friendships", type=int, default=8_600_000)
    parser.add_argument("--largest", type=int, default=100_000_000, help="view ends of the largest scale")
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[2] / "shared" / "data")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    return parser.parse_args()


# Experiment 1: the factor over everything in the cloud


def _all_factors(options: argparse.Namespace) -> Iterator[Factor]:
    for name, draw in RATES.items():
        pairs = make_friends(options.users, options.friendships, options.seed, draw)
        yield from _factors(name, pairs, options.users, PAPER)
    by_hour = geolife_draw(options.data / "trajectories" / "geolife_points.parquet")
    if by_hour is None:
        return
    for name, a, b in real_graphs(options.data / "graphs"):
        pairs = with_rates(a, b, by_hour, np.random.default_rng(options.seed))
        yield from _factors(f"{name}, GeoLife", pairs, int(max(a.max(), b.max())) + 1, {})


def _factors(workload: str, pairs: Pairs, devices: int, paper: dict[str, float]) -> Iterator[Factor]:
    for ratio in DOWN_PER_UP:
        star, _ = uniform_star(devices, 1, Fraction(ratio))
        started = time.perf_counter()
        decided = decide_pairs(pairs, star)
        seconds = time.perf_counter() - started
        limit = local_thresholds(pairs, star, *added_downloads(pairs)).limit
        yield Factor(
            workload,
            float(ratio),
            decided.all_cloud_cost / decided.cost,
            decided.twice_bound == 2 * decided.cost,
            decided.method,
            seconds,
            *_components(pairs, limit, devices),
            paper.get(ratio),
        )


def _components(pairs: Pairs, limit: np.ndarray[tuple[int], np.dtype[np.int64]], devices: int) -> tuple[int, int]:
    """How many groups of devices want the same views, and how many of these groups are trees."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    found = find_wanted_twice(pairs, limit)
    a, b = pairs.a[found], pairs.b[found]
    graph = coo_array((np.ones(len(a), np.int8), (a, b)), shape=(devices, devices))
    group = connected_components(graph, directed=False)[1]
    size, joined = np.bincount(group), np.bincount(group[a], minlength=group.max() + 1)
    return int((joined > 0).sum()), int(((joined == size - 1) & (joined > 0)).sum())


# Scale


def _scales(largest: int, seed: int) -> Iterator[Scale]:
    for share in (0.1, 0.2, 0.5, 1.0):
        friendships = int(largest * share) // 2
        users = max(1000, int(2 * friendships / MEAN_FRIENDS))
        command = [sys.executable, "-m", "bench.place", "--measure", f"{users},{friendships}", "--seed", str(seed)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
        yield Scale(**json.loads(answer.stdout))


def _measured(users: int, friendships: int, seed: int) -> dict[str, float]:
    """In a process of its own, whose peak is then that of the decision over its input: making the input needs less."""
    pairs = make_friends(users, friendships, seed)
    star, _ = uniform_star(users, 1, 1)
    started = time.perf_counter()
    decided = decide_pairs(pairs, star)
    seconds = time.perf_counter() - started
    assert decided.twice_bound == 2 * decided.cost
    ends = 2 * len(pairs)
    return {"ends": ends, "devices": users, "seconds": seconds, "bytes_per_end": _peak_bytes() / ends}


def _peak_bytes() -> int:
    # Not getrusage, whose peak starts with that of the process which started this one.
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


# Experiment 2: minimum cuts, and the whole command


def _baselines(users: int, seed: int) -> tuple[Baseline, ...]:
    users = min(users, SMALL_USERS)
    friendships = SMALL_FRIENDSHIPS * users // SMALL_USERS
    return compare(make_friends(users, friendships, seed), users, SAMPLE, seed)


def _commands(options: argparse.Namespace) -> Iterator[Command]:
    small = min(options.users, SMALL_USERS)
    yield _command(small, SMALL_FRIENDSHIPS * small // SMALL_USERS, options.seed)
    yield _command(options.users, options.friendships, options.seed)


def _command(users: int, friendships: int, seed: int) -> Command:
    import pyarrow as pa
    from pyarrow import parquet as pq

    pairs = make_friends(users, friendships, seed)
    with tempfile.TemporaryDirectory() as folder:
        file, out = Path(folder) / "pairs.parquet", Path(folder) / "out.parquet"
        columns = {"a": pairs.a, "b": pairs.b, "rate_ab": pairs.rate_a, "rate_ba": pairs.rate_b}
        pq.write_table(pa.table(columns), file)
        del columns
        command = [sys.executable, "-m", "headrace", "place", str(file), "--up", "1", "--down", "0.5"]
        ran = subprocess.run(
            [sys.executable, "-c", LAUNCH, *command, "--out", str(out), "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
    answer, (wall, peak) = (json.loads(line) for line in ran.stdout.splitlines())
    assert answer["optimal"]
    return Command(answer["pairs"], answer["devices"], wall, answer["seconds"], peak)


# Text


def text(results: Results) -> str:
    lines = [f"seed {results.seed}", "", "all in the cloud / best placement, by download / upload price"]
    lines.append(f"  {'workload':32}{'ratio':>6}{'factor':>8}{'paper':>7}{'groups':>9}{'trees':>9}{'s':>8}  proven")
    for one in results.factors:
        paper = "" if one.paper is None else f"{one.paper:.1f}"
        lines.append(
            f"  {one.workload:32}{one.down_per_up:>6}{one.factor:>8.2f}{paper:>7}"
            f"{one.components:>9,}{one.trees:>9,}{one.seconds:>8.2f}  {'yes' if one.optimal else 'NO'}"
        )
    lines += ["", "deciding, up = down, each size in its own process"]
    lines.append(f"  {'view ends':>12}{'devices':>10}{'s':>9}{'ns/end':>8}{'bytes/end':>11}")
    lines += [
        f"  {s.ends:>12,}{s.devices:>10,}{s.seconds:>9.2f}{s.seconds / s.ends * 1e9:>8.0f}{s.bytes_per_end:>11.1f}"
        for s in results.scales
    ]
    lines += ["", "the same placement by minimum cuts (paper: 3.2 s against 4.75 h)"]
    lines.append(f"  {'method':40}{'measured':>9}{'s/device':>11}{'s for all':>12}  same cost")
    for b in results.baselines:
        note = " (extrapolated)" if b.extrapolated else ""
        same = "yes" if b.same_cost else "NO"
        lines.append(f"  {b.name:40}{b.sample:>9,}{b.seconds_per_device:>11.2g}{b.seconds:>12.3f}  {same}{note}")
    lines += ["", "headrace place PAIRS.parquet --out OUT.parquet, from start to end"]
    lines.append(f"  {'pairs':>12}{'devices':>10}{'wall s':>9}{'deciding s':>12}{'peak MB':>9}")
    lines += [
        f"  {c.pairs:>12,}{c.devices:>10,}{c.wall_s:>9.2f}{c.decision_s:>12.3f}{c.peak_bytes / 1e6:>9.0f}"
        for c in results.commands
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
