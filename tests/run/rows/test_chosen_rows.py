"""Rows that a reader asks for, against the sorting and filtering of the evaluator."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.evaluate_rank import order_key
from headrace.meaning.scalar import NOTHING
from headrace.model.expr import Column
from headrace.model.relation import Order
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, STRING, Array, Type
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.run.rows.chosen_rows import choose_rows

TYPES: dict[str, Type] = {"i": BIGINT, "x": DOUBLE, "s": STRING, "b": BOOLEAN, "a": Array(BIGINT)}
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.sampled_from([float("nan"), float("inf"), float("-inf"), 0.0, -1.5, 2.0]),
        st.none() | st.text("aé€z", max_size=2),
        st.none() | st.booleans(),
        st.none() | st.lists(st.none() | st.integers(0, 2), max_size=2).map(tuple),
    ),
    max_size=12,
)
ORDERS = st.lists(
    st.builds(
        lambda name, descending, nulls_first: Order(Column(name, TYPES[name]), descending, nulls_first),
        st.sampled_from(sorted(TYPES)),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=3,
)


@given(ROWS, ORDERS)
def test_rows_are_sorted_as_the_evaluator_sorts_them(rows, order):
    expected = rows_of_arrow(arrow_table(TYPES, rows))
    for key in reversed(order):
        expected.sort(key=order_key(key, tuple(TYPES), NOTHING), reverse=key.descending)
    found = rows_of_arrow(choose_rows(arrow_table(TYPES, rows), None, order))
    assert list(map(repr, found)) == list(map(repr, expected))
