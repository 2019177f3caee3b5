"""Groups kept from batch to batch are, at every time, those counted from scratch."""

from __future__ import annotations

import decimal
import math

import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.block import Aggregation, Window
from headrace.model.errors import EvaluationError
from headrace.model.expr import Column
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Filter,
    Output,
    Projection,
    Relation,
    Scan,
    Windows,
    fields_of,
)
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Row, Type, Value
from headrace.run.operators.aggregate import accumulate, group_fields, initial, keeps_totals, make_outputs, state_fields
from headrace.run.operators.prepare import key_column, key_fields, prepare, prepared_fields
from headrace.run.operators.running import TOTALS
from headrace.run.rows.arrow import arrow_table, rows_of_arrow
from headrace.testing import SCHEMA
from headrace.testing.aggregate_calls import aggregate_call, result_type
from headrace.testing.expressions import ScalarMaker
from headrace.testing.tables import COLUMN_TYPES
from tests.run.operators.histories import STAMPS, History, Kept, at_time, bag_of, histories

SOURCE = SCHEMA["r"]
SCAN = Scan("r", "r", tuple(c.name for c in SOURCE.columns or ()), tuple(c.type for c in SOURCE.columns or ()))
MINUTE = 60_000


@st.composite
def aggregations(draw: st.DrawFn, *, totals: bool) -> tuple[Aggregation, tuple[Output, ...]]:
    window = draw(st.none() | windows())
    scalars = ScalarMaker(draw, fields_of(SCAN))
    key_types = draw(st.lists(st.sampled_from(COLUMN_TYPES), max_size=2))
    keys = tuple(Output(f"key{i}", scalars.make(type_, 1)) for i, type_ in enumerate(key_types))
    functions = tuple(sorted(TOTALS)) if totals else tuple(AggregateFunction)
    count = draw(st.integers(0 if keys else 1, 3))
    calls = tuple(aggregate_call(draw, f"call{i}", scalars, functions, distinct=not totals) for i in range(count))
    aggregation = Aggregation(keys, calls, window, None)
    above = ScalarMaker(draw, group_fields(aggregation))
    having = draw(st.none() | st.just(0).map(lambda _: above.make(BOOLEAN, 1)))
    columns = [Output(f"out{i}", Column(f.name, f.type)) for i, f in enumerate(group_fields(aggregation))]
    shown = draw(st.lists(st.sampled_from(columns), unique=True, min_size=1)) if columns else []
    return Aggregation(keys, calls, window, having), tuple(shown)


def windows() -> st.SearchStrategy[Window]:
    time = Column("r.at", TIMESTAMP)
    lengths = st.sampled_from(((60, 60, 0), (60, 20, 5), (50, 20, 0), (10, 30, 7)))
    return lengths.map(lambda m: Window(time, m[0] * MINUTE, m[1] * MINUTE, m[2] * MINUTE, "from", "to"))


def relation_of(aggregation: Aggregation, shown: tuple[Output, ...]) -> Relation:
    rows: Relation = SCAN
    keys = aggregation.keys
    if (window := aggregation.window) is not None:
        rows = Windows(SCAN, window.time, window.size_ms, window.slide_ms, window.offset_ms, window.start, window.end)
        keys = (*keys, *(Output(name, Column(name, TIMESTAMP)) for name in (window.start, window.end)))
    groups: Relation = Aggregate(rows, keys, aggregation.calls)
    return Projection(groups if aggregation.having is None else Filter(groups, aggregation.having), shown)


def logged(aggregation: Aggregation, shown: tuple[Output, ...], history: History) -> list[pa.Table]:
    """The changes of all batches, after the row that is there from the start."""
    key = [key_column(field) for field in key_fields(aggregation)]
    log = [make_outputs(aggregation, shown, initial(aggregation, 0))]
    state = [arrow_table({**{f.name: f.type for f in state_fields(aggregation)}, **STAMPS}, [])]
    for after, upto in history.batches():
        prepared = prepare(aggregation, history.changes("r", fields_of(SCAN), after, upto))
        assert prepared.column_names == [*(f.name for f in prepared_fields(aggregation)), *STAMPS]
        groups, kept = accumulate(aggregation, prepared, Kept(key, state))
        assert groups.column_names == [*(f.name for f in group_fields(aggregation)), *STAMPS]
        log.append(make_outputs(aggregation, shown, groups))
        assert kept.schema == state[0].schema
        state.append(kept)
    return log


def check(aggregation: Aggregation, shown: tuple[Output, ...], history: History) -> None:
    relation, was = relation_of(aggregation, shown), ZSet()
    try:
        answers = [evaluate(relation, {"r": rows}) for rows in history.tables("r")]
    except EvaluationError:
        reject()
    log = logged(aggregation, shown, history)
    for time, answer in enumerate(answers):
        assert at_time(log, time) == answer - was
        was = answer


@given(st.data())
def test_groups_of_totals_are_at_every_time_those_counted_from_scratch(data: st.DataObject):
    aggregation, shown = data.draw(aggregations(totals=True))
    assert keeps_totals(aggregation)
    check(aggregation, shown, data.draw(histories(("r",))))


@given(st.data())
def test_groups_of_all_calls_are_at_every_time_those_counted_from_scratch(data: st.DataObject):
    check(*data.draw(aggregations(totals=False)), data.draw(histories(("r",))))


def grouped(*calls: AggregateCall, key: bool = True) -> Aggregation:
    keys = (Output("g", Column("g", STRING)),) if key else ()
    return Aggregation(keys, calls, None, None)


def sum_of(type_: Type, function: AggregateFunction = AggregateFunction.SUM) -> AggregateCall:
    return AggregateCall("total", function, Column("x", type_), False, result_type(function, type_))


def changes_of(type_: Type, *rows: tuple[str | None, Value, int, int]) -> pa.Table:
    """Rows of group, value, time and weight."""
    columns = {"g": STRING, "x": type_, **STAMPS}
    return arrow_table(columns, [(g, x, time, 0, weight) for g, x, time, weight in rows])


def totals_after(aggregation: Aggregation, *batches: pa.Table) -> list[Row]:
    """The rows of groups in the end, after batches one by one."""
    key = [key_column(field) for field in key_fields(aggregation)]
    state, rows = [arrow_table({**{f.name: f.type for f in state_fields(aggregation)}, **STAMPS}, [])], ZSet()
    for batch in batches:
        groups, kept = accumulate(aggregation, prepare(aggregation, batch), Kept(key, state))
        rows += bag_of(groups)
        state.append(kept)
    return sorted(rows.rows(), key=str)


def test_a_double_that_is_taken_away_leaves_nothing_behind():
    aggregation = grouped(sum_of(DOUBLE))
    came = changes_of(DOUBLE, ("a", 0.1, 1, 1), ("a", 1e300, 1, 1), ("a", 5e-324, 2, 3))
    went = changes_of(DOUBLE, ("a", 1e300, 3, -1), ("a", 5e-324, 4, -3))
    assert totals_after(aggregation, came, went) == [("a", 0.1)]


def test_infinities_and_nan_can_be_taken_away_again():
    aggregation = grouped(sum_of(DOUBLE))
    came = changes_of(DOUBLE, ("a", math.inf, 1, 1), ("a", -math.inf, 1, 1), ("a", math.nan, 1, 2), ("a", 1.5, 1, 1))
    assert str(totals_after(aggregation, came)) == "[('a', nan)]"
    without_nan = changes_of(DOUBLE, ("a", math.nan, 2, -2), ("a", math.inf, 2, -1))
    assert totals_after(aggregation, came, without_nan) == [("a", -math.inf)]
    finite = changes_of(DOUBLE, ("a", -math.inf, 3, -1))
    assert totals_after(aggregation, came, without_nan, finite) == [("a", 1.5)]


@pytest.mark.parametrize(
    ("type_", "largest"), [(BIGINT, 2**63 - 1), (Decimal(38, 0), decimal.Decimal(10**38 - 1))], ids=str
)
def test_a_sum_that_does_not_fit_its_type_is_an_error(type_: Type, largest: Value):
    result = BIGINT if type_ == BIGINT else type_
    aggregation = grouped(AggregateCall("total", AggregateFunction.SUM, Column("x", type_), False, result))
    with pytest.raises(EvaluationError):
        totals_after(aggregation, changes_of(type_, ("a", largest, 1, 2)))
    average = grouped(sum_of(BIGINT, AggregateFunction.AVG))
    assert totals_after(average, changes_of(BIGINT, ("a", 2**63 - 1, 1, 2))) == [("a", float(2**63))]


def test_a_group_dies_with_its_last_row_and_its_state_goes():
    aggregation = grouped(AggregateCall("n", AggregateFunction.COUNT, None, False, BIGINT), sum_of(INT))
    key = [key_column(field) for field in key_fields(aggregation)]
    came = prepare(aggregation, changes_of(INT, (None, 1, 1, 1), ("a", None, 1, 2)))
    _, state = accumulate(aggregation, came, None)
    groups, gone = accumulate(aggregation, prepare(aggregation, changes_of(INT, (None, 1, 2, -1))), Kept(key, [state]))
    assert rows_of_arrow(groups) == [(None, 1, 1, 2, 0, -1)]
    assert rows_of_arrow(gone.select(["k:g", "n", "__w"])) == [(None, 1, -1)]


def test_what_is_unchanged_is_not_written():
    aggregation = grouped(sum_of(INT))
    came = prepare(aggregation, changes_of(INT, ("a", 1, 1, 1), ("a", 0, 2, 1)))
    groups, state = accumulate(aggregation, came, None)
    assert rows_of_arrow(groups) == [("a", 1, 1, 0, 1)]
    assert state.num_rows == 1
