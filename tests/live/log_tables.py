"""Tables written as a log has them: a base and later changes, some of which are not to be seen yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.connect.files import FileStore
from headrace.meaning.zset import ZSet
from headrace.model.types import BIGINT, INT, Row, Type
from headrace.run.rows.arrow import arrow_table
from headrace.testing import Tables
from tests.live.agreement import columns_of

if TYPE_CHECKING:
    from headrace.connect.spark.evaluate import SourceTable

SITE, NOW = "here", 20


def change_rows(columns: Mapping[str, Type], rows: Iterable[tuple[Row, int, int, int]]) -> pa.Table:
    """Rows with (t, o, w)."""
    stamps = {"__t": BIGINT, "__o": INT, "__w": BIGINT}
    return arrow_table({**columns, **stamps}, [(*row, t, o, w) for row, t, o, w in rows])


def write_tables(store: FileStore, tables: Tables) -> dict[str, SourceTable]:
    return {name: write_table(store, name, table) for name, table in tables.items()}


def write_table(store: FileStore, source: str, table: ZSet) -> SourceTable:
    """The first row comes late, the second leaves and comes back, and all leave after the time that is asked."""
    from headrace.connect.spark.evaluate import SourceTable

    names = {column: f"{source}.{column}" for column in columns_of(source)}
    columns = {names[column]: type_ for column, type_ in columns_of(source).items()}
    rows = list(table.items())
    base = [(row, 10, 0, weight) for row, weight in rows[1:]]
    changes = [(row, 15, 0, weight) for row, weight in rows[:1]]
    changes += [(row, t, 0, sign * weight) for row, weight in rows[1:2] for t, sign in ((12, -1), (NOW, 1))]
    later = [(row, NOW + 1, 0, -weight) for row, weight in rows]
    parts = [change_rows(columns, part) for part in (base, [*changes, *later])]
    files = tuple(store.write(SITE, part, source) for part in parts)
    return SourceTable(SITE, files, NOW, names)
