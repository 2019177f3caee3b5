"""Is every page of a feed what SQL says about the raw events, whatever happens? And what do feeds cost?

`--check` runs `headrace up` on two feeds. People post, edit, delete, follow and leave, pairs flip between stored ahead
and on read, and readers read, mute and block over HTTP; every few seconds a process gets kill -9: the service, the
feeds' store, a capture, the database of the tables, with `--engine spark` also Spark, its daemon and its workers. All
pages are kept, and are compared afterwards with DuckDB's answer on the events as of each page's time. When something
was committed is read from the logs of the sources, which must be what people wrote, in their order.

    headrace bench feeds --check [--for 5min] [--store postgres|redis] [--engine local|spark] [--kill-every 20]
                         [--kill KIND,KIND] [--rate 12] [--readers 3] [--pause 0.01] [--seed 1] [--keep FOLDER]

Ends with status 1 if a page differs, a change is lost, or an answer is an error.

`--ratios` compares storing everything ahead, nothing, and what is cheaper for each pair, in processor seconds of all
processes at so many queries per event (`bench/feeds_ratios.py`).

    headrace bench feeds --ratios 1,4,16,64 [--runs 5] [--size 0.01] [--reads 1200] [--seed 1]
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.feeds_check import report_check, run_check
from bench.feeds_people import PEOPLE
from bench.feeds_ratios import measure_ratios, ratio_world, tell_ratios
from bench.feeds_world import feed_world
from headrace.declare.units import DURATION, read_amount


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left then either
    sys.exit(0 if (_check(options) if options.check else _compare_costs(options)) else 1)


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


def _compare_costs(options: argparse.Namespace) -> bool:
    with ratio_world(options.size, options.seed) as world:
        feeds = world.feeds
        print(
            f"{len(feeds.event_rate)} producers, {len(feeds.query_rate)} consumers, {len(feeds)} pairs;"
            f" {options.reads} reads a window, {options.runs} runs, seed {options.seed}, {os.cpu_count()} cores,"
            f" load before {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        measured = measure_ratios(
            world, options.ratios, options.runs, options.reads, lambda line: print(line, flush=True)
        )
    print(*tell_ratios(measured, options.ratios), sep="\n")
    return True


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="headrace bench feeds", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="compare pages with SQL while processes are killed")
    parser.add_argument(
        "--for",
        dest="seconds",
        type=lambda text: read_amount(text, DURATION),
        default=300.0,
        help="how long, such as 5min",
    )
    parser.add_argument("--store", choices=("postgres", "redis"), default="postgres")
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--kill-every", type=float, default=20.0, help="seconds from one kill to the next, about")
    parser.add_argument("--kill", type=lambda text: tuple(filter(None, text.split(","))), help="kinds of processes")
    parser.add_argument("--rate", type=float, default=12.0, help="changes per second")
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument("--pause", type=float, default=0.01, help="seconds between a reader's pages")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="copies the project with its logs there")
    parser.add_argument("--ratios", type=_read_ratios, help="queries per event, such as 1,4,16,64")
    parser.add_argument("--runs", type=int, default=5, help="of each way at each ratio")
    parser.add_argument("--size", type=float, default=0.01, help="of the paper's Table 2")
    parser.add_argument("--reads", type=int, default=1200, help="in a window")
    options = parser.parse_args(arguments)
    if options.check == (options.ratios is not None):
        parser.error("say what to do: --check, or --ratios")
    return options


def _read_ratios(text: str) -> tuple[float, ...]:
    return tuple(float(one) for one in text.split(","))


if __name__ == "__main__":
    main()
