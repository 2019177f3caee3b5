"""What does it cost to keep views by pushing changes, next to what people would use instead?

A two-way and a three-way join over relations of 0.1M, 1M and more rows (SMILE's proportions) are kept together, batch
after batch of 10k changed rows: by Headrace on Spark and without it, each with the upkeep that pushes cause; by DuckDB,
PostgreSQL and Spark, which compute both views anew; by DuckDB with SQL that somebody wrote to maintain them; and by
pg_ivm where it is installed. Then: what a push of one row takes, 25 small views that change quickly, thirty joins as
one job and as thirty, the first rows of groups, aggregates of groups, and window functions. What is compared is
processor time: user and system time of this process, the JVM, Python workers and servers. All have to come to the same
rows.

    headrace bench engine [--sizes 100000,1000000,5000000] [--changed 10000] [--pushes 66] [--only sizes,small]

`--quick` is 0.1M rows and few pushes: too few for all kinds of upkeep.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.cpu import Seconds, timed, together
from bench.engine_aggregates import measure_aggregates
from bench.engine_ours import ENOUGH_PUSHES, keep_by_pushes, push_one_row
from bench.engine_over import measure_windows
from bench.engine_peers import (
    Digest,
    DuckAnew,
    DuckByHand,
    Keeper,
    open_duck,
    open_pg_ivm,
    open_postgres,
    open_spark,
)
from bench.engine_results import LOCAL, ON_SPARK, Results, bars, plot, short, text
from bench.engine_small import keep_small_views
from bench.engine_together import joins_together
from bench.engine_tops import measure_tops
from bench.engine_world import Batch
from bench.service_spark import start_service_spark
from bench.workloads.tweets import COLUMNS, Tweets
from headrace.connect.spark.jobs import SparkJobs
from headrace.run.ports import Runner
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform

USUAL, QUICK = (100_000, 1_000_000), (100_000,)
CHANGED, QUICK_PUSHES = 10_000, 6
WARM_UP_ROWS, WARM_UP_CHANGED, WARM_UPS = 20_000, 1_000, 8
SMALL_BATCHES = 6
PARTS = ("sizes", "one-row", "small", "jobs", "tops", "aggregates", "windows")


@dataclass(frozen=True, slots=True)
class Setting:
    changed: int
    pushes: int
    repeats: int
    spark: SparkJobs
    scratch: Path

    @property
    def runners(self) -> Mapping[str, Runner[Any]]:
        return {ON_SPARK: self.spark, LOCAL: HereRunner(perform)}

    @property
    def cores(self) -> int:
        return os.cpu_count() or 1


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    sizes = options.sizes or (QUICK if options.quick else USUAL)
    pushes = options.pushes or (QUICK_PUSHES if options.quick else ENOUGH_PUSHES)
    results = Results(options.changed)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        with start_service_spark(scratch / "spark", memory=options.memory) as spark:
            setting = Setting(options.changed, pushes, options.repeats, spark, scratch)
            print(f"{setting.cores} cores, load {os.getloadavg()[0]:.1f}, seed {Tweets(1).seed}", flush=True)
            _measure_parts(setting, options.only, sizes, results)
    print(text(results))
    if options.plot:
        plot(results, options.plot)
        print(f"drawn: {options.plot}")
    if any(found > bar for _, found, bar in bars(results)):
        sys.exit("a bar was missed")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="0.1M rows and few pushes")
    parser.add_argument("--sizes", type=_sizes, help="rows of tweets, such as 100000,5000000")
    parser.add_argument("--changed", type=int, default=CHANGED, help="rows of a push")
    parser.add_argument("--pushes", type=int, help=f"over which upkeep is spread; {ENOUGH_PUSHES} have all kinds of it")
    parser.add_argument("--repeats", type=int, default=3, help="of what is computed anew")
    parser.add_argument("--only", type=_parts, default=PARTS, help=f"of {','.join(PARTS)}")
    parser.add_argument("--memory", default="5g", help="of the JVM")
    parser.add_argument("--scratch", type=Path, help="where tables and logs are kept meanwhile")
    parser.add_argument("--plot", type=Path, help="write a chart there")
    return parser.parse_args(arguments)


def _sizes(written: str) -> tuple[int, ...]:
    return tuple(sorted(int(size) for size in written.split(",")))


def _parts(written: str) -> tuple[str, ...]:
    parts = tuple(written.split(","))
    if unknown := [part for part in parts if part not in PARTS]:
        raise argparse.ArgumentTypeError(f"there is no part {unknown[0]}; the parts are {', '.join(PARTS)}")
    return parts


def _measure_parts(setting: Setting, only: Sequence[str], sizes: Sequence[int], results: Results) -> None:
    _warm_up_pushes(setting)
    for rows in sizes if "sizes" in only else ():
        _measure_size(setting, rows, results)
    if "one-row" in only:
        for name, runner in setting.runners.items():
            _progress(f"pushes of one row, {name}")
            tweets = Tweets(sizes[0])
            contents = {table: tweets.contents(table) for table in COLUMNS}
            results.one_row[name] = push_one_row(runner, setting.scratch, contents, tweets, setting.repeats)
    if "small" in only:
        _progress("small views")
        results.small = keep_small_views(setting.runners, setting.scratch, SMALL_BATCHES)
    if "jobs" in only:
        _progress("joins together")
        results.jobs = joins_together(setting.runners[ON_SPARK], setting.scratch, setting.repeats)
    if "tops" in only:
        _progress("first rows of groups")
        results.tops = measure_tops(setting.runners[LOCAL], setting.scratch, setting.repeats)
    if "aggregates" in only:
        print("aggregates of groups", file=sys.stderr)
        results.aggregates = measure_aggregates(setting.runners[LOCAL], setting.scratch, setting.repeats)
    if "windows" in only:
        _progress("window functions")
        results.windows = measure_windows(setting.runners[LOCAL], setting.scratch, setting.repeats)


def _warm_up_pushes(setting: Setting) -> None:
    """Compilers warm up on small tables: the first jobs of a JVM cost several times what later ones do."""
    tweets = Tweets(WARM_UP_ROWS)
    contents = {name: tweets.contents(name) for name in COLUMNS}
    batches = [tweets.batch(WARM_UP_CHANGED) for _ in range(WARM_UPS)]
    keep_by_pushes(setting.runners[ON_SPARK], setting.scratch, contents, batches)


def _measure_size(setting: Setting, rows: int, results: Results) -> None:
    tweets = Tweets(rows)
    contents = {name: tweets.contents(name) for name in COLUMNS}
    batches: list[Batch] = [tweets.batch(setting.changed) for _ in range(setting.pushes)]
    few = batches[: setting.repeats]
    with tempfile.TemporaryDirectory(dir=setting.scratch) as folder:
        right = {len(given): _find_right_rows(contents, given, setting.cores) for given in (few, batches)}
        for name, runner in setting.runners.items():
            _progress(f"{short(rows)} rows: {name}")
            results.kept[rows, name], found = keep_by_pushes(runner, Path(folder), contents, batches)
            _compare(name, found, right[len(batches)])
        for name, (opened, given) in _others(setting, contents, few, batches, Path(folder)).items():
            _progress(f"{short(rows)} rows: {name}")
            with opened() as keeper:
                results.others[rows, name] = None if keeper is None else _keep(keeper, given)
                if keeper is not None:
                    _compare(name, keeper.digests(), right[len(given)])


def _others(
    setting: Setting, contents: Mapping[str, Any], few: list[Batch], batches: list[Batch], folder: Path
) -> dict[str, tuple[Callable[[], AbstractContextManager[Keeper | None]], list[Batch]]]:
    """By name: how it is opened, and the batches that it is given."""
    duck = partial(open_duck, contents=contents, threads=setting.cores)
    return {
        "DuckDB anew, in memory": (partial(duck, DuckAnew), few),
        "DuckDB anew, on disk": (partial(duck, DuckAnew, folder=folder), few),
        "DuckDB maintained by hand, on disk": (partial(duck, DuckByHand, folder=folder), batches),
        "PostgreSQL, REFRESH": (partial(open_postgres, contents, folder / "postgres"), few),
        "PostgreSQL with pg_ivm": (partial(open_pg_ivm, contents, folder / "pg_ivm"), batches),
        "Spark anew, from Parquet": (partial(open_spark, setting.spark.session, contents, setting.cores, folder), few),
    }


def _find_right_rows(contents: Mapping[str, Any], batches: Sequence[Batch], cores: int) -> dict[str, Digest]:
    """The views after some batches, as DuckDB computes them from the tables."""
    with open_duck(DuckAnew, contents, cores) as duck:
        for batch in batches[:-1]:
            duck.take(batch)
            duck.apply_batch()
        duck.take(batches[-1])
        duck.keep()
        return duck.digests()


def _keep(keeper: Keeper, batches: Sequence[Batch]) -> Seconds:
    """The first batch is left out if there are more: by then everything is warm."""
    found = []
    for batch in batches:
        keeper.take(batch)
        seconds = timed(keeper.keep, 1)
        found.append((seconds.wall, seconds.cpu))
    return together(found[1:] or found)


def _compare(name: str, found: Mapping[str, Digest], right: Mapping[str, Digest]) -> None:
    for view, digest in right.items():
        assert found[view] == digest, f'{name}: "{view}" has {found[view][0]} rows, {digest[0]} are right'


def _progress(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
