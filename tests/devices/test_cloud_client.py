"""The cloud's client at a real broker: it comes back by itself, and reads late what came meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headrace.connect.mqtt.broker import EmbeddedBroker
from headrace.connect.mqtt.client import Arrived, BrokerAccess, CloudClient, read_address
from headrace.connect.mqtt.users import PLACER
from headrace.model.device_messages import quote_id
from headrace.model.errors import UsageError
from tests.devices.clients import wait_for
from tests.devices.world import CLOUD_PASSWORD, PROJECT, users_of

ROOT = f"hr/{quote_id(PROJECT)}"
TOPICS = (f"{ROOT}/cloud/+",)


@contextmanager
def placer(broker: EmbeddedBroker, password: str = CLOUD_PASSWORD) -> Iterator[CloudClient]:
    client = CloudClient(BrokerAccess(broker.url, PLACER, password), "placer", TOPICS)
    client.start()
    try:
        yield client
    finally:
        client.stop()


def take_one(client: CloudClient) -> Arrived:
    found: list[Arrived] = wait_for(lambda: client.take(1), "a message")
    return found[0]


def test_messages_come_in_their_order(broker: EmbeddedBroker) -> None:
    with placer(broker) as client:
        wait_for(lambda: client.away is None, "the broker")
        for number in range(100):
            client.publish(f"{ROOT}/cloud/took", b"%d" % number)
        found = [take_one(client).body for _ in range(100)]
        assert found == [b"%d" % number for number in range(100)]


def test_a_broker_that_is_killed_is_away_until_it_is_back(broker: EmbeddedBroker) -> None:
    with placer(broker) as client:
        wait_for(lambda: client.away is None, "the broker")
        broker.kill()
        since_s, _ = wait_for(lambda: client.away, "notice of its end")
        assert since_s == pytest.approx(time.time(), abs=5.0)
        client.publish(f"{ROOT}/cloud/took", b"later")
        broker.start(users_of(1))
        assert take_one(client).body == b"later"
        assert client.away is None


def test_what_comes_while_the_client_is_gone_is_read_by_the_next(broker: EmbeddedBroker) -> None:
    with placer(broker) as client:
        wait_for(lambda: client.away is None, "the broker")
        client.publish(f"{ROOT}/cloud/rates", b"seen")
        take_one(client)
    other = CloudClient(BrokerAccess(broker.url, PLACER, CLOUD_PASSWORD), "other", ())
    other.start()
    wait_for(lambda: other.away is None, "the broker")
    other.publish(f"{ROOT}/cloud/took", b"meanwhile")
    time.sleep(0.2)
    other.stop()
    with placer(broker) as again:
        assert take_one(again).body == b"meanwhile"


def test_a_wrong_password_is_said(broker: EmbeddedBroker) -> None:
    with placer(broker, "wrong") as client:
        wait_for(lambda: (client.away or (0, ""))[1].startswith("it refuses us"), "the refusal")


def test_addresses_of_brokers_are_read() -> None:
    assert read_address("mqtt://h") == ("h", 1883, False)
    assert read_address("mqtts://h:99") == ("h", 99, True)
    for wrong in ("h:99", "http://h", "mqtt://h:x", "mqtt://"):
        with pytest.raises(UsageError):
            read_address(wrong)


def test_a_topic_that_the_broker_refuses_is_said(broker: EmbeddedBroker) -> None:
    """NATS lets the subscriptions of a session hold 65,535 messages unacknowledged, and each asks for 1,024."""
    topics = tuple(f"{ROOT}/cloud/{number}" for number in range(70))
    client = CloudClient(BrokerAccess(broker.url, PLACER, CLOUD_PASSWORD), "greedy", topics)
    client.start()
    try:
        wait_for(lambda: (client.away or (0, ""))[1] == f"it refuses that we read {topics[63]}", "the refusal")
    finally:
        client.stop()
