"""What people would use instead: DuckDB, PostgreSQL and Spark keep the two views over the same rows and batches.

    anew                  all of both views is computed after each batch: by DuckDB in memory, by DuckDB on disk, by
                          PostgreSQL (REFRESH MATERIALIZED VIEW), and by Spark from Parquet to Parquet
    maintained by hand    DuckDB on disk again, but somebody has written the SQL that replaces what a batch concerns
    pg_ivm                an extension of PostgreSQL that maintains views; where it is installed

DuckDB has to bring each batch into its tables, and that is counted, as it is of a push. In PostgreSQL the batch is
there anyway, because people write to it, and Spark is given new files; for these only the views are counted.
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import duckdb
import psycopg
import pyarrow as pa
import pyarrow.csv as csv
from pyspark.sql import SparkSession

from bench.engine_world import Batch
from bench.workloads.tweets import COLUMNS, KEYS, VIEWS
from headrace.connect.postgres.embedded import EmbeddedPostgres

Contents = Mapping[str, pa.Table]
Digest = tuple[int, int]
"""How many rows, and the sum of their hashes: equal for equal rows in any order."""

POSTGRES = {"shared_buffers": "1GB", "work_mem": "512MB", "maintenance_work_mem": "512MB", "max_wal_size": "8GB"}
POSTGRES_TYPES = {"double": "double precision", "string": "text"}
CHANGED = {
    "two_way": "t.tid IN (SELECT tid FROM c_tweets) OR t.uid IN (SELECT uid FROM c_users)",
    "three_way": "t.tid IN (SELECT tid FROM c_tweets) OR t.uid IN (SELECT uid FROM c_users)"
    " OR t.tid IN (SELECT tid FROM c_places)",
}
"""Rows of a view that a batch may concern."""
CSV_ROWS = 500_000


class Keeper(Protocol):
    """Keeps both views. Of a batch, `take` is what others pay for anyway, and `keep` is what counts."""

    def take(self, batch: Batch) -> None: ...

    def keep(self) -> None: ...

    def digests(self) -> dict[str, Digest]: ...


Opened = Callable[[], AbstractContextManager[Keeper | None]]
"""None if it is not installed here."""


def digest_rows(rows: str, connection: duckdb.DuckDBPyConnection) -> Digest:
    """`rows` is a table of DuckDB, or what it reads as one."""
    found = connection.execute(f"SELECT count(*), sum(hash(one)::HUGEINT) FROM {rows} one").fetchone()
    assert found is not None
    return int(found[0]), int(found[1] or 0)


def digest_table(rows: pa.Table) -> Digest:
    with duckdb.connect(":memory:") as connection:
        connection.register("given", rows)
        return digest_rows("given", connection)


# DuckDB


class DuckAnew:
    """Tables and views of DuckDB: in memory, or in a file that has everything after each batch."""

    def __init__(self, contents: Contents, threads: int, file: Path | None = None) -> None:
        self.connection = duckdb.connect(str(file or ":memory:"), config={"threads": threads})
        self.stored = file is not None
        self.waiting: Batch = {}
        for name, rows in contents.items():
            self.connection.register("given", rows)
            self.connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            self.connection.unregister("given")
        for view, query in VIEWS.items():
            self.connection.execute(f"CREATE TABLE {view} AS {query}")

    def take(self, batch: Batch) -> None:
        self.waiting = batch

    def keep(self) -> None:
        self.apply_batch()
        for view, query in VIEWS.items():
            self.connection.execute(f"CREATE OR REPLACE TABLE {view} AS {query}")
        self.write_down()

    def apply_batch(self) -> None:
        for name, (rows, operations) in self.waiting.items():
            key = KEYS[name]
            self.connection.register("given", rows.append_column("operation", operations))
            self.connection.execute(f"DELETE FROM {name} WHERE {key} IN (SELECT {key} FROM given)")
            self.connection.execute(
                f"INSERT INTO {name} SELECT {', '.join(COLUMNS[name])} FROM given WHERE operation = 'u'"
            )
            self.connection.unregister("given")

    def write_down(self) -> None:
        if self.stored:
            self.connection.execute("CHECKPOINT")

    def digests(self) -> dict[str, Digest]:
        return {view: digest_rows(view, self.connection) for view in VIEWS}


class DuckByHand(DuckAnew):
    """What somebody writes who knows the views: rows of changed tweets, users and places go and come again."""

    def keep(self) -> None:
        self.apply_batch()
        for name, (rows, _) in self.waiting.items():
            self.connection.register(f"c_{name}", rows.select([KEYS[name]]))
        for view, query in VIEWS.items():
            changed = CHANGED[view]
            self.connection.execute(f"DELETE FROM {view} AS t WHERE {changed}")
            self.connection.execute(f"INSERT INTO {view} {query} WHERE {changed}")
        for name in self.waiting:
            self.connection.unregister(f"c_{name}")
        self.write_down()


@contextmanager
def open_duck(kind: type[DuckAnew], contents: Contents, threads: int, folder: Path | None = None) -> Iterator[DuckAnew]:
    """In memory, or in a new file of a folder."""
    keeper = kind(contents, threads, None if folder is None else folder / f"{kind.__name__}.duckdb")
    with keeper.connection:
        yield keeper


# Spark


class SparkAnew:
    """Reads Parquet files of the tables, and writes the views as such. DuckDB makes the files; that is not counted."""

    def __init__(self, session: SparkSession, tables: DuckAnew, folder: Path) -> None:
        self.session, self.tables, self.folder = session, tables, folder

    def take(self, batch: Batch) -> None:
        self.tables.take(batch)
        self.tables.apply_batch()
        for name in COLUMNS:
            file = self.folder / f"{name}.parquet"
            self.tables.connection.execute(f"COPY {name} TO '{file}' (FORMAT parquet)")
            self.session.read.parquet(str(file)).createOrReplaceTempView(name)

    def keep(self) -> None:
        for view, query in VIEWS.items():
            self.session.sql(query).write.mode("overwrite").parquet(str(self.folder / view))

    def digests(self) -> dict[str, Digest]:
        return {view: digest_rows(f"'{self.folder / view}/*.parquet'", self.tables.connection) for view in VIEWS}


@contextmanager
def open_spark(session: SparkSession, contents: Contents, threads: int, folder: Path) -> Iterator[SparkAnew]:
    with open_duck(DuckAnew, contents, threads) as tables:
        yield SparkAnew(session, tables, folder)


# PostgreSQL


class PostgresAnew:
    def __init__(self, connection: psycopg.Connection, contents: Contents) -> None:
        self.connection = connection
        for name, columns in COLUMNS.items():
            types = ", ".join(f"{column} {POSTGRES_TYPES.get(type_, type_)}" for column, type_ in columns.items())
            self.run(f"CREATE TABLE {name} ({types})")
            copy_rows(self.connection, name, contents[name])
            self.run(f"ALTER TABLE {name} ADD PRIMARY KEY ({KEYS[name]})")
            self.run(f"CREATE TEMP TABLE given_{name} ({types}, operation text)")
        self.run("CREATE INDEX ON tweets (uid)")
        self.make_views()
        self.run("VACUUM ANALYZE")

    def make_views(self) -> None:
        for view, query in VIEWS.items():
            self.run(f"CREATE MATERIALIZED VIEW {view} AS {query} WITH NO DATA")

    def take(self, batch: Batch) -> None:
        with self.connection.transaction():
            for name, (rows, operations) in batch.items():
                key, columns = KEYS[name], ", ".join(COLUMNS[name])
                self.run(f"TRUNCATE given_{name}")
                copy_rows(self.connection, f"given_{name}", rows.append_column("operation", operations))
                self.run(f"DELETE FROM {name} USING given_{name} g WHERE {name}.{key} = g.{key} AND operation = 'd'")
                updates = ", ".join(f"{one} = excluded.{one}" for one in COLUMNS[name])
                self.run(
                    f"INSERT INTO {name} SELECT {columns} FROM given_{name} WHERE operation = 'u'"
                    f" ON CONFLICT ({key}) DO UPDATE SET {updates}"
                )

    def keep(self) -> None:
        for view in VIEWS:
            self.run(f"REFRESH MATERIALIZED VIEW {view}")

    def digests(self) -> dict[str, Digest]:
        return {view: digest_table(fetch_rows(self.connection, view)) for view in VIEWS}

    def run(self, statement: str) -> None:
        self.connection.execute(statement.encode())


class PostgresMaintained(PostgresAnew):
    """pg_ivm maintains views while people write, so to write is counted as well."""

    waiting: Batch | None = None

    def make_views(self) -> None:
        self.run("CREATE EXTENSION pg_ivm")
        for view, query in VIEWS.items():
            self.run(f"SELECT pgivm.create_immv('{view}', '{query}')")

    def take(self, batch: Batch) -> None:
        self.waiting = batch

    def keep(self) -> None:
        assert self.waiting is not None
        super().take(self.waiting)


@contextmanager
def open_postgres(contents: Contents, folder: Path) -> Iterator[PostgresAnew]:
    with run_server(folder) as address, psycopg.connect(address, autocommit=True) as connection:
        yield PostgresAnew(connection, contents)


@contextmanager
def open_pg_ivm(contents: Contents, folder: Path) -> Iterator[PostgresMaintained | None]:
    with run_server(folder) as address, psycopg.connect(address, autocommit=True) as connection:
        there = connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'pg_ivm'").fetchone()
        yield None if there is None else PostgresMaintained(connection, contents)


def copy_rows(connection: psycopg.Connection, table: str, rows: pa.Table) -> None:
    options = csv.WriteOptions(include_header=False)
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)".encode()) as copy:
        for batch in rows.to_batches(CSV_ROWS):
            text = io.BytesIO()
            csv.write_csv(batch, text, options)
            copy.write(text.getvalue())


def fetch_rows(connection: psycopg.Connection, view: str) -> pa.Table:
    content = io.BytesIO()
    with connection.cursor().copy(f"COPY (SELECT * FROM {view}) TO STDOUT (FORMAT csv, HEADER)".encode()) as copy:
        for block in copy:
            content.write(block)
    content.seek(0)
    return csv.read_csv(content)


@contextmanager
def run_server(folder: Path) -> Iterator[str]:
    """The address of a server that leaves nothing behind: its files may have to be elsewhere."""
    server = EmbeddedPostgres(folder, POSTGRES)
    try:
        with server:
            yield server.dsn()
    finally:
        shutil.rmtree(server.folder, ignore_errors=True)
