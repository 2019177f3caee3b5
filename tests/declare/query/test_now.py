"""Comparisons with the current date, brought to comparisons with now, hold for the same rows at every instant."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from headrace.declare.query.calls import TODAY
from headrace.declare.query.now import is_time_filter, use_time
from headrace.meaning.scalar import evaluate
from headrace.model.expr import Call, Column, Literal, conjuncts
from headrace.model.relation import Filter, Scan
from headrace.model.types import BOOLEAN, DATE, INT

SCAN = Scan("orders", "orders", ("placed",), (DATE,))
PLACED = Column("orders.placed", DATE)

days = st.integers(-3, 3)
instants = st.sampled_from(
    [
        dt.datetime(2024, 2, 29),
        dt.datetime(2024, 2, 29, 0, 0, 0, 1),
        dt.datetime(2024, 2, 29, 12),
        dt.datetime(2024, 2, 29, 23, 59, 59, 999_999),
    ]
)


@given(st.sampled_from(("<", "<=", ">", ">=", "=")), st.booleans(), days, days, instants)
def test_a_filter_on_the_current_date_is_one_on_now(
    operator: str, mirrored: bool, shift: int, distance: int, now: dt.datetime
):
    bound = Call("date_add", (TODAY, Literal(shift, INT)), DATE) if shift else TODAY
    written = Call(operator, (bound, PLACED) if mirrored else (PLACED, bound), BOOLEAN)
    meant = use_time(Filter(SCAN, written))
    assert isinstance(meant, Filter)
    assert all(map(is_time_filter, conjuncts(meant.predicate)))
    row = {"orders.placed": now.date() + dt.timedelta(days=distance)}
    assert evaluate(meant.predicate, row, now) == evaluate(written, row, now)
