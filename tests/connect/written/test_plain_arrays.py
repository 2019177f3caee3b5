"""Arrays that are made by hand are those that Arrow makes, and pandas is not loaded for them."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.written.plain_arrays import CODES, MOMENT, make_array

VALUES = {
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.float64(): st.floats(allow_nan=False),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"])),
    MOMENT: st.datetimes() | st.datetimes(timezones=st.just(dt.UTC)),
    pa.bool_(): st.booleans(),
    pa.list_(pa.int64()): st.lists(st.integers(0, 9)),
}


@given(st.data(), st.sampled_from(list(VALUES)))
def test_an_array_is_the_one_that_arrow_makes(data, type_):
    values = data.draw(st.lists(st.none() | VALUES[type_]))
    made = make_array(values, type_)
    made.validate(full=True)
    assert made == pa.array(values, type_)


@pytest.mark.parametrize("type_", [*CODES, pa.string(), MOMENT])
def test_values_of_another_type_are_refused(type_):
    with pytest.raises((TypeError, AttributeError, ValueError)):
        make_array([object()], type_)


def test_pandas_is_not_loaded():
    script = (
        "import sys; import pyarrow as pa\n"
        "from pathlib import Path; from headrace.connect.written.inbox import put_rows\n"
        "from headrace.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP\n"
        "import tempfile, datetime as dt\n"
        "columns = (('a', BIGINT), ('b', DOUBLE), ('c', STRING), ('d', TIMESTAMP))\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    put_rows(Path(folder), columns, [(1, None, 'x', dt.datetime(2026, 1, 1))])\n"
        "sys.exit('pandas' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
