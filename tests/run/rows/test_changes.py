"""Changes mean the Z-sets of their rows."""

from __future__ import annotations

from itertools import groupby

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.zset import ZSet, normal_row
from headrace.model.types import BIGINT, STRING
from headrace.run.logs.merge import compact
from headrace.run.rows.arrow import rows_of_arrow
from headrace.run.rows.changes import ORDER, TIME, WEIGHT, consolidate, contents, interval
from headrace.run.rows.hashes import find_repeated, sort_repeated
from tests.run.stamped_rows import as_table, changes, column_types, in_chunks, meaning, weights_of


@given(st.data())
def test_contents_are_the_sum_of_the_changes_up_to_a_time(data: st.DataObject):
    types = data.draw(column_types)
    stamped, upto, at = data.draw(changes(types)), data.draw(st.integers(0, 10)), data.draw(st.integers(0, 12))
    found = contents([as_table(types, stamped[:at]), as_table(types, stamped[at:])], upto)
    assert weights_of(found) == meaning(stamped, upto)
    assert found.num_rows == len(meaning(stamped, upto))


@given(st.data())
def test_consolidated_changes_are_the_same_changes_each_once(data: st.DataObject):
    types = data.draw(column_types)
    stamped = data.draw(changes(types))
    found = consolidate(in_chunks(as_table(types, stamped), data.draw(st.integers(0, 12))))
    expected = ZSet(((*normal_row(row), t, o), w) for row, t, o, w in stamped)
    assert weights_of(found) == expected
    assert found.num_rows == len(expected)


@given(st.data())
def test_an_interval_excludes_its_start_and_includes_its_end(data: st.DataObject):
    stamped = data.draw(changes([]))
    after, upto = data.draw(st.integers(0, 10)), data.draw(st.integers(0, 10))
    found = interval(as_table([], stamped), after, upto)
    assert rows_of_arrow(found) == [(t, o, w) for _, t, o, w in stamped if after < t <= upto]


@given(st.data())
def test_a_compacted_base_holds_the_contents_at_its_time(data: st.DataObject):
    types = data.draw(column_types)
    stamped, since = data.draw(changes(types)), data.draw(st.integers(0, 10))
    base, later = as_table(types, stamped[:5]), as_table(types, stamped[5:])
    compacted = compact([base], [later], since)
    assert compacted.schema == base.schema
    assert weights_of(contents([compacted], since)) == meaning(stamped, since)
    assert set(rows_of_arrow(compacted.select([TIME, ORDER]))) <= {(since, 0)}
    rest = [change for change in stamped if change[1] > since]
    assert weights_of(contents([compacted, as_table(types, rest)], 10)) == meaning(stamped, 10)


def test_a_relation_without_columns_has_contents_too():
    table = as_table([], [((), 1, 0, 2), ((), 2, 0, 1), ((), 3, 0, -3)])
    assert contents([table], 2).to_pydict() == {WEIGHT: [3]}
    assert contents([table], 3).to_pydict() == {WEIGHT: []}


def test_a_compacted_base_has_each_row_that_changes_once_and_leaves_the_others_alone():
    types = [BIGINT, STRING]
    base = as_table(types, [((number, "old"), 1, 0, 1) for number in range(1000)])
    gone = [((number, "old"), 2, 0, -1) for number in range(10)]
    come = [((number, "new"), 2, 0, 1) for number in range(10)]
    compacted = compact([base], [as_table(types, [*gone, *come])], 5)
    assert compacted.num_rows == 1000
    assert weights_of(contents([compacted], 5)) == meaning(
        [*(((number, "old"), 5, 0, 1) for number in range(10, 1000)), *come], 5
    )


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["a", "b", None]), st.sampled_from([-1, 1])), max_size=30))
def test_rows_that_only_texts_tell_apart_are_added_up_by_their_texts(rows: list[tuple[int, str | None, int]]):
    """Two such rows are compared, and more of them hashed."""
    stamped = [((number, text, text), 1, 0, weight) for number, text, weight in rows]
    found = consolidate(as_table([BIGINT, STRING, STRING], stamped))
    assert weights_of(found) == ZSet(((*row, t, o), w) for row, t, o, w in stamped)


@given(st.lists(st.integers(0, 6), max_size=40), st.sampled_from([0, 61]))
def test_hashes_that_repeat_are_found_whether_or_not_first_bits_tell_them_apart(values: list[int], shift: int):
    hashes = np.array(values, dtype=np.uint64) << np.uint64(shift)
    assert find_repeated(hashes).tolist() == [values.count(value) > 1 for value in values]
    together = [int(hashes[at]) for at in sort_repeated(hashes)]
    assert [value for value, _ in groupby(together)] == sorted({one for one in together if together.count(one) > 1})
