"""Queries evaluated from scratch in this process, by the reference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from headrace.meaning.evaluate import evaluate
from headrace.meaning.python_functions import Functions, surroundings_of
from headrace.meaning.scalar_time import from_micros
from headrace.meaning.zset import ZSet
from headrace.model.full_query import FullQuery
from headrace.model.relation import Relation, scans_of
from headrace.model.types import Row
from headrace.run.rows.arrow import arrow_table, rows_of_arrow

SMALL_ROWS = 100_000
"""Rows of sources over which this process evaluates a query itself: about a second."""

Tables = Mapping[str, pa.Table]
"""By source, with columns named `source.column`."""


def rows_here(query: Relation, tables: Tables, t: int, functions: Functions) -> Iterable[Row]:
    """The rows of a query over tables as of a time, microseconds."""
    zsets = {}
    for scan in scans_of(query):
        columns = [f"{scan.source}.{column}" for column in scan.columns]
        zsets[scan.source] = ZSet.of(rows_of_arrow(tables[scan.source].select(columns)))
    return evaluate(query, zsets, from_micros(t), surroundings_of(functions).python).rows()


def evaluate_here(recomputed: FullQuery, tables: Tables, t: int, functions: Functions) -> pa.Table:
    """The answer of a query that is understood; other queries need an engine that reads SQL."""
    if recomputed.query is None:
        raise RuntimeError("only Spark can evaluate this query, and it is not there")
    types = {column.name: column.type for column in recomputed.fields}
    return arrow_table(types, list(rows_here(recomputed.query, tables, t, functions)))
