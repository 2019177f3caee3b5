"""A template as sources and views of a plan: what people read is what each pair would show, wherever it runs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.meaning.evaluate import evaluate
from headrace.meaning.zset import ZSet
from headrace.model.catalogue import WRITTEN_HERE, Catalogue, Refusal
from headrace.model.relation import Relation, fields_of
from headrace.model.types import BIGINT, DOUBLE, STRING, TIMESTAMP
from headrace.plan.make import make_plan
from headrace.plan.place.expansion import expand_templates
from tests.declare.projects import read

NOW = dt.datetime(2026, 1, 1)

FRIENDS = """
    sources:
      people: {kind: table, at: us, key: uid, columns: {uid: bigint}, rows: 500, rate: 0.01 /s}
      friends: {kind: table, at: us, key: KEY, columns: {uid: int, friend: bigint, since: int}, rows: 3000, rate: 0 /s}
    devices:
      phones: {table: people, id: uid, streams: {location: {columns: {lat: double, name: string}, rate: 0.1 /s}}}
    templates:
      nearby: {per: {table: friends, a: uid, b: friend}, devices: phones, view: near}
"""
NEAR = "SELECT x.lat, y.name FROM a.location x JOIN b.location y ON x.lat = y.lat"


@pytest.fixture
def project(tmp_path: Path) -> Catalogue:
    return read(tmp_path, FRIENDS.replace("KEY", "[uid, friend]"), near=NEAR)


def query_of(catalogue: Catalogue, view: str) -> Relation:
    query = catalogue.views[view].query
    assert not isinstance(query, Refusal)
    return query


def test_a_template_brings_sources_that_the_service_writes(project):
    found = expand_templates(project).sources
    shapes = {
        name: (found[name].key, {one.name: one.type for one in found[name].columns or ()})
        for name in found
        if name not in project.sources
    }
    assert shapes == {
        "phones/location": (
            ("device",),
            {"device": BIGINT, "seq": BIGINT, "at": TIMESTAMP, "lat": DOUBLE, "name": STRING},
        ),
        "nearby/placement": (("a", "b"), {"a": BIGINT, "b": BIGINT, "at": BIGINT}),
        "nearby/reported": (
            ("reporter", "a", "b", "row_id"),
            {"reporter": BIGINT, "a": BIGINT, "b": BIGINT, "row_id": STRING, "lat": DOUBLE, "name": STRING},
        ),
    }
    assert {(found[name].site, found[name].origin) for name in shapes} == {("us", WRITTEN_HERE)}


def test_expanding_twice_is_expanding_once(project):
    once = expand_templates(project)
    assert expand_templates(once) == once


def test_results_begin_with_the_pair_and_have_a_promise_of_their_own(project):
    expanded = expand_templates(project)
    assert [one.name for one in fields_of(query_of(expanded, "near"))] == ["a", "b", "lat", "name"]
    contract = expanded.contracts["nearby"]
    assert (contract.view, contract.site, contract.freshness_s) == ("near", "us", 10.0)


def test_a_declared_contract_takes_the_place_of_the_templates_own(tmp_path):
    text = FRIENDS.replace("KEY", "[uid, friend]") + "    contracts: {mine: {view: near, at: us, freshness: 1 min}}\n"
    assert list(expand_templates(read(tmp_path, text, near=NEAR)).contracts) == ["mine"]


IDS = st.sampled_from((1, 2, 3))
PEOPLE = [(1,), (2,), (3,)]


@pytest.mark.parametrize("key", ["[uid, friend]", "[uid, friend, since]", "[]"])
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_wherever_pairs_run_the_results_are_the_same(tmp_path, key, data):
    catalogue = expand_templates(read(tmp_path, FRIENDS.replace("KEY", key), near=NEAR))
    pairs = data.draw(st.lists(st.tuples(IDS, IDS), unique=True, max_size=5))
    friends = [(*pair, since) for pair in pairs for since in range(1 if key == "[uid, friend]" else data.draw(IDS))]
    if key == "[]":
        friends += [(None, 1, 0), (2, None, 0)]
    rows = [(id_, 1, NOW, float(data.draw(st.integers(0, 1))), f"p{id_}") for id_ in data.draw(st.sets(IDS))]
    where = {pair: data.draw(st.sampled_from((None, *pair))) for pair in pairs}
    placed = [(*pair, at) for pair, at in where.items() if at is not None]
    program = catalogue.templates["nearby"].program
    assert program is not None
    assert not isinstance(program, Refusal)
    streams = {"phones/location": ZSet.of(rows)}
    # Both devices of every pair report, as they may while a pair moves; only the one that the placement names counts.
    told = evaluate(program, {"pairs": ZSet.of(pairs), **streams})
    reported = [(who, *row[:2], f"{row[2:]}", *row[2:]) for row in told.rows() for who in {row[0], row[1]}]
    tables = {
        "friends": ZSet.of(friends),
        "nearby/placement": ZSet.of(placed),
        "nearby/reported": ZSet.of(reported),
        **streams,
    }
    assert evaluate(query_of(catalogue, "near"), tables) == told
    cloud = evaluate(query_of(catalogue, "nearby/cloud"), tables)
    assert {row[:2] for row in cloud.rows()} == {row[:2] for row in told.rows() if where[row[:2]] is None}


def test_other_views_read_the_results(tmp_path):
    text = FRIENDS.replace("KEY", "[uid, friend]") + "    contracts: {c: {view: crowds, at: us, freshness: 1 min}}\n"
    catalogue = read(tmp_path, text, near=NEAR, crowds="SELECT a, count(*) AS n FROM near GROUP BY a")
    plan = make_plan(catalogue)
    assert sorted(one.contract for one in plan.contracts) == ["c", "nearby"]
    tables = {
        "friends": ZSet.of([(1, 2, 0), (1, 3, 0)]),
        "nearby/placement": ZSet.of([(1, 3, 3)]),
        "nearby/reported": ZSet.of([(3, 1, 3, "x", 0.0, "p3")]),
        "phones/location": ZSet.of((id_, 1, NOW, 0.0, f"p{id_}") for id_ in (1, 2, 3)),
    }
    assert list(evaluate(query_of(plan.catalogue, "crowds"), tables).rows()) == [(1, 2)]


def test_a_part_of_a_template_cannot_be_promised_alone(tmp_path):
    text = FRIENDS.replace("KEY", "[uid, friend]") + "    contracts: {c: {view: half, at: us, freshness: 1 min}}\n"
    catalogue = read(
        tmp_path,
        text,
        near="SELECT x.lat, y.name FROM half x JOIN b.location y ON x.lat = y.lat",
        half="SELECT lat FROM a.location WHERE lat > 0",
    )
    plan = make_plan(catalogue)
    assert [(one.contract, one.reason) for one in plan.rejected] == [("c", "unsupported:template")]
    assert [one.contract for one in plan.contracts] == ["nearby"]


def test_devices_send_no_more_than_templates_need(tmp_path):
    text = FRIENDS.replace("KEY", "[uid, friend]").replace("view: near}", "view: near, every: EVERY}")
    slow = expand_templates(read(tmp_path, text.replace("EVERY", "{a: 1 min, b: 20 s}"), near=NEAR))
    assert slow.sources["phones/location"].rate == pytest.approx(2 * 500 / 20)
    half = expand_templates(read(tmp_path, text.replace("EVERY", "{a: 1 min}"), near=NEAR))
    assert half.sources["phones/location"].rate == pytest.approx(2 * 500 * 0.1)


def test_a_template_of_one_side_reads_tables(tmp_path):
    text = """
        sources:
          people: {kind: table, at: us, key: uid, columns: {uid: bigint}, rows: 500, rate: 0.01 /s}
          offers: {kind: table, at: us, key: id, columns: {id: int, lat: double}, rows: 10, rate: 0 /s}
        devices:
          phones: {table: people, id: uid, streams: {location: {columns: {lat: double}, rate: 0.1 /s, keep: 1 h}}}
        templates:
          coupons: {per: {table: people, a: uid}, devices: phones, view: near, every: {a: 1 min}}
    """
    near = "SELECT DISTINCT o.id FROM a.location x JOIN offers o ON x.lat = o.lat"
    plan = make_plan(read(tmp_path, text, near=near))
    assert [one.contract for one in plan.contracts] == ["coupons"]
    assert plan.catalogue.sources["phones/location"].key == ("device", "seq")
    assert plan.catalogue.sources["coupons/placement"].key == ("a",)
    tables = {
        "people": ZSet.of(PEOPLE),
        "offers": ZSet.of([(7, 1.0)]),
        "coupons/placement": ZSet.of([(2, 2)]),
        "coupons/reported": ZSet.of([(2, 2, "x", 7), (1, 1, "x", 7)]),
        "phones/location": ZSet.of([(1, 1, NOW, 1.0), (1, 2, NOW, 1.0), (3, 1, NOW - dt.timedelta(hours=2), 1.0)]),
    }
    found = evaluate(query_of(plan.catalogue, "near"), tables, NOW + dt.timedelta(minutes=1))
    assert sorted(found.rows()) == [(1, 7), (2, 7)]
