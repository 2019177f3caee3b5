"""A client of a real broker that remembers what it saw, for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

WITHIN_S = 20.0


def wait_for(holds: Callable[[], Any], what: str, within_s: float = WITHIN_S) -> Any:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        found = holds()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"within {within_s:.0f} s: {what}")


@dataclass
class Client:
    """Signed in until it is closed; it does not sign in again by itself."""

    mqtt: mqtt.Client
    answer: str = ""
    ended: bool = False
    got: list[tuple[str, bytes]] = field(default_factory=list)
    granted: dict[int, list[bool]] = field(default_factory=dict)
    acknowledged: set[int] = field(default_factory=set)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def subscribe(self, topic: str) -> bool:
        """Whether it was granted."""
        _, number = self.mqtt.subscribe(topic, 1)
        assert number is not None
        return all(wait_for(lambda: self.granted.get(number), f"an answer about {topic}"))

    def publish(self, topic: str, body: bytes, retain: bool = False) -> None:
        """Returns when the broker has acknowledged it, taken or not."""
        number = self.mqtt.publish(topic, body, 1, retain).mid
        wait_for(lambda: number in self.acknowledged, f"an acknowledgement of {topic}")

    def bodies(self, topic: str) -> list[bytes]:
        return [body for found, body in self.got if found == topic]


def open_client(
    url: str, user: str, password: str, client_id: str = "", ca: str | None = None, will: str | None = None
) -> Client:
    made = mqtt.Client(
        CallbackAPIVersion.VERSION2,
        client_id=client_id,
        clean_session=not client_id,
        reconnect_on_failure=False,
    )
    client = Client(made)
    made.username_pw_set(user, password)
    if will is not None:
        made.will_set(will, b"", 1)
    if ca is not None:
        made.tls_set(ca)
    made.on_connect = lambda c, u, f, reason, p: setattr(client, "answer", str(reason))
    made.on_disconnect = lambda c, u, f, reason, p: setattr(client, "ended", True)
    made.on_message = lambda c, u, message: client.got.append((message.topic, bytes(message.payload)))
    made.on_subscribe = lambda c, u, number, reasons, p: client.granted.update(
        {number: [not one.is_failure for one in reasons]}
    )
    made.on_publish = lambda c, u, number, reason, p: client.acknowledged.add(number)
    address = urlsplit(url)
    assert address.hostname is not None and address.port is not None
    made.connect(address.hostname, address.port, keepalive=10)
    made.loop_start()
    wait_for(lambda: client.answer or client.ended, "an answer to signing in")
    if not client.answer:
        made.loop_stop()
        raise ConnectionError(f"{url} ended the connection without an answer")
    return client


@contextmanager
def signed_in(url: str, user: str, password: str, **more: Any) -> Iterator[Client]:
    client = open_client(url, user, password, **more)
    try:
        yield client
    finally:
        client.mqtt.disconnect()
        client.mqtt.loop_stop()
