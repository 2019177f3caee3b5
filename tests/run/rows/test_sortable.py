"""Bytes of sort keys compare as the keys do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.meaning.evaluate_over import key_in_order
from headrace.model.expr import Column
from headrace.model.relation import Order
from headrace.model.types import BINARY, STRING, Row
from headrace.run.rows.sortable import sortable_bytes
from headrace.testing.tables import COLUMN_TYPES, values


@st.composite
def keys_and_rows(draw: st.DrawFn) -> tuple[tuple[Order, ...], list[Row]]:
    types = draw(st.lists(st.sampled_from((*COLUMN_TYPES, STRING, BINARY)), min_size=1, max_size=3))
    orders = tuple(
        Order(Column(f"c{at}", type_), draw(st.booleans()), draw(st.booleans())) for at, type_ in enumerate(types)
    )
    columns = [
        st.none() | st.binary(max_size=3)
        if type_ == BINARY
        else st.none() | st.text(max_size=3)
        if type_ == STRING
        else values(type_, extreme=True)
        for type_ in types
    ]
    return orders, draw(st.lists(st.tuples(*columns), min_size=2, max_size=8))


@given(keys_and_rows())
def test_bytes_of_sort_keys_compare_as_the_keys_do(case: tuple[tuple[Order, ...], list[Row]]):
    orders, rows = case
    get = tuple(lambda row, at=at: row[at] for at in range(len(orders)))
    encode = sortable_bytes(orders, get)
    keys = [key_in_order(order, order.expr.type) for order in orders]

    def key(row: Row) -> tuple[object, ...]:
        return tuple(make(value) for make, value in zip(keys, row, strict=True))

    for one in rows:
        for other in rows:
            assert (encode(one) < encode(other)) == (key(one) < key(other))
            assert (encode(one) == encode(other)) == (key(one) == key(other))
