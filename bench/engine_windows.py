"""Does a push of one row cost the sessions or the neighbours that it touches, or all that the tables hold?

    tumbling   counts per key and ten minutes: what any group-by costs
    sessions   counts per key and session, with gaps of ten minutes
    near       orders joined with visits of the two minutes before, without an equality

Each at two sizes, ten times apart, next to DuckDB computing the answer anew. In the end answers are compared.

    python -m bench.engine_windows [--rows 100000] [--pushes 12]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.cpu import Seconds, timed, together
from bench.engine_world import EngineWorld, inserts
from bench.workloads.tweets import SITE
from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.run.push.items import HereRunner
from headrace.run.push.perform import perform
from headrace.run.rows.arrow import rows_of_arrow
from headrace.testing.engines import difference

KEYS, WARM_UPS, SEED = 1_000, 2, 7
VIEW = "kept"
COLUMNS = {"id": "bigint", "who": "bigint", "seen": "timestamp"}
OURS = {
    "tumbling": "SELECT who, window.start AS begun, count(*) AS n FROM visits GROUP BY who, window(seen, '10 minutes')",
    "sessions": "SELECT who, session_window.start AS begun, count(*) AS n FROM visits "
    "GROUP BY who, session_window(seen, '10 minutes')",
    "near": "SELECT o.id, v.id AS visit FROM orders o JOIN visits v "
    "ON v.seen BETWEEN o.seen - INTERVAL '2 minutes' AND o.seen",
}
_FIRST = "seen - lag(seen) OVER (PARTITION BY who ORDER BY seen) > INTERVAL 10 MINUTE"
_SESSIONS = f"SELECT *, coalesce({_FIRST}, FALSE) AS begins FROM visits"
_BEFORE = "OVER (PARTITION BY who ORDER BY seen ROWS UNBOUNDED PRECEDING)"
_NUMBERED = f"SELECT *, sum(begins::int) {_BEFORE} AS s FROM ({_SESSIONS})"
THEIRS = {
    "tumbling": "SELECT who, time_bucket(INTERVAL 10 MINUTE, seen) AS begun, count(*) AS n FROM visits GROUP BY ALL",
    "sessions": f"SELECT who, min(seen) AS begun, count(*) AS n FROM ({_NUMBERED}) GROUP BY who, s",
    "near": "SELECT o.id, v.id AS visit FROM orders o JOIN visits v "
    "ON v.seen BETWEEN o.seen - INTERVAL 2 MINUTE AND o.seen",
}


@dataclass(frozen=True, slots=True)
class WindowCost:
    """Seconds to load, of a push of one row, and of DuckDB's answer anew."""

    load: Seconds
    push: Seconds
    anew: Seconds


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--pushes", type=int, default=12)
    options = parser.parse_args(arguments)
    print(f"rows of each table, seed {SEED}     load      push of one row   DuckDB anew")
    for name in OURS:
        for rows in (options.rows // 10, options.rows):
            cost = measure_windows(name, rows, options.pushes)
            times = f"{cost.load.wall:7.2f} s   {1000 * cost.push.wall:7.1f} ms   {1000 * cost.anew.wall:14.1f} ms"
            print(f"{name:10} {rows:12,}          {times}", flush=True)


def measure_windows(name: str, rows: int, pushes: int) -> WindowCost:
    """Loads tables, pushes one row after another, and compares the view with DuckDB's answer."""
    random = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(":memory:") as duck:
        duck.execute("SET TimeZone = 'UTC'")
        world = EngineWorld(_make_catalogue(name, rows), Path(folder), HereRunner(perform))
        first = {table: _make_rows(np.arange(rows), rows, random) for table in ("orders", "visits")}
        for table, contents in first.items():
            duck.execute(f"CREATE TABLE {table} (id BIGINT, who BIGINT, seen TIMESTAMP)")
            _insert(duck, table, contents)
        world.capture({table: inserts(contents) for table, contents in first.items() if table in world_tables(name)})
        load = timed(world.engine.load, 1)
        world.keep_up()
        found = list[tuple[float, float]]()
        for number in range(WARM_UPS + pushes):
            row = _make_rows(np.array([rows + number]), rows, random)
            _insert(duck, "visits", row)
            world.capture({"visits": inserts(row)})
            seconds = timed(partial(world.push, VIEW), 1)
            found.append((seconds.wall, seconds.cpu))
            world.keep_up()
        anew = timed(partial(duck.execute, f"CREATE OR REPLACE TABLE answer AS {THEIRS[name]}"), 2)
        _compare(world, duck)
        return WindowCost(load, together(found[WARM_UPS:]), anew)


def world_tables(name: str) -> tuple[str, ...]:
    """The tables that a view reads: nothing else is captured."""
    return ("orders", "visits") if name == "near" else ("visits",)


def _make_catalogue(name: str, rows: int) -> Catalogue:
    project = Project("windows")
    project.site(SITE, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    described: Mapping[str, dict[str, str]] = {column: {"type": type_} for column, type_ in COLUMNS.items()}
    for table in world_tables(name):
        project.source(table, kind="table", at=SITE, key=["id"], rows=rows, rate=1, columns=dict(described))
    project.view(VIEW, OURS[name])
    project.contract(VIEW, view=VIEW, at=SITE, freshness=60.0, penalty=0.001)
    return project.catalogue


def _make_rows(ids: npt.NDArray[np.int64], rows: int, random: np.random.Generator) -> pa.Table:
    """A row a minute on average, whichever the size: neighbours are as many in large tables as in small ones."""
    instants = random.integers(0, rows * 60_000_000, len(ids)) + 1_700_000_000_000_000
    return pa.table({"id": ids, "who": ids % KEYS, "seen": pa.array(instants).cast(pa.timestamp("us", "UTC"))})


def _insert(duck: duckdb.DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    duck.register("more", rows)
    duck.execute(f"INSERT INTO {table} SELECT id, who, seen FROM more")
    duck.unregister("more")


def _compare(world: EngineWorld, duck: duckdb.DuckDBPyConnection) -> None:
    theirs = duck.sql("SELECT * FROM answer").to_arrow_table()
    ours = world.read_view(VIEW).select(theirs.column_names)
    found = difference(rows_of_arrow(theirs), rows_of_arrow(ours))
    assert found is None, f"the view is not what DuckDB computes: {found[:500]}"


if __name__ == "__main__":
    main()
