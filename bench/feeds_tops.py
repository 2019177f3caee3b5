"""Is it cheaper to rank a feed's events once? The newest of each producer are kept twice: `keep` of them to be read on
read, and as many as a page shows to be stored ahead.

    apart    both are ranked from the events, as feeds are: two states of first rows, over one index of the events
    shared   the few are ranked from the many: the events are ranked once, and what comes of it is indexed by producer
    alike    as many of both, with fewer columns in one: one state, which the planner finds by itself

Each way has an engine of its own, and they take turns batch by batch; every batch is upserts of new events, and some of
old ones. What is counted are processor seconds of pushes and of upkeep, and bytes of all logs at the end. In the end
all ways have the same rows.

    python -m bench.feeds_tops [--producers 2000] [--events 100] [--batches 30] [--posts 500]
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from bench.cpu import Seconds, timed, together
from bench.engine_world import EngineWorld, inserts
from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform

SITE, KEEP, SHOWN, SEED = "us", 200, 10, 11
COLUMNS = {"producer": "string", "at": "bigint", "id": "string", "body": "string"}
AHEAD = {"consumer": "string", "producer": "string"}
BODY = "so many words as somebody says at a time, more or less, when there is something to tell "
FOLLOWERS = 5
WARM_UPS = 4
EDITED = 20
"""One of so many posts is an old event that is said again."""

RANKED = (
    "SELECT {columns} FROM (SELECT *, row_number() OVER (PARTITION BY producer ORDER BY at DESC, id DESC) AS place"
    " FROM {rows}) AS ranked WHERE place <= {limit}"
)
STORED = "SELECT a.consumer, n.producer, n.at, n.id FROM ahead a JOIN ({newest}) n ON n.producer = a.producer"


def make_catalogue(way: str, rows: int, pairs: int, rate: float) -> Catalogue:
    project = Project("tops")
    project.site(SITE, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    for name, columns, key, count in (("events", COLUMNS, ["id"], rows), ("ahead", AHEAD, list(AHEAD), pairs)):
        described = {column: {"type": type_} for column, type_ in columns.items()}
        project.source(name, at=SITE, key=key, rows=count, rate=rate if name == "events" else 1, columns=described)
    shown = KEEP if way == "alike" else SHOWN
    many = RANKED.format(columns="producer, at, id, body", rows="events", limit=KEEP)
    few = RANKED.format(columns="producer, at, id", rows="newest" if way == "shared" else "events", limit=shown)
    project.view("newest", many)
    project.view("stored", STORED.format(newest=few))
    for view in ("newest", "stored"):
        project.contract(view, view=view, at=SITE, freshness=45.0, penalty=0.001)
    return project.catalogue


class Way:
    """An engine, and what it has taken."""

    def __init__(self, name: str, folder: Path, events: pa.Table, ahead: pa.Table, rate: float) -> None:
        catalogue = make_catalogue(name, events.num_rows, ahead.num_rows, rate)
        self.name, self.pushes, self.upkeep = name, list[tuple[float, float]](), list[tuple[float, float]]()
        self.world = EngineWorld(catalogue, folder, HereRunner(perform))
        self.world.capture({"events": inserts(events), "ahead": inserts(ahead)})
        self.world.engine.load()
        self.world.keep_up()

    def run(self, rows: pa.Table) -> None:
        self.world.capture({"events": inserts(rows)})
        vertices = [self.world.vertex_of(view) for view in ("newest", "stored")]
        wanted = self.world.engine.upstream(vertices)
        for found, work in ((self.pushes, partial(self.world.push_vertices, wanted)), (self.upkeep, self._keep_up)):
            taken = timed(work, 1)
            found.append((taken.wall, taken.cpu))

    def _keep_up(self) -> None:
        self.world.keep_up()

    @property
    def bytes(self) -> int:
        logs = self.world.ledger.logs(set(self.world.program.logs)).values()
        return sum(piece.bytes for log in logs for piece in log.pieces)

    @property
    def tops(self) -> int:
        """States of first rows."""
        return sum(name.endswith("#state") for name in self.world.program.logs)

    def read(self, view: str) -> list[tuple[Any, ...]]:
        found = self.world.read_view(view)
        return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def make_events(rng: np.random.Generator, producers: np.ndarray[Any, Any], first: int) -> pa.Table:
    numbers = np.arange(len(producers)) + first
    return pa.table(
        {
            "producer": pa.array([f"p{one}" for one in producers.tolist()]),
            "at": pa.array(numbers),
            "id": pa.array([f"{one:012d}" for one in numbers.tolist()]),
            "body": pa.array([BODY + str(one) for one in rng.integers(0, 1 << 40, len(numbers)).tolist()]),
        }
    )


def compare_ways(options: argparse.Namespace, scratch: Path) -> list[Way]:
    rng = np.random.default_rng(SEED)
    first = make_events(rng, np.tile(np.arange(options.producers), options.events), 0)
    pairs = [(f"c{one}", f"p{one % options.producers}") for one in range(FOLLOWERS * options.producers)]
    ahead = pa.table(dict(zip(AHEAD, zip(*pairs, strict=True), strict=True)))
    ways = [Way(name, scratch / name, first, ahead, options.posts) for name in ("apart", "shared", "alike")]
    posted = first.num_rows
    for number in range(WARM_UPS + options.batches):
        rows = make_events(rng, rng.integers(0, options.producers, options.posts), posted)
        posted += options.posts
        again = first.take(pa.array(rng.choice(first.num_rows, max(1, options.posts // EDITED), replace=False)))
        for way in ways[number % len(ways) :] + ways[: number % len(ways)]:
            way.run(pa.concat_tables([rows, again.cast(rows.schema)]))
    assert ways[0].read("newest") == ways[1].read("newest") == ways[2].read("newest"), "all ways have the same newest"
    assert ways[0].read("stored") == ways[1].read("stored"), "both ways store the same ahead"
    return ways


def tell(ways: list[Way]) -> None:
    print(f"{'way':8} {'tops':>4} {'push':>9} {'spread':>14} {'upkeep':>9} {'both':>6} {'disk':>9}")
    total = {way.name: _mean(way.pushes) + _mean(way.upkeep) for way in ways}
    for way in ways:
        pushes = _counted(way.pushes)
        print(
            f"{way.name:8} {way.tops:4} {1000 * pushes.mean_cpu:6.1f} ms"
            f" {1000 * min(pushes.cpus):5.1f}..{1000 * max(pushes.cpus):.1f} {1000 * _mean(way.upkeep):6.1f} ms"
            f" {total[way.name] / total['apart']:6.2f} {way.bytes / 1e6:6.1f} MB"
        )
    print("push and upkeep are processor time for a batch, both are of apart; alike shows more and is not compared")


def _counted(found: list[tuple[float, float]]) -> Seconds:
    return together(found[WARM_UPS:])


def _mean(found: list[tuple[float, float]]) -> float:
    return _counted(found).mean_cpu


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.feeds_tops", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--producers", type=int, default=2000)
    parser.add_argument("--events", type=int, default=100, help="of each producer at first")
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--posts", type=int, default=500, help="of a batch")
    options = parser.parse_args()
    print(
        f"{options.producers:,} producers with {options.events} events each, {options.posts} posts a batch,"
        f" {options.batches} batches, the newest {KEEP} and {SHOWN}, seed {SEED}"
    )
    with ExitStack() as stack:
        tell(compare_ways(options, Path(stack.enter_context(tempfile.TemporaryDirectory()))))


if __name__ == "__main__":
    main()
