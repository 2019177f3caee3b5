"""Flink keeps the answers to Nexmark's queries: reads the files as they come, and throws away what changes.

What it would have kept is seen in a second job, of all queries, which prints every change of the answers.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from bench.flink import FlinkRequest, run_flink
from bench.nexmark_queries import sources_of
from bench.workloads.nexmark import COLUMNS

HEAP_GB = 4.0
IDLE_S = 5.0
KEYED = ("q04", "q09")
"""Queries whose first column is a key of the answer."""
TYPES = {"bigint": "BIGINT", "string": "STRING", "timestamp": "TIMESTAMP(3)"}


def keep_by_flink(
    python: str, name: str, query: str, schema: pa.Schema, batches: Sequence[Mapping[str, Path]], folder: Path
) -> list[float]:
    """Processor seconds of all batches but the first, without what Flink uses when nothing happens."""
    sink = f"CREATE TABLE {name} ({_columns(schema)}) WITH ('connector' = 'blackhole')"
    with run_flink(python, _make_request(folder, sources_of(query), [sink], {name: query}), folder) as job:
        phases = [job.give(files) for files in batches]
        before = job.cpu_s()
        time.sleep(IDLE_S)
        idle = (job.cpu_s() - before) / IDLE_S
    return [max(0.0, phase.cpu_s - idle * phase.wall_s) for phase in phases[1:]]


def answer_of_flink(
    python: str,
    queries: Mapping[str, str],
    schemas: Mapping[str, pa.Schema],
    batches: Sequence[Mapping[str, Path]],
    folder: Path,
) -> dict[str, pa.Table]:
    """All answers after all batches."""
    sinks = [
        f"CREATE TABLE {name} ({_columns(schema)}) WITH ('connector' = 'print', 'print-identifier' = '{name}')"
        for name, schema in schemas.items()
    ]
    sources = [source for source in COLUMNS if any(source in sources_of(query) for query in queries.values())]
    with run_flink(python, _make_request(folder, sources, sinks, queries), folder) as job:
        for files in batches:
            job.give({source: files[source] for source in sources})
    printed = (folder / "output").read_text()
    return {name: _replay_changes(printed, name, schema) for name, schema in schemas.items()}


def _make_request(
    folder: Path, sources: Sequence[str], sinks: Sequence[str], queries: Mapping[str, str]
) -> FlinkRequest:
    inserts = [f"INSERT INTO {name} {_as_flink(query)}" for name, query in queries.items()]
    return FlinkRequest(sources, [*(_source(name, folder / name) for name in sources), *sinks], inserts, {}, HEAP_GB)


def _source(name: str, folder: Path) -> str:
    columns = ", ".join(f"`{column}` {TYPES[type_]}" for column, type_ in COLUMNS[name].items())
    return (
        f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = 'file://{folder}',"
        " 'source.monitor-interval' = '1 s', 'format' = 'csv')"
    )


def _as_flink(query: str) -> str:
    """FINAL and DATETIME are words of Flink's, and its average of integers is an integer."""
    quoted = re.sub(r"\b(final|dateTime)\b", r"`\1`", query)
    return re.sub(r"\bavg\((.*?)\)", r"avg(CAST(\1 AS DOUBLE))", quoted)


def _columns(schema: pa.Schema) -> str:
    return ", ".join(f"`{field.name}` {_flink_type(field.type)}" for field in schema)


def _flink_type(type_: pa.DataType) -> str:
    if pa.types.is_timestamp(type_):
        return TYPES["timestamp"]
    return {"int64": "BIGINT", "double": "DOUBLE", "string": "STRING"}[str(type_)]


def _replay_changes(printed: str, name: str, schema: pa.Schema) -> pa.Table:
    """Rows that came (+I, +U) and have not gone (-U, -D). No value has a comma and a space in it.

    If Flink knows that an answer has a key, it does not say which row goes when another one comes in its place.
    """
    rows = Counter[str]()
    by_key = dict[str, str]()
    for sign, row in re.findall(rf"^{name}(?::\d+)?> ([+-])[IUD]\[(.*)\]$", printed, re.MULTILINE):
        key = row.partition(", ")[0]
        if name in KEYED and sign == "+" and key in by_key:
            rows[by_key[key]] -= 1
        rows[row] += 1 if sign == "+" else -1
        if name in KEYED and sign == "+":
            by_key[key] = row
        else:
            by_key.pop(key, None)
    texts = [row.split(", ") for row, count in rows.items() for _ in range(count)]
    columns = list(zip(*texts, strict=True)) or [() for _ in schema]
    arrays = [_from_text(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _from_text(values: Sequence[str], type_: pa.DataType) -> pa.Array:
    if pa.types.is_floating(type_):
        return pa.array([float(value) for value in values], type_)
    return pa.array(values, pa.string()).cast(type_)
