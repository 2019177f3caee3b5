"""From what size on is pushing changes cheaper than recomputing a view, compared with other systems?

Views of two and three relations of up to 7 million rows (SMILE's proportions), in batches of 1k to 100k changed rows,
next to Spark, PostgreSQL (REFRESH MATERIALIZED VIEW) and DuckDB, which compute the same views anew over the same rows.
Then: thirty joins as one job and as thirty, and how often a changed byte is written. Compare processor time: user and
system time of this process, the JVM, Python workers and servers.

    headrace bench engine [--quick] [--long] [--repeats 5] [--plot FILE]

A push takes changes from the spool to the view: it finds old rows, keeps indexes, and stores the result.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from bench.cpu import Seconds, cpu_since, processes, timed, together
from bench.engine_peers import Recompute, duck, postgres, spark_cached, spark_parquet
from bench.engine_results import Results, bars, plot, short, text
from bench.engine_together import joins_together
from bench.engine_world import EngineWorld, inserts
from bench.workloads.tweets import COLUMNS, ONE_ROW_FOR_EACH, VIEWS, Tweets, make_catalogue, rows_of
from headrace.connect.spark.items import SparkRunner, warm_up
from headrace.connect.spark.properties import SparkSettings
from headrace.connect.spark.session import start_session
from headrace.run.push.perform import perform

QUICK, USUAL, LONG = (100_000, 1_000_000), (100_000, 1_000_000, 7_000_000), (100_000, 1_000_000, 7_000_000, 40_000_000)
DELTAS = (1_000, 10_000, 100_000)
WRITE_ROWS, WRITE_DELTA, WRITE_PUSHES = 1_000_000, 10_000, 40
WARM_UPS = 8


@dataclass(frozen=True, slots=True)
class Setting:
    sizes: tuple[int, ...]
    repeats: int
    session: SparkSession
    scratch: Path

    @property
    def runner(self) -> SparkRunner[object]:
        return SparkRunner(self.session, perform)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    sizes = options.sizes or (QUICK if options.quick else LONG if options.long else USUAL)
    results = Results()
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        session = start_session(SparkSettings(scratch / "spark", memory=options.memory))
        setting = Setting(sizes, options.repeats, session, scratch)
        print(
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; Spark's workers warm in {warm_up(session):.1f} s"
        )
        try:
            _warm_up_pushes(setting)
            for rows in sizes:
                _measure_size(setting, rows, results)
            results.jobs = joins_together(setting.runner, scratch, options.repeats)
            results.writes = _writes(setting)
        finally:
            session.stop()
    print(text(results))
    if options.plot:
        plot(results, options.plot)
        print(f"drawn: {options.plot}")
    if any(found > bar for _, found, bar in bars(results)):
        sys.exit("a bar was missed")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="0.1M and 1M rows only")
    parser.add_argument("--long", action="store_true", help="40M rows as well; needs 60 GB of disk")
    parser.add_argument("--sizes", type=_sizes, help="rows of tweets, such as 100000,7000000")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory", default="5g", help="of the JVM; what does not fit there is cached on disk")
    parser.add_argument("--scratch", type=Path, help="where tables and logs are kept meanwhile")
    parser.add_argument("--plot", type=Path, help="write a chart there")
    return parser.parse_args(arguments)


def _sizes(written: str) -> tuple[int, ...]:
    return tuple(sorted(int(size) for size in written.split(",")))


def _warm_up_pushes(setting: Setting) -> None:
    """Compilers warm up on small tables: the first jobs of a JVM cost several times what later ones do."""
    with _loaded(setting, 20_000) as (world, tweets):
        for _ in range(WARM_UPS):
            world.capture(tweets.batch(1_000))
            for view in VIEWS:
                world.push(view)


def _measure_size(setting: Setting, rows: int, results: Results) -> None:
    _progress(f"{short(rows)} rows: pushes")
    with _loaded(setting, rows, results) as (world, tweets):
        for delta in (delta for delta in DELTAS if delta <= rows / 4):
            found = [_one_batch(world, tweets, delta) for _ in range(setting.repeats)]
            for view in VIEWS:
                results.pushes[rows, delta, view] = together([one[view] for one in found])
                _progress(f"  {short(delta)} changed, {view}: {results.pushes[rows, delta, view].cpu:.2f} cpu s")
    for name, peer in _peers(setting, rows).items():
        _progress(f"{short(rows)} rows: {name}")
        with peer() as recompute:
            for view, query in VIEWS.items():
                results.recomputed[rows, name, view] = _recomputed(recompute, query, rows, setting.repeats)
                _progress(f"  {view}: {results.recomputed[rows, name, view].cpu:.2f} cpu s")


def _recomputed(recompute: Recompute, query: str, rows: int, repeats: int) -> Seconds:
    """What is large is repeated less: by then the smaller sizes have warmed everything up."""
    for _ in range(3 if rows < 500_000 else 1 if rows <= 1_000_000 else 0):
        recompute(query)
    return timed(lambda: recompute(query), repeats if rows <= 1_000_000 else min(repeats, 2))


@contextmanager
def _loaded(setting: Setting, rows: int, results: Results | None = None) -> Iterator[tuple[EngineWorld, Tweets]]:
    with tempfile.TemporaryDirectory(dir=setting.scratch) as folder:
        tweets = Tweets(rows)
        world = EngineWorld(make_catalogue(rows), Path(folder), setting.runner)
        world.capture({name: inserts(tweets.contents(name)) for name in COLUMNS})
        wall, before = time.perf_counter(), processes()
        world.engine.load()
        world.keep_up()
        for view, relation in ONE_ROW_FOR_EACH.items():
            assert world.rows_at_start(view) == rows_of(relation, rows), f'"{view}" is wrong'
        if results is not None:
            results.loads[rows] = time.perf_counter() - wall, cpu_since(before), _largest_worker()
            _progress("  loaded in {:.1f} s, {:.1f} cpu s, {:.2f} GB".format(*results.loads[rows]))
        yield world, tweets


def _largest_worker() -> float:
    """GB that any Python worker of this process has ever had in memory, mapped files included."""
    found = [0.0]
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if b"pyspark" in (folder / "cmdline").read_bytes() and _descends(int(folder.name)):
                    found += [
                        int(line.split()[1]) / 1e6
                        for line in (folder / "status").read_text().splitlines()
                        if line.startswith("VmHWM")
                    ]
            except OSError:  # ended meanwhile
                continue
    return max(found)


def _descends(process: int) -> bool:
    while process > 1 and process != os.getpid():
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return process == os.getpid()


def _one_batch(world: EngineWorld, tweets: Tweets, delta: int) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds by view; a later view takes what an earlier one has made."""
    world.capture(tweets.batch(delta))
    found = {}
    for view in VIEWS:
        seconds = timed(partial(world.push, view), 1)
        found[view] = seconds.wall, seconds.cpu
    world.keep_up()
    return found


def _peers(setting: Setting, rows: int) -> dict[str, Callable[[], AbstractContextManager[Recompute]]]:
    """In this order: what Spark caches is what it has read from Parquet."""
    contents = Tweets(rows).contents
    folder = setting.scratch / f"parquet-{rows}"
    folder.mkdir()
    cores = os.cpu_count() or 1
    return {
        "Spark, Parquet": lambda: spark_parquet(setting.session, contents, folder),
        "Spark, cached": lambda: spark_cached(setting.session),
        "PostgreSQL": lambda: postgres(contents, setting.scratch / f"postgres-{rows}", VIEWS),
        "DuckDB": lambda: duck(contents, cores),
    }


def _writes(setting: Setting) -> dict[str, float]:
    """Bytes written for each byte of changes, of all logs of the plan, in many pushes with all upkeep between them."""
    _progress("bytes written")
    with _loaded(setting, WRITE_ROWS) as (world, tweets):
        world.note_written()
        world.written.clear()
        for _ in range(WRITE_PUSHES):
            world.capture(tweets.batch(WRITE_DELTA))
            for view in VIEWS:
                world.push(view)
            world.note_written()
            world.keep_up()
        changes, runs, bases = (world.written.get(kind, 0) for kind in ("change", "run", "base"))
        return {"runs and their merges": runs / changes, "bases": bases / changes, "state": (runs + bases) / changes}


def _progress(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
