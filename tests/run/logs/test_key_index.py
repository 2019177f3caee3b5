"""Lookups by key find what comparing every pair of rows finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.zset import normal_row
from headrace.model.types import BIGINT, DOUBLE, FLOAT, INT, SMALLINT, STRING, Array, Row, Type
from headrace.run.logs.key_index import HASH, KeyIndex, cut_index, earlier, make_indexes
from headrace.run.rows.arrow import arrow_table, arrow_type, rows_of_arrow
from headrace.run.rows.hashes import hash_of
from tests.run.stamped_rows import POOLS, as_table, changes, column_types, in_chunks, names, weak_hash

hashers = st.sampled_from([hash_of, weak_hash])


def pairs_met(index: KeyIndex, probe: pa.Table, key: Sequence[str], null_safe: bool) -> Counter[tuple[Row, Row]]:
    positions, rows = index.meet(probe, key, null_safe)
    probes = rows_of_arrow(probe)
    assert len(positions) == rows.num_rows
    return Counter(zip([probes[at] for at in positions], rows_of_arrow(rows), strict=True))


@given(st.data())
def test_a_lookup_finds_all_pairs_with_equal_keys(data: st.DataObject):
    types = data.draw(column_types)
    size = data.draw(st.integers(0, len(types)))
    null_safe, hasher, shards = data.draw(st.booleans()), data.draw(hashers), data.draw(st.sampled_from([1, 2, 8]))
    held = [as_table(types, data.draw(changes(types))) for _ in range(data.draw(st.integers(1, 3)))]
    probe = in_chunks(as_table(types, data.draw(changes(types))), 3)
    key = names(types)[:size]
    indexes = [index for table in held for index in make_indexes(in_chunks(table, 4), key, shards, hasher)]
    found = pairs_met(KeyIndex(tuple(key), tuple(indexes), hasher=hasher), probe, key, null_safe)
    assert found == Counter(
        (left, right)
        for left in rows_of_arrow(probe)
        for table in held
        for right in rows_of_arrow(table)
        if left[:size] == right[:size] and (null_safe or None not in left[:size])
    )


@given(st.data())
def test_a_lookup_as_of_a_time_finds_what_is_earlier(data: st.DataObject):
    held, probe = data.draw(changes([INT])), as_table([INT], data.draw(changes([INT])))
    table = as_table([INT], held)
    index = KeyIndex(("c0",), tuple(make_indexes(table, ["c0"], 2)))
    positions, rows = index.meet(probe, ["c0"])
    kept = rows.filter(pa.array(earlier(rows, probe, positions)))
    assert Counter(rows_of_arrow(kept)) == Counter(
        (row[0], t, o, w)
        for mine, my_t, my_o, _ in rows_of_arrow(probe)
        for row, t, o, w in held
        if mine is not None and row[0] == mine and (t, o) < (my_t, my_o)
    )


WIDTHS: list[tuple[Type, Type, list[object]]] = [
    (INT, BIGINT, [1, -1, None]),
    (SMALLINT, BIGINT, [1, -1, None]),
    (FLOAT, DOUBLE, [1.5, 0.0, float("nan"), None]),
]


@pytest.mark.parametrize(("narrow", "wide", "values"), WIDTHS, ids=str)
def test_keys_of_different_widths_meet(narrow: Type, wide: Type, values: list[object]):
    held, probe = (pa.table({"k": pa.array(values, arrow_type(type_))}) for type_ in (wide, narrow))
    index = KeyIndex(("k",), tuple(make_indexes(held, ["k"], 4)))
    positions, _ = index.meet(probe, ["k"], null_safe=True)
    assert sorted(positions) == list(range(len(values)))


@pytest.mark.parametrize("type_", POOLS, ids=str)
def test_equal_values_have_equal_hashes_wherever_they_are_and_others_seldom(type_: Type):
    values = POOLS[type_]
    table = arrow_table({"k": type_}, [(value,) for value in values])
    moved = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    hashes = hash_of(table, ["k"]).tolist()
    assert np.roll(hash_of(moved, ["k"]), 1).tolist() == hashes
    assert len(set(hashes)) == len({normal_row((value,)) for value in values})


def test_hashes_never_change_since_files_are_sorted_by_them():
    table = arrow_table({"a": BIGINT, "b": STRING, "c": Array(DOUBLE)}, [(1, "Headrace, sorted", (0.5,)), (None,) * 3])
    assert hash_of(table, ["a", "b", "c"]).tolist() == [12333380876434676660, 65572327231244002]


@given(st.data())
def test_shards_are_ranges_of_the_hash(data: st.DataObject):
    table = as_table([BIGINT], data.draw(changes([BIGINT])))
    indexes = make_indexes(table, ["c0"], 8)
    for shard, index in enumerate(indexes):
        assert all(h >> 61 == shard for h in index.column(HASH).to_pylist())
    whole = pa.concat_tables(make_indexes(table, ["c0"], 2))
    assert [index.to_pylist() for index in cut_index(whole.combine_chunks(), 8)] == [
        index.to_pylist() for index in indexes
    ]


def test_without_runs_a_lookup_finds_nothing_of_the_stated_schema():
    probe = as_table([INT], [((7,), 1, 0, 1)])
    positions, rows = KeyIndex(("c0",), (), probe.schema).meet(probe, ["c0"])
    assert len(positions) == 0
    assert rows.schema == probe.schema
