"""Devices and templates as people declare them: their fields, what their views may read, and mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.model.catalogue import Refusal
from headrace.model.relation import fields_of, scans_of
from headrace.model.types import BIGINT, DOUBLE, TIMESTAMP
from tests.declare.projects import mistakes, read

SOURCES = """
    sources:
      people: {kind: table, at: us, key: uid, columns: {uid: bigint, room: int, name: string}}
      friends: {kind: table, at: us, columns: {uid: bigint, friend: bigint, pause: double, note: string}}
      offers: {kind: table, at: us, key: id, columns: {id: int, lat: double}}
    devices:
      phones: {table: people, id: uid, streams: {location: {columns: {lat: double}, rate: 0.1 /s}}, MORE}
    templates:
      nearby: {per: PER, devices: phones, view: near, REST}
"""
PAIR = "{table: friends, a: uid, b: friend}"
NEAR = "SELECT x.lat FROM a.location x JOIN b.location y ON x.lat = y.lat"


def text(per: str = PAIR, rest: str = "", more: str = "") -> str:
    return SOURCES.replace("PER", per).replace(", REST", rest and f", {rest}").replace(", MORE", more and f", {more}")


def messages(folder: Path, written: str, **views: str) -> list[str]:
    return [problem.message for problem in mistakes(folder, written, **views)]


def test_what_devices_and_templates_say(tmp_path):
    more = 'broker: {mqtt: "mqtts://box:secret@broker:8883"}, buffer: 5 MB, forget: 2 days'
    written = text(rest='every: {a: 10 s, b: pause}, notify: "https://me:word@app/hook"', more=more)
    written = written.replace("rate: 0.1 /s}", "rate: 0.1 /s, keep: 1 h, priority: 3}")
    catalogue = read(tmp_path, written, near=NEAR)
    phones, nearby = catalogue.devices["phones"], catalogue.templates["nearby"]
    assert (phones.buffer_bytes, phones.forget_s) == (5e6, 172_800)
    assert phones.broker is not None
    assert "secret" not in phones.broker
    assert (phones.streams[0].keep_s, phones.streams[0].priority) == (3600, 3)
    assert (dict(nearby.every), dict(nearby.sides)) == ({"a": 10.0, "b": "pause"}, {"a": "uid", "b": "friend"})
    assert nearby.notify is not None
    assert "word" not in nearby.notify


def test_what_is_left_out_has_defaults(tmp_path):
    catalogue = read(tmp_path, text(), near=NEAR)
    phones, nearby = catalogue.devices["phones"], catalogue.templates["nearby"]
    assert (phones.broker, phones.buffer_bytes, phones.forget_s) == (None, 20e6, 604_800)
    assert (phones.streams[0].keep_s, phones.streams[0].priority) == (None, 0)
    assert (dict(nearby.every), nearby.notify, nearby.program) == ({}, None, None)


def test_every_stream_has_the_time_of_its_rows(tmp_path):
    catalogue = read(tmp_path, text(), near="SELECT x.at, x.lat FROM a.location x JOIN b.location y ON x.at > y.at")
    query = catalogue.views["near"].query
    assert not isinstance(query, Refusal)
    assert [(one.name, one.type) for one in fields_of(query)] == [("at", TIMESTAMP), ("lat", DOUBLE)]


def test_views_between_may_read_streams_and_tables(tmp_path):
    catalogue = read(
        tmp_path,
        text(),
        near="SELECT x.lat FROM near_offer x JOIN moved y ON x.lat = y.lat",
        near_offer="SELECT o.id, x.lat FROM a.location x JOIN cheap o ON x.lat = o.lat",
        moved="SELECT lat FROM b.location WHERE lat > 0",
        cheap="SELECT id, lat FROM offers WHERE id < 10",
    )
    assert not [one for one in catalogue.problems if "used" not in one.message]
    assert catalogue.views["near"].reads == ("near_offer", "moved")
    assert catalogue.views["moved"].reads == ("b.location",)


def test_results_are_read_with_their_pair(tmp_path):
    catalogue = read(tmp_path, text(), near=NEAR, crowds="SELECT a, b, lat FROM near")
    query = catalogue.views["crowds"].query
    assert not isinstance(query, Refusal)
    assert [(one.name, one.type) for one in fields_of(query)] == [("a", BIGINT), ("b", BIGINT), ("lat", DOUBLE)]


def test_a_template_of_one_side(tmp_path):
    near = "SELECT o.id FROM a.location x JOIN offers o ON x.lat = o.lat"
    catalogue = read(tmp_path, text("{table: people, a: uid}"), near=near)
    assert dict(catalogue.templates["nearby"].sides) == {"a": "uid"}
    assert messages(tmp_path, text("{table: people, a: uid}"), near=NEAR) == ['table "b.location" does not exist']


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (text("{table: friends, a: uid, b: friend, c: note}"), '"c" is not a side of a template'),
        (text("{table: friends, a: uid, b: other}"), 'names column "other", which source "friends" does not have'),
        (text("{table: friends, a: uid, b: note}"), 'has devices of type string in column "note"'),
        (text(rest="every: {c: 1 s}"), '"c" is not a side of a template'),
        (text(rest="every: 10 s"), "text does not say which side it is of"),
        (text(rest="every: {a: nothing}"), 'names column "nothing", which source "friends" does not have'),
        (text(rest="every: {a: note}"), 'has column "note" of type string for seconds'),
        (text("{table: people, a: uid}", "every: {b: 1 s}"), 'template "nearby" has no side b'),
        (text(more="buffer: 20"), '"20" has no unit'),
        (text(more="forget: 0 s"), '"0 s" is zero'),
        (text().replace("columns: {lat: double}, rate", "columns: {lat: double, at: int}, rate"), 'has a column "at"'),
        (text().replace("rate: 0.1 /s}", "priority: high}"), "text is not a priority"),
    ],
    ids=str,
)
def test_mistakes_in_devices_and_templates(tmp_path, written, message):
    assert message in messages(tmp_path, written, near=NEAR)[0]


@pytest.mark.parametrize(
    ("near", "message"),
    [
        ("SELECT x.lat AS a FROM a.location x", 'view "near" of template "nearby" has a column "a"'),
        ("SELECT x.lat AS row_id FROM a.location x", 'view "near" of template "nearby" has a column "row_id"'),
        ("SELECT x.lng FROM a.location x", 'column "x.lng" does not exist'),
        ("SELECT x.lat FROM c.location x", 'table "c.location" does not exist'),
    ],
)
def test_mistakes_in_the_view_of_a_template(tmp_path, near, message):
    assert messages(tmp_path, text(), near=near)[0] == message


def test_a_view_without_a_stream_of_its_devices_is_warned_of(tmp_path):
    catalogue = read(tmp_path, text(), near="SELECT id FROM offers")
    assert [one.message for one in catalogue.problems] == [
        'view "near" of template "nearby" reads no stream of its devices'
    ]


def test_names_of_templates_are_their_own(tmp_path):
    twice = text() + "      again: {per: " + PAIR + ", devices: phones, view: near}\n"
    assert messages(tmp_path, twice, near=NEAR) == ['templates "nearby" and "again" have the same view "near"']
    other = "SELECT id FROM offers"
    assert messages(tmp_path, text(), near=NEAR, nearby=other) == [
        'template "nearby" has the name of a view that is not its own'
    ]
    contract = text() + "    contracts: {nearby: {view: v, at: us, freshness: 5 s}}\n"
    assert messages(tmp_path / "other", contract, near=NEAR, v=other) == [
        'template "nearby" has the name of a contract for another view'
    ]


def test_results_are_maintained_and_never_recomputed(tmp_path):
    contract = text() + "    contracts: {c: {view: near, at: us, freshness: 5 s, refresh: full}}\n"
    assert "which is always maintained" in messages(tmp_path, contract, near=NEAR)[0]


def test_a_stream_has_another_name_than_any_table(tmp_path):
    written = text().replace("location:", "offers:")
    assert 'stream "offers" of devices "phones" has the name of a source' in messages(tmp_path, written, near=NEAR)


def test_the_view_of_a_template_is_also_read_over_its_views_of_one_side(tmp_path):
    views = {
        "Mine": "SELECT o.id FROM a.location x JOIN offers o ON o.lat = x.lat",
        "theirs": "SELECT o.id FROM b.location x JOIN offers o ON o.lat = x.lat",
        "both": "SELECT m.id FROM mine m JOIN theirs t ON m.id = t.id",
        "near": "SELECT b.id, o.lat FROM both b JOIN offers o ON o.id = b.id JOIN a.location x ON x.lat = o.lat",
    }
    near = read(tmp_path, text(), **views).views["near"]
    assert near.levels is not None and not isinstance(near.query, Refusal)
    read_of = sorted({scan.source for scan in scans_of(near.levels)})
    assert read_of == ["a.Mine", "a.location", "b.theirs", "offers"]
    assert fields_of(near.levels) == fields_of(near.query)


def test_without_views_of_one_side_there_are_no_levels(tmp_path):
    both = "SELECT x.lat FROM a.location x JOIN b.location y ON x.lat = y.lat"
    assert read(tmp_path / "1", text(), near=NEAR).views["near"].levels is None
    assert read(tmp_path / "2", text(), near="SELECT lat FROM both", both=both).views["near"].levels is None
    alone = text(per="{table: people, a: uid}")
    mine = "SELECT x.lat FROM a.location x"
    assert read(tmp_path / "3", alone, near="SELECT lat FROM mine", mine=mine).views["near"].levels is None
    stream = "SELECT m.lat FROM location m JOIN b.location y ON m.lat = y.lat"
    assert read(tmp_path / "4", text(), near=stream, location=mine).views["near"].levels is None
