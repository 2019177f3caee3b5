"""Sorted rows are cut only where a value ends."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.spark.stretches import number_values, whole_values

sizes = st.lists(st.integers(1, 7), max_size=12)


@given(sizes=sizes, batch=st.integers(1, 9), rows=st.integers(1, 20))
def test_every_value_is_in_one_stretch_and_no_row_is_lost(sizes: list[int], batch: int, rows: int):
    values = [f"v{value:02}" for value, size in enumerate(sizes) for _ in range(size)]
    table = pa.table({"name": values, "row": range(len(values))}, pa.schema({"name": pa.string(), "row": pa.int64()}))
    empty = table.slice(0, 0).to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
    stretches = list(whole_values(iter([*empty, *table.to_batches(batch), *empty]), "name", rows))
    assert [row for stretch in stretches for row in stretch["row"].to_pylist()] == list(range(len(values)))
    found = [set(stretch["name"].to_pylist()) for stretch in stretches]
    assert sum(map(len, found)) == len(sizes)
    for stretch, names in zip(stretches, found, strict=True):
        # A stretch ends as soon as it may: with the batch in which it has enough rows and a value ends.
        assert len(stretch) < rows + batch + max(sizes) or len(names) == 1


def test_values_are_numbered_in_the_order_in_which_they_occur():
    numbers, names = number_values(pa.chunked_array([["b", "a"], ["b", "c"]]))
    assert (numbers.tolist(), names.to_pylist()) == ([0, 1, 0, 2], ["b", "a", "c"])
