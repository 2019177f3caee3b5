"""Views that devices compute and send: results are those of each pair by itself, and nothing is sent twice."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import Catalogue, Refusal, View
from headrace.model.errors import EvaluationError, Location
from headrace.model.expr import Column
from headrace.model.relation import Output, Projection, Relation, Scan, fields_of, inputs_of, scans_of
from headrace.model.rewrite import with_inputs
from headrace.model.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, Row
from headrace.plan.place.expansion import expand_templates
from headrace.testing import make_source, relations, values
from tests.declare.projects import read
from tests.examples import examples

NOW = dt.datetime(2024, 2, 29, 13, 0)
COLUMNS = {"k": INT, "n": BIGINT, "x": DOUBLE, "name": STRING, "ok": BOOLEAN}
SEEN = {**COLUMNS, "at": TIMESTAMP}
TABLE = {"k": INT, "label": STRING}
DEVICES = (1, 2, 3)
TEXT = """
    sources:
      people: {kind: table, at: us, key: uid, columns: {uid: bigint}, rows: 10, rate: 0 /s}
      friends: {kind: table, at: us, key: [uid, friend], columns: {uid: bigint, friend: bigint}, rows: 9, rate: 0 /s}
      t: {kind: table, at: us, key: k, columns: {k: int, label: string}, rows: 5, rate: 0 /s}
    devices:
      phones:
        table: people
        id: uid
        streams:
          place: {columns: {k: int, n: bigint, x: double, name: string, ok: boolean}, rate: 1 /s}
          other: {columns: {k: int, n: bigint, x: double, name: string, ok: boolean}, rate: 1 /s}
          walk: {columns: {k: int}, rate: 1 /s, keep: 1 day}
    templates:
      together: {per: {table: friends, a: uid, b: friend}, devices: phones, view: v}
"""
FLAT = "SELECT x.k FROM a.place x JOIN b.place y ON x.k = y.k"
MINE = "SELECT t.label FROM a.place x JOIN t ON t.k = x.k"
THEIRS = "SELECT u.label FROM b.place y JOIN t AS u ON u.k = y.k"
BOTH = "SELECT m.label FROM mine m JOIN theirs o ON m.label = o.label"


# The oracle


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return read(tmp_path_factory.mktemp("levels"), TEXT, v=FLAT)


def draw_inner(data: st.DataObject, stream: str) -> Relation:
    schema = {stream: make_source(stream, SEEN), "t": make_source("t", TABLE)}
    query = data.draw(relations(schema, depth=2))
    outputs = (Output(f"c{number}", Column(one.name, one.type)) for number, one in enumerate(fields_of(query)))
    return Projection(query, tuple(outputs))


def turn(query: Relation, side: str) -> Relation:
    if isinstance(query, Scan):
        return replace(query, source=query.source.replace("a.", f"{side}."))
    return with_inputs(query, tuple(turn(one, side) for one in inputs_of(query)))


def look_into(levels: Relation, views: dict[str, Relation]) -> Relation:
    """The view of one pair over the streams themselves."""
    if isinstance(levels, Scan):
        inner = views.get(levels.source)
        if inner is None:
            return levels
        named = zip(fields_of(levels), fields_of(inner), strict=True)
        return Projection(inner, tuple(Output(one.name, Column(other.name, other.type)) for one, other in named))
    return with_inputs(levels, tuple(look_into(one, views) for one in inputs_of(levels)))


def make_view(name: str, query: Relation, levels: Relation | None = None) -> View:
    return View(name, "", query, (), (), Location("views"), levels=levels)


@st.composite
def stream_rows(draw: st.DrawFn) -> tuple[Row, ...]:
    """(device, seq, at, ...): the latest row of some devices."""
    there = [device for device in DEVICES if draw(st.booleans())]
    return tuple((device, 7, *(draw(values(t)) for t in (TIMESTAMP, *COLUMNS.values()))) for device in there)


Rows = dict[str, tuple[Row, ...]]
"""Latest rows of all devices by stream."""


def one_by_one(query: Relation, pairs: list[tuple[int, int]], rows: Rows, table: ZSet) -> ZSet:
    total = ZSet()
    for pair in pairs:
        own = {
            f"{side}.{stream}": ZSet.of((*row[3:], row[2]) for row in found if row[0] == device)
            for side, device in zip("ab", pair, strict=True)
            for stream, found in rows.items()
        }
        found = evaluate(query, {**own, "t": table}, NOW)
        total = total + ZSet(((*pair, *row), weight) for row, weight in found.items())
    return total


def send_derived(expanded: Catalogue, rows: Rows, table: ZSet) -> dict[str, ZSet]:
    """What devices make of their own rows, each by itself. One without rows sends nothing."""
    sent = {}
    for name, made in expanded.devices["phones"].derived.items():
        found: list[Row] = []
        for device in {row[0] for stream in made.streams for row in rows[stream]}:
            own = {f"phones/{stream}": ZSet.of(row for row in rows[stream] if row[0] == device) for stream in rows}
            value = evaluate(made.program, {"pairs": ZSet.of([(device,)]), **own, "t": table}, NOW)
            found += [(device, number, *row[1:]) for number, row in enumerate(value.rows())]
        sent[f"phones/{name}"] = ZSet.of(found)
    return sent


@settings(max_examples=examples(400), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), of_b=st.sampled_from(("same", "place", "other")))
def test_results_through_derived_streams_are_those_of_each_pair(project, data, of_b):
    mine = draw_inner(data, "a.place")
    theirs = turn(mine, "b") if of_b == "same" else draw_inner(data, f"b.{of_b}")
    shapes = {"a.mine": mine, "b.theirs": theirs}
    schema = {name: make_source(name, {one.name: one.type for one in fields_of(of)}) for name, of in shapes.items()}
    levels = data.draw(relations({**schema, "t": make_source("t", TABLE)}, depth=2))
    query = look_into(levels, shapes)
    views = {"mine": make_view("mine", mine), "theirs": make_view("theirs", theirs), "v": make_view("v", query, levels)}
    expanded = expand_templates(replace(project, views=views))
    program = expanded.templates["together"].program
    assert program is not None and not isinstance(program, Refusal)
    event(f"streams: {len(expanded.devices['phones'].derived)}")
    rows = {stream: data.draw(stream_rows()) for stream in ("place", "other")}
    table = ZSet.of(data.draw(st.lists(st.tuples(*map(values, TABLE.values())), max_size=3)))
    pairs = data.draw(st.lists(st.tuples(*(st.sampled_from(DEVICES),) * 2), unique=True, max_size=4))
    raw = {f"phones/{stream}": ZSet.of(found) for stream, found in rows.items()}
    try:
        expected = one_by_one(query, pairs, rows, table)
        sent = {**raw, **send_derived(expanded, rows, table)}
        found = evaluate(program, {"pairs": ZSet.of(pairs), "t": table, **sent}, NOW)
    except EvaluationError:
        assume(False)  # a row that no pair reads may fail where all are read together
    assert found == expected


# Which views are streams


def derived_of(folder: Path, text: str = TEXT, **views: str) -> dict[str, tuple[str, ...]]:
    """What devices derive, and of what."""
    devices = expand_templates(read(folder, text, **views)).devices["phones"]
    return {name: (*made.streams, *made.tables) for name, made in devices.derived.items()}


def test_views_of_both_sides_that_mean_the_same_are_one_stream(tmp_path):
    catalogue = expand_templates(read(tmp_path, TEXT, v=BOTH, mine=MINE, theirs=THEIRS))
    assert list(catalogue.devices["phones"].derived) == ["mine"]
    assert catalogue.templates["together"].reads == ("a.mine", "b.mine")
    source = catalogue.sources["phones/mine"]
    assert (source.key, [one.name for one in source.columns or ()]) == (
        ("device", "position"),
        ["device", "position", "label"],
    )
    program = catalogue.templates["together"].program
    assert program is not None and not isinstance(program, Refusal)
    assert {scan.source for scan in scans_of(program)} == {"pairs", "phones/mine"}


def test_the_outermost_views_of_one_side_are_streams_also_below_views_of_both(tmp_path):
    views = {
        "near": "SELECT x.k FROM a.place x WHERE x.ok",
        "mine": "SELECT t.label FROM near n JOIN t ON t.k = n.k",
        "theirs": "SELECT y.name AS label FROM b.other y",
        "both": BOTH,
        "v": "SELECT label FROM both WHERE label <> 'x'",
    }
    assert derived_of(tmp_path, **views) == {"mine": ("place", "t"), "theirs": ("other",)}


def test_one_side_may_read_a_view_and_the_other_one_a_stream(tmp_path):
    v = "SELECT m.k FROM mine m JOIN b.other y ON m.k = y.k"
    assert derived_of(tmp_path, mine="SELECT x.k FROM a.place x", v=v) == {"mine": ("place",)}


@pytest.mark.parametrize(
    ("mine", "v"),
    [
        ("SELECT w.k FROM a.walk w", "SELECT m.k FROM mine m JOIN b.other y ON m.k = y.k"),
        ("SELECT count(*) AS k FROM a.place x", "SELECT m.k FROM mine m JOIN b.other y ON m.k = y.k"),
        ("SELECT t.k FROM t LEFT JOIN a.place x ON t.k = x.k", "SELECT m.k FROM mine m JOIN b.other y ON m.k = y.k"),
        ("SELECT x.k FROM a.place x WHERE x.at > now()", "SELECT m.k FROM mine m JOIN b.other y ON m.k = y.k"),
        ("SELECT x.k, 1 AS position FROM a.place x", "SELECT m.k FROM mine m JOIN b.other y ON m.k = y.k"),
        ("SELECT x.k FROM a.place x", "SELECT m.k FROM mine m JOIN a.other y ON m.k = y.k JOIN b.other z ON z.k = m.k"),
        ("SELECT x.k FROM a.place x", "SELECT m.k FROM mine m JOIN b.place y ON m.k = y.k"),
    ],
    ids=["kept", "never empty", "not empty without rows", "time", "name taken", "beside a stream", "sent as well"],
)
def test_other_views_stay_part_of_the_view_that_reads_them(tmp_path, mine, v):
    assert derived_of(tmp_path, mine=mine, v=v) == {}


def test_two_views_of_one_stream_would_be_sent_more_often_than_it(tmp_path):
    assert derived_of(tmp_path, mine=MINE, theirs="SELECT y.name AS label FROM b.place y", v=BOTH) == {}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rows: 5, rate: 0 /s", "rows: 5000, rate: 0 /s"),
        ("rows: 5, rate: 0 /s", "rows: 5, rate: 0.2 /s"),
        ("rows: 5, rate: 0 /s", "rate: 0 /s"),
        ("rows: 5, rate: 0 /s", "rows: 5"),
        ("table: people\n", "table: people\n        capacity: 5\n"),
    ],
    ids=["large", "changes", "nobody knows how large", "nobody knows how often", "few views on a device"],
)
def test_every_device_must_have_room_for_the_view_and_its_tables(tmp_path, old, new):
    assert derived_of(tmp_path / "small", mine=MINE, theirs=THEIRS, v=BOTH)
    assert old in TEXT
    assert derived_of(tmp_path, TEXT.replace(old, new), mine=MINE, theirs=THEIRS, v=BOTH) == {}


def test_a_view_with_the_name_of_a_stream_or_a_template_stays_what_it_is(tmp_path):
    v = "SELECT m.label FROM walk m JOIN theirs o ON m.label = o.label"
    assert derived_of(tmp_path / "stream", walk=MINE, theirs=THEIRS, v=v) == {}


def test_templates_share_a_stream_and_one_that_reads_what_it_is_made_of_ends_it(tmp_path):
    more = "      others: {per: {table: friends, a: friend, b: uid}, devices: phones, view: w}\n"
    levels = {"mine": MINE, "theirs": THEIRS, "v": BOTH}
    assert derived_of(tmp_path / "1", TEXT + more, **levels, w=BOTH.replace("=", "<>")) == {"mine": ("place", "t")}
    assert derived_of(tmp_path / "2", TEXT + more, **levels, w=FLAT) == {}
