"""First rows of groups: what a push takes, next to DuckDB computing all groups anew over the same rows.

    many groups    the ten rows with the most points in each of 100k groups, at 0.3M and 1M rows, 10k changed rows
    large groups   100 new rows into 20 groups of 20 rows, and into 20 groups of 15,000

After the pushes, the view is compared with DuckDB's answer.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.cpu import Seconds, timed, together
from bench.engine_world import EngineWorld, inserts
from bench.workloads.tweets import SITE
from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.run.ports import Runner
from headrace.run.rows.arrow import rows_of_arrow
from headrace.testing.engines import difference

SIZES, GROUPS, CHANGED = (300_000, 1_000_000), 100_000, 10_000
FEW_GROUPS, SMALL, LARGE, NEW = 20, 20, 15_000, 100
WARM_UPS, SMALL_PUSHES = 2, 6
VIEW = "best"
QUERY = (
    "SELECT id, team, points, name FROM"
    " (SELECT *, row_number() OVER (PARTITION BY team ORDER BY points DESC, id) AS place FROM scores) AS ranked"
    " WHERE place <= 10"
)
COLUMNS = {"id": "bigint", "team": "bigint", "points": "double", "name": "string"}


@dataclass(slots=True)
class TopResults:
    """`pushes` of 10k changed rows and DuckDB's `anew`, by rows; pushes of `new_rows`, by the size of groups."""

    pushes: dict[int, Seconds] = field(default_factory=dict)
    anew: dict[int, Seconds] = field(default_factory=dict)
    new_rows: dict[int, Seconds] = field(default_factory=dict)


@dataclass
class Scores:
    """Rows of groups of one size, and changes of them; all follows from a seed."""

    rows: int
    groups: int

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(7)
        self._next = self.rows

    def contents(self) -> pa.Table:
        return self._make_rows(np.arange(self.rows))

    def batch(self, size: int, come: int) -> tuple[pa.Table, pa.Array]:
        """Rows and operations: so many rows come, the others are replaced, but for every fifth, which goes."""
        touched = self._rng.choice(self.rows, size - come, replace=False)
        keys = np.concatenate([np.arange(come) + self._next, touched])
        self._next += come
        operations = np.where(np.arange(size) < size - (size - come) // 5, "u", "d")
        return self._make_rows(keys), pa.array(operations)

    def _make_rows(self, keys: npt.NDArray[np.int64]) -> pa.Table:
        points = self._rng.uniform(0, 1000, len(keys)).round(2)
        names = pa.array(self._rng.integers(0, 1 << 40, len(keys))).cast(pa.string())
        return pa.table({"id": keys, "team": keys % self.groups, "points": points, "name": names})


def measure_tops(runner: Runner[Any], scratch: Path, repeats: int) -> TopResults:
    results = TopResults()
    for rows in SIZES:
        found = measure_pushes(runner, scratch, Scores(rows, GROUPS), (CHANGED, CHANGED // 2), repeats)
        results.pushes[rows], results.anew[rows] = found
    for size in (SMALL, LARGE):
        scores = Scores(FEW_GROUPS * size, FEW_GROUPS)
        # Such a push takes a few ticks of the processor's clock: many are added up.
        results.new_rows[size], _ = measure_pushes(runner, scratch, scores, (NEW, NEW), SMALL_PUSHES * repeats)
    return results


def make_catalogue(rows: int, query: str = QUERY) -> Catalogue:
    project = Project("tops")
    project.site(SITE, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    described = {column: {"type": type_} for column, type_ in COLUMNS.items()}
    project.source("scores", at=SITE, key=["id"], rows=rows, rate=100, columns=described)
    project.view(VIEW, query)
    project.contract(VIEW, view=VIEW, at=SITE, freshness=45.0, penalty=0.001)
    return project.catalogue


def measure_pushes(
    runner: Runner[Any], scratch: Path, scores: Scores, changed: tuple[int, int], repeats: int, query: str = QUERY
) -> tuple[Seconds, Seconds]:
    """A push of changed rows, of which some come; and all rows anew, by DuckDB. Both have stored the same answer."""
    threads = os.cpu_count() or 1
    with (
        tempfile.TemporaryDirectory(dir=scratch) as folder,
        duckdb.connect(":memory:", config={"threads": threads}) as duck,
    ):
        world = EngineWorld(make_catalogue(scores.rows, query), Path(folder), runner)
        first = scores.contents()
        duck.execute("CREATE TABLE scores (id BIGINT, team BIGINT, points DOUBLE, name TEXT)")
        duck.from_arrow(first).insert_into("scores")
        world.capture({"scores": inserts(first)})
        world.engine.load()
        world.keep_up()
        found = list[tuple[float, float]]()
        for _ in range(WARM_UPS + repeats):
            rows, operations = scores.batch(*changed)
            _replace_rows(duck, rows, operations)
            world.capture({"scores": (rows, operations)})
            seconds = timed(partial(world.push, VIEW), 1)
            found.append((seconds.wall, seconds.cpu))
            world.keep_up()
        recompute = partial(duck.execute, f"CREATE OR REPLACE TABLE answer AS {query}")
        recompute()
        anew = timed(recompute, repeats)
        _compare_answers(world, duck)
        return together(found[WARM_UPS:]), anew


def _replace_rows(duck: duckdb.DuckDBPyConnection, rows: pa.Table, operations: pa.Array) -> None:
    duck.register("changed", rows.append_column("operation", operations))
    duck.execute("DELETE FROM scores WHERE id IN (SELECT id FROM changed)")
    duck.execute("INSERT INTO scores SELECT id, team, points, name FROM changed WHERE operation = 'u'")
    duck.unregister("changed")


def _compare_answers(world: EngineWorld, duck: duckdb.DuckDBPyConnection) -> None:
    theirs = duck.sql("SELECT * FROM answer").to_arrow_table()
    ours = world.read_view(VIEW).select(theirs.column_names)
    first = theirs.column_names[0]
    if ours.sort_by(first).cast(theirs.schema).equals(theirs.sort_by(first)):
        return
    found = difference(rows_of_arrow(theirs), rows_of_arrow(ours))
    assert found is None, f"the view is not what DuckDB computes: {found[:500]}"
