"""Many small views that change quickly: is it worth while to maintain what is computed anew in no time?

25 joins (SMILE's Table 1) of relations with 20k tweets, at one site, with 500 changed rows a second and contracts of
10 s: all views are pushed every 8 s, or refreshed by PostgreSQL as often. How many cores does that take?
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa

from bench.contracts_changes import changed_rows, stored_rows
from bench.cpu import Seconds, cpu_since, processes, timed, together
from bench.engine_peers import Digest, copy_rows, digest_table, fetch_rows, run_server
from bench.engine_world import Batch, EngineWorld, inserts
from bench.workloads.live_table1 import Live
from bench.workloads.table1 import SHARINGS, Relation, query_of
from bench.workloads.tweets import SITE
from headrace import Project
from headrace.model.catalogue import Catalogue
from headrace.run.ports import Runner

TWEETS, ROWS_PER_S, FRESHNESS_S, START_AT = 20_000, 500.0, 10.0, 0.8
VIEWS = {f"v{number + 1}": query_of(sharing.split()) for number, sharing in enumerate(SHARINGS)}


@dataclass(frozen=True, slots=True)
class SmallViews:
    """Processor seconds for all views and `batch_rows`, which come in `batch_s`; `upkeep_s` is a mean."""

    batch_rows: int
    batch_s: float
    pushes: Mapping[str, tuple[Seconds, float]]
    refresh: Seconds


def keep_small_views(runners: Mapping[str, Runner[Any]], scratch: Path, batches: int) -> SmallViews:
    live = Live(tweets=TWEETS)
    batch_s = START_AT * FRESHNESS_S
    tweets = round(batch_s * ROWS_PER_S / sum(relation.ratio for relation in live.sources))
    given = list(changed_rows(live, tweets, batches))
    pushes, digests = {}, {}
    for name, runner in runners.items():
        pushes[name], digests[name] = _push_views(runner, scratch, live, given)
    refresh, digests["PostgreSQL"] = _refresh_views(scratch, live, given)
    for name in runners:
        wrong = [view for view in VIEWS if digests[name][view] != digests["PostgreSQL"][view]]
        assert not wrong, f"{name}: {wrong} are not what PostgreSQL computes"
    return SmallViews(sum(rows.num_rows for rows in given[0].values()), batch_s, pushes, refresh)


def _push_views(
    runner: Runner[Any], scratch: Path, live: Live, given: list[dict[str, pa.Table]]
) -> tuple[tuple[Seconds, float], dict[str, Digest]]:
    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        world = EngineWorld(make_catalogue(live), Path(folder), runner)
        world.capture(_as_batch(stored_rows(live)))
        world.engine.load()
        world.keep_up()
        pushes, upkeeps = list[tuple[float, float]](), list[tuple[float, float]]()
        for rows in given:
            world.capture(_as_batch(rows))
            seconds = timed(partial(world.push_vertices, list(world.program.tasks)), 1)
            pushes.append((seconds.wall, seconds.cpu))
            wall, before = time.perf_counter(), processes()
            world.keep_up()
            upkeeps.append((time.perf_counter() - wall, cpu_since(before)))
        digests = {view: digest_table(world.read_view(view)) for view in VIEWS}
        return (together(pushes), together(upkeeps).mean_cpu), digests


def _refresh_views(scratch: Path, live: Live, given: list[dict[str, pa.Table]]) -> tuple[Seconds, dict[str, Digest]]:
    with run_server(scratch / "postgres-small") as address, psycopg.connect(address, autocommit=True) as connection:
        for relation in live.sources:
            columns = ", ".join(f"{name} {_type(width)}" for name, width in relation.columns.items())
            connection.execute(f"CREATE TABLE {relation.name} ({columns}, PRIMARY KEY ({_key(relation)}))".encode())
        _write_rows(connection, live, stored_rows(live))
        for view, query in VIEWS.items():
            connection.execute(f"CREATE MATERIALIZED VIEW {view} AS {query}".encode())
        connection.execute("VACUUM ANALYZE")
        found = list[tuple[float, float]]()
        for rows in given:
            _write_rows(connection, live, rows)
            seconds = timed(partial(_refresh_all, connection), 1)
            found.append((seconds.wall, seconds.cpu))
        return together(found), {view: digest_table(fetch_rows(connection, view)) for view in VIEWS}


def _refresh_all(connection: psycopg.Connection) -> None:
    for view in VIEWS:
        connection.execute(f"REFRESH MATERIALIZED VIEW {view}".encode())


def _write_rows(connection: psycopg.Connection, live: Live, rows: Mapping[str, pa.Table]) -> None:
    for relation in live.sources:
        if relation.name in rows:
            connection.execute(f"CREATE TEMP TABLE given AS SELECT * FROM {relation.name} LIMIT 0".encode())
            copy_rows(connection, "given", rows[relation.name])
            updates = ", ".join(f"{name} = excluded.{name}" for name in relation.columns)
            connection.execute(
                f"INSERT INTO {relation.name} SELECT * FROM given"
                f" ON CONFLICT ({_key(relation)}) DO UPDATE SET {updates}".encode()
            )
            connection.execute("DROP TABLE given")


def make_catalogue(live: Live) -> Catalogue:
    project = Project("small")
    project.site(SITE, cpu="0.34 $/core-hour", disk="0.11 $/GB-month", speed=1)
    share = ROWS_PER_S / sum(relation.ratio for relation in live.sources)
    for relation in live.sources:
        columns = {name: {"type": "string" if width > 8 else "bigint"} for name, width in relation.columns.items()}
        rows = live.rows(relation)
        project.source(
            relation.name, at=SITE, key=[_key(relation)], rows=rows, rate=relation.ratio * share, columns=columns
        )
    for view, query in VIEWS.items():
        project.view(view, query)
        project.contract(view, view=view, at=SITE, freshness=FRESHNESS_S, penalty=0.001)
    return project.catalogue


def _as_batch(rows: Mapping[str, pa.Table]) -> Batch:
    return {name: inserts(table) for name, table in rows.items()}


def _key(relation: Relation) -> str:
    return next(iter(relation.columns))


def _type(width: int) -> str:
    return "text" if width > 8 else "bigint"
