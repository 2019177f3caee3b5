"""First rows of partitions from batch to batch are, at every time, those of all rows, whatever partitions keep."""

from __future__ import annotations

import datetime as dt
import decimal
import math
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headrace.meaning.derive_keys import keys_of
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import EMPTY, ZSet
from headrace.model.block import Derivation, DerivationKind
from headrace.model.errors import EvaluationError
from headrace.model.expr import Column
from headrace.model.relation import Order, Output, Projection, Ranking, Scan, TopK, fields_of
from headrace.model.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Array, Decimal, Type
from headrace.run.operators.derive import derive_top
from headrace.run.operators.top import CUT, Partitions, state_key
from headrace.run.program import DerivedInput, DeriveStep, LogReading
from headrace.run.rows.arrow import arrow_table
from headrace.run.rows.changes import contents
from headrace.testing import SCHEMA
from headrace.testing.expressions import ScalarMaker
from headrace.testing.tables import COLUMN_TYPES
from tests.run.operators.histories import STAMPS, History, Kept, Stored, at_time, histories

WIDE = Decimal(38, 2)
POOLS: dict[Type, tuple[object, ...]] = {
    INT: (1, 2, 3, None),
    BIGINT: (-(2**63), 0, 2**63 - 1, None),
    DOUBLE: (0.0, -0.0, math.nan, math.inf, -1.5, None),
    STRING: ("", "a", "é", "日本", "a" * 40, None),
    BINARY: (b"", b"a", b"\xff\x00", None),
    Decimal(10, 2): (decimal.Decimal("1.00"), decimal.Decimal("-99999999.99"), None),
    WIDE: (decimal.Decimal("1.00"), decimal.Decimal(10) ** 30, -(decimal.Decimal(10) ** 30), None),
    DATE: (dt.date(1969, 12, 31), dt.date(2024, 2, 29), None),
    TIMESTAMP: (dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), dt.datetime(2024, 2, 29), None),
    BOOLEAN: (True, False, None),
    Array(INT): ((), (1,), (None, 2), None),
}


@dataclass(frozen=True)
class Ranked:
    """A top-k over a source "r" of three columns."""

    top: TopK
    scan: Scan

    def step(self) -> DeriveStep:
        top = self.top
        assert isinstance(top.input, Projection)
        rank = (top.offset, top.ranking, top.rank_name)
        columns = top.input.outputs
        derivation = Derivation(DerivationKind.TOPK, (columns,), None, top.partition, top.order, top.limit, *rank)
        fields = fields_of(self.scan)
        outputs = tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(top))
        keys = keys_of(derivation, (fields,))
        return DeriveStep((DerivedInput(LogReading("r", {}), None, fields),), derivation, keys, outputs, "state")


@st.composite
def ranked(draw: st.DrawFn, scan: Scan, columns: tuple[Output, ...], ranking: Ranking) -> Ranked:
    named = [Column(column.name, column.expr.type) for column in columns]
    partition = tuple(draw(st.lists(st.sampled_from(named), max_size=1)))
    by = draw(st.lists(st.sampled_from(named), max_size=2))
    order = tuple(Order(expr, draw(st.booleans()), draw(st.booleans())) for expr in by)
    limit, offset = draw(st.integers(1, 3)), draw(st.sampled_from((0, 0, 1)))
    rank_name = draw(st.sampled_from(("rank", None)))
    return Ranked(TopK(Projection(scan, columns), partition, order, limit, offset, ranking, rank_name), scan)


@st.composite
def plain(draw: st.DrawFn, ranking: Ranking) -> Ranked:
    """The columns of a source as they are, of any types."""
    types = draw(st.lists(st.sampled_from(tuple(POOLS)), min_size=1, max_size=3))
    scan = Scan("r", "r", tuple(f"c{at}" for at in range(len(types))), tuple(types))
    columns = tuple(Output(field.name, Column(field.name, field.type)) for field in fields_of(scan))
    return draw(ranked(scan, columns, ranking))


@st.composite
def long_histories(draw: st.DrawFn, scan: Scan) -> History:
    """Many times, few different rows, several copies; rows go about as often as they come."""
    pool = draw(st.lists(st.tuples(*(st.sampled_from(POOLS[type_]) for type_ in scan.types)), min_size=4, max_size=12))
    now, steps = EMPTY, []
    for _ in range(draw(st.integers(1, 12))):
        come = draw(st.lists(st.tuples(st.sampled_from(pool), st.integers(1, 3)), min_size=1, max_size=5))
        present = sorted(now.items(), key=str)
        gone = draw(st.lists(st.sampled_from(present), max_size=5, unique_by=str)) if present else []
        lost = [(row, -draw(st.integers(1, weight))) for row, weight in gone]
        step = ZSet((*come, *lost))
        steps.append({"r": step})
        now += step
    cuts = draw(st.sets(st.integers(1, len(steps)), max_size=4))
    return History(tuple(steps), tuple(sorted(cuts)))


def check(case: Ranked, history: History, reserve: int) -> None:
    """Follows the batches, and compares what is shown at every time with what the query means."""
    step, fields = case.step(), fields_of(case.scan)
    (keys,) = step.keys
    log, states = list[pa.Table](), list[pa.Table]()
    try:
        answers = [evaluate(case.top, {"r": now}) for now in history.tables("r")]
        # Rows that are later than a batch are there already when another vertex reads them sooner.
        stored = Stored(history.changes("r", fields, 0, len(history.steps)), keys)
        for after, upto in history.batches():
            kept = Kept(state_key(keys), states) if states else None
            changes = history.changes("r", fields, after, upto)
            made = derive_top(step, changes, Partitions(kept, stored), after, reserve=reserve)
            log.append(made.shown)
            states.append(made.state)
            check_size(case, contents(states, upto), reserve)
    except EvaluationError:
        reject()
    was = answers[0]
    for time, answer in enumerate(answers):
        assert at_time(log, time) == answer - was
        was = answer


def check_size(case: Ranked, state: pa.Table, reserve: int) -> None:
    """Without ties and partitions, no more than twice the reserve is kept beyond what is shown."""
    if case.top.ranking is Ranking.ROW_NUMBER and not case.top.partition:
        rows = state.filter(pc.invert(state.column(CUT)))
        assert rows.num_rows <= case.top.offset + case.top.limit + 2 * reserve


@pytest.mark.parametrize("ranking", list(Ranking))
@given(data=st.data(), reserve=st.integers(0, 3))
def test_first_rows_are_at_every_time_those_of_all_rows(ranking: Ranking, data: st.DataObject, reserve: int):
    case = data.draw(plain(ranking))
    check(case, data.draw(long_histories(case.scan)), reserve)


@st.composite
def computed(draw: st.DrawFn) -> Ranked:
    """Columns, partitions and orders that are computed."""
    columns = SCHEMA["r"].columns or ()
    scan = Scan("r", "r", tuple(column.name for column in columns), tuple(column.type for column in columns))
    scalars = ScalarMaker(draw, fields_of(scan))
    types = draw(st.lists(st.sampled_from(COLUMN_TYPES), min_size=1, max_size=3))
    outputs = tuple(Output(f"c{at}", scalars.make(type_, 1)) for at, type_ in enumerate(types))
    return draw(ranked(scan, outputs, draw(st.sampled_from(tuple(Ranking)))))


@given(computed(), histories(("r",)), st.integers(0, 3))
def test_first_rows_of_computed_columns_are_at_every_time_those_of_all_rows(
    case: Ranked, history: History, reserve: int
):
    check(case, history, reserve)


SCORES = Scan("r", "r", ("team", "points"), (INT, INT))
TEAM, POINTS = (Column(field.name, field.type) for field in fields_of(SCORES))


def best_of_teams(ranking: Ranking = Ranking.ROW_NUMBER) -> DeriveStep:
    columns = tuple(Output(column.name, column) for column in (TEAM, POINTS))
    order = (Order(POINTS, descending=True, nulls_first=False),)
    return Ranked(TopK(Projection(SCORES, columns), (TEAM,), order, 2, 0, ranking, "rank"), SCORES).step()


class Pushes:
    """Pushes of changes of one partition, each at a time of its own."""

    def __init__(self, step: DeriveStep) -> None:
        self.step = step
        self.time = 0
        self.inputs = list[pa.Table]()
        self.states = list[pa.Table]()

    def push(self, *changes: tuple[int, int]) -> int:
        """Points and weights; how many rows were read again."""
        after, self.time = self.time, self.time + 1
        rows = [(1, points, self.time, 0, weight) for points, weight in changes]
        table = arrow_table({TEAM.name: INT, POINTS.name: INT, **STAMPS}, rows)
        self.inputs.append(table)
        kept = Kept(state_key(self.step.keys[0]), self.states) if self.states else None
        partitions = Partitions(kept, Stored(pa.concat_tables(self.inputs), self.step.keys[0]))
        made = derive_top(self.step, table, partitions, after, reserve=2)
        self.states.append(made.state)
        return made.read_again

    def kept(self) -> list[tuple[int | None, bool]]:
        """Points, and whether it is a mark instead."""
        rows = contents(self.states, self.time)
        return sorted(zip(rows.column("r:r.points").to_pylist(), rows.column(CUT).to_pylist(), strict=True), key=str)


def test_a_partition_that_keeps_too_much_is_cut_and_ignores_what_comes_after():
    pushes = Pushes(best_of_teams())
    pushes.push(*((points, 1) for points in range(10, 17)))
    assert pushes.kept() == [(13, False), (14, False), (15, False), (16, False), (None, True)]
    assert pushes.push((1, 1), (10, -1)) == 0
    assert pushes.states[-1].num_rows == 0


def test_a_partition_is_read_again_only_when_it_keeps_fewer_rows_than_it_shows():
    pushes = Pushes(best_of_teams())
    pushes.push(*((points, 1) for points in range(10, 17)))
    assert pushes.push((16, -1), (15, -1)) == 0
    assert pushes.push((14, -1)) == 5
    # All of them fit: the partition is not cut any more.
    assert pushes.kept() == [(10, False), (11, False), (12, False), (13, False)]
    assert pushes.push(*((points, -1) for points in (13, 12, 11, 10))) == 0
    assert pushes.kept() == []


def test_all_rows_that_tie_with_the_last_one_kept_are_kept():
    pushes = Pushes(best_of_teams(Ranking.RANK))
    pushes.push((20, 3), (10, 30), (5, 1))
    assert pushes.kept() == [(10, False), (20, False), (None, True)]
