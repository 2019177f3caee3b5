"""A rank is what SQL says of the event's columns, read back from JSON."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.model.expr import Call, Column, Literal
from headrace.model.types import BIGINT, DOUBLE, INT, STRING, TIMESTAMP, Type
from headrace.run.feeds.page import SECOND, PageEntry
from headrace.run.feeds.rank import AGE, rank_by, read_json
from headrace.run.rows.json_rows import json_value
from tests.connect.delivered_views import COLUMNS, values

OWN = ("author", "ts", "pid")
EVENTS: dict[str, Type] = {"author": STRING, "ts": TIMESTAMP, "pid": BIGINT, "likes": INT}
LIKES, AGE_S = Column("likes", INT), Column(AGE, DOUBLE)


@given(data=st.data())
def test_values_of_every_type_are_read_back(data):
    type_ = data.draw(st.sampled_from(list(COLUMNS.values())))
    value = data.draw(values(type_))
    assert repr(read_json(type_, json_value(value))) == repr(value)


@pytest.mark.parametrize(
    ("expression", "rank"),
    [
        (Call("-", (Call("cast", (LIKES,), DOUBLE), AGE_S), DOUBLE), 5.0),
        (Column("pid", BIGINT), 42.0),
        (Call("/", (Literal(1.0, DOUBLE), Call("-", (AGE_S, AGE_S), DOUBLE)), DOUBLE), None),
        (Column("likes", INT), 7.0),
    ],
)
def test_a_rank_reads_columns_and_age_and_is_none_where_there_is_no_answer(expression, rank):
    entry = PageEntry("bob", 1_000 * SECOND, "42", {"likes": 7})
    assert rank_by(expression, EVENTS, OWN)(entry, 2.0) == rank


def test_an_event_that_lacks_the_column_has_no_rank():
    assert rank_by(LIKES, EVENTS, OWN)(PageEntry("bob", 0, "1", {}), 0.0) is None
