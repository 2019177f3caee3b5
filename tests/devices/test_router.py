"""The router keeps, acknowledges and passes on what devices send, whatever is killed meanwhile."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headrace.connect.mqtt.users import PLACER
from headrace.coordinate.devices.table_messages import write_table
from headrace.model.cloud_messages import RATES, TABLE, TOOK, read_counts, read_device_took
from headrace.model.device_messages import (
    CLOUD,
    Document,
    Hello,
    SendStream,
    Sent,
    TakeStream,
    Took,
    cloud_topic,
    down_topic,
    read_acks,
    read_taken,
    up_topic,
    write_hello,
    write_sent,
    write_took,
)
from headrace.run.devices.intake import identify_row
from tests.devices.clients import Client, signed_in, wait_for
from tests.devices.routers import PASSWORD, PROJECT, RouterWorld, TestDevice, router_world


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RouterWorld]:
    with router_world(tmp_path) as made:
        yield made


@pytest.fixture
def cloud(world: RouterWorld) -> Iterator[Client]:
    with signed_in(world.broker.url, PLACER, PASSWORD, client_id="placer") as client:
        assert client.subscribe(cloud_topic(PROJECT, "") + "#")
        yield client


def device(world: RouterWorld, id_: str, resend_s: float = 1.0):
    return closing(TestDevice(world, id_, resend_s))


def wait_rows(world: RouterWorld, name: str, key: list[int], rows: int):
    wait_for(lambda: len(world.net_rows(name, key)) >= rows, f"{rows} rows of {name}")
    return world.net_rows(name, key)


def last_counts(cloud: Client):
    seen = len(cloud.bodies(cloud_topic(PROJECT, RATES)))
    wait_for(lambda: len(cloud.bodies(cloud_topic(PROJECT, RATES))) > seen + 1, "two more counts")
    return read_counts(cloud.bodies(cloud_topic(PROJECT, RATES))[-1])


def test_rows_reach_their_sources_and_are_acknowledged(world: RouterWorld):
    with device(world, "1") as one, device(world, "2") as two:
        for number in range(5):
            one.move(float(number))
            two.visit(float(number))
        one.settle()
        two.settle()
    (row,) = wait_rows(world, "location", [0], 1).values()
    assert (row[0], row[1], row[3], row[4]) == (1, 5, 4.0, None)
    assert (row[2].year, row[2].microsecond) == (1970, 5000)
    assert [row[3] for _, row in sorted(wait_rows(world, "visits", [0, 1], 5).items())] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_an_older_row_that_comes_late_is_ignored(world: RouterWorld):
    with device(world, "1") as one:
        topic = up_topic(PROJECT, "1", "s", "location")
        one.client.publish(topic, write_sent([Sent(7, 70, ((7.0, ""),))]))
        wait_rows(world, "location", [0], 1)
        for seq in (6, 7, 1):
            one.client.publish(topic, write_sent([Sent(seq, 10, ((-1.0, ""),))]))
        one.client.publish(topic, write_sent([Sent(8, 80, ((8.0, ""),)), Sent(9, 90, ((9.0, ""),))]))
        wait_for(lambda: [row[1] for row in world.net_rows("location", [0]).values()] == [9], "the newest row")
        wait_for(
            lambda: {"location": 9} in map(read_acks, one.client.bodies(down_topic(PROJECT, "1", "ack"))), "its ack"
        )


def test_takers_get_the_newest_row_at_once_and_when_they_come(world: RouterWorld, cloud: Client):
    with device(world, "1") as one, device(world, "2") as two:
        takes = (TakeStream("location", "1", 0.0), TakeStream("visits", "1", 0.0))
        for _ in range(3):
            one.visit(1.0)
        one.move(1.0)
        one.settle()
        world.publish_document(cloud, "2", Document(1, take=takes))
        wait_for(lambda: ("1", "visits", 3) in two.taken(), "the kept history")
        assert sorted(two.taken()) == [("1", "location", 1), *(("1", "visits", seq) for seq in (1, 2, 3))]
        one.move(2.0)
        one.visit(2.0)
        wait_for(lambda: {("1", "location", 2), ("1", "visits", 4)} <= set(two.taken()), "what is new")
        world.publish_document(cloud, "2", Document(2))
        one.move(3.0)
        world.publish_document(cloud, "2", Document(3, take=takes))
        wait_for(lambda: ("1", "location", 3) in two.taken(), "the newest row again")


def test_a_slow_taker_gets_a_row_now_and_then_and_the_last_in_the_end(world: RouterWorld, cloud: Client):
    with device(world, "1") as one, device(world, "2") as two:
        world.publish_document(cloud, "2", Document(1, take=(TakeStream("location", "1", 1.0),)))
        began = time.monotonic()
        for number in range(60):
            one.move(float(number))
            time.sleep(0.05)
        wait_for(lambda: ("1", "location", 60) in two.taken(), "the last row")
        took_s = time.monotonic() - began
        assert len(two.taken()) <= took_s / 1.0 + 1
        assert [seq for _, _, seq in two.taken()] == sorted({seq for _, _, seq in two.taken()})


def test_a_device_that_was_away_gets_what_it_missed(world: RouterWorld, cloud: Client):
    with device(world, "1") as one, device(world, "2") as two:
        takes = (TakeStream("location", "1", 0.0), TakeStream("visits", "1", 0.0))
        world.publish_document(cloud, "2", Document(1, take=takes))
        one.visit(1.0)
        wait_for(lambda: ("1", "visits", 1) in two.taken(), "the first row")
        two.vanish()
        time.sleep(0.5)
        for _ in range(3):
            one.move(1.0)
            one.visit(2.0)
        one.settle()
        two.reconnect()
        two.client.publish(up_topic(PROJECT, "2", "hello"), write_hello(Hello(1, ())))
        wait_for(lambda: {("1", "location", 3), ("1", "visits", 4)} <= set(two.taken()), "what it missed")
        assert {seq for _, stream, seq in two.taken() if stream == "visits"} >= {2, 3, 4}


def test_tables_of_the_cloud_go_to_those_who_take_them(world: RouterWorld, cloud: Client):
    topic = cloud_topic(PROJECT, TABLE, "offers")
    with device(world, "1") as one:
        cloud.publish(topic, write_sent([Sent(1, 0, (("a", 1), ("b", 2)))]), retain=True)
        world.publish_document(cloud, "1", Document(1, take=(TakeStream("offers", CLOUD, 0.0),)))
        wait_for(lambda: one.taken() == [(CLOUD, "offers", 1)], "the table")
        (body,) = one.client.bodies(down_topic(PROJECT, "1", "s"))
        assert read_taken(body)[0].sent.rows == (("a", 1), ("b", 2))
        cloud.publish(topic, write_sent([Sent(2, 0, (("c", 3),))]), retain=True)
        wait_for(lambda: (CLOUD, "offers", 2) in one.taken(), "its next version")


def test_a_large_table_reaches_those_who_take_it_from_a_router_that_starts_later(world: RouterWorld, cloud: Client):
    rows = tuple((number, "x" * 1000) for number in range(3000))
    for topic, body in write_table(PROJECT, "offers", Sent(3, 0, rows)).bodies.items():
        cloud.publish(topic, body, retain=True)
    world.kill_router()
    world.start_router()
    with device(world, "1") as one:
        world.publish_document(cloud, "1", Document(1, take=(TakeStream("offers", CLOUD, 0.0),)))
        bodies = lambda: one.client.bodies(down_topic(PROJECT, "1", "s"))  # noqa: E731
        wait_for(lambda: bodies() and len(bodies()) >= read_taken(bodies()[0])[0].parts > 1, "all parts")
        parts = sorted({one.part: one for body in bodies() for one in read_taken(body)}.items())
        assert tuple(row for _, one in parts for row in one.sent.rows) == rows


def test_results_are_rows_by_reporter_pair_and_digest(world: RouterWorld):
    with device(world, "1") as one:
        one.report("2", 1, 5.0)
        one.report("2", 1, 5.0, copy=1)
        one.report("2", 1, 6.0)
        one.report("2", -1, 6.0)
        one.report("3", 1, 7.0)
        one.settle()
    rows = wait_rows(world, "near", [0, 1, 2, 3], 3)
    expected = [(1, 1, 2, identify_row((5.0,), 0), 5.0), (1, 1, 2, identify_row((5.0,), 1), 5.0)]
    assert sorted(rows.values()) == sorted([*expected, (1, 1, 3, identify_row((7.0,), 0), 7.0)])


def test_took_is_passed_on_after_the_results_are_in_the_inbox(world: RouterWorld, cloud: Client):
    with device(world, "1") as one:
        for number in range(200):
            one.report("2", 1, float(number))
        one.client.publish(up_topic(PROJECT, "1", "took"), write_took(Took(4, {"near": "no"})))
        wait_for(lambda: cloud.bodies(cloud_topic(PROJECT, TOOK)), "the answer")
        assert len(world.net_rows("near", [0, 1, 2, 3])) == 200
        told = read_device_took(cloud.bodies(cloud_topic(PROJECT, TOOK))[0])
        assert (told.device, told.took) == ("1", Took(4, {"near": "no"}))


def test_a_device_that_lost_its_memory_takes_its_results_back(world: RouterWorld):
    with device(world, "1") as one:
        for number in range(3):
            one.report("2", 1, float(number))
        one.settle()
    assert len(wait_rows(world, "near", [0, 1, 2, 3], 3)) == 3
    with device(world, "1") as new:
        new.client.publish(up_topic(PROJECT, "1", "hello"), write_hello(Hello(0, ())))
        time.sleep(0.2)
        new.put("r/near", lambda seq: b'[[1,999999,["1","2"],1,0,[9.0]]]')
        new.settle()
        wait_for(lambda: [row[-1] for row in world.net_rows("near", [0, 1, 2, 3]).values()] == [9.0], "only new ones")


MALFORMED = [
    b"",
    b"{",
    b"{}",
    b"[[1]]",
    b"[" * 100_000,
    b'[[1e999,2,[[1.0,"n"]]]]',
    b"[[-1,2,[]]]",
    b'[[60,2,[["x"]]]]',
    b'[[61,2,[[1.0,"n"],[2.0,"m"]]]]',
    b'[[62,99999999999999999,[[1.0,"n"]]]]',
    bytes(range(256)),
]


def test_what_is_malformed_foreign_or_unknown_has_no_effect_and_is_counted(world: RouterWorld, cloud: Client):
    with device(world, "1") as one:
        topic = up_topic(PROJECT, "1", "s", "location")
        for body in MALFORMED:
            one.client.publish(topic, body)
        one.client.publish(up_topic(PROJECT, "1", "s", "nothing"), write_sent([Sent(1, 1, ((1.0, ""),))]))
        one.client.publish(up_topic(PROJECT, "1", "r", "near"), b'[[1,1,["2","3"],1,0,[1.0]]]')
        one.client.publish(up_topic(PROJECT, "1", "took"), b"[]")
        one.client.publish(up_topic(PROJECT, "2", "s", "location"), write_sent([Sent(1, 1, ((1.0, ""),))]))
        cloud.publish(up_topic(PROJECT, "99", "s", "location"), write_sent([Sent(1, 1, ((1.0, ""),))]))
        cloud.publish(down_topic(PROJECT, "1", "plan"), b"no document")
        one.put("location", lambda seq: write_sent([Sent(70, 50, ((5.0, "good"),))]))
        wait_rows(world, "location", [0], 1)
        counts = last_counts(cloud)
    assert [row[1] for row in world.net_rows("location", [0]).values()] == [70]
    assert world.net_rows("near", [0, 1, 2, 3]) == {}
    told = dict(counts.refused)
    assert told.pop("unknown device") == 1 and told.pop("unknown stream") == 1 and told.pop("pair of others") == 1
    assert told.pop("foreign publish") == 1
    assert counts.refused_of["1"]["foreign publish"] == 1
    assert told.pop("row does not fit") + told.pop("malformed") == len(MALFORMED) + 2
    assert told == {}
    assert "2" not in counts.streams and counts.streams["1"]["location"].rows == 1


def test_counts_are_of_messages_rows_and_bytes(world: RouterWorld, cloud: Client):
    with device(world, "1", 15.0) as one, device(world, "2", 15.0) as two:
        world.publish_document(cloud, "2", Document(1, take=(TakeStream("location", "1", 0.0),)))
        for number in range(10):
            one.move(float(number))
            wait_for(lambda: ("1", "location", one.numbers["location"]) in two.taken(), "it comes down")
        two.report("1", 1, 1.0)
        two.settle()
        one.settle()
        counts = last_counts(cloud)
    assert counts.up["s"].messages == counts.up["s"].rows == 10
    assert counts.down["s"].rows == 10 and counts.down["s"].messages <= 10
    assert counts.up["r"].messages == 1 and counts.streams["2"]["r/near"].rows == 1
    assert counts.streams["1"]["location"].bytes == counts.up["s"].bytes > 10 * 40


@pytest.mark.parametrize("step", [1, 3], ids=["every number", "numbers with gaps"])
def test_killing_the_router_in_a_stream_loses_nothing_and_doubles_nothing(tmp_path: Path, step: int):
    seed = random.Random(step)
    with router_world(tmp_path) as world:
        senders = [TestDevice(world, id_, resend_s=2.0) for id_ in world.devices]
        sent: dict[str, list[int]] = {one.device: [] for one in senders}
        for round_ in range(5):
            for _ in range(seed.randrange(5, 40)):
                for one in senders:
                    sent[one.device].append(one.visit(0.5, step))
                    one.move(float(round_))
                    one.report("2" if one.device == "1" else "1", 1, float(len(sent[one.device])))
                    one.hear()
                time.sleep(0.01)
            world.kill_router()
            world.start_router()
        for one in senders:
            one.settle()
        world.end_router()
        visits = world.net_rows("visits", [0, 1])
        assert sorted(visits) == sorted((int(id_), seq) for id_, numbers in sent.items() for seq in numbers)
        assert {row[0]: row[1] for row in world.net_rows("location", [0]).values()} == {
            int(one.device): one.numbers["location"] for one in senders
        }
        reported = world.net_rows("near", [0, 1, 2, 3])
        assert sorted((row[0], row[-1]) for row in reported.values()) == sorted(
            (int(id_), float(number + 1)) for id_, numbers in sent.items() for number in range(len(numbers))
        )
        for one in senders:
            one.close()


def test_killing_the_broker_loses_nothing_either(tmp_path: Path):
    with router_world(tmp_path) as world, device(world, "1", resend_s=2.0) as one:
        for _ in range(3):
            for _ in range(30):
                one.visit(0.5)
                time.sleep(0.01)
            world.broker.kill()
            one.visit(0.6)
            world.start_broker()
            wait_for(lambda: one.hear() or not one.client.ended, "the device is back")
        one.settle()
        wait_rows(world, "visits", [0, 1], one.numbers["visits"])
        assert sorted(seq for _, seq in world.net_rows("visits", [0, 1])) == list(range(1, one.numbers["visits"] + 1))


def test_a_broker_that_is_away_is_told(world: RouterWorld):
    world.broker.kill()
    wait_for(lambda: any("broker" in beat.get("troubles", {}) for beat in world.beats), "the trouble is told", 30)
    world.start_broker()
    world.beats.clear()
    wait_for(
        lambda: any(beat.get("connected") and not beat["troubles"] for beat in world.beats), "the trouble is over", 30
    )


def test_the_router_ends_with_its_input_and_leaves_nothing_undone(world: RouterWorld):
    with device(world, "1") as one:
        for number in range(50):
            one.visit(float(number))
        time.sleep(0.2)
        assert world.end_router() == 0
        taken = len(world.net_rows("visits", [0, 1]))
        assert taken == 50 or one.waiting["visits"]


def test_settings_may_change_while_it_runs(world: RouterWorld):
    with device(world, "1") as one:
        one.put("speed", lambda seq: write_sent([Sent(seq, 1, ((1.0, ""),))]))
        settings = world.settings()
        speed = json.loads(json.dumps(settings["streams"][0]))
        speed["stream"], speed["source"]["inbox"] = "speed", str(world.inbox("speed"))
        settings["streams"].append(speed)
        assert world.router is not None and world.router.stdin is not None
        world.router.stdin.write(json.dumps(settings).encode() + b"\n")
        world.router.stdin.flush()
        one.settle()
        wait_rows(world, "speed", [0], 1)


def test_all_rows_of_a_derived_stream_are_passed_on_and_kept(world: RouterWorld, cloud: Client):
    with device(world, "1") as one, device(world, "2") as two:
        world.publish_document(cloud, "1", Document(1, send=(SendStream("spot", 0.0),)))
        world.publish_document(cloud, "2", Document(1, take=(TakeStream("spot", "1", 0.0),)))
        time.sleep(0.3)
        one.put("spot", lambda seq: write_sent([Sent(seq, 1, (("inn",), ("bar",)))]))
        one.settle()
        wait_for(lambda: ("1", "spot", 1) in two.taken(), "all rows of the view")
        wait_for(lambda: sorted(world.net_rows("spot", (0, 1))) == [(1, 0), (1, 1)], "its rows in the inbox")
        one.put("spot", lambda seq: write_sent([Sent(seq, 2, (("mill",),))]))
        one.settle()
        wait_for(lambda: world.net_rows("spot", (0, 1)) == {(1, 0): (1, 0, "mill")}, "the row that there is now")
