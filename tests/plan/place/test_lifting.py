"""The oracle of templates: a lifted view holds for all pairs what the view of each pair holds for it."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from headrace.declare.build import device_sources
from headrace.declare.sql import read_query
from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Devices, DeviceStream, Source, SourceColumn
from headrace.model.errors import EvaluationError, Location
from headrace.model.expr import Call, Column, Literal, columns_of
from headrace.model.relation import (
    Distinct,
    Join,
    JoinKind,
    Order,
    Output,
    Projection,
    Relation,
    Scan,
    TopK,
    fields_of,
    inputs_of,
    scans_of,
)
from headrace.model.rewrite import expressions_of
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Row
from headrace.plan.place.lifting import PairWorld, StreamRows, lift, replace_pairs, scan_pairs
from headrace.testing import make_source, relations, values

NOW = dt.datetime(2024, 2, 29, 13, 0)
HERE = Location("headrace.yml")
COLUMNS = {"k": INT, "n": BIGINT, "x": DOUBLE, "name": STRING, "ok": BOOLEAN}
SEEN = {**COLUMNS, "at": TIMESTAMP}
TABLE = {"k": INT, "label": STRING, "at": TIMESTAMP}
DEVICES = (1, 2, 3)
STREAMS = ("place", "walk")
"""Of `place` the latest row counts, of `walk` those of a day."""
KEEP_S = 86_400.0


def world(sides: tuple[str, ...] = ("a", "b")) -> PairWorld:
    columns = ("device", "seq", "at", *COLUMNS)
    types = (BIGINT, BIGINT, TIMESTAMP, *COLUMNS.values())
    rows = {
        "place": StreamRows("phones/place", columns, types),
        "walk": StreamRows("phones/walk", columns, types, KEEP_S),
    }
    return PairWorld({f"{side}.{name}": rows[name] for side in sides for name in STREAMS}, BIGINT, sides)


def schema(sides: tuple[str, ...]) -> dict[str, Source]:
    streams = {f"{side}.{name}": make_source(f"{side}.{name}", SEEN) for side in sides for name in STREAMS}
    return {**streams, "t": make_source("t", TABLE)}


@st.composite
def stream_rows(draw: st.DrawFn, most: int) -> tuple[Row, ...]:
    """(device, seq, at, ...): at most so many rows of each device."""
    found = []
    for device in DEVICES:
        count = draw(st.integers(0, most))
        found += [(device, n, *(draw(values(t)) for t in (TIMESTAMP, *COLUMNS.values()))) for n in range(count)]
    return tuple(found)


def of_device(rows: tuple[Row, ...], device: int, keep: bool) -> ZSet:
    """What the view of one pair reads: columns, then `at`."""
    since = NOW - dt.timedelta(seconds=KEEP_S)

    def is_kept(at: object) -> bool:
        return not keep or (isinstance(at, dt.datetime) and at > since)

    return ZSet.of((*row[3:], row[2]) for row in rows if row[0] == device and is_kept(row[2]))


def one_by_one(query, sides, pairs, streams, tables) -> ZSet:
    total = ZSet()
    for pair in pairs:
        devices = dict(zip(sides, pair, strict=True))
        own = {
            f"{side}.{name}": of_device(streams[name], device, name == "walk")
            for side, device in devices.items()
            for name in STREAMS
        }
        found = evaluate(query, {**own, **tables}, NOW)
        total = total + ZSet(((*pair, *row), weight) for row, weight in found.items())
    return total


def all_together(lifted, pairs, streams, tables) -> ZSet:
    rows = {f"phones/{name}": ZSet.of(streams[name]) for name in STREAMS}
    return evaluate(lifted, {"pairs": ZSet.of(pairs), **rows, **tables}, NOW)


def tables_of(draw_rows) -> dict[str, ZSet]:
    return {"t": ZSet.of(draw_rows)}


TABLE_ROWS = st.lists(st.tuples(*(values(t) for t in TABLE.values())), max_size=3)


@pytest.mark.parametrize("sides", [("a", "b"), ("a",)], ids="-".join)
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_lifted_rows_are_the_rows_of_each_pair(sides, data):
    query = data.draw(relations(schema(sides), depth=3, timed=True))
    pairs = data.draw(st.lists(st.tuples(*(st.sampled_from(DEVICES) for _ in sides)), unique=True, max_size=4))
    streams = {"place": data.draw(stream_rows(1)), "walk": data.draw(stream_rows(2))}
    tables = tables_of(data.draw(TABLE_ROWS))
    lifted = lift(query, world(sides))
    assert [one.name for one in fields_of(lifted)] == [*sides, *(one.name for one in fields_of(query))]
    names_are_right(lifted)
    try:
        expected = one_by_one(query, sides, pairs, streams, tables)
        found = all_together(lifted, pairs, streams, tables)
    except EvaluationError:
        # A row that no pair reads may fail where all are read together.
        assume(False)
    event(f"{min(3, len(list(expected.items())))} rows or more")
    assert found == expected


def names_are_right(relation) -> None:
    """Every name has its field, and no two fields share one."""
    names = [one.name for one in fields_of(relation)]
    assert len(set(names)) == len(names), names
    here = {one.name for input_ in inputs_of(relation) for one in fields_of(input_)}
    for expression in expressions_of(relation):
        assert columns_of(expression) <= here
    for input_ in inputs_of(relation):
        names_are_right(input_)


PHONES = Devices(
    "phones",
    "people",
    "uid",
    1.0,
    1.0,
    None,
    (DeviceStream("place", tuple(SourceColumn(*one) for one in COLUMNS.items()), 0.1),),
    HERE,
)


def read(sql: str):
    sources = device_sources(PHONES, "us")
    return read_query(sql, {**sources, "t": make_source("t", TABLE)})


def test_a_join_of_two_devices_meets_in_the_pairs():
    query = read("SELECT x.k FROM a.place x JOIN b.place y ON x.k = y.k WHERE x.ok")
    found = scans_of(lift(query, world()))
    assert sorted(scan.source for scan in found) == ["pairs", "phones/place", "phones/place"]


def test_a_view_of_one_side_reads_the_pairs_once():
    lifted = lift(read("SELECT x.k, count(*) AS n FROM a.place x JOIN t ON t.k = x.k GROUP BY x.k"), world())
    assert sorted(scan.source for scan in scans_of(lifted)) == ["pairs", "phones/place", "t"]


def test_without_group_by_there_is_a_row_for_every_pair_also_over_nothing():
    lifted = lift(read("SELECT count(*) AS n, max(x.k) AS k FROM a.place x JOIN b.place y ON x.k = y.k"), world())
    rows = ((1, 1, NOW, 5, 0, 0.0, "", True),)
    found = all_together(lifted, [(1, 1), (1, 2)], {"place": rows, "walk": ()}, {"t": ZSet()})
    assert sorted(found.rows()) == [(1, 1, 1, 5), (1, 2, 0, None)]


def test_pairs_can_be_computed():
    query = read("SELECT x.k FROM a.place x JOIN b.place y ON x.k = y.k")
    friends = Scan("friends", "f", ("uid", "friend"), (BIGINT, BIGINT))
    whole = replace_pairs(lift(query, world()), friends)
    rows = tuple((device, 1, NOW, 7, 0, 0.0, "", True) for device in DEVICES)
    tables = {"friends": ZSet.of([(1, 2)]), "phones/place": ZSet.of(rows)}
    assert list(evaluate(whole, tables, NOW).rows()) == [(1, 2, 7)]
    assert "pairs" not in {scan.source for scan in scans_of(whole)}
    assert scan_pairs(world()).columns == ("a", "b")


@pytest.mark.parametrize("kind", ["first", "distinct"])
def test_whether_a_row_met_nothing_or_only_nulls_makes_no_difference(kind):
    """Ties are broken by the row's own fields, and equal rows are one: the pair's fields must not tell them apart."""
    left = Scan("a.place", "x", tuple(SEEN), tuple(SEEN.values()))
    right = Scan("b.walk", "y", tuple(SEEN), tuple(SEEN.values()))
    few = Call("<", (Column("y.k", INT), Literal(5, INT)), BOOLEAN)
    joined = Join(JoinKind.RIGHT, left, right, few)
    query: Relation
    if kind == "first":
        query = TopK(joined, (), (Order(Column("y.ok", BOOLEAN), descending=False, nulls_first=True),), limit=1)
    else:
        outputs = tuple(Output(f"x.{name}", Column(f"x.{name}", type_)) for name, type_ in SEEN.items())
        query = Distinct(Projection(joined, outputs))
    streams = {
        "place": ((1, 1, None, None, None, None, None, None),),
        "walk": ((2, 1, NOW, 1, 0, 0.0, "", True), (2, 2, NOW, 9, 0, 0.0, "", True)),
    }
    expected = one_by_one(query, ("a", "b"), [(1, 2)], streams, {"t": ZSet()})
    assert all_together(lift(query, world()), [(1, 2)], streams, {"t": ZSet()}) == expected
    assert len(list(expected.rows())) == 1
