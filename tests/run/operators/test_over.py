"""Window functions from batch to batch are, at every time, those of all rows."""

from __future__ import annotations

import decimal
import random
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headrace.meaning.derive_keys import keys_of
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.block import Derivation, DerivationKind
from headrace.model.errors import EvaluationError
from headrace.model.expr import Call, Column, Expr, Literal
from headrace.model.relation import (
    CURRENT_ROW,
    AggregateCall,
    AggregateFunction,
    Frame,
    FrameUnit,
    Order,
    Output,
    Over,
    PlaceCall,
    Projection,
    RangeEdge,
    RowEdge,
    Scan,
    WindowCall,
    WindowFunction,
    fields_of,
)
from headrace.model.types import BIGINT, DATE, DOUBLE, INT, STRING, TIMESTAMP, Decimal, Type
from headrace.run.logs.key_index import KeyIndex, make_indexes
from headrace.run.operators.derive import derive_over
from headrace.run.operators.over import state_key
from headrace.run.program import DerivedInput, DeriveStep, LogReading
from headrace.run.rows.arrow import arrow_table
from headrace.testing.window_calls import window_calls
from tests.run.operators.histories import STAMPS, History, at_time, bag_of
from tests.run.operators.test_top import long_histories

TYPES: tuple[Type, ...] = (INT, INT, BIGINT, DOUBLE, STRING, DATE, TIMESTAMP, Decimal(10, 2))


@dataclass(frozen=True)
class Windowed:
    """Window functions over a source "r"."""

    over: Over
    scan: Scan

    def step(self) -> DeriveStep:
        """The step, in which all that is computed is a column."""
        columns = list(_columns(self.scan))
        named: dict[Expr, Column] = {}

        def at(expr: Expr) -> Expr:
            if isinstance(expr, Literal | Column):
                return expr
            if expr not in named:
                named[expr] = Column(f"e{len(named)}", expr.type)
                columns.append(Output(named[expr].name, expr))
            return named[expr]

        calls = tuple(call.over(at) for call in self.over.calls)
        derivation = Derivation(
            DerivationKind.WINDOW,
            (tuple(columns),),
            partition=self.over.partition,
            order=self.over.order,
            calls=calls,
        )
        fields = fields_of(self.scan)
        outputs = tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(self.over))
        keys = keys_of(derivation, (fields,))
        return DeriveStep((DerivedInput(LogReading("r", {}), None, fields),), derivation, keys, outputs, "state")


def _columns(scan: Scan) -> tuple[Output, ...]:
    return tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(scan))


@st.composite
def windowed(draw: st.DrawFn) -> Windowed:
    types: list[Type] = draw(st.lists(st.sampled_from(TYPES), min_size=2, max_size=3))
    scan = Scan("r", "r", tuple(f"c{at}" for at in range(len(types))), tuple(types))
    columns = [Column(field.name, field.type) for field in fields_of(scan)]
    partition = tuple(draw(st.lists(st.sampled_from(columns), max_size=1)))
    by = draw(st.lists(st.sampled_from(columns), max_size=2, unique=True))
    order = tuple(Order(expr, draw(st.booleans()), draw(st.booleans())) for expr in by)
    number = iter(range(9))
    calls = window_calls(draw, fields_of(scan), order, lambda: f"w{next(number)}")
    return Windowed(Over(Projection(scan, _columns(scan)), partition, order, calls), scan)


def check(case: Windowed, history: History, margin: int) -> None:
    """Follows the batches, and compares rows and values at every time with what the query means."""
    step, fields = case.step(), fields_of(case.scan)
    (keys,) = step.keys
    log, states = list[pa.Table](), list[pa.Table]()
    try:
        answers = [evaluate(case.over, {"r": now}) for now in history.tables("r")]
        for after, upto in history.batches():
            indexes = tuple(index for table in states for index in make_indexes(table, state_key(keys), 2))
            kept = KeyIndex(state_key(keys), indexes) if states else None
            made = derive_over(step, history.changes("r", fields, after, upto), kept, margin=margin)
            log.append(made.shown)
            states.append(made.state)
    except EvaluationError:
        reject()
    was = answers[0]
    for time, answer in enumerate(answers):
        assert at_time(log, time) == answer - was
        was = answer


@given(data=st.data(), margin=st.sampled_from((1, 2, 16)))
def test_window_functions_are_at_every_time_those_of_all_rows(data: st.DataObject, margin: int):
    case = data.draw(windowed())
    check(case, data.draw(long_histories(case.scan)), margin)


READINGS = Scan("r", "r", ("meter", "hour", "value"), (INT, INT, INT))
METER, HOUR, VALUE = (Column(field.name, field.type) for field in fields_of(READINGS))
BY_HOUR = (Order(HOUR, descending=False, nulls_first=True),)
WIDE = Decimal(38, 0)


def aggregate(function: AggregateFunction, type_: Type, frame: Frame) -> WindowCall:
    return WindowCall("w", type_, AggregateCall("", function, VALUE, False, type_), frame)


def hours(precedes: bool, count: int) -> RangeEdge:
    key, offset = Call("cast", (HOUR,), WIDE), Literal(decimal.Decimal(count), WIDE)
    return RangeEdge(offset, precedes, Call("-" if precedes else "+", (key, offset), WIDE))


NEAR = {
    "lag": WindowCall("w", INT, PlaceCall(WindowFunction.LAG, (VALUE,), 3)),
    "lead": WindowCall("w", INT, PlaceCall(WindowFunction.LEAD, (VALUE, METER), 2)),
    "rows": aggregate(AggregateFunction.SUM, BIGINT, Frame(FrameUnit.ROWS, RowEdge(-5), RowEdge(2))),
    "range": aggregate(
        AggregateFunction.MAX, INT, Frame(FrameUnit.RANGE, hours(True, 4), hours(False, 1), Call("cast", (HOUR,), WIDE))
    ),
    "last value": WindowCall(
        "w", INT, PlaceCall(WindowFunction.LAST_VALUE, (VALUE,)), Frame(FrameUnit.RANGE, None, CURRENT_ROW)
    ),
}
RUNNING = {
    "row number": WindowCall("w", BIGINT, PlaceCall(WindowFunction.ROW_NUMBER)),
    "dense rank": WindowCall("w", BIGINT, PlaceCall(WindowFunction.DENSE_RANK)),
    "sum": aggregate(AggregateFunction.SUM, BIGINT, Frame(FrameUnit.RANGE, None, CURRENT_ROW)),
    "average": aggregate(AggregateFunction.AVG, DOUBLE, Frame(FrameUnit.ROWS, None, RowEdge(-1))),
    "maximum": aggregate(AggregateFunction.MAX, INT, Frame(FrameUnit.ROWS, None, CURRENT_ROW)),
    "first value": WindowCall(
        "w",
        INT,
        PlaceCall(WindowFunction.FIRST_VALUE, (VALUE,), skips_nulls=True),
        Frame(FrameUnit.ROWS, None, CURRENT_ROW),
    ),
    "range": aggregate(
        AggregateFunction.COUNT, BIGINT, Frame(FrameUnit.RANGE, None, hours(True, 2), Call("cast", (HOUR,), WIDE))
    ),
}


@dataclass
class Meter:
    """Pushes of readings of one meter, each with the change of the answer and how many rows of the state were read."""

    case: Windowed
    now: ZSet = EMPTY
    states: list[pa.Table] = field(default_factory=list)

    def push(self, change: ZSet, margin: int = 16) -> tuple[int, int]:
        """Rows of the state read, and rows made."""
        step, time = self.case.step(), len(self.states) + 1
        rows = [(*row, time, 0, weight) for row, weight in change.items()]
        types = {column.name: column.type for column in fields_of(READINGS)}
        names = state_key(step.keys[0])
        indexes = tuple(index for table in self.states for index in make_indexes(table, names, 1))
        kept = KeyIndex(names, indexes) if indexes else None
        made = derive_over(step, arrow_table({**types, **STAMPS}, rows), kept, margin=margin)
        was, self.now = self.now, self.now + change
        assert bag_of(made.shown) == evaluate(self.case.over, {"r": self.now}) - evaluate(self.case.over, {"r": was})
        self.states.append(made.state)
        return made.read, made.shown.num_rows


def meter(call: WindowCall, size: int = 500) -> Meter:
    found = Meter(Windowed(Over(Projection(READINGS, _columns(READINGS)), (METER,), BY_HOUR, (call,)), READINGS))
    found.push(ZSet.of((1, hour, hour * 7919 % 1000) for hour in range(size)))
    return found


@pytest.mark.parametrize("call", NEAR.values(), ids=list(NEAR))
@pytest.mark.parametrize("hour", [0, 250, 501])
def test_a_change_reads_and_moves_only_rows_near_it(call: WindowCall, hour: int):
    readings = meter(call)
    for change in (ZSet.of([(1, hour, 5000)]), ZSet([((1, hour, 5000), -1), ((1, hour, 7000), 1)])):
        read, made = readings.push(change)
        assert read < 120
        assert made < 40


@pytest.mark.parametrize("call", RUNNING.values(), ids=list(RUNNING))
def test_a_row_that_comes_last_reads_only_rows_before_it(call: WindowCall):
    readings = meter(call)
    for hour in range(500, 503):
        read, made = readings.push(ZSet.of([(1, hour, hour % 3)]))
        assert read < 120
        assert made < 10


@pytest.mark.parametrize("call", RUNNING.values(), ids=list(RUNNING))
def test_a_row_in_the_middle_moves_rows_after_it_as_far_as_they_differ(call: WindowCall):
    readings = meter(call)
    assert readings.push(ZSet.of([(1, 300, -1)]))[0] < 320
    # A row that goes for another one of the same value.
    changed = ZSet([((1, 300, -1), -1), ((1, 301, -1), 1)])
    assert readings.push(changed)[1] < 20


@pytest.mark.parametrize("call", NEAR.values(), ids=list(NEAR))
def test_changes_far_from_each_other_are_read_apart(call: WindowCall):
    readings = meter(call)
    read, made = readings.push(ZSet.of((1, hour, 5000) for hour in (50, 250, 251, 450)))
    assert read < 4 * 120
    assert made < 4 * 40


@pytest.mark.parametrize(
    "call", [*NEAR.values(), *RUNNING.values()], ids=[*NEAR, *(f"running {one}" for one in RUNNING)]
)
def test_changes_anywhere_are_followed_however_few_rows_are_read_at_first(call: WindowCall):
    readings, rng = meter(call, 80), random.Random(7)
    for _ in range(8):
        gone = rng.sample(sorted(readings.now.rows(), key=str), rng.randint(0, 3))
        come = [(1, rng.randint(-2, 82), rng.choice((None, 3, 5))) for _ in range(rng.randint(1, 3))]
        readings.push(ZSet.of(come) - ZSet.of(gone), margin=rng.choice((1, 2)))
