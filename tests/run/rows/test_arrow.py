"""Rows become Arrow tables and come back unchanged, whatever their type."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pyarrow as pa
import pytest

from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    NULL,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    YEAR_MONTH,
    Array,
    Decimal,
    Type,
    Value,
)
from headrace.run.rows.arrow import arrow_table, arrow_type, rows_of_arrow

VALUES: dict[Type, tuple[Value, ...]] = {
    BOOLEAN: (True, False),
    TINYINT: (-128, 127),
    SMALLINT: (-32768, 32767),
    INT: (-(2**31), 2**31 - 1),
    BIGINT: (-(2**63), 2**63 - 1),
    FLOAT: (1.5, math.inf),
    DOUBLE: (0.1, -math.inf),
    Decimal(38, 2): (decimal.Decimal("-123456789012345678901234567890123456.78"), decimal.Decimal("0.00")),
    STRING: ("", "日本"),
    BINARY: (b"", b"\x00\xff"),
    DATE: (dt.date(1, 1, 1), dt.date(9999, 12, 31)),
    TIMESTAMP: (dt.datetime(1969, 12, 31, 23, 59, 59, 999999), dt.datetime(2024, 2, 29)),
    NULL: (),
    Array(STRING): ((), ("a", None, "")),
    Array(Array(TIMESTAMP)): (((dt.datetime(2024, 2, 29),), None, ()),),
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
def test_values_come_back_unchanged(type_: Type):
    rows = [(None,), *((value,) for value in VALUES[type_])]
    table = arrow_table({"c": type_}, rows)
    assert table.column("c").type == arrow_type(type_)
    assert rows_of_arrow(table) == rows


@pytest.mark.parametrize("type_", [FLOAT, DOUBLE, Array(DOUBLE)], ids=str)
def test_floats_get_their_one_form_on_both_ways(type_: Type):
    odd = [-0.0, -math.nan]
    rows = [(tuple(odd),)] if isinstance(type_, Array) else [(value,) for value in odd]
    theirs = pa.table({"c": pa.array([odd] if isinstance(type_, Array) else odd, arrow_type(type_))})
    for table in (arrow_table({"c": type_}, rows), theirs):
        flat = [value for row in rows_of_arrow(table) for value in (row[0] if isinstance(row[0], tuple) else row)]
        assert repr(flat) == "[0.0, nan]"
        assert flat[1] is math.nan


def test_timestamps_of_other_zones_become_utc():
    table = pa.table({"c": pa.array([dt.datetime(2024, 1, 1, 12)], pa.timestamp("us", tz="Europe/Berlin"))})
    assert rows_of_arrow(table) == [(dt.datetime(2024, 1, 1, 12),)]


def test_a_table_without_columns_keeps_its_number_of_rows():
    assert rows_of_arrow(pa.table({"c": [1, 2]}).select([])) == [(), ()]


def test_intervals_are_no_columns():
    with pytest.raises(AssertionError, match="no column can be of type"):
        arrow_type(YEAR_MONTH)
