"""Comparisons with the current date, brought to comparisons with now, hold for the same rows at every instant."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from headrace.declare.query.calls import NOW, TODAY
from headrace.declare.query.now import is_time_filter, use_time
from headrace.meaning.scalar import evaluate
from headrace.model.expr import Call, Column, Literal, conjuncts
from headrace.model.relation import Filter, Scan
from headrace.model.types import BOOLEAN, DATE, DAY_TIME, INT, STRING, TIMESTAMP, YEAR_MONTH

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


AT = Column("orders.at", TIMESTAMP)
TIMES = Scan("orders", "orders", ("placed", "at"), (DATE, TIMESTAMP))
TODAY_AS_TIME = Call("cast", (TODAY,), TIMESTAMP)
starts = st.sampled_from(
    [
        TODAY_AS_TIME,
        *(
            Call("date_trunc", (Literal(unit, STRING), inner), TIMESTAMP)
            for unit in ("MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
            for inner in (NOW, TODAY_AS_TIME)
            if not (inner == TODAY_AS_TIME and unit in ("MINUTE", "HOUR"))
        ),
    ]
)
shifts = st.one_of(
    st.none(),
    st.integers(-15, 15).map(lambda months: Literal(months, YEAR_MONTH)),
    st.sampled_from((1, 24, 26, 168, 400)).map(lambda hours: Literal(dt.timedelta(hours=hours), DAY_TIME)),
)
moments = st.datetimes(dt.datetime(2023, 1, 1), dt.datetime(2025, 3, 1)) | st.builds(
    lambda day, tick: dt.datetime(2024, 1, 1) + dt.timedelta(days=day, microseconds=tick),
    st.integers(-60, 420),
    st.sampled_from((-1, 0, 1)),
)


@given(st.sampled_from(("<", "<=", ">", ">=", "=")), st.booleans(), starts, shifts, st.booleans(), moments, moments)
def test_a_filter_on_the_start_of_a_unit_is_one_on_now(operator, on_date, start, shift, later, now, at):
    bound = start if shift is None else Call("+" if later else "-", (start, shift), TIMESTAMP)
    left = Call("cast", (PLACED,), TIMESTAMP) if on_date else AT
    written = Call(operator, (left, bound), BOOLEAN)
    meant = use_time(Filter(TIMES, written))
    assert isinstance(meant, Filter)
    unusable = shift is not None and shift.type == YEAR_MONTH and shift.value and _shorter_than_a_month(start)
    assert all(map(is_time_filter, conjuncts(meant.predicate))) or unusable
    near = evaluate(bound, {}, now)
    assert isinstance(near, dt.datetime)
    for moment in (at, near, near + dt.timedelta(microseconds=1), near - dt.timedelta(microseconds=1)):
        row = {"orders.placed": moment.date(), "orders.at": moment}
        assert evaluate(meant.predicate, row, now) == evaluate(written, row, now)


def _shorter_than_a_month(start) -> bool:
    return start != TODAY_AS_TIME and start.arguments[0].value in ("MINUTE", "HOUR", "WEEK")
