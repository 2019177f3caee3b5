"""Values fit their columns, or are refused by name; what people read is what they may write."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.errors import WireError
from headrace.model.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Array,
    Decimal,
    Type,
)
from headrace.run.device.fitting import fit_id, fit_row, read_json, read_time, write_id, write_json

MONEY = Decimal(6, 2)
GOOD: list[tuple[Type, Any, Any]] = [
    (BOOLEAN, True, True),
    (TINYINT, -128, -128),
    (INT, "7", 7),
    (BIGINT, 2**63 - 1, 2**63 - 1),
    (DOUBLE, 1, 1.0),
    (DOUBLE, -0.0, 0.0),
    (FLOAT, "inf", float("inf")),
    (FLOAT, 0.1, 0.10000000149011612),
    (MONEY, "12.50", decimal.Decimal("12.50")),
    (MONEY, 12.5, decimal.Decimal("12.50")),
    (MONEY, 12, decimal.Decimal("12.00")),
    (STRING, "text", "text"),
    (BINARY, "00ff", b"\x00\xff"),
    (DATE, "2024-02-29", dt.date(2024, 2, 29)),
    (TIMESTAMP, "2024-02-29 12:30:15.5", dt.datetime(2024, 2, 29, 12, 30, 15, 500_000)),
    (Array(INT), [1, None, 3], (1, None, 3)),
    (Array(Array(DOUBLE)), [[1], []], ((1.0,), ())),
]
BAD: list[tuple[Type, Any]] = [
    (BOOLEAN, 1),
    (TINYINT, 128),
    (INT, "seven"),
    (INT, 1.5),
    (INT, True),
    (BIGINT, 2**63),
    (DOUBLE, "1.5"),
    (DOUBLE, True),
    (DOUBLE, 10**400),
    (MONEY, "123456.5"),
    (MONEY, "nan"),
    (STRING, 1),
    (STRING, {"a": 1}),
    (BINARY, "0"),
    (DATE, "yesterday"),
    (TIMESTAMP, 5),
    (Array(INT), [1, "x"]),
    (Array(INT), 1),
]


@pytest.mark.parametrize(("type_", "written", "value"), GOOD)
def test_values_of_json_become_values_of_columns_and_again_json(type_: Type, written: Any, value: Any):
    (found,) = read_json({"x": written}, (("x", type_),))
    assert found == value and type(found) is type(value) and str(found) == str(value)
    again = json.loads(json.dumps(write_json(found)))
    assert read_json({"x": again}, (("x", type_),)) == (found,)


@pytest.mark.parametrize(("type_", "written"), BAD)
def test_what_does_not_fit_is_refused_with_the_name_of_its_column(type_: Type, written: Any):
    with pytest.raises(WireError, match='"x"'):
        read_json({"x": written}, (("x", type_),))


def test_a_row_has_all_columns_and_no_others():
    columns = (("a", INT), ("b", STRING))
    assert read_json({"b": "t"}, columns) == (None, "t")
    with pytest.raises(WireError, match='no column "c"; there are a, b'):
        read_json({"c": 1}, columns)
    with pytest.raises(WireError, match="2 columns"):
        fit_row((1,), columns)
    with pytest.raises(WireError, match="is no int"):
        fit_row(("1", "t"), columns)


@given(st.integers(-(2**63), 2**63 - 1))
def test_ids_are_written_as_messages_have_them(number: int):
    assert fit_id(write_id(number), BIGINT) == number
    assert fit_id("007", STRING) == "007"


def test_an_id_or_a_time_that_is_none_is_refused():
    with pytest.raises(WireError, match="anna"):
        fit_id("anna", BIGINT)
    with pytest.raises(WireError, match="no time"):
        read_time(10**17)
    assert read_time(-1) == dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)
