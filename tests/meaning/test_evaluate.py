"""What each operator means, in small tables that one can check by eye."""

from __future__ import annotations

import datetime as dt
import decimal
import math

import pytest
from hypothesis import given

from headrace.meaning.evaluate import Batch, evaluate, evaluate_change
from headrace.meaning.zset import EMPTY, NAN, ZSet
from headrace.model.errors import EvaluationError
from headrace.model.expr import FALSE, TRUE, Call, Column, Expr, Literal
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Matching,
    Negate,
    Order,
    Output,
    Projection,
    Ranking,
    Relation,
    Scan,
    TopK,
    UnionAll,
    Version,
    Windows,
    fields_of,
    inputs_of,
)
from headrace.model.rewrite import with_inputs
from headrace.model.types import BIGINT, BOOLEAN, DAY_TIME, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Row, Type, Value
from headrace.testing import Tables, relations, tables

A = Scan("a", "a", ("k", "v"), (INT, STRING))
B = Scan("b", "b", ("k", "w"), (INT, STRING))
AK, AV, BK, BW = Column("a.k", INT), Column("a.v", STRING), Column("b.k", INT), Column("b.w", STRING)
SAME_KEY = Call("=", (AK, BK), BOOLEAN)

ROWS_A: list[Row] = [(1, "x"), (1, "x"), (2, "y"), (None, "z")]
ROWS_B: list[Row] = [(1, "p"), (1, "q"), (3, "r"), (None, "s")]
TABLES = {"a": ZSet.of(ROWS_A), "b": ZSet.of(ROWS_B)}


def rows(relation: Relation, data: Tables = TABLES, now: dt.datetime | None = None) -> ZSet:
    return evaluate(relation, data, now)


def bag(*found: Row) -> ZSet:
    return ZSet.of(found)


def column(name: str, type_: Type) -> Scan:
    """A source of one column, named `c.NAME`."""
    return Scan("c", "c", (name,), (type_,))


def one_column(*values: Value) -> dict[str, ZSet]:
    return {"c": ZSet.of([(value,) for value in values])}


def test_a_scan_has_the_rows_of_its_source_as_often_as_they_occur():
    assert rows(A) == bag(*ROWS_A)
    assert rows(A).weight((1, "x")) == 2


def test_a_source_without_rows_of_the_version_asked_for_is_named():
    with pytest.raises(AssertionError, match='source "a" has no rows of version "before"'):
        rows(Scan("a", "a", ("k",), (INT,), Version.BEFORE))


@pytest.mark.parametrize("predicate", [FALSE, Literal(None, BOOLEAN), Call("=", (AK, Literal(None, INT)), BOOLEAN)])
def test_a_filter_drops_rows_where_the_predicate_is_false_or_null(predicate: Expr):
    assert rows(Filter(A, predicate)) == EMPTY


def test_a_filter_keeps_rows_where_the_predicate_is_true():
    assert rows(Filter(A, Call("=", (AK, Literal(1, INT)), BOOLEAN))) == bag((1, "x"), (1, "x"))


def test_a_projection_keeps_how_often_rows_occur():
    assert rows(Projection(A, (Output("n", Literal(7, INT)),))) == bag((7,), (7,), (7,), (7,))


PAIRS = [(1, "x", 1, "p"), (1, "x", 1, "q")] * 2
LEFT_ALONE: list[Row] = [(2, "y", None, None), (None, "z", None, None)]
RIGHT_ALONE: list[Row] = [(None, None, 3, "r"), (None, None, None, "s")]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (JoinKind.INNER, PAIRS),
        (JoinKind.LEFT, PAIRS + LEFT_ALONE),
        (JoinKind.RIGHT, PAIRS + RIGHT_ALONE),
        (JoinKind.FULL, PAIRS + LEFT_ALONE + RIGHT_ALONE),
        (JoinKind.SEMI, [(1, "x"), (1, "x")]),
        (JoinKind.ANTI, [(2, "y"), (None, "z")]),
    ],
)
@pytest.mark.parametrize("hashed", [True, False])
def test_a_join_pairs_equal_keys_and_never_nulls(kind: JoinKind, expected: list[Row], hashed: bool):
    on = SAME_KEY if hashed else Call("or", (SAME_KEY, FALSE), BOOLEAN)
    assert rows(Join(kind, A, B, on)) == bag(*expected)


def test_a_null_safe_join_pairs_nulls():
    on = Call("<=>", (BK, AK), BOOLEAN)
    assert rows(Join(JoinKind.SEMI, A, B, on)) == bag((1, "x"), (1, "x"), (None, "z"))


def test_a_join_on_true_is_the_cross_product():
    assert sum(weight for _, weight in rows(Join(JoinKind.INNER, A, B, TRUE)).items()) == 16


def test_the_rest_of_a_condition_decides_whether_an_outer_row_is_alone():
    on = Call("and", (SAME_KEY, Call("=", (BW, Literal("p", STRING)), BOOLEAN)), BOOLEAN)
    found = rows(Join(JoinKind.LEFT, A, B, on))
    assert found == bag((1, "x", 1, "p"), (1, "x", 1, "p"), *LEFT_ALONE)


def not_in(data: list[Row]) -> ZSet:
    on = Call("not", (Call("<=>", (SAME_KEY, FALSE), BOOLEAN),), BOOLEAN)
    return rows(Join(JoinKind.ANTI, A, B, on), {**TABLES, "b": ZSet.of(data)})


def test_not_in_is_never_true_when_a_null_is_among_the_options():
    assert not_in(ROWS_B) == EMPTY


def test_not_in_drops_a_null_unless_there_are_no_options():
    assert not_in([(3, "r")]) == bag((1, "x"), (1, "x"), (2, "y"))
    assert not_in([]) == bag(*ROWS_A)


@pytest.mark.parametrize("other", [NAN, -math.nan, float("nan")])
def test_nan_joins_nan_whatever_its_bits(other: float):
    left, right = Scan("l", "l", ("x",), (DOUBLE,)), Scan("m", "m", ("x",), (DOUBLE,))
    on = Call("=", (Column("l.x", DOUBLE), Column("m.x", DOUBLE)), BOOLEAN)
    data = {"l": ZSet.of([(math.nan,), (0.0,)]), "m": ZSet.of([(other,), (-0.0,)])}
    assert len(rows(Join(JoinKind.INNER, left, right, on), data)) == 2


def test_union_all_adds():
    assert rows(UnionAll((A, A))).weight((1, "x")) == 4


def test_distinct_keeps_each_row_once():
    assert rows(Distinct(A)) == bag((1, "x"), (2, "y"), (None, "z"))


def test_distinct_knows_one_nan_and_one_zero():
    found = rows(Distinct(column("x", DOUBLE)), one_column(math.nan, float("nan"), 0.0, -0.0, None, None))
    assert found == bag((NAN,), (0.0,), (None,))


def call(function: AggregateFunction, argument: Expr | None, type_: Type, *, distinct: bool = False) -> AggregateCall:
    return AggregateCall("v", function, argument, distinct, type_)


def test_null_keys_form_a_group():
    counted = Aggregate(A, (Output("k", AK),), (call(AggregateFunction.COUNT, None, BIGINT),))
    assert rows(counted) == bag((1, 2), (2, 1), (None, 1))


@pytest.mark.parametrize(
    ("function", "distinct", "type_", "expected"),
    [
        (AggregateFunction.COUNT, False, BIGINT, 3),
        (AggregateFunction.COUNT, True, BIGINT, 2),
        (AggregateFunction.SUM, False, BIGINT, 4),
        (AggregateFunction.SUM, True, BIGINT, 3),
        (AggregateFunction.AVG, False, DOUBLE, 4 / 3),
        (AggregateFunction.AVG, True, DOUBLE, 1.5),
        (AggregateFunction.MIN, False, INT, 1),
        (AggregateFunction.MAX, False, INT, 2),
    ],
)
def test_aggregates_skip_nulls(function: AggregateFunction, distinct: bool, type_: Type, expected: Value):
    found = rows(Aggregate(A, (), (call(function, AK, type_, distinct=distinct),)))
    assert found == one_column(expected)["c"]


def test_aggregates_of_nothing_are_one_row():
    calls = tuple(call(function, AK, BIGINT) for function in AggregateFunction)
    none = {"a": EMPTY}
    of_nothing: dict[AggregateFunction, Value] = {AggregateFunction.COUNT: 0, AggregateFunction.ARRAY_AGG: ()}
    assert rows(Aggregate(A, (), calls), none) == bag(tuple(of_nothing.get(one) for one in AggregateFunction))
    assert rows(Aggregate(A, (Output("k", AK),), calls), none) == EMPTY


def test_only_nulls_have_no_sum():
    found = rows(
        Aggregate(column("k", INT), (), (call(AggregateFunction.SUM, Column("c.k", INT), BIGINT),)), one_column(None)
    )
    assert found == bag((None,))


def of_column(function: AggregateFunction, argument: Type, result: Type, *values: Value) -> Value:
    relation = Aggregate(column("x", argument), (), (call(function, Column("c.x", argument), result),))
    ((row, _),) = rows(relation, one_column(*values)).items()
    return row[0]


def test_a_sum_that_does_not_fit_fails():
    largest = 2**63 - 1
    assert of_column(AggregateFunction.SUM, BIGINT, BIGINT, largest, -1, 1) == largest
    with pytest.raises(EvaluationError, match="out of the range of bigint"):
        of_column(AggregateFunction.SUM, BIGINT, BIGINT, largest, 1)


def test_decimal_sums_are_exact_and_averages_round_half_up():
    numbers = tuple(map(decimal.Decimal, ("0.01", "0.01", "0.03")))
    assert of_column(AggregateFunction.SUM, Decimal(10, 2), Decimal(20, 2), *numbers) == decimal.Decimal("0.05")
    average = of_column(AggregateFunction.AVG, Decimal(10, 2), Decimal(14, 6), *numbers)
    assert str(average) == "0.016667"


def test_float_sums_do_not_depend_on_the_order():
    assert of_column(AggregateFunction.SUM, DOUBLE, DOUBLE, 1e16, 1.0, -1e16) == 1.0
    infinite = of_column(AggregateFunction.SUM, DOUBLE, DOUBLE, math.inf, 1.0)
    assert infinite == math.inf
    assert of_column(AggregateFunction.SUM, DOUBLE, DOUBLE, math.inf, -math.inf) is NAN
    assert of_column(AggregateFunction.SUM, DOUBLE, DOUBLE, 1.7e308, 1.7e308) == math.inf


def test_nan_is_the_largest_number_and_text_is_ordered_by_code_points():
    assert of_column(AggregateFunction.MAX, DOUBLE, DOUBLE, math.inf, math.nan) is NAN
    assert of_column(AggregateFunction.MIN, DOUBLE, DOUBLE, 1.0, math.nan) == 1.0
    assert of_column(AggregateFunction.MAX, STRING, STRING, "Z", "a", "é", "日") == "日"


def windows(size_min: int, slide_min: int, offset_min: int = 0) -> Windows:
    minute = 60_000
    time = Column("c.t", TIMESTAMP)
    return Windows(
        column("t", TIMESTAMP), time, size_min * minute, slide_min * minute, offset_min * minute, "from", "to"
    )


def at(hour: int, minute: int = 0) -> dt.datetime:
    return dt.datetime(2024, 2, 29, hour, minute)


def starts(relation: Windows, time: dt.datetime) -> list[Value]:
    return sorted((row[1] for row, _ in rows(relation, one_column(time)).items()), key=str)


def test_a_tumbling_window_holds_its_start_and_not_its_end():
    assert rows(windows(10, 10), one_column(at(12, 10))) == bag((at(12, 10), at(12, 10), at(12, 20)))
    assert starts(windows(10, 10), at(12, 9)) == [at(12)]


def test_a_row_is_in_every_hopping_window_that_holds_it():
    assert starts(windows(30, 10), at(12, 25)) == [at(12), at(12, 10), at(12, 20)]


def test_windows_with_gaps_may_hold_nothing():
    assert starts(windows(10, 30), at(12, 5)) == [at(12)]
    assert starts(windows(10, 30), at(12, 15)) == []


def test_windows_start_at_multiples_of_the_slide_plus_the_offset():
    assert starts(windows(60, 60, 15), at(12, 10)) == [at(11, 15)]


def test_windows_before_1970_start_below_the_instant():
    early = dt.datetime(1969, 12, 31, 23, 59)
    assert starts(windows(60, 60), early) == [dt.datetime(1969, 12, 31, 23)]


def test_rows_without_a_time_are_in_no_window():
    assert rows(windows(10, 10), one_column(None)) == EMPTY


def top(
    ranking: Ranking, limit: int, *, offset: int = 0, partition: tuple[Expr, ...] = (), order: Order | None = None
) -> TopK:
    by_key = order or Order(AK, descending=False, nulls_first=True)
    return TopK(A, partition, (by_key,), limit, offset, ranking, "n")


def test_row_numbers_count_copies_of_a_row_one_by_one():
    assert rows(top(Ranking.ROW_NUMBER, 2)) == bag((None, "z", 1), (1, "x", 2))
    assert rows(top(Ranking.ROW_NUMBER, 2, offset=2)) == bag((1, "x", 3), (2, "y", 4))


def test_equal_rows_share_a_rank_and_leave_a_gap():
    assert rows(top(Ranking.RANK, 4)) == bag((None, "z", 1), (1, "x", 2), (1, "x", 2), (2, "y", 4))


def test_dense_ranks_leave_no_gap():
    assert rows(top(Ranking.DENSE_RANK, 3)) == bag((None, "z", 1), (1, "x", 2), (1, "x", 2), (2, "y", 3))


def test_without_a_name_for_the_rank_rows_stay_as_they_are():
    first = TopK(A, (), (Order(AK, descending=True, nulls_first=False),), limit=2)
    assert rows(first) == bag((2, "y"), (1, "x"))


@pytest.mark.parametrize(
    ("descending", "nulls_first", "expected"),
    [(False, True, [None, 1]), (False, False, [1, 2]), (True, True, [None, 2]), (True, False, [2, 1])],
)
def test_nulls_come_where_the_order_says(descending: bool, nulls_first: bool, expected: list[object]):
    relation = TopK(Distinct(A), (), (Order(AK, descending, nulls_first),), limit=2)
    assert {row[0] for row, _ in rows(relation).items()} == set(expected)


def test_ties_are_broken_by_the_whole_row():
    order = Order(Literal(0, INT), descending=True, nulls_first=False)
    data = {"a": ZSet.of([(2, "a"), (1, "b"), (1, "a"), (None, "c")])}
    assert rows(TopK(A, (), (order,), limit=2), data) == bag((None, "c"), (1, "a"))


def test_each_partition_has_its_own_first_rows():
    relation = TopK(A, (AK,), (Order(AV, descending=False, nulls_first=True),), limit=1)
    assert rows(relation) == bag((1, "x"), (2, "y"), (None, "z"))


def test_nan_is_ordered_above_infinity():
    relation = TopK(
        column("x", DOUBLE), (), (Order(Column("c.x", DOUBLE), descending=True, nulls_first=False),), limit=1
    )
    assert rows(relation, one_column(math.inf, math.nan, None)) == bag((NAN,))


def test_now_is_the_instant_of_the_evaluation():
    since = Call("-", (Call("now", (), TIMESTAMP), Literal(dt.timedelta(hours=1), DAY_TIME)), TIMESTAMP)
    recent = Filter(column("t", TIMESTAMP), Call(">", (Column("c.t", TIMESTAMP), since), BOOLEAN))
    data = one_column(at(10), at(11), at(12))
    assert rows(recent, data, now=at(12)) == bag((at(12),))
    with pytest.raises(AssertionError, match='"now" needs to be told the time'):
        rows(recent, data)


NEGATIVE = Negate(A)
COUNT = call(AggregateFunction.COUNT, None, BIGINT)


@pytest.mark.parametrize(
    "relation",
    [
        Distinct(NEGATIVE),
        Aggregate(NEGATIVE, (), (COUNT,)),
        TopK(NEGATIVE, (), (), 1),
        Join(JoinKind.SEMI, B, NEGATIVE, SAME_KEY),
        Join(JoinKind.ANTI, B, NEGATIVE, SAME_KEY),
        Join(JoinKind.LEFT, B, NEGATIVE, SAME_KEY),
        Join(JoinKind.RIGHT, NEGATIVE, B, SAME_KEY),
        Join(JoinKind.FULL, NEGATIVE, B, SAME_KEY),
    ],
)
def test_what_counts_rows_refuses_rows_that_occur_less_than_zero_times(relation: Relation):
    with pytest.raises(AssertionError, match="less than zero times"):
        rows(relation)


@pytest.mark.parametrize(
    "relation",
    [
        Filter(A, TRUE),
        Projection(A, (Output("k", AK),)),
        Join(JoinKind.INNER, A, B, SAME_KEY),
        Join(JoinKind.SEMI, A, B, SAME_KEY),
        Join(JoinKind.ANTI, A, B, SAME_KEY),
        Join(JoinKind.LEFT, A, B, SAME_KEY),
        UnionAll((A, A)),
    ],
)
def test_linear_operators_carry_signs_through(relation: Relation):
    inputs = tuple(Negate(input_) if input_ == A else input_ for input_ in inputs_of(relation))
    assert rows(with_inputs(relation, inputs)) == -rows(relation)


def test_matching_keeps_rows_that_meet_a_touched_row_nulls_included():
    touched = Scan("b", "b", ("k", "w"), (INT, STRING), Version.CHANGE)
    step = Batch(TABLES, {"a": EMPTY, "b": bag((None, "new")) - bag((1, "p"))})
    found = evaluate_change(
        Matching(Scan("a", "a", ("k", "v"), (INT, STRING), Version.BEFORE), touched, ((AK, BK),), TRUE), step
    )
    assert found == bag((1, "x"), (1, "x"), (None, "z"))


def test_matching_by_a_condition_follows_the_condition():
    touched = Scan("b", "b", ("k", "w"), (INT, STRING), Version.CHANGE)
    step = Batch(TABLES, {"a": EMPTY, "b": bag((None, "new")) - bag((1, "p"))})
    assert evaluate_change(Matching(A, touched, (), SAME_KEY), step) == bag((1, "x"), (1, "x"))


def test_a_step_reads_rows_before_after_and_between():
    step = Batch(TABLES, {"a": bag((5, "new")) - bag((2, "y")), "b": EMPTY})
    versions = {version: evaluate_change(Scan("a", "a", A.columns, A.types, version), step) for version in Version}
    assert versions[Version.BEFORE] + versions[Version.CHANGE] == versions[Version.NOW]
    assert versions[Version.NOW] == bag((1, "x"), (1, "x"), (None, "z"), (5, "new"))


def test_a_step_that_deletes_what_is_not_there_is_refused():
    with pytest.raises(AssertionError, match="delete rows that are not there: a"):
        evaluate_change(A, Batch(TABLES, {"a": -bag((9, "never")), "b": EMPTY}))


def test_a_python_function_is_called_with_its_arguments():
    shout = Call("python:shout@2", (AV,), STRING)
    found = evaluate(Projection(A, (Output("v", shout),)), TABLES, python={"shout@2": lambda text: f"{text}!"})
    assert found.weight(("x!",)) == 2


@given(relation=relations(), data=tables())
def test_answers_are_bags_of_rows_as_wide_as_the_relation(relation: Relation, data: dict[str, ZSet]):
    try:
        found = evaluate(relation, data)
    except EvaluationError:
        return
    assert found.is_bag
    assert all(len(row) == len(fields_of(relation)) for row, _ in found.items())
