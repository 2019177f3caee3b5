"""How many events of Nexmark does a core keep up with in a second, next to Flink and to computing anew?

A filter (q02), joins (q03, q20), an average of maxima over a join (q04) and first rows of groups over a join (q09),
each by itself. Events come as files of CSV, batch after batch, and after each batch the answer is up to date: by
Headrace on Spark and without it (with all upkeep), by Flink, which keeps its state in memory and discards the answer,
and by DuckDB in memory, which adds the batch to its tables and computes the answer anew. Reading the files is counted
for all; the first batch, in which everything starts, is not. In the end all answers are compared with DuckDB's.

    headrace bench nexmark [--events 500000] [--batches 10] [--queries q03,q09] [--make-flink | --flink-python FILE]

`--make-flink` installs Flink in an environment of its own, under ~/.cache/headrace; later runs find it there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import csv

from bench.cpu import cpu_since, processes
from bench.engine_world import EngineWorld
from bench.flink import CACHE, VERSION, FlinkFailed, flink_version, make_flink
from bench.nexmark_flink import answer_of_flink, keep_by_flink
from bench.nexmark_queries import DuckNexmark, digest_answer, read_queries, sources_of
from bench.service_spark import start_service_spark
from bench.workloads.nexmark import Nexmark, arrow_types, make_catalogue
from headrace.run.ports import Runner
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform

ON_SPARK, LOCAL, FLINK, DUCK = "Headrace on Spark", "Headrace, --engine local", "Flink", "DuckDB anew"
QUERIES = ("q02", "q03", "q04", "q09", "q20")
WARM_UP_EVENTS, WARM_UPS = 2_000, 6


@dataclass(frozen=True, slots=True)
class Feed:
    """Files of all batches, by source."""

    events: int
    batches: tuple[Mapping[str, Path], ...]

    @property
    def counted(self) -> int:
        """Events of all batches but the first."""
        return self.events * (len(self.batches) - 1)


@dataclass(slots=True)
class Found:
    """Processor seconds of each batch that counts, by query and system; `notes` are systems that were left out."""

    seconds: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    queries = {name: query for name, query in read_queries().items() if name in options.queries}
    found = Found()
    flink = _find_flink(options, found)
    with tempfile.TemporaryDirectory(dir=options.scratch) as folder:
        scratch = Path(folder)
        feed = write_feed(Nexmark(options.seed), options.events, options.batches, scratch / "feed")
        print(
            f"{options.events} events in {options.batches} batches, of which the first is not counted; seed"
            f" {options.seed}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
        digests = {name: _compute_anew(name, query, feed, found) for name, query in queries.items()}
        _measure_ours({LOCAL: HereRunner(perform)}, queries, feed, scratch, digests, found)
        if not options.without_spark:
            with start_service_spark(scratch / "spark", memory=options.memory) as spark:
                _warm_up_pushes(spark, scratch, queries)
                _measure_ours({ON_SPARK: spark}, queries, feed, scratch, digests, found)
        if flink is not None:
            _measure_flink(flink, queries, feed, scratch, digests, found)
    print("\n".join(text(feed, list(queries), found)))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=500_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--queries", type=lambda text: tuple(text.split(",")), default=QUERIES)
    parser.add_argument("--make-flink", action="store_true", help=f"install Flink in {CACHE}, if it is not there yet")
    parser.add_argument("--flink-python", metavar="FILE", help="a Python that has apache-flink")
    parser.add_argument("--without-flink", action="store_true", help="even if it is installed")
    parser.add_argument("--without-spark", action="store_true", help="Headrace with --engine local only")
    parser.add_argument("--memory", default="2g", help="of Spark's JVM")
    parser.add_argument("--scratch", type=Path, help="where files are kept meanwhile")
    options = parser.parse_args(arguments)
    if options.batches < 2:
        parser.error("there have to be at least two batches: the first is not counted")
    if unknown := set(options.queries) - set(QUERIES):
        parser.error(f"there is no query {min(unknown)}; the queries are {', '.join(QUERIES)}")
    return options


def write_feed(nexmark: Nexmark, events: int, batches: int, folder: Path) -> Feed:
    size = events // batches
    options = csv.WriteOptions(include_header=False)
    made = []
    for number in range(batches):
        files = {}
        for name, rows in nexmark.events(number * size, size).items():
            files[name] = folder / name / f"{number:04d}.csv"
            files[name].parent.mkdir(parents=True, exist_ok=True)
            csv.write_csv(rows, files[name], options)
        made.append(files)
    return Feed(size, tuple(made))


# Who keeps the answers


def _compute_anew(name: str, query: str, feed: Feed, found: Found) -> tuple[pa.Schema, tuple[int, int]]:
    """By DuckDB; its answer is the one that others are compared with."""
    _progress(f"{name}: {DUCK}")
    with DuckNexmark(name, query) as duck:
        found.seconds[name, DUCK] = _time_batches(duck.keep, feed, sources_of(query))
        answer = duck.answer()
        return answer.schema, digest_answer(answer)


def _measure_ours(
    runners: Mapping[str, Runner[Any]],
    queries: Mapping[str, str],
    feed: Feed,
    scratch: Path,
    digests: Mapping[str, tuple[pa.Schema, tuple[int, int]]],
    found: Found,
) -> None:
    for system, runner in runners.items():
        for name, query in queries.items():
            _progress(f"{name}: {system}")
            found.seconds[name, system], answer = _keep_by_pushes(runner, scratch, name, query, feed)
            _compare(name, system, answer, digests)


def _keep_by_pushes(
    runner: Runner[Any], scratch: Path, name: str, query: str, feed: Feed
) -> tuple[list[float], pa.Table]:
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world = EngineWorld(make_catalogue(name, query, feed.events * len(feed.batches)), Path(folder), runner)
        world.engine.load()

        def keep(files: Mapping[str, Path]) -> None:
            world.capture({source: _read_events(source, file) for source, file in files.items()})
            world.push(name)
            world.keep_up()

        return _time_batches(keep, feed, sources_of(query)), world.read_view(name)


def _read_events(source: str, file: Path) -> tuple[pa.Table, pa.Array]:
    """Rows and what they do: bids are only added, people and auctions have keys."""
    types = arrow_types(source)
    names = csv.ReadOptions(column_names=list(types))
    rows = csv.read_csv(file, names, convert_options=csv.ConvertOptions(column_types=types))
    # Spools hold times in UTC; the files do not say so.
    rows = rows.cast(
        pa.schema(
            [
                (name, pa.timestamp("us", "UTC") if pa.types.is_timestamp(type_) else type_)
                for name, type_ in types.items()
            ]
        )
    )
    return rows, pa.array(["i" if source == "bid" else "u"] * rows.num_rows)


def _warm_up_pushes(runner: Runner[Any], scratch: Path, queries: Mapping[str, str]) -> None:
    """The first jobs of a JVM cost several times what later ones do."""
    feed = write_feed(Nexmark(), WARM_UP_EVENTS * WARM_UPS, WARM_UPS, scratch / "warm-up")
    name = next(iter(queries))
    _keep_by_pushes(runner, scratch, name, queries[name], feed)


def _find_flink(options: argparse.Namespace, found: Found) -> tuple[str, str] | None:
    """A Python that has Flink, and the version. Looked for first: to hear of it in the end would be late."""
    if options.without_flink:
        return None
    try:
        python = options.flink_python or (make_flink() if options.make_flink else str(CACHE / "bin" / "python"))
    except FlinkFailed as error:
        sys.exit(f"error: {error}")
    version = flink_version(python)
    if version is not None:
        return python, version
    if options.flink_python is not None:
        sys.exit(
            f'error: there is no Flink in the Python "{python}"'
            f"\n  hint: install it there (pip install apache-flink=={VERSION}), or let --make-flink do that elsewhere"
        )
    found.notes.append("Flink was left out: it is not installed; --make-flink installs it")
    return None


def _measure_flink(
    flink: tuple[str, str],
    queries: Mapping[str, str],
    feed: Feed,
    scratch: Path,
    digests: Mapping[str, tuple[pa.Schema, tuple[int, int]]],
    found: Found,
) -> None:
    python, version = flink
    try:
        for name, query in queries.items():
            _progress(f"{name}: {FLINK} {version}")
            schema, _ = digests[name]
            files = [{source: batch[source] for source in sources_of(query)} for batch in feed.batches]
            found.seconds[name, FLINK] = keep_by_flink(python, name, query, schema, files, scratch / f"flink-{name}")
        _progress(f"answers of {FLINK}")
        schemas = {name: digests[name][0] for name in queries}
        for name, answer in answer_of_flink(python, queries, schemas, feed.batches, scratch / "flink-answers").items():
            _compare(name, FLINK, answer, digests)
    except FlinkFailed as error:
        sys.exit(f"error: Flink failed: {error}")


def _time_batches(keep: Callable[[Mapping[str, Path]], object], feed: Feed, sources: Sequence[str]) -> list[float]:
    """Processor seconds of all batches but the first."""
    seconds = []
    for files in feed.batches:
        before = processes()
        keep({source: files[source] for source in sources})
        seconds.append(cpu_since(before))
    return seconds[1:]


def _compare(
    name: str, system: str, answer: pa.Table, digests: Mapping[str, tuple[pa.Schema, tuple[int, int]]]
) -> None:
    schema, right = digests[name]
    mine = digest_answer(answer.select(schema.names).cast(schema))
    assert mine == right, f"{name}: {system} has {mine[0]} rows that differ from DuckDB's {right[0]}"


# Text


def text(feed: Feed, queries: Sequence[str], found: Found) -> list[str]:
    systems = [
        system for system in (ON_SPARK, LOCAL, FLINK, DUCK) if any((q, system) in found.seconds for q in queries)
    ]
    lines = [
        "events per core-second (least..largest of batches), and how many times Flink's that is (and the largest,"
        " Flink's largest: Java becomes faster as it runs)"
    ]
    lines.append(f"{'':26}" + "".join(f"{name:>18}" for name in queries))
    for system in systems:
        rates = [_rates(feed, found.seconds.get((name, system))) for name in queries]
        lines.append(f"{system:26}" + "".join(f"{mean:>18}" for mean, _ in rates))
        lines.append(f"{'':26}" + "".join(f"{spread:>18}" for _, spread in rates))
        if any((name, FLINK) in found.seconds for name in queries):
            ratios = (_ratio(found, name, system) for name in queries)
            lines.append(f"{'':26}" + "".join(f"{ratio:>18}" for ratio in ratios))
    return [*lines, f"equal answers: {', '.join(systems)}", *found.notes]


def _rates(feed: Feed, seconds: list[float] | None) -> tuple[str, str]:
    if not seconds:
        return "", ""
    least, largest = (feed.events / max(0.001, one) for one in (max(seconds), min(seconds)))
    return f"{feed.counted / max(0.001, sum(seconds)):,.0f}", f"{least:,.0f}..{largest:,.0f}"


def _ratio(found: Found, name: str, system: str) -> str:
    mine, flink = found.seconds.get((name, system)), found.seconds.get((name, FLINK))
    if not mine or not flink:
        return ""
    of_all, of_best = (least(flink) / max(0.001, least(mine)) for least in (sum, min))
    return f"{of_all:.2f}x ({of_best:.2f}x)"


def _progress(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
