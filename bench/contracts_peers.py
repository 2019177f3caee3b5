"""What keeps the same views by computing all of them anew, as often as the promise asks: PostgreSQL, DuckDB and Spark.

PostgreSQL refreshes materialized views where the tables are. DuckDB and Spark first copy the tables out of PostgreSQL,
as whoever computes elsewhere has to.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from bench.contracts_world import Machine
from bench.cpu import cpu_since, processes
from bench.workloads.live_table1 import Live
from bench.workloads.table1 import SHARINGS, query_of


@dataclass(frozen=True, slots=True)
class Peer:
    """Seconds to compute all views anew, once the engine is warm; `copy_s` of the wall time is to fetch the tables."""

    name: str
    wall_s: float
    cpu_s: float
    copy_s: float = 0.0


def recomputed_by_peers(machine: Machine, live: Live) -> Iterator[Peer]:
    dsn, folder = machine.new_database(), machine.folder / "peers"
    folder.mkdir(exist_ok=True)
    queries = {f"v{n + 1}": query_of(SHARINGS[n].split()) for n in range(min(live.contracts, len(SHARINGS)))}
    names = [relation.name for relation in live.sources]
    try:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for name, query in queries.items():
                connection.execute(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            yield _timed("PostgreSQL, refresh", lambda: _refresh(connection, list(queries)))

            def copy() -> None:
                for name in names:
                    pyarrow.parquet.write_table(_fetched(connection, name), folder / f"{name}.parquet")

            copied = _timed("copy", copy)
            yield _after(copied, _timed("DuckDB, anew", lambda: _duck(folder, names, queries)))
            _spark(machine, folder, names, queries)
            yield _after(copied, _timed("Spark, anew", lambda: _spark(machine, folder, names, queries)))
    finally:
        machine.drop_database()


def _timed(name: str, work: Callable[[], None]) -> Peer:
    started, before = time.perf_counter(), processes()
    work()
    return Peer(name, time.perf_counter() - started, cpu_since(before))


def _after(copied: Peer, peer: Peer) -> Peer:
    return Peer(peer.name, copied.wall_s + peer.wall_s, copied.cpu_s + peer.cpu_s, copied.wall_s)


def _refresh(connection: psycopg.Connection[tuple[object, ...]], views: list[str]) -> None:
    for name in views:
        connection.execute(f"REFRESH MATERIALIZED VIEW {name}")


def _fetched(connection: psycopg.Connection[tuple[object, ...]], table: str) -> pa.Table:
    content = io.BytesIO()
    with connection.cursor().copy(f"COPY {table} TO STDOUT (FORMAT csv, HEADER)") as copy:
        for block in copy:
            content.write(block)
    content.seek(0)
    return pa.csv.read_csv(content)


def _duck(folder: Path, names: list[str], queries: dict[str, str]) -> None:
    with duckdb.connect(str(folder / "duck.db")) as connection:
        for name in names:
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS FROM '{folder / name}.parquet'")
        for name, query in queries.items():
            connection.execute(f"CREATE OR REPLACE TABLE {name} AS {query}")


def _spark(machine: Machine, folder: Path, names: list[str], queries: dict[str, str]) -> None:
    for name in names:
        machine.session.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    for name, query in queries.items():
        machine.session.sql(query).write.mode("overwrite").parquet(str(folder / f"spark-{name}"))
