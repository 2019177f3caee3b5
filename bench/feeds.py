"""Is every page of a feed what SQL says about the raw events, whatever happens? And what do feeds cost?

`--check` runs `headrace up` on two feeds. People post, edit, delete, follow and leave, pairs flip between stored ahead
and on read, and readers read, mute and block over HTTP at two feed servers; every few seconds a process gets kill -9:
the service, the feeds' store, a feed server, a capture, the database of the tables, with `--engine spark` also Spark,
its daemon and its workers. All pages are kept, and are compared afterwards with DuckDB's answer on the events as of
each page's time. When something was committed is read from the logs of the sources, which must be what people wrote, in
their order.

    headrace bench feeds --check [--for 5min] [--store postgres|redis] [--engine local|spark] [--kill-every 20]
                         [--kill KIND,KIND] [--rate 12] [--readers 3] [--pause 0.01] [--seed 1] [--keep FOLDER]

All others rebuild the evaluation of Feeding Frenzy (SIGMOD 2010, section 5) on a running project, in processor seconds
of all processes but the one that makes the load:

    --table2 [--size 1.0] [--for 10min]   Table 2: loading, latency and freshness at its load     feeds_table2.py
    --capacity [--events 500]             events that can be fanned out to 15 followers each
    --ratios 1,4,16,64                    figure 4: everything ahead, nothing, or what is cheaper  feeds_ratios.py
    --skew 0.3,0.6,1.0                    figure 5: the same with rates of more or less skew
    --thresholds 0,1,3,10                 figures 6 and 7: latency and cost by push threshold      feeds_thresholds.py
    --target p95=20ms                     figure 8: the controller meets it; per pair, per consumer  feeds_target.py
    --fan-out 5,10,15,30                  figure 9: cost by followers of each producer             feeds_fan_out.py
    --flash                               figure 10: some producers post a hundred times as often  feeds_flash.py
    --burst                               the same with real events, if they are on this machine
    --peers                               rules that others use, at equal latency                  feeds_peers.py

`--size` is the part of Table 2's people, `--dense` how many times as many each follows, `--runs` how often each way is
measured in turn, `--reads` how many pages a window reads, `--rps` how many reads a second a load has, `--prices` what
things cost in microseconds (H=31,L=9,L0=0,read=840,event=120) if that is not to be measured, `--saved 0.2,0.6,0.8`
which shares of pulls are saved to compare rules for `--target`, `--plot DIR` where figures go. `--ratios` and the
others that compare ways run with `--store redis` as well, but only with the local engine, in this process.

Ends with status 1 if a page is wrong, an event is lost, or an answer is an error. Whether what the paper found, or what
was promised, is met is printed, and is no error: on a busy machine it may not be.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.feeds_calibrate import read_prices
from bench.feeds_check import report_check, run_check
from bench.feeds_fan_out import sweep_fan_outs
from bench.feeds_figures import Found, draw_figures
from bench.feeds_flash import HIGGS, read_burst, run_burst, run_flash
from bench.feeds_live import live_world
from bench.feeds_peers import compare_peers
from bench.feeds_people import PEOPLE
from bench.feeds_ratios import compare_ratios, compare_skews
from bench.feeds_table2 import CAPACITY_EVENTS_S, EVENTS_S, READS_S, run_capacity, run_table2
from bench.feeds_target import PULLS_SAVED, compare_rules, follow_target, read_target
from bench.feeds_thresholds import sweep_thresholds
from bench.feeds_ways import ways_world
from bench.feeds_world import feed_world
from bench.workloads.follows import make_follows
from headrace.declare.units import DURATION, read_amount
from headrace.plan.feeds.instance import Feeds

LIVE = {"table2": (1.0, 1.0), "target": (0.01, 10.0), "flash": (0.02, 1.0), "burst": (0.1, 1.0)}
WAYS = {"capacity": (0.1, 1.0), **dict.fromkeys(("ratios", "skew", "thresholds", "fan_out", "peers"), (0.003, 10.0))}
"""Size and density of each, if nobody says otherwise."""
FOR_S = {"check": 300.0, "table2": 600.0, "capacity": 120.0, "target": 900.0, "flash": None, "burst": 300.0}
BURST_SLICES = 20


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    sys.exit(0 if (_check(options) if options.what == "check" else _measure(options)) else 1)


def _check(options: argparse.Namespace) -> bool:
    print(
        f"{len(PEOPLE)} people, 2 feeds, {options.rate:g} changes/s, {options.readers} readers,"
        f" a kill every {options.kill_every:g} s, for {options.seconds:g} s; store {options.store}, engine"
        f" {options.engine}, seed {options.seed}, {os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}",
        flush=True,
    )
    with feed_world(options.engine, options.store) as world:
        try:
            found = run_check(world, options)
        finally:
            if options.keep is not None:
                world.stop()
                shutil.copytree(world.root, options.keep, dirs_exist_ok=True)
    return report_check(found)


def _measure(options: argparse.Namespace) -> bool:
    """Runs one of the others, and prints what was found."""
    if options.what == "burst" and not options.activity.exists():
        print(f"there are no events of a real burst: {options.activity} is missing (--activity); --flash makes one up")
        return True
    found = (_compare_ways if options.what in WAYS else _run_live)(options)
    print("", *(line for one in found for line in one.tell()), sep="\n")
    if options.plot is not None:
        for file in draw_figures([figure for one in found for figure in one.figures], options.plot):
            print(f"written: {file}")
    return not any(one.wrong for one in found)


def _compare_ways(options: argparse.Namespace) -> list[Found]:
    feeds = make_follows(np.random.default_rng(options.seed), size=options.size, dense=options.dense)
    _introduce(options, feeds, f"{options.reads} reads a window, {options.runs} runs in turn")
    runs, reads, prices, seed = options.runs, options.reads, options.prices, options.seed
    if options.what == "fan_out":
        return [sweep_fan_outs(feeds, options.fan_out, options.store, runs, reads, seed, prices, _say)]
    with ways_world(feeds, options.store) as world:
        match options.what:
            case "ratios":
                return [compare_ratios(world, options.ratios, runs, reads, prices, _say)]
            case "skew":
                return [compare_skews(world, options.skew, runs, reads, seed, prices, _say)]
            case "thresholds":
                return [sweep_thresholds(world, options.thresholds, runs, reads, prices, _say)]
            case "capacity":
                return [run_capacity(world, options.seconds, options.events, seed, _say)]
            case "peers":
                return [compare_peers(world, runs, reads, seed, prices, _say)]
            case _:
                return [compare_rules(world, options.saved, runs, reads, prices, _say)]


def _run_live(options: argparse.Namespace) -> list[Found]:
    size, rps, seconds = options.size, options.rps, options.seconds
    posts: list[tuple[float, str]] = []
    if options.what == "burst":
        feeds, posts = read_burst(options.activity, size, seconds, options.seed)
    else:
        feeds = make_follows(np.random.default_rng(options.seed), size=size, dense=options.dense)
    more = ""
    if options.what == "target":
        more = f", latency: {{{options.target[0]}: {1000 * options.target[1]:g} ms}}"
    _introduce(options, feeds, f"{rps:.0f} reads/s, engine {options.engine}")
    with live_world(options.engine, options.store, more) as world:
        match options.what:
            case "table2":
                return [run_table2(world, feeds, seconds, EVENTS_S * rps / READS_S, rps, _say)]
            case "flash":
                return [run_flash(world, feeds, rps, seconds, options.seed, _say)]
            case "burst":
                return [run_burst(world, feeds, posts, rps, seconds / BURST_SLICES, _say)]
            case _:
                found = follow_target(world, feeds, options.target, seconds, rps, _say)
    if options.engine == "spark":
        _say("what it costs to move pairs or whole consumers is measured with the local engine only: left out")
        return [found]
    return [found, *_compare_ways(options)]


def _introduce(options: argparse.Namespace, feeds: Feeds, more: str) -> None:
    _say(
        f"{len(feeds.event_rate):,} producers, {len(feeds.query_rate):,} consumers, {len(feeds):,} pairs; {more}; store"
        f" {options.store}, seed {options.seed}, {os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}"
    )


def _say(line: str) -> None:
    print(line, flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench feeds", description=(__doc__ or "").split("\n\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="compare pages with SQL while processes are killed")
    what.add_argument("--table2", action="store_true", help="Table 2 at its load: latency and freshness")
    what.add_argument("--capacity", action="store_true", help="how many events can be fanned out")
    for name, numbers, told in (
        ("ratios", "1,4,16,64", "queries per event"),
        ("skew", "0.3,0.6,1.0", "Zipf exponents of rates"),
        ("thresholds", "0,1,3,10", "push thresholds"),
        ("fan-out", "5,10,15,30", "followers of each producer"),
    ):
        usual = _read_numbers(numbers)
        what.add_argument(f"--{name}", type=_read_numbers, nargs="?", const=usual, help=f"{told}, such as {numbers}")
    what.add_argument("--target", type=read_target, help="a latency that the controller is to meet, such as p95=20ms")
    what.add_argument("--flash", action="store_true", help="some producers post a hundred times as often")
    what.add_argument("--burst", action="store_true", help="the same with real events")
    what.add_argument("--peers", action="store_true", help="rules that others use")
    _add_check_options(parser)
    parser.add_argument("--store", choices=("postgres", "redis"), default="postgres")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5, help="of each way")
    parser.add_argument("--size", type=float, help="of the paper's Table 2")
    parser.add_argument("--dense", type=float, help="how many times as many people each follows")
    parser.add_argument("--reads", type=int, default=1500, help="in a window")
    parser.add_argument("--rps", type=float, help="reads per second of a load")
    parser.add_argument("--saved", type=_read_numbers, default=PULLS_SAVED, help="shares of pulls, for --target")
    parser.add_argument("--events", type=float, default=CAPACITY_EVENTS_S, help="per second, for --capacity")
    parser.add_argument("--prices", type=read_prices, help="in microseconds: H=31,L=9,L0=0,read=840,event=120")
    parser.add_argument("--activity", type=Path, default=HIGGS, help="Parquet: src, dst, ts; for --burst")
    parser.add_argument("--plot", type=Path, metavar="DIR", help="writes figures there")
    options = parser.parse_args(arguments)
    options.what = next(name for name in ("check", *LIVE, *WAYS) if getattr(options, name) not in (None, False))
    if options.engine == "spark" and options.what in WAYS:
        parser.error(f"--{options.what.replace('_', '-')} runs with the local engine only: leave out `--engine spark`")
    size, dense = {**LIVE, **WAYS}.get(options.what, (1.0, 1.0))
    options.size, options.dense = options.size or size, options.dense or dense
    options.seconds = options.seconds or FOR_S.get(options.what)
    options.rps = options.rps or (READS_S if options.what == "table2" else 100.0)
    return options


def _add_check_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--for", dest="seconds", type=lambda text: read_amount(text, DURATION), help="how long, such as 5min"
    )
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds from one kill to the next, about")
    parser.add_argument("--kill", type=lambda text: tuple(filter(None, text.split(","))), help="kinds of processes")
    parser.add_argument("--rate", type=float, default=12.0, help="changes per second")
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between a reader's pages")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copies the project with its logs there")


def _read_numbers(text: str) -> tuple[float, ...]:
    return tuple(float(one) for one in text.split(","))


if __name__ == "__main__":
    main()
