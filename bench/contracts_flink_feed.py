"""What Flink is given: change logs of the relations as files, and its SQL for all views."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from bench.contracts_changes import changed_rows, stored_rows
from bench.workloads.live_table1 import Live
from bench.workloads.table1 import RELATIONS, SHARINGS, Relation, query_of

LAZILY = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "20000",
}
"""Counts would be printed for each changed row otherwise."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Files by relation, for each phase; the stored rows are the first. `counts` are rows of views at the end."""

    phases: tuple[Mapping[str, Path], ...]
    counts: Mapping[str, int]


def write_feed(live: Live, tweets: int, batches: int, folder: Path) -> Feed:
    """Batches of so many tweets after the stored rows."""
    folder.mkdir(parents=True)
    phases = []
    with duckdb.connect(":memory:") as connection:
        for relation in live.sources:
            columns = ", ".join(f"{name} {_type(width)}" for name, width in relation.columns.items())
            connection.execute(f"CREATE TABLE {relation.name} ({columns}, PRIMARY KEY ({_key(relation)}))")
        for number, rows in enumerate([stored_rows(live), *changed_rows(live, tweets, batches)]):
            files = {}
            for relation in live.sources:
                if relation.name in rows:
                    connection.register("given", rows[relation.name])
                    files[relation.name] = folder / f"{relation.name}-{number}.json"
                    _write_changes(connection, relation, files[relation.name])
                    connection.unregister("given")
            phases.append(files)
        counts = {name: _count(connection, query) for name, query in _queries(live).items()}
    return Feed(tuple(phases), counts)


def _write_changes(connection: duckdb.DuckDBPyConnection, relation: Relation, file: Path) -> None:
    """Of `given`, which are in the table afterwards."""
    name, key = relation.name, _key(relation)
    connection.execute(
        f"COPY (SELECT CASE WHEN old.{key} IS NULL THEN NULL ELSE old END AS before, given AS after,"
        f" CASE WHEN old.{key} IS NULL THEN 'c' ELSE 'u' END AS op"
        f" FROM given LEFT JOIN {name} old USING ({key})) TO '{file}' (FORMAT json)"
    )
    connection.execute(f"INSERT OR REPLACE INTO {name} SELECT * FROM given")


def _count(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    found = connection.execute(f"SELECT count(*) FROM ({query})").fetchone()
    assert found is not None
    return int(found[0])


def _queries(live: Live) -> dict[str, str]:
    """Joined in an order in which each relation meets one before it: Flink joins in the order of the text."""
    return {
        f"v{number + 1}": query_of(_connected(SHARINGS[number].split()))
        for number in range(min(live.contracts, len(SHARINGS)))
    }


def _connected(names: Sequence[str]) -> list[str]:
    columns = {relation.name: {"uid", "tid"} & set(relation.columns) for relation in RELATIONS}
    ordered, left = [names[0]], list(names[1:])
    while left:
        ordered.append(next(name for name in left if any(columns[name] & columns[other] for other in ordered)))
        left.remove(ordered[-1])
    return ordered


def _key(relation: Relation) -> str:
    return next(iter(relation.columns))


def _type(width: int) -> str:
    return "VARCHAR" if width > 8 else "BIGINT"


def flink_sql(live: Live, folder: Path, count: bool) -> tuple[list[str], list[str], Mapping[str, str]]:
    """Tables, inserts and settings: views into the void, or their numbers of rows to what Flink prints."""
    tables, inserts = [_source(relation, folder / relation.name) for relation in live.sources], []
    for name, query in _queries(live).items():
        if count:
            tables.append(f"CREATE TABLE {name} (n BIGINT) WITH ('connector' = 'print', 'print-identifier' = '{name}')")
            inserts.append(f"INSERT INTO {name} SELECT count(*) FROM ({query})")
        else:
            tables.append(f"CREATE TABLE {name} ({_columns(query)}) WITH ('connector' = 'blackhole')")
            inserts.append(f"INSERT INTO {name} {query}")
    return tables, inserts, LAZILY if count else {}


def _source(relation: Relation, folder: Path) -> str:
    columns = ", ".join(f"{name} {_flink_type(width)}" for name, width in relation.columns.items())
    return (
        f"CREATE TABLE {relation.name} ({columns}, PRIMARY KEY ({_key(relation)}) NOT ENFORCED) WITH"
        f" ('connector' = 'filesystem', 'path' = 'file://{folder}', 'source.monitor-interval' = '1 s',"
        f" 'format' = 'debezium-json')"
    )


def _columns(query: str) -> str:
    """Of a view's table, from the names that `query_of` gives them."""
    widths = {f"{one.name}_{name}": width for one in RELATIONS for name, width in one.columns.items()}
    return ", ".join(f"{name} {_flink_type(widths[name])}" for name in re.findall(r" AS (\w+)", query))


def _flink_type(width: int) -> str:
    return "STRING" if width > 8 else "BIGINT"
