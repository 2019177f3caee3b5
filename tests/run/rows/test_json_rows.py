"""Rows and changes become JSON that any program reads, and no digit is lost."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math

from headrace.model.types import BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Array, Decimal, Type
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.json_rows import json_changes, json_rows

SMALL = {"id": INT}


def test_values_of_every_kind_are_json():
    columns: dict[str, Type] = {
        "n": INT,
        "d": Decimal(38, 10),
        "s": STRING,
        "b": BINARY,
        "day": DATE,
        "at": TIMESTAMP,
        "f": DOUBLE,
        "list": Array(Array(DOUBLE)),
        "yes": BOOLEAN,
    }
    row = (
        1,
        decimal.Decimal("0.0000000001"),
        "",
        b"\x00\xff",
        dt.date(2024, 2, 29),
        dt.datetime(2024, 2, 29, 12, 30, 15, 1),
        -math.inf,
        ((math.nan, 1.5), None),
        True,
    )
    (found,) = json.loads(json.dumps(list(json_rows(arrow_table(columns, [row]))), allow_nan=False))
    assert found == {
        "n": 1,
        "d": "0.0000000001",
        "s": "",
        "b": "AP8=",
        "day": "2024-02-29",
        "at": "2024-02-29T12:30:15.000001Z",
        "f": "-Infinity",
        "list": [["NaN", 1.5], None],
        "yes": True,
    }
    (nothing,) = json_rows(arrow_table(columns, [(None,) * len(row)]))
    assert nothing == dict.fromkeys(columns)


def test_rows_that_went_come_before_those_that_came():
    went, came = arrow_table(SMALL, [(1,)]), arrow_table(SMALL, [(2,), (2,)])
    none = arrow_table(SMALL, [])
    assert list(json_changes([(10, went, came), (20, none, went)])) == [
        {"t": 10, "op": "delete", "row": {"id": 1}},
        {"t": 10, "op": "insert", "row": {"id": 2}},
        {"t": 10, "op": "insert", "row": {"id": 2}},
        {"t": 20, "op": "insert", "row": {"id": 1}},
    ]
