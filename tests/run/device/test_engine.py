"""Results of a device equal what the evaluator makes of the rows that it holds, after every event."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.device_messages import CLOUD, Document, Run, SendStream, Sent, StreamShape, TakeStream
from headrace.model.expr import Call, Literal
from headrace.model.relation import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Distinct,
    JoinKind,
    Order,
    Output,
    Relation,
    TopK,
)
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, STRING
from headrace.model.wire import write_wire
from headrace.run.device.engine import Change, DeviceEngine, Limits
from headrace.run.device.joins import JoinedRows, flatten
from tests.examples import examples
from tests.run.device.lifted import (
    LOCATION,
    both,
    column,
    coupons,
    double,
    equal,
    nearby,
    nearer_than,
    outputs,
    pairs,
    side,
    with_sides,
    within,
)

ME = "1"
WEEK, SHORT = dt.timedelta(seconds=50), dt.timedelta(seconds=20)
KEPT = "phones/visits"


def count_near() -> Relation:
    joined = both(nearer_than(200_000.0))
    keys = tuple(Output(one, column(joined, f"px.{one}")) for one in "ab")
    calls = (
        AggregateCall("times", AggregateFunction.COUNT, None, False, BIGINT),
        AggregateCall("top", AggregateFunction.MAX, double("y.lat"), False, DOUBLE),
    )
    return Aggregate(joined, keys, calls)


def visits() -> Relation:
    left = within(side("a", "x", name=KEPT), "x.at", SHORT)
    right = within(side("b", "y", name=KEPT), "y.at", WEEK)
    return outputs(both(nearer_than(200_000.0), left, right), "px", Output("seq", column(right, "y.seq")))


def top_visit() -> Relation:
    left, right = side("a", "x", name=KEPT), side("b", "y", name=KEPT)
    seen = both(nearer_than(200_000.0), left, right)
    order = (Order(column(seen, "y.lat"), True, False),)
    best = TopK(seen, (column(seen, "px.a"), column(seen, "px.b")), order, 2)
    return outputs(best, "px", Output("lat", column(seen, "y.lat")))


def alone() -> Relation:
    return outputs(with_sides(both(nearer_than(200_000.0)), JoinKind.LEFT), "px", Output("lat", double("y.lat")))


def ratio() -> Relation:
    """Fails where the partner is on the equator."""
    joined = both(Call(">", (Call("/", (double("x.lat"), double("y.lat")), DOUBLE), Literal(0.5, DOUBLE)), BOOLEAN))
    return outputs(joined, "px", Output("lat", double("y.lat")))


def equal_rows() -> Relation:
    return outputs(both(equal(double("x.lat"), double("y.lat"))), "px")


PROGRAMS: dict[str, Callable[[], Relation]] = {
    "nearby": lambda: nearby(200_000.0),
    "coupons": coupons,
    "equal": equal_rows,
    "kept": lambda: outputs(both(nearer_than(200_000.0), side("a", "x", name=KEPT), side("b", "y", name=KEPT)), "px"),
    "visits": visits,
    "count": count_near,
    "distinct": lambda: Distinct(nearby(200_000.0)),
    "top": top_visit,
    "alone": alone,
    "ratio": ratio,
}
COMPILED = {"nearby", "coupons", "equal", "kept", "visits", "ratio"}

SHAPES = {
    "location": StreamShape(LOCATION),
    "visits": StreamShape(LOCATION, keep_s=WEEK.total_seconds()),
}
NUMBERS = st.sampled_from((1.0, None, float("nan"), -0.0, 0.0, 40.0))
ROW = st.tuples(NUMBERS, st.just(1.0))
PARTNERS = ("2", "3")


def document(plan: int, programs: dict[str, Relation], runs: tuple[Run, ...]) -> Document:
    texts = {name: write_wire(program, "test") for name, program in programs.items()}
    take = [TakeStream(stream, device, 0.0) for stream in SHAPES for device in PARTNERS]
    take.append(TakeStream("offers", CLOUD, 0.0))
    return Document(plan, texts, runs, (SendStream("location", 0.0),), tuple(take), SHAPES)


RUNS = st.sets(st.tuples(st.sampled_from("ab"), st.sampled_from(PARTNERS)), max_size=4)
EVENTS = st.one_of(
    st.tuples(st.just("row"), st.sampled_from(("location", "visits")), st.sampled_from((ME, *PARTNERS)), ROW),
    st.tuples(st.just("row"), st.just("location"), st.sampled_from((ME, *PARTNERS)), ROW),
    st.tuples(st.just("offers"), st.lists(st.tuples(st.sampled_from("xyz"), NUMBERS), max_size=3)),
    st.tuples(st.just("document"), RUNS),
    st.tuples(st.just("time"), st.integers(1, 40)),
)


class Reference:
    """What the engine should hold, kept in the plainest way."""

    def __init__(self, relation: Relation, runs: set[tuple[str, str]]) -> None:
        self.relation, self.runs = relation, runs
        self.latest: dict[str, tuple[Any, ...]] = {}
        self.kept: list[tuple[Any, ...]] = []
        self.offers: list[tuple[Any, ...]] = []

    def rows(self, now_ms: int) -> dict[tuple[Any, ...], int]:
        one_sided = "offers" in {scan.source for scan in _scans(self.relation)}
        sides = [(1, int(partner)) if side_ == "a" else (int(partner), 1) for side_, partner in self.runs]
        # A document without partners runs a template of one side only if it names it at all.
        chosen: list[tuple[Any, ...]] = [(1,)] if one_sided else list(dict.fromkeys(sides))
        alive = [row for row in self.kept if row[2] > time(now_ms) - WEEK]
        tables = {"pairs": ZSet.of(chosen), "phones/location": ZSet.of(self.latest.values())}
        tables |= {KEPT: ZSet.of(alive), "offers": ZSet.of(self.offers)}
        found = evaluate(self.relation, tables, time(now_ms)).items()
        return dict(found)


def _scans(relation: Relation) -> tuple[Any, ...]:
    from headrace.model.relation import scans_of

    return scans_of(relation)


def time(now_ms: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=now_ms)


def runs_of(name: str, chosen: set[tuple[str, str]]) -> tuple[Run, ...]:
    sides = {side_: tuple(sorted(one for s, one in chosen if s == side_)) for side_ in "ab"}
    return tuple(Run(name, "fp", side_, partners, True) for side_, partners in sides.items())


def apply_changes(kept: dict[tuple[Any, ...], int], changes: list[Change]) -> None:
    for one in changes:
        key = (tuple(map(int, one.pair)), one.row)
        count = kept.get(key, 0)
        assert one.copy == (count if one.weight > 0 else count - 1), "copies are numbered from 0"
        kept[key] = count + one.weight
        if not kept[key]:
            del kept[key]


def split(rows: dict[tuple[Any, ...], int], sides: int) -> dict[tuple[Any, ...], int]:
    return {(row[:sides], row[sides:]): count for row, count in rows.items()}


@pytest.mark.parametrize("name", [one for one in PROGRAMS if one != "ratio"])
@settings(max_examples=examples(100))
@given(events=st.lists(EVENTS, min_size=6, max_size=20))
def test_results_equal_the_evaluator_after_every_event(name: str, events: list[tuple[Any, ...]]):
    play(name, events, fails=False)


@settings(max_examples=examples(100))
@given(events=st.lists(EVENTS, min_size=6, max_size=20))
def test_a_program_that_fails_for_some_rows_is_right_again_when_they_are_gone(events: list[tuple[Any, ...]]):
    play("ratio", events, fails=True)


def play(name: str, events: list[tuple[Any, ...]], fails: bool) -> None:
    relation = PROGRAMS[name]()
    flat = flatten(relation, frozenset({"pairs"}))
    assert (flat is not None and JoinedRows.can_run(flat)) == (name in COMPILED)
    reference, engine, now = Reference(relation, {("a", "2"), ("b", "3")}), DeviceEngine(ME), 1_000_000
    kept: dict[tuple[Any, ...], int] = {}
    plan, seqs = 1, 0
    apply_changes(kept, engine.take(document(plan, {"fp": relation}, runs_of(name, reference.runs)), now))
    for event in events:
        now += 1
        if event[0] == "row":
            _, stream, device, row = event
            seqs += 1
            written = (int(device), seqs, time(now), *row)
            if stream == "location":
                reference.latest[device] = written
            else:
                reference.kept.append(written)
            changes = engine.put(stream, device, [Sent(seqs, now, (row,))], now)
        elif event[0] == "offers":
            reference.offers = event[1]
            seqs += 1
            changes = engine.put("offers", CLOUD, [Sent(seqs, now, tuple(event[1]))], now)
        elif event[0] == "document":
            plan, reference.runs = plan + 1, event[1]
            changes = engine.take(document(plan, {"fp": relation}, runs_of(name, reference.runs)), now)
        else:
            now += event[1] * 1000
            changes = engine.advance(now)
        apply_changes(kept, changes)
        check(engine, reference, kept, now, name, fails)


def check(engine: DeviceEngine, reference: Reference, kept: Any, now: int, name: str, fails: bool) -> None:
    try:
        expected = split(reference.rows(now), 1 if name == "coupons" else 2)
    except Exception:
        assert fails and name in engine.refused
        return
    assert not engine.refused
    assert kept == expected


def near(engine: DeviceEngine, lat: float, device: str, seq: int) -> list[Change]:
    return engine.put("location", device, [Sent(seq, seq, ((lat, 0.0),))], seq)


def start(*programs: tuple[str, Relation], engine: DeviceEngine | None = None) -> DeviceEngine:
    engine = engine or DeviceEngine(ME)
    runs = tuple(Run(name, name, "a", ("2", "3"), True) for name, _ in programs)
    engine.take(document(1, dict(programs), runs), 0)
    return engine


def test_an_older_row_does_not_replace_a_newer_one():
    engine = start(("near", nearby()))
    near(engine, 1.0, ME, 5)
    assert [one.weight for one in near(engine, 1.0, "2", 7)] == [1]
    assert near(engine, 40.0, "2", 6) == []
    assert [one.weight for one in near(engine, 40.0, "2", 8)] == [-1]


def test_a_clock_that_is_set_back_is_followed():
    engine, hour = start(("visits", visits())), 3_600_000
    engine.put("visits", ME, [Sent(1, 5 * hour, ((1.0, 1.0),))], 5 * hour)
    for number, device in enumerate((ME, "2"), 2):
        changes = engine.put("visits", device, [Sent(number, 4 * hour, ((1.0, 1.0),))], 4 * hour)
    assert {one.pair for one in changes if one.weight > 0} == {("1", "2")}
    assert {one.weight for one in engine.advance(4 * hour + 30_000)} >= {-1}, "what is 30 s old does not count"


def test_what_was_known_before_a_restart_is_not_told_again():
    engine = start(("near", nearby()))
    near(engine, 1.0, ME, 5)
    near(engine, 1.0, "2", 7)
    again = DeviceEngine(ME)
    again.results = {name: dict(rows) for name, rows in engine.results.items()}
    near(again, 1.0, ME, 5), near(again, 1.0, "2", 7)
    runs = (Run("near", "near", "a", ("2", "3"), True),)
    assert again.take(document(1, {"near": nearby()}, runs), 9) == []
    gone = again.take(document(2, {}, ()), 10)
    assert [(one.pair, one.weight) for one in gone] == [(("1", "2"), -1)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{}", "format"),
        ("x" * 300_000, "characters"),
        (write_wire(side("a", "x"), "test"), 'the column "a"'),
        (write_wire(outputs(pairs(), "p", Output("x", Call("python:f@1", (), BIGINT))), "test"), "function f@1"),
        (write_wire(outputs(pairs(), "p", Output("x", Call("system", (), BIGINT))), "test"), '"system"'),
    ],
)
def test_a_program_that_cannot_run_is_refused_alone(text: str, why: str):
    engine = DeviceEngine(ME)
    runs = (Run("bad", "bad", "a", ("2",), True), Run("near", "near", "a", ("2",), True))
    given_ = document(1, {"near": nearby()}, runs)
    engine.take(Document(1, {**given_.programs, "bad": text}, runs, (), given_.take, SHAPES), 0)
    assert why in engine.refused["bad"] and len(engine.refused) == 1
    near(engine, 1.0, ME, 5)
    assert len(near(engine, 1.0, "2", 7)) == 1


def test_a_program_that_nests_too_deeply_is_refused_without_recursion():
    deep: Relation = pairs()
    for _ in range(3000):
        deep = Distinct(deep)
    engine = start(("bad", nearby()))
    engine.take(Document(2, {"bad": write_wire(deep, "test")}, (Run("bad", "bad", "a", ("2",), True),)), 0)
    assert "deeper" in engine.refused["bad"]


def test_a_function_of_the_device_is_called_by_name_and_version():
    program = outputs(side("a", "x"), "px", Output("x", Call("python:shout@2", (double("x.lat"),), STRING)))
    engine = start(("loud", program), engine=DeviceEngine(ME, {"shout@2": lambda lat: f"{lat}!"}))
    assert {one.row for one in near(engine, 1.5, ME, 5)} == {("1.5!",)}


def test_a_failing_function_stops_its_template_alone_until_its_row_is_gone():
    def fussy(lat: float) -> str:
        if lat > 10:
            raise ValueError("too far north")
        return "fine"

    bad = outputs(side("a", "x"), "px", Output("x", Call("python:fussy@1", (double("x.lat"),), STRING)))
    engine = start(("bad", bad), ("near", nearby()), engine=DeviceEngine(ME, {"fussy@1": fussy}))
    assert len(near(engine, 1.0, ME, 1)) == 2
    near(engine, 20.0, ME, 2)
    assert "too far north" in engine.refused["bad"] and set(engine.refused) == {"bad"}
    assert {one.template for one in near(engine, 20.0, "2", 3)} == {"near"}
    near(engine, 1.0, ME, 4)
    assert not engine.refused


def test_a_row_that_does_not_fit_is_left_out_alone():
    engine = start(("near", nearby()))
    near(engine, 1.0, ME, 1)
    assert engine.put("location", "2", [Sent(2, 2, (("north", 1.0),))], 2) == []
    assert engine.left_out and "lat" in engine.left_out[0] and not engine.refused
    assert len(near(engine, 1.0, "2", 3)) == 1


def test_a_template_over_a_limit_is_off_until_the_next_document():
    engine = start(("kept", PROGRAMS["kept"]()), engine=DeviceEngine(ME, limits=Limits(rows=3)))
    for seq in range(6):
        engine.put("visits", ME, [Sent(seq, seq, ((1.0, 1.0),))], 10)
    assert "more than 3 rows" in engine.refused["kept"]
    runs = (Run("near", "near", "a", ("2",), True),)
    engine.take(document(2, {"near": nearby()}, runs), 11)
    assert not engine.refused


def test_a_template_that_takes_too_long_is_off():
    ticks = iter(range(0, 1000, 10))
    engine = start(
        ("near", nearby()), engine=DeviceEngine(ME, limits=Limits(seconds=5), cpu=lambda: float(next(ticks)))
    )
    assert "took 10.0 s" in engine.refused["near"]


def test_rows_of_partners_that_are_no_longer_taken_are_forgotten():
    engine = start(("near", nearby()))
    near(engine, 1.0, ME, 1), near(engine, 1.0, "2", 2)
    engine.take(Document(2, {}, (), (), (), SHAPES), 3)
    assert not engine.known("location", "2") and engine.known("location", ME)
