"""Evaluates a relation by Spark SQL over tables that are here: written to files first, which go afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.connect.files import FileStore
from headrace.connect.spark.evaluate import SourceTable, SparkEvaluator
from headrace.meaning.scalar_time import from_micros
from headrace.model.relation import Relation, scans_of
from headrace.model.types import Value
from headrace.run.rows.changes import WEIGHT, stamp_rows

SITE = "here"
ROWS_PER_FILE = 500_000


def evaluate_tables(
    session: SparkSession,
    relation: Relation,
    tables: Mapping[str, pa.Table],
    t: int,
    python: Mapping[str, Callable[..., Value]],
) -> pa.Table:
    """The rows of a query over tables (by source, columns named `source.column`) as of a time, microseconds."""
    scratch = Path(tempfile.mkdtemp(prefix="headrace-tables-"))
    try:
        store = FileStore(scratch)
        written = {
            source: _write_table(store, source, tables[source], t) for source in {s.source for s in scans_of(relation)}
        }
        return SparkEvaluator(session, store, python, from_micros(t)).rows(relation, written)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _write_table(store: FileStore, source: str, table: pa.Table, t: int) -> SourceTable:
    weights = pa.repeat(pa.scalar(1, pa.int64()), table.num_rows)
    whole = stamp_rows(table, t).append_column(WEIGHT, weights)
    starts = range(0, max(1, whole.num_rows), ROWS_PER_FILE)
    files = [store.write(SITE, whole.slice(start, ROWS_PER_FILE), source, durable=False) for start in starts]
    columns = {name.removeprefix(f"{source}."): name for name in table.column_names}
    return SourceTable(SITE, tuple(files), t, columns)
