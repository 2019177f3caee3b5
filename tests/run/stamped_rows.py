"""Random change rows, as our values and as Arrow tables, and what they mean as dictionaries."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet, normal_row
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    Array,
    Decimal,
    Row,
    Type,
    Value,
)
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT
from headrace.run.rows.hashes import Hashes, hash_of

POOLS: dict[Type, tuple[Value, ...]] = {
    INT: (None, -1, 0, 7),
    BIGINT: (None, 0, -(2**63), 2**63 - 1),
    DOUBLE: (None, 0.0, -0.0, math.nan, 1.5),
    Decimal(20, 2): tuple(decimal.Decimal(text) for text in ("0.00", "-0.01", "123456789012345678.90")),
    STRING: (None, "", "a", "a" * 8, "a" * 9, "é" * 200),
    BINARY: (None, b"", b"\x00", b"\x00\x00"),
    BOOLEAN: (None, True, False),
    DATE: (None, dt.date(1969, 12, 31), dt.date(2024, 2, 29)),
    TIMESTAMP: (None, dt.datetime(1969, 12, 31, 23), dt.datetime(2024, 2, 29)),
    Array(DOUBLE): (None, (), (None,), (0.0, math.nan), (-0.0, math.nan)),
    Array(Array(STRING)): (None, (), ((),), (("a",), None), (("a", None),)),
}
"""Few values of each type, so that rows coincide."""

STAMPS = {TIME: BIGINT, ORDER: INT, WEIGHT: BIGINT}
Change = tuple[Row, int, int, int]
"""Row, t, o, w."""

column_types = st.lists(st.sampled_from(list(POOLS)), min_size=1, max_size=3)


def rows(types: Sequence[Type]) -> st.SearchStrategy[Row]:
    return st.tuples(*(st.sampled_from(POOLS[type_]) for type_ in types))


def changes(types: Sequence[Type], max_time: int = 9) -> st.SearchStrategy[list[Change]]:
    weights = st.sampled_from((-2, -1, 1, 1, 2))
    return st.lists(st.tuples(rows(types), st.integers(1, max_time), st.integers(0, 2), weights), max_size=12)


def names(types: Sequence[Type]) -> list[str]:
    return [f"c{number}" for number in range(len(types))]


def as_table(types: Sequence[Type], stamped: Iterable[Change]) -> pa.Table:
    columns = dict(zip(names(types), types, strict=True))
    return arrow_table(columns | STAMPS, [(*row, t, o, w) for row, t, o, w in stamped])


def in_chunks(table: pa.Table, at: int) -> pa.Table:
    """The same rows in two chunks."""
    return pa.concat_tables([table.slice(0, at), table.slice(at)])


def weights_of(table: pa.Table) -> ZSet:
    """Every column but the weight, which must be the last one, as the row."""
    assert table.column_names[-1] == WEIGHT
    return ZSet((row[:-1], weight(row)) for row in rows_of_arrow(table))


def weight(row: Row) -> int:
    assert isinstance(row[-1], int)
    return row[-1]


def meaning(stamped: Iterable[Change], upto: int) -> ZSet:
    return ZSet((normal_row(row), w) for row, t, _, w in stamped if t <= upto)


def weak_hash(table: pa.Table, key: Sequence[str]) -> Hashes:
    """Three different values only, so that different keys collide."""
    return hash_of(table, key) % np.uint64(3) << np.uint64(62)
