"""A device loses nothing, reports nothing twice and says when it runs a document, whatever happens on the way."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.connect.device.outbox import Outbox
from headrace.model.device_messages import (
    CLOUD,
    NO_MORE,
    Hello,
    Run,
    Sent,
    StreamShape,
    TakeStream,
    down_topic,
    read_gone,
    read_hello,
    read_taken,
    split_table,
)
from headrace.model.errors import ConnectError, WireError
from headrace.model.expr import conjunction
from headrace.model.relation import Join, JoinKind, Output, Relation
from headrace.model.types import BIGINT, DOUBLE, STRING
from headrace.run.device.agent import Agent
from tests.connect.device.cloud import (
    ME,
    SHAPES,
    TOKEN,
    Cloud,
    exchange,
    make_document,
    no_rows_yet,
    plan_topic,
    rows_of,
)
from tests.examples import examples
from tests.run.device.lifted import column, coupons, double, equal, nearby, outputs, pairs, scan, side

HERE, FAR = {"lat": 1.0, "lng": 1.0}, {"lat": 50.0, "lng": 1.0}
ALL = {"location": 0.0, "visits": 0.0, "alarms": 0.0}
EVENTS = st.one_of(
    st.tuples(st.just("publish"), st.sampled_from(("location", "visits")), st.integers(0, 2)),
    st.tuples(st.just("partner"), st.sampled_from(("2", "3")), st.integers(0, 2)),
    st.tuples(st.just("document"), st.booleans(), st.sampled_from((("2",), ("2", "3"), ()))),
    st.tuples(st.just("lose"), st.integers(0, 3)),
    st.tuples(st.just("cut")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("time"), st.integers(1, 20_000)),
)


def start(*rows: tuple[str, Any], now: int = 1000, **fields: Any) -> tuple[Agent, Cloud]:
    agent, cloud = Agent(ME, Outbox(), now_ms=now), Cloud()
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {"near": nearby()}, ALL, **fields), now)
    agent.receive(*no_rows_yet(), now)
    for stream, row in rows:
        agent.publish(stream, row, None, now)
    exchange(agent, cloud, now)
    return agent, cloud


@settings(max_examples=examples(150))
@given(events=st.lists(EVENTS, max_size=25))
def test_after_any_history_the_cloud_has_every_row_and_exactly_the_results(events: list[tuple[Any, ...]]):
    folder = Path(tempfile.mkdtemp())
    try:
        play(folder, events)
    finally:
        shutil.rmtree(folder)


def play(folder: Path, events: list[tuple[Any, ...]]) -> None:
    now, plan, cloud, partner_seq = 1_000_000, 1, Cloud(), 0
    store = Outbox(folder)
    agent = Agent(ME, store, now_ms=now)
    published: list[tuple[float, float]] = []
    latest: dict[str, float] = {}
    partners: tuple[str, ...] = ("2", "3")
    agent.connect()
    agent.receive(plan_topic(), make_document(plan, {"near": nearby()}, {"location": 0.0, "visits": 0.0}), now)
    for event in events:
        now += 1
        match event:
            case ("publish", stream, value):
                agent.publish(stream, {"lat": float(value), "lng": 1.0}, None, now)
                if stream == "visits":
                    published.append((float(value), 1.0))
                else:
                    latest["1"] = float(value)
            case ("partner", device, value):
                partner_seq += 1
                if device in partners:
                    latest[device] = float(value)
                agent.receive(*rows_of("location", device, Sent(partner_seq, now, ((float(value), 1.0),))), now)
            case ("document", runs, partners):
                plan += 1
                programs = {"near": nearby()} if runs else {}
                send = {"location": 0.0, "visits": 0.0}
                agent.receive(plan_topic(), make_document(plan, programs, send, partners), now)
                latest = {device: value for device, value in latest.items() if device in ("1", *partners)}
            case ("lose", count):
                cloud.lose()
                for message in agent.outgoing(now)[:count]:
                    cloud.receive(message)
            case ("cut",):
                agent.disconnect()
                agent.connect()
            case ("restart",):
                store.close()
                store = Outbox(folder)
                agent = Agent(ME, store, now_ms=now)
                agent.connect()
            case ("time", passed):
                now += passed
                agent.tick(now)
    now += 60_000
    agent.disconnect()
    agent.connect()
    agent.receive(*no_rows_yet(), now)
    for _ in range(5):
        now += 16_000
        agent.tick(now)
        exchange(agent, cloud, now)
    assert [sent.rows[0] for sent in cloud.streams.get("visits", [])] == published
    if "1" in latest:
        assert cloud.streams["location"][-1].rows == ((latest["1"], 1.0),)
    runs = not events or next((one[1] for one in reversed(events) if one[0] == "document"), True)
    near = {
        ("near", ("1", device), 0, (0.0, latest["1"]))
        for device in partners
        if runs and "1" in latest and latest.get(device) == latest["1"]
    }
    assert cloud.there() == dict.fromkeys(near, 1)
    assert agent.is_idle and cloud.tooks[-1].plan == plan
    store.close()


def test_it_says_that_it_runs_a_document_after_the_results_of_it():
    agent, cloud = Agent(ME, Outbox(), now_ms=0), Cloud()
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {}, {}), 0)
    agent.receive(*no_rows_yet(), 0)
    agent.publish("location", HERE, None, 0)
    agent.receive(*rows_of("location", "2", Sent(1, 0, ((1.0, 1.0),))), 0)
    exchange(agent, cloud, 0)
    agent.receive(plan_topic(), make_document(2, {"near": nearby()}), 1)
    topics = [topic.split("/", 4)[4] for topic, _ in agent.outgoing(1)]
    assert topics == ["r/near", "took"]


def test_it_runs_a_document_when_it_knows_what_there_is_of_its_partners():
    agent, cloud = Agent(ME, Outbox(), now_ms=0), Cloud()
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {"near": nearby()}), 0)
    exchange(agent, cloud, 29_000)
    assert not cloud.tooks and agent.is_idle, "whatever it could send is sent"
    agent.receive(*no_rows_yet(), 29_001)
    exchange(agent, cloud, 29_001)
    assert [took.plan for took in cloud.tooks] == [1]


def test_of_a_long_history_the_last_part_counts():
    agent, cloud = start()
    agent.receive(plan_topic(), make_document(2, {"near": nearby()}, ALL, ("2", "4")), 2000)
    agent.receive(*rows_of("location", "4", Sent(1, 0, ((1.0, 1.0),))), 2000)
    agent.receive(*rows_of("visits", "4", Sent(1, 1000, ((1.0, 1.0),))), 2000)
    exchange(agent, cloud, 2000)
    assert len(cloud.tooks) == 1
    agent.receive(*rows_of("visits", "4", Sent(2, 1000, ((1.0, 1.0),)), NO_MORE), 2001)
    exchange(agent, cloud, 2001)
    assert [took.plan for took in cloud.tooks] == [1, 2]


def test_the_end_of_a_history_is_not_waited_for_for_ever():
    agent, cloud = start()
    agent.receive(plan_topic(), make_document(2, {"near": nearby()}, ALL, ("2", "4")), 2000)
    agent.receive(*rows_of("location", "4", NO_MORE), 2000)
    agent.receive(*rows_of("visits", "4", Sent(1, 1000, ((1.0, 1.0),))), 2000)
    exchange(agent, cloud, 11_999)
    assert len(cloud.tooks) == 1
    exchange(agent, cloud, 12_000)
    assert [took.plan for took in cloud.tooks] == [1, 2]


def test_it_says_which_results_it_has_sent_before_it_runs_a_document():
    agent, cloud = start(("location", HERE))
    agent.receive(*rows_of("location", "2", Sent(1, 0, ((1.0, 1.0),))), 2000)
    agent.receive(plan_topic(), make_document(2, {"near": nearby()}, ALL), 2000)
    for message in agent.outgoing(2000):
        cloud.receive(message)
    assert cloud.tooks[-1].results == {"near": 2000} and cloud.last["r/near"] == 2000
    agent.receive(*cloud.acks(), 2000)
    agent.receive(plan_topic(), make_document(3, {"near": nearby()}, {}), 2001)
    exchange(agent, cloud, 2001)
    assert cloud.tooks[-1].plan == 3 and not cloud.tooks[-1].results, "the cloud has said that it has them"


def test_partners_are_known_after_a_restart_though_their_rows_are_over(tmp_path: Path):
    store, cloud = Outbox(tmp_path), Cloud()
    agent = Agent(ME, store, now_ms=0)
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {"near": nearby()}), 0)
    agent.receive(*no_rows_yet(), 0)
    agent.receive(*rows_of("visits", "2", Sent(7, 0, ((1.0, 1.0),))), 0)
    hours = 8 * 3_600_000
    agent.tick(hours)
    store.close()
    store = Outbox(tmp_path)
    agent = Agent(ME, store, now_ms=hours)
    agent.connect()
    exchange(agent, cloud, hours + 10_000)
    assert [took.plan for took in cloud.tooks] == [1]
    store.close()


def test_a_stream_that_is_sent_again_begins_with_its_latest_row():
    agent, cloud = start(("location", HERE), ("visits", HERE))
    agent.receive(plan_topic(), make_document(2, {}, {}), 2000)
    agent.receive(plan_topic(), make_document(3, {}, ALL), 3000)
    exchange(agent, cloud, 3000)
    first, again = cloud.streams["location"]
    assert again.rows == first.rows and again.at_ms == first.at_ms and again.seq > first.seq
    assert len(cloud.streams["visits"]) == 1, "rows that are all kept are not sent twice"


def test_a_row_that_no_message_can_hold_is_refused():
    agent, _ = start(streams={"notes": StreamShape((("text", STRING),))})
    with pytest.raises(WireError, match="too large"):
        agent.publish("notes", {"text": "x" * 999_000}, None, 2000)
    early = Agent(ME, Outbox(), now_ms=0)
    with pytest.raises(WireError, match="too large"):
        early.publish("notes", {"text": "x" * 999_000}, None, 2000)
    assert early.is_idle


def test_a_document_for_somebody_else_or_an_older_one_is_not_taken():
    agent, _ = start()
    agent.receive(plan_topic(), make_document(3, {}), 1001)
    for body in (
        make_document(4, {}).replace(b'"plan":4', b'"plan":5'),
        make_document(2, {"near": nearby()}),
        b"{}",
        b"\xff",
    ):
        agent.receive(plan_topic(), body, 1002)
    assert agent.plan == 3 and len(agent.told) == 4
    assert "not signed" in agent.told[0] and "older" in agent.told[1]


def test_equal_rows_are_no_change_unless_they_are_kept():
    _, cloud = start(("location", HERE), ("location", HERE), ("visits", HERE), ("visits", HERE))
    assert len(cloud.streams["location"]) == 1 and len(cloud.streams["visits"]) == 2


def test_a_row_that_does_not_fit_is_refused_alone():
    agent, cloud = start()
    for stream, row in (
        ("nowhere", HERE),
        ("location", {"lat": "north", "lng": 1.0}),
        ("location", {"height": 3}),
        ("location", [1.0, 1.0]),
    ):
        with pytest.raises(WireError):
            agent.publish(stream, row, None, 1001)
    agent.publish("location", {"lat": 1}, None, 1001)
    exchange(agent, cloud, 1001)
    assert cloud.streams["location"][0].rows == ((1.0, None),) and cloud.last["location"] == 1001


def test_rows_that_come_before_the_first_document_wait_for_it():
    agent, cloud = Agent(ME, Outbox(), now_ms=0), Cloud()
    agent.connect()
    agent.publish("visits", HERE, 5, 10)
    agent.publish("visits", {"wrong": 1}, 6, 10)
    agent.publish("location", HERE, 7, 10)
    exchange(agent, cloud, 10)
    assert not cloud.streams
    agent.receive(plan_topic(), make_document(1, {}, {"location": 0.0, "visits": 0.0}), 20)
    exchange(agent, cloud, 20)
    assert [sent.at_ms for sent in cloud.streams["visits"]] == [5] and cloud.streams["location"][0].at_ms == 7
    assert "wrong" in agent.told[0]


def test_what_is_not_acknowledged_is_sent_again_after_a_while():
    agent, cloud = start()
    agent.publish("visits", HERE, None, 2000)
    assert len(agent.outgoing(2000)) == 1, "and it is lost"
    assert agent.outgoing(10_000) == []
    exchange(agent, cloud, 17_001)
    assert len(cloud.streams["visits"]) == 1 and agent.is_idle


@pytest.mark.parametrize("is_known", [True, False], ids=["and is believed", "and nobody cares"])
def test_what_a_device_sends_after_it_lost_its_state_is_taken(is_known: bool):
    _, cloud = start(*[("visits", HERE)] * 2, ("location", FAR), ("location", HERE))
    cloud.knows_losses = is_known
    agent = Agent(ME, Outbox(), now_ms=0)
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {}, {"location": 0.0, "visits": 0.0}), 0)
    agent.receive(*no_rows_yet(), 0)
    agent.publish("visits", {"lat": 7.0}, None, 1)
    agent.publish("location", {"lat": 8.0}, None, 1)
    exchange(agent, cloud, 1)
    assert [sent.rows[0][0] for sent in cloud.streams["visits"]] == [1.0, 1.0, 7.0]
    assert cloud.streams["location"][-1].rows[0][0] == 8.0
    agent.publish("visits", {"lat": 9.0}, None, 2)
    exchange(agent, cloud, 2)
    assert [sent.rows[0][0] for sent in cloud.streams["visits"]] == [1.0, 1.0, 7.0, 9.0] and agent.is_idle


def test_a_device_that_lost_its_state_goes_on_with_higher_numbers():
    _, cloud = start(*[("visits", HERE)] * 3, ("location", HERE), now=1_000)
    before = dict(cloud.last)
    agent, later = start(("visits", FAR), ("location", FAR), now=2_000)
    assert not agent.told and later.last["visits"] > before["visits"] and later.last["location"] > before["location"]


def test_of_what_waits_a_latest_row_stream_has_its_newest_row_only():
    agent, cloud = start()
    agent.disconnect()
    for number in range(50):
        agent.publish("location", {"lat": float(number), "lng": 1.0}, None, 2000 + number)
    agent.connect()
    exchange(agent, cloud, 3000)
    assert [sent.rows[0][0] for sent in cloud.streams["location"]] == [49.0]


def test_a_full_buffer_drops_the_oldest_rows_of_the_least_priority_and_says_so():
    shapes = {**SHAPES, "alarms": replace(SHAPES["visits"], priority=5)}
    agent, cloud = start(streams=shapes, buffer_bytes=2_000)
    agent.disconnect()
    agent.publish("alarms", HERE, None, 2000)
    for number in range(200):
        agent.publish("visits", {"lat": float(number), "lng": 1.0}, None, 2000)
    assert agent.waiting_bytes <= 2_000 and "are lost" in agent.told[0]
    agent.connect()
    exchange(agent, cloud, 3000)
    assert len(cloud.streams["alarms"]) == 1
    numbers = [sent.rows[0][0] for sent in cloud.streams["visits"]]
    assert 10 < len(numbers) < 100 and numbers == [float(one) for one in range(200 - len(numbers), 200)]
    assert cloud.hellos[-1].dropped == {"visits": 200 - len(numbers)}


def test_results_are_not_dropped_when_the_buffer_is_full_but_cancel_each_other():
    agent, cloud = start(("location", HERE), buffer_bytes=3_000)
    agent.disconnect()
    for number in range(1, 202):
        lat = 1.0 if number % 2 else 40.0
        agent.receive(*rows_of("location", "2", Sent(number, 2000, ((lat, 1.0),))), 2000 + number)
    assert agent.waiting_bytes <= 3_000
    agent.connect()
    exchange(agent, cloud, 3000)
    assert cloud.there() == {("near", ("1", "2"), 0, (0.0, 1.0)): 1}


def test_a_result_that_is_taken_back_is_so_even_if_only_the_cloud_knows_that_it_came():
    agent, cloud = start(("location", HERE), buffer_bytes=50)
    agent.receive(*rows_of("location", "2", Sent(1, 2000, ((1.0, 1.0),))), 2000)
    for message in agent.outgoing(2000):
        cloud.receive(message)
    assert cloud.there(), "and the acknowledgement is lost"
    for number in range(2, 21, 2):
        agent.receive(*rows_of("location", "2", Sent(number, 2000, ((40.0, 1.0),))), 2000)
        agent.receive(*rows_of("location", "2", Sent(number + 1, 2000, ((1.0, 1.0),))), 2000)
    agent.receive(*rows_of("location", "2", Sent(100, 2000, ((40.0, 1.0),))), 2000)
    exchange(agent, cloud, 20_000)
    assert cloud.there() == {} and agent.is_idle


def test_a_full_buffer_does_not_cost_the_latest_row_of_a_stream():
    agent, cloud = start(buffer_bytes=300)
    agent.disconnect()
    agent.publish("location", HERE, None, 2000)
    for number in range(50):
        agent.publish("visits", {"lat": float(number), "lng": 1.0}, None, 2000)
    assert agent.told
    agent.connect()
    exchange(agent, cloud, 3000)
    assert len(cloud.streams["location"]) == 1 and len(cloud.streams["visits"]) < 50


def test_live_rows_go_ahead_of_old_ones_and_few_messages_are_in_flight():
    agent, _ = start()
    agent.disconnect()
    for number in range(8_000):
        agent.publish("visits", {"lat": float(number), "lng": 1.0}, None, 2000)
    agent.connect()
    agent.publish("location", HERE, None, 100_000)
    found = agent.outgoing(100_000)
    topics = [topic.split("/", 4)[4] for topic, _ in found]
    assert topics[:2] == ["hello", "s/location"]
    assert topics.count("s/visits") == 10, "old rows have half of what may be in flight"
    assert all(len(body) < 70_000 for _, body in found)


def test_one_process_has_a_folder_at_a_time(tmp_path: Path):
    first = Outbox(tmp_path / "1")
    with pytest.raises(ConnectError, match="another process"):
        Outbox(tmp_path / "1")
    first.close()
    Outbox(tmp_path / "1").close()
    assert (tmp_path / "1").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "1" / "device.db").stat().st_mode & 0o777 == 0o600


def test_a_disk_that_fails_is_an_error_that_people_can_read(tmp_path: Path):
    store = Outbox(tmp_path)
    agent = Agent(ME, store, now_ms=0)
    with sqlite3.connect(tmp_path / "device.db") as db:
        db.execute("DROP TABLE early")
    db.close()
    with pytest.raises(ConnectError, match="cannot be kept: no such table"):
        agent.publish("location", HERE, None, 0)
    with pytest.raises(ConnectError, match="cannot be kept"):
        assert agent.is_idle
    store.close()


# Derived streams


SPOTS = {**SHAPES, "spot": StreamShape((("name", STRING),))}


def derive_spot() -> Relation:
    """The names of places at the device's latitude: `place` is a table of the cloud."""
    here = side("a", "x", one_sided=True)
    places = scan("places", "o", (("name", STRING), ("lat", DOUBLE)))
    found = Join(JoinKind.INNER, here, places, equal(double("x.lat"), double("o.lat")))
    return outputs(found, "px", Output("name", column(places, "o.name")), sides="a")


def together() -> Relation:
    """Spots where both devices of a pair are."""
    columns = (("device", BIGINT), ("position", BIGINT), ("name", STRING))
    mine, theirs = (scan("phones/spot", alias, columns) for alias in ("x", "y"))
    chosen = pairs()
    with_mine = Join(JoinKind.INNER, chosen, mine, equal(column(chosen, "p.a"), column(mine, "x.device")))
    same = (
        equal(column(chosen, "p.b"), column(theirs, "y.device")),
        equal(column(mine, "x.name"), column(theirs, "y.name")),
    )
    joined = Join(JoinKind.INNER, with_mine, theirs, conjunction(same))
    return outputs(joined, "p", Output("name", column(mine, "x.name")))


def spot_document(plan: int, sends: bool = True, runs: bool = True, name: str = "spot") -> bytes:
    run = (Run("spot", "spot", "a", (), False),) if runs else ()
    take = (TakeStream("places", CLOUD, 0.0),) if runs else ()
    send = {"spot": 0.0} if sends and runs else {}
    return make_document(plan, {"spot": derive_spot()}, send, run=run, take=take, streams=SPOTS)


def tell_places(agent: Agent, now: int, *places: tuple[str, float]) -> None:
    agent.receive(*rows_of("places", CLOUD, Sent(now, now, places)), now)


def start_spot() -> tuple[Agent, Cloud]:
    agent, cloud = Agent(ME, Outbox(), now_ms=1), Cloud()
    agent.connect()
    agent.receive(plan_topic(), spot_document(1), 1)
    return agent, cloud


def spots(cloud: Cloud) -> list[list[str]]:
    return [[str(name) for (name,) in sent.rows] for sent in cloud.streams.get("spot", ())]


def test_a_derived_stream_is_sent_when_its_rows_change_and_only_then():
    agent, cloud = start_spot()
    tell_places(agent, 10, ("inn", 1.0), ("bar", 1.0), ("mill", 2.0))
    for now, (lat, lng) in enumerate([(1.0, 1.0), (1.0, 2.0), (1.0, 3.0), (2.0, 3.0), (3.0, 3.0), (4.0, 3.0)], 20):
        agent.publish("location", {"lat": lat, "lng": lng}, None, now)
        exchange(agent, cloud, now)
    assert spots(cloud) == [["bar", "inn"], ["mill"], []]
    assert "location" not in cloud.streams and not cloud.results
    assert not agent.results, "nobody subscribed to it"


def test_a_derived_stream_has_no_value_before_what_it_is_made_of_is_there():
    agent, cloud = start_spot()
    agent.publish("location", HERE, None, 2)
    agent.receive(*rows_of("places", CLOUD, NO_MORE), 3)
    exchange(agent, cloud, 3)
    assert not spots(cloud), "the table is not there"
    tell_places(agent, 10)
    exchange(agent, cloud, 10)
    assert spots(cloud) == [[]], "that there are none is said: the cloud may know some from before"


def test_a_device_that_is_told_again_to_derive_a_stream_says_what_it_is_now():
    agent, cloud = start_spot()
    tell_places(agent, 10, ("inn", 1.0))
    agent.publish("location", HERE, None, 11)
    exchange(agent, cloud, 11)
    agent.receive(plan_topic(), spot_document(2, runs=False), 12)
    assert not agent.results
    agent.publish("location", FAR, None, 13)
    agent.receive(plan_topic(), spot_document(3), 14)
    tell_places(agent, 15, ("inn", 1.0))
    exchange(agent, cloud, 15)
    assert spots(cloud) == [["inn"], []]


def test_what_is_not_derived_any_more_is_not_sent_any_more():
    agent, cloud = start_spot()
    agent.disconnect()
    tell_places(agent, 10, ("inn", 1.0))
    agent.publish("location", HERE, None, 11)
    agent.receive(plan_topic(), make_document(2, {}, take=(), streams=SHAPES), 12)
    agent.connect()
    exchange(agent, cloud, 13)
    assert not spots(cloud) and agent.is_idle and cloud.tooks[-1].plan == 2


def test_a_template_with_the_name_of_a_stream_derives_nothing():
    agent, cloud = Agent(ME, Outbox(), now_ms=1), Cloud()
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {"location": nearby()}, {"location": 0.0}), 1)
    agent.receive(*no_rows_yet(), 1)
    agent.publish("location", HERE, None, 2)
    agent.receive(*rows_of("location", "2", Sent(1, 1, ((1.0, 1.0),))), 3)
    exchange(agent, cloud, 3)
    assert len(cloud.there()) == len(agent.results) == 1
    assert [sent.rows for sent in cloud.streams["location"]] == [((1.0, 1.0),)]


def test_nobody_publishes_what_is_derived():
    agent, _ = start_spot()
    with pytest.raises(WireError, match="is computed here"):
        agent.publish("spot", {"name": "inn"}, None, 2)


def test_more_rows_than_are_sent_are_refused_until_there_are_fewer():
    agent, cloud = start_spot()
    agent.publish("location", HERE, None, 2)
    tell_places(agent, 10, *((f"inn {number}", 1.0) for number in range(1001)))
    exchange(agent, cloud, 10)
    assert "1,001 rows" in agent.refused["spot"] and "1,001 rows" in cloud.tooks[-1].refused["spot"]
    assert not spots(cloud)
    tell_places(agent, 11, ("inn", 1.0))
    exchange(agent, cloud, 11)
    assert spots(cloud) == [["inn"]] and not agent.refused and not cloud.tooks[-1].refused
    tell_places(agent, 12, ("inn", 1.0), *((f"mill {number}", 50.0) for number in range(1001)))
    for now, place in ((13, FAR), (14, HERE)):
        agent.publish("location", place, None, now)
        exchange(agent, cloud, now)
        assert bool(agent.refused) == bool(cloud.tooks[-1].refused) == (place is FAR)
    assert spots(cloud) == [["inn"]], "and it has not changed meanwhile"


def test_a_view_on_the_device_reads_what_it_derives_itself_and_what_others_do():
    agent, cloud = Agent(ME, Outbox(), now_ms=1), Cloud()
    agent.connect()
    run = (Run("spot", "spot", "a", (), False), Run("both", "both", "a", ("2",), True))
    take = (TakeStream("places", CLOUD, 0.0), TakeStream("spot", "2", 0.0))
    programs = {"spot": derive_spot(), "both": together()}
    agent.receive(plan_topic(), make_document(1, programs, run=run, take=take, streams=SPOTS), 1)
    tell_places(agent, 2, ("inn", 1.0), ("bar", 1.0))
    agent.publish("location", HERE, None, 3)
    agent.receive(*rows_of("spot", "2", Sent(1, 1, (("bar",), ("mill",)))), 4)
    exchange(agent, cloud, 5)
    assert list(cloud.there()) == [("both", ("1", "2"), 0, ("bar",))]
    assert not cloud.streams
    agent.publish("location", FAR, None, 6)
    exchange(agent, cloud, 6)
    assert not cloud.there()


SPOT_EVENTS = st.one_of(
    st.tuples(st.just("publish"), st.integers(0, 2)),
    st.tuples(st.just("places"), st.lists(st.integers(0, 2), max_size=3)),
    st.tuples(st.just("document"), st.booleans(), st.booleans()),
    st.tuples(st.just("lose")),
    st.tuples(st.just("exchange")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("forget")),
)


@settings(max_examples=examples(150))
@given(events=st.lists(SPOT_EVENTS, max_size=20))
def test_after_any_history_the_cloud_has_the_rows_of_the_view(events: list[tuple[Any, ...]]):
    folder = Path(tempfile.mkdtemp())
    try:
        play_spot(folder, events)
    finally:
        shutil.rmtree(folder)


def play_spot(folder: Path, events: list[tuple[Any, ...]]) -> None:
    """A device that restarts, loses messages, and loses its memory: in the end it is told to send, and has a row."""
    now, plan, cloud, lives = 1_000_000, 1, Cloud(), 0
    lat, places = 0, [0, 1]
    store = Outbox(folder / "0")
    agent = Agent(ME, store, now_ms=now)
    agent.connect()

    def tell(sends: bool = True, runs: bool = True) -> None:
        agent.receive(plan_topic(), spot_document(plan, sends, runs), now)
        tell_places(agent, now, *((f"inn {number}", float(one)) for number, one in enumerate(places)))

    tell()
    for event in (*events, ("document", True, True), ("publish", lat)):
        now += 10
        match event:
            case ("publish", value):
                lat = value
                agent.publish("location", {"lat": float(value), "lng": 1.0}, None, now)
            case ("places", found):
                places = found
                tell_places(agent, now, *((f"inn {number}", float(one)) for number, one in enumerate(places)))
            case ("document", sends, runs):
                plan += 1
                tell(sends, runs)
            case ("lose",):
                agent.outgoing(now)
            case ("exchange",):
                exchange(agent, cloud, now)
            case ("restart",) | ("forget",):
                store.close()
                lives += event == ("forget",)
                store = Outbox(folder / str(lives))
                agent = Agent(ME, store, now_ms=now)
                agent.connect()
                if event == ("forget",):
                    plan += 1
                    tell()
    agent.publish("location", {"lat": float(lat), "lng": 1.0}, None, now)
    agent.disconnect()
    agent.connect()
    exchange(agent, cloud, now + 20_000)
    expected = sorted(f"inn {number}" for number, one in enumerate(places) if one == lat)
    assert sorted(spots(cloud)[-1]) == expected
    store.close()


def test_rates_and_functions_are_told_with_hello():
    agent, cloud = Agent(ME, Outbox(), {"shout@1": str}, now_ms=0), Cloud()
    agent.connect()
    exchange(agent, cloud, 0)
    agent.receive(plan_topic(), make_document(1, {}), 0)
    agent.receive(*no_rows_yet(), 0)
    for second in range(40):
        agent.publish("location", {"lat": float(second)}, None, second * 1000)
        exchange(agent, cloud, second * 1000)
    assert cloud.hellos[0].functions == ("shout@1",) and cloud.hellos[0].plan == 0
    assert len(cloud.hellos) == 2 and cloud.hellos[1].rates["location"] == pytest.approx(1.0, rel=0.05)


def test_a_device_that_was_perhaps_not_heard_says_hello_again_and_ever_less_often():
    agent, cloud, said = Agent(ME, Outbox(), now_ms=0), Cloud(), []
    agent.connect()
    for second in range(100):
        exchange(agent, cloud, second * 1000)
        said.append(len(cloud.hellos))
    assert [second for second in range(1, 100) if said[second] > said[second - 1]] == [5, 15, 35, 75]
    agent.receive(plan_topic(), make_document(1, {}), 100_000)
    exchange(agent, cloud, 100_000)
    exchange(agent, cloud, 390_000)
    assert len(cloud.hellos) == 6


def test_secrets_are_not_shown():
    assert TOKEN not in repr(ME)


def test_rows_nobody_asked_for_are_not_taken():
    agent, _ = start(("location", HERE))
    agent.receive(*rows_of("location", "99", Sent(1, 0, ((1.0, 1.0),))), 2000)
    assert not agent.results and read_taken(rows_of("location", "99")[1]) == ()
    agent.receive(down_topic("town", "1", "s"), json.dumps([["2", "location"]]).encode(), 2000)
    assert "5 parts" in agent.told[0]


def hellos(agent: Agent, now: int) -> list[Hello]:
    return [read_hello(body) for topic, body in agent.outgoing(now) if topic.endswith("/hello")]


def test_the_last_will_names_the_connection_that_it_ends():
    agent = Agent(ME, Outbox(), now_ms=1000)
    first = agent.begin_connection(1000)
    agent.connect()
    (hello,) = hellos(agent, 1000)
    assert read_gone(first[1]) == hello.connection == read_gone(agent.last_will()[1])
    second = agent.begin_connection(900)  # its clock went back
    assert read_gone(second[1]) > hello.connection


def test_a_device_asks_for_rows_that_the_broker_may_have_lost_until_it_has_them():
    agent, _ = start()
    agent.disconnect()
    agent.connect(is_known=True)
    assert [one.lacks for one in hellos(agent, 2000)] == [False]
    agent.note_subscribed()
    assert [one.lacks for one in hellos(agent, 2001)] == [True]
    agent.disconnect()
    agent.connect(is_known=True)
    assert [one.lacks for one in hellos(agent, 3000)] == [True], "the hello before may be lost"
    assert not hellos(agent, 3001)
    assert [one.lacks for one in hellos(agent, 40_000)] == [True], "whoever was to answer may have been killed"
    agent.receive(*no_rows_yet(), 40_001)
    assert not hellos(agent, 80_000)
    agent.disconnect()
    agent.connect(is_known=False)
    assert [one.lacks for one in hellos(agent, 90_000)] == [True]


def test_a_device_that_takes_only_newest_rows_asks_for_nothing_again():
    agent = Agent(ME, Outbox(), now_ms=1000)
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {}, ALL, partners=()), 1000)
    hellos(agent, 1000)
    agent.note_subscribed()
    assert not hellos(agent, 1001)


def test_a_device_that_heard_nothing_of_what_it_takes_asks_again():
    agent = Agent(ME, Outbox(), now_ms=1000)
    agent.connect()
    agent.receive(plan_topic(), make_document(1, {"near": nearby()}, ALL), 1000)
    assert [one.lacks for one in hellos(agent, 1000)] == [False], "it is sent after a first hello"
    assert not hellos(agent, 20_000)
    assert [one.lacks for one in hellos(agent, 40_000)] == [True]
    agent.receive(*no_rows_yet(), 40_001)
    assert not hellos(agent, 90_000)


def large_table(seq: int, near: str) -> list[tuple[str, bytes]]:
    """Offers as messages to the device, more than one of them can hold; one offer is near."""
    rows = [(near if number == 1700 else f"{number}-" + "x" * 600, 1.0 if number == 1700 else 90.0)
            for number in range(2000)]  # fmt: skip
    parts = split_table("offers", Sent(seq, 0, tuple(rows)))
    assert sum(map(len, parts)) > 1_000_000 and len(parts) > 3
    return [(down_topic("town", "1", "s"), part) for part in parts]


def offers_of(agent: Agent) -> list[str]:
    agent.results.clear()
    return [str(row[0]) for (_, row) in agent._engine.results.get("offers_near", {})]


def test_a_table_in_parts_counts_when_all_of_it_is_there(tmp_path: Path):
    def begin() -> Agent:
        agent = Agent(ME, Outbox(tmp_path), now_ms=1000)
        agent.connect()
        return agent

    agent, cloud = begin(), Cloud()
    agent.receive(plan_topic(), make_document(1, {"offers_near": coupons()}, {}, partners=()), 1000)
    agent.publish("location", HERE, None, 1000)
    first, *others = large_table(7, "tea")
    for part in (*others, *others):
        agent.receive(*part, 1001)
        exchange(agent, cloud, 1001)
    assert not offers_of(agent) and not cloud.tooks, "it would compute with half a table"
    agent.close()
    agent = begin()
    agent.receive(*first, 1002)
    exchange(agent, cloud, 1002)
    assert not offers_of(agent), "what it had of it was lost with the restart"
    for part in others:
        agent.receive(*part, 1003)
    exchange(agent, cloud, 1003)
    assert offers_of(agent) == ["tea"] and cloud.tooks and not agent.told
    agent.close()
    agent = begin()
    assert offers_of(agent) == ["tea"]

    first, *others = large_table(8, "coffee")
    for part in others:
        agent.receive(*part, 1004)
    assert offers_of(agent) == ["tea"], "until the next version is whole"
    for part in large_table(7, "tea")[:1]:  # sent again before, and late
        agent.receive(*part, 1004)
    agent.receive(*first, 1005)
    assert offers_of(agent) == ["coffee"] and not agent.told
    agent.close()
