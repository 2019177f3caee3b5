"""A template in a plan: what travels for it, what its share in the cloud takes, and why a pair runs where it does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headrace.doors.cli.plan_text import plan_text
from headrace.doors.cli.why_text import why_document, why_text
from headrace.model.catalogue import Catalogue
from headrace.model.errors import UsageError
from headrace.model.explanation import ImaginedChange, WhyContract, WhyTemplate
from headrace.plan.check import check_document
from headrace.plan.document import plan_document
from headrace.plan.explain import what_if, why
from headrace.plan.make import make_plan
from headrace.plan.place.explain_template import explain_placed_pair, explain_template
from headrace.plan.place.family import find_needed_columns, place_group, place_groups, with_templates
from tests.declare.projects import read

TEXT = """
    sources:
      people: {kind: table, at: us, key: uid, columns: {uid: bigint, room: int}, rows: 3, rate: 0.01 /s}
      friends: {kind: table, at: us, key: [uid, friend], columns: {uid: bigint, friend: bigint, every: double},
                rows: 2, rate: 0 /s}
      offers: {kind: table, at: us, key: id, columns: {id: int, lat: double}, rows: 10, rate: 0.01 /s}
    devices:
      phones: {table: people, id: uid, capacity: room,
               streams: {location: {columns: {lat: double, lng: double}, rate: 360 /h}}}
    templates:
      nearby: {per: {table: friends, a: uid, b: friend}, devices: phones, view: near, every: {a: every}}
      coupons: {per: {table: people, a: uid}, devices: phones, view: near_offers}
"""
VIEWS = {
    "near": "SELECT x.lat FROM a.location x JOIN b.location y ON distance(x.lat, x.lng, y.lat, y.lng) < 100",
    "near_offers": "SELECT o.id FROM a.location x JOIN offers o ON x.lat = o.lat",
}
ROWS = {
    "people": {"uid": np.array([10, 20, 30]), "room": np.array([5.0, 5.0, np.nan])},
    "friends": {"uid": np.array([10, 10]), "friend": np.array([20, 30]), "every": np.array([3600.0, 3600.0])},
}


@pytest.fixture
def project(tmp_path: Path) -> Catalogue:
    return read(tmp_path, TEXT, **VIEWS)


def test_what_has_to_be_read(project):
    assert find_needed_columns(project) == {"people": ("uid", "room"), "friends": ("uid", "friend", "every")}


def test_a_template_whose_rows_are_known_is_placed(project):
    """Anna (10) has a row every hour for her friends, who have 360: Bob (20) takes hers, Carla (30) has no room."""
    plan = with_templates(make_plan(project), ROWS)
    nearby, coupons = plan.templates
    assert (nearby.devices, nearby.pairs, nearby.on_devices) == (3, 2, 1)
    assert nearby.all_cloud.messages_s * 3600 == pytest.approx(1 + 360 + 360)
    assert nearby.placed is not None
    assert nearby.placed.messages_up_s * 3600 == pytest.approx(1 + 360)
    assert nearby.placed.messages_down_s * 3600 == pytest.approx(1)
    assert nearby.placed.bytes_s == pytest.approx(nearby.placed.messages_s * (35 + 16))
    assert nearby.cpu["us"] > 0
    assert (nearby.vertex, nearby.contracts, nearby.reason) == ("t:nearby@us", ("nearby",), None)
    assert (coupons.pairs, coupons.on_devices) == (3, 2)


def test_a_template_whose_rows_are_not_known_is_told_as_all_in_the_cloud(project):
    nearby = with_templates(make_plan(project), {"people": ROWS["people"], "friends": "no route to host"}).templates[0]
    assert (nearby.placed, nearby.on_devices, nearby.unread) == (None, None, "no route to host")
    assert (nearby.devices, nearby.pairs) == (3, 2)
    assert nearby.all_cloud.messages_s > 0


def test_the_document_and_the_text_tell_of_templates(project):
    plan = with_templates(make_plan(project), ROWS)
    document = plan_document(plan)
    assert check_document(document) == []
    (nearby, _) = document["templates"]
    assert (nearby["id"], nearby["pairs"], nearby["on_devices"], nearby["kept"]) == ("nearby", 2, 1, True)
    assert nearby["messages_s"] < nearby["all_cloud_messages_s"]
    assert "1 of 2 pairs" in plan_text(plan)
    assert "no room" not in plan_text(plan)


def test_why_a_template(project):
    plan = with_templates(make_plan(project), ROWS)
    whole, contract = why(plan, "nearby")
    assert isinstance(whole, WhyTemplate)
    assert isinstance(contract, WhyContract)
    assert "1 of 2 pairs run on a device" in why_text(plan, whole)
    assert why_document(whole)["kind"] == "template"
    running = replace(plan, templates=())  # what runs is planned anew whenever something was measured
    assert [type(one) for one in why(running, "nearby")] == [WhyTemplate, WhyContract]


def test_why_a_pair_runs_where_it_does(project):
    plan = make_plan(project)
    (group,) = place_groups(plan.catalogue, ROWS).values()
    found = explain_placed_pair(group, "nearby", ("10", "20"))
    assert found.at == "20"
    assert found.because.splitlines()[0].startswith("on 20's device: 0.1/s stays local, 0.000278/s comes down")
    assert why_document(found)["at"] == "20"
    assert 'template "nearby": pair 10,20 runs' in why_text(plan, found)
    alone = explain_placed_pair(group, "coupons", ("10",))
    assert alone.at == "10"
    full = explain_placed_pair(group, "nearby", ("10", "30"))
    assert full.at == "cloud"
    assert "30" not in full.numbers["alternatives"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("template", "devices", "message"),
    [
        ("nearby", ("10",), 'a pair of template "nearby" has 2 devices'),
        ("nearby", ("10", "99"), 'device "99" is not in table "people"'),
        ("nearby", ("20", "30"), 'template "nearby" has no pair 20,30'),
    ],
)
def test_pairs_that_there_are_not(project, template, devices, message):
    (group,) = place_groups(make_plan(project).catalogue, ROWS).values()
    with pytest.raises(UsageError) as caught:
        explain_placed_pair(group, template, devices)
    assert caught.value.message == message


def test_measured_rates_take_the_place_of_declared_ones(project):
    catalogue = make_plan(project).catalogue
    phones = catalogue.devices["phones"]
    friends = {name: column[:1] for name, column in ROWS["friends"].items()}
    slow = {"location": np.array([0.1, 1e-6, 0.1])}
    group = place_group(catalogue, phones, {**ROWS, "friends": friends}, slow)
    assert explain_placed_pair(group, "nearby", ("10", "20")).at == "10"


def test_a_template_that_cannot_be_kept_is_refused_with_its_contract(tmp_path):
    text = TEXT.replace("rows: 3,", "rows: 3B,")
    text += "    contracts: {soon: {view: near, at: us, freshness: 1 ms}}\n"
    plan = make_plan(read(tmp_path, text, **VIEWS))
    nearby = plan.templates[0]
    assert nearby.contracts == ("soon",)
    assert nearby.reason == plan.rejected[0].reason
    assert "nearby" not in plan_text(plan).split("refused")[0].replace("nearby/", "")


def test_what_if_a_template_were_fresher(project):
    found = what_if(project, "nearby", ImaginedChange(freshness_s=0.001))
    assert (found.before.kept, found.after.kept) == (True, False)
    faster = what_if(project, "nearby", ImaginedChange(rate={"phones/location": 1e9}))
    assert not faster.after.kept


LEVELS = """
    sources:
      people: {kind: table, at: us, key: uid, columns: {uid: bigint}, rows: 3, rate: 0.01 /s}
      friends: {kind: table, at: us, key: [uid, friend], columns: {uid: bigint, friend: bigint}, rows: 2, rate: 0 /s}
      inns: {kind: table, at: us, key: id, columns: {id: int, lat: double}, rows: 10, rate: 0.01 /s}
    devices:
      phones: {table: people, id: uid, streams: {location: {columns: {lat: double}, rate: 1 /s}}}
    templates:
      together: {per: {table: friends, a: uid, b: friend}, devices: phones, view: both}
"""
LEVEL_VIEWS = {
    "mine": "SELECT i.id FROM a.location x JOIN inns i ON i.lat = x.lat",
    "theirs": "SELECT i.id FROM b.location x JOIN inns i ON i.lat = x.lat",
    "both": "SELECT m.id FROM mine m JOIN theirs o ON m.id = o.id",
}


def test_what_a_derived_stream_needs_goes_to_every_device_with_a_pair(tmp_path):
    catalogue = read(tmp_path, LEVELS, **LEVEL_VIEWS)
    rows = {"people": {"uid": np.array([10, 20, 30])}, "friends": {"uid": np.array([10]), "friend": np.array([20])}}
    plan = with_templates(make_plan(catalogue), rows)
    (found,) = plan.templates
    assert found.derived == ("mine",)
    assert found.all_cloud.messages_up_s == pytest.approx(2.0)
    assert found.all_cloud.messages_down_s == pytest.approx(2 * 0.01)
    assert found.placed == found.all_cloud, "both are as fast, as far as is known"
    assert plan_document(plan)["templates"][0]["derived"] == ["mine"]
    answer = explain_template(plan, "together")
    assert answer is not None
    assert "mine, which devices compute themselves" in " ".join(why_text(plan, answer).split())
    unread = with_templates(make_plan(catalogue)).templates[0].all_cloud
    assert unread.messages_down_s == pytest.approx(unread.messages_up_s * 0.01)


def test_rates_of_derived_streams_that_were_measured_take_the_place_of_those_that_are_assumed(tmp_path):
    catalogue = make_plan(read(tmp_path, LEVELS, **LEVEL_VIEWS)).catalogue
    rows = {"people": {"uid": np.array([10, 20, 30])}, "friends": {"uid": np.array([10]), "friend": np.array([20])}}
    measured = {"mine": np.array([0.5, 0.001, 0.0])}
    group = place_group(catalogue, catalogue.devices["phones"], rows, measured)
    assert explain_placed_pair(group, "together", ("10", "20")).at == "10"
