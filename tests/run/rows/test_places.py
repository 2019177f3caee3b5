"""Places of rows in an order are those that sorting Python values gives."""

from __future__ import annotations

import decimal
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.evaluate_rank import column_key
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Type,
    Value,
)
from headrace.run.rows.arrow import arrow_table, arrow_type
from headrace.run.rows.places import part_by_column, part_by_number

WIDE = Decimal(38, 3)
VALUES: dict[Type, st.SearchStrategy[Value]] = {
    TINYINT: st.integers(-128, 127),
    SMALLINT: st.integers(-(2**15), 2**15 - 1),
    INT: st.integers(-(2**31), 2**31 - 1),
    BIGINT: st.integers(-(2**63), 2**63 - 1) | st.sampled_from((-(2**63), 2**63 - 1)),
    FLOAT: st.floats(width=32) | st.sampled_from((0.0, -0.0, math.nan, math.inf, -math.inf)),
    DOUBLE: st.floats() | st.sampled_from((0.0, -0.0, math.nan, -math.nan, math.inf, -math.inf, 5e-324, -5e-324)),
    Decimal(10, 2): st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: decimal.Decimal(n).scaleb(-2)),
    WIDE: (st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-(2**65), 2**65)).map(
        lambda n: decimal.Context(prec=40).scaleb(decimal.Decimal(n), -3)
    ),
    STRING: st.text(max_size=4),
    BINARY: st.binary(max_size=4),
    DATE: st.dates(),
    TIMESTAMP: st.datetimes(),
    BOOLEAN: st.booleans(),
    Array(INT): st.lists(st.none() | st.integers(-2, 2), max_size=3).map(tuple),
    Array(DOUBLE): st.lists(st.none() | st.sampled_from((0.0, math.nan, -1.5)), max_size=3).map(tuple),
}


def columns_of_type(type_: Type) -> st.SearchStrategy[list[Value]]:
    pool = st.lists(VALUES[type_] | st.none(), min_size=1, max_size=6)
    return pool.flatmap(lambda values: st.lists(st.sampled_from(values), max_size=12))


def places_by_sorting(keys: list[object]) -> list[int]:
    return [sum(other < key for other in keys) for key in keys]  # type: ignore[operator]


class Backwards:
    def __init__(self, key: tuple[bool, Any]) -> None:
        self.key = key

    def __lt__(self, other: Backwards) -> bool:
        return bool(other.key < self.key)


@pytest.mark.parametrize("type_", list(VALUES), ids=str)
@given(data=st.data(), descending=st.booleans(), nulls_first=st.booleans())
def test_places_of_values_are_those_of_sorted_values(
    type_: Type, data: st.DataObject, descending: bool, nulls_first: bool
):
    values = data.draw(columns_of_type(type_))
    column = arrow_table({"": type_}, [(value,) for value in values]).column(0)
    key = column_key(type_, nulls_low=nulls_first != descending)
    keys = [Backwards(key(value)) if descending else key(value) for value in column_values(column, values)]
    found = part_by_column(
        np.zeros(len(values), np.int64), column, type_, descending=descending, nulls_first=nulls_first
    )
    assert found.tolist() == places_by_sorting(list(keys))


def column_values(column: pa.ChunkedArray, values: list[Value]) -> list[Value]:
    """Values as a column holds them: floats of 32 bits are rounded."""
    return column.to_pylist() if column.type == arrow_type(FLOAT) else values


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from("ab"), st.booleans()), max_size=12), st.integers(0, 12))
def test_a_later_column_parts_what_earlier_ones_leave_tied(rows: list[tuple[int, str, bool]], cut: int):
    table = arrow_table({"n": BIGINT, "s": STRING, "b": BOOLEAN}, rows)
    table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
    places = part_by_number(np.zeros(len(rows), np.int64), table.column("n").to_numpy())
    places = part_by_column(places, table.column("s"), STRING, descending=True)
    places = part_by_column(places, table.column("b"), BOOLEAN)
    assert places.tolist() == places_by_sorting([(n, -ord(s), b) for n, s, b in rows])
