"""Those who compute a view anew: Spark, PostgreSQL and DuckDB, over the same rows.

What is timed is the recomputation alone. How changes get into their tables is not, though a push has to do that, too.
Spark discards its result, the others store it, as a push does.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.workloads.tweets import COLUMNS, KEYS
from headrace.connect.postgres.embedded import EmbeddedPostgres

Recompute = Callable[[str], object]
"""Computes a query anew."""
Rows = Callable[[str], pa.Table]

POSTGRES = {"shared_buffers": "1GB", "work_mem": "512MB", "maintenance_work_mem": "512MB", "max_wal_size": "8GB"}
POSTGRES_TYPES = {"double": "double precision", "string": "text"}
CSV_ROWS = 500_000


@contextmanager
def spark_parquet(session: SparkSession, rows: Rows, folder: Path) -> Iterator[Recompute]:
    for name in COLUMNS:
        pq.write_table(rows(name), folder / f"{name}.parquet", row_group_size=500_000)
        session.read.parquet(str(folder / f"{name}.parquet")).createOrReplaceTempView(name)
    yield lambda query: session.sql(query).write.format("noop").mode("overwrite").save()


@contextmanager
def spark_cached(session: SparkSession) -> Iterator[Recompute]:
    """Over the tables of `spark_parquet`."""
    for name in COLUMNS:
        session.catalog.cacheTable(name)
        session.table(name).count()
    yield lambda query: session.sql(query).write.format("noop").mode("overwrite").save()
    for name in COLUMNS:
        session.catalog.uncacheTable(name)


@contextmanager
def postgres(rows: Rows, folder: Path, views: Mapping[str, str]) -> Iterator[Recompute]:
    named = {query: name for name, query in views.items()}
    with _server(folder) as address, psycopg.connect(address, autocommit=True) as connection:
        for name, columns in COLUMNS.items():
            types = ", ".join(f"{column} {POSTGRES_TYPES.get(type_, type_)}" for column, type_ in columns.items())
            _run(connection, f"CREATE TABLE {name} ({types})")
            _fill(connection, name, rows(name))
            _run(connection, f"ALTER TABLE {name} ADD PRIMARY KEY ({KEYS[name]})")
        _run(connection, "CREATE INDEX ON tweets (uid)")
        for name, query in views.items():
            _run(connection, f"CREATE MATERIALIZED VIEW {name} AS {query} WITH NO DATA")
        _run(connection, "VACUUM ANALYZE")
        yield lambda query: _run(connection, f"REFRESH MATERIALIZED VIEW {named[query]}")


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    """The address of a server that leaves nothing behind: its files may have to be elsewhere."""
    server = EmbeddedPostgres(folder, POSTGRES)
    try:
        with server:
            yield server.dsn()
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)


def _run(connection: psycopg.Connection, statement: str) -> None:
    connection.execute(statement.encode())


def _fill(connection: psycopg.Connection, name: str, rows: pa.Table) -> None:
    options = csv.WriteOptions(include_header=False)
    with connection.cursor().copy(f"COPY {name} FROM STDIN (FORMAT csv)".encode()) as copy:
        for batch in rows.to_batches(CSV_ROWS):
            text = io.BytesIO()
            csv.write_csv(batch, text, options)
            copy.write(text.getvalue())


@contextmanager
def duck(rows: Rows, threads: int) -> Iterator[Recompute]:
    """Tables and result in memory."""
    with duckdb.connect(":memory:", config={"threads": threads}) as connection:
        for name in COLUMNS:
            connection.register("given", rows(name))
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.unregister("given")
        yield lambda query: connection.execute(f"CREATE OR REPLACE TABLE answer AS {query}")
