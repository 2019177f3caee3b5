"""The router's connection to the broker: messages wait in a queue, and nothing is sent while the broker is away.

Streams and results come at most once (QoS 0), since devices send again what is not acknowledged: a queue at the broker
would only deliver the same twice, and after a crash in another order. What devices say about themselves comes at least
once (QoS 1), from a session that outlives this process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headrace.connect.mqtt.client import Arrived, BrokerAccess, make_client, read_address

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

KEEPALIVE_S = 15
RECONNECT_S = 1, 5
IN_FLIGHT = 10_000


class RouterClient:
    """Callbacks run in a thread of their own; all else may be called by one other."""

    def __init__(self, access: BrokerAccess, name: str, topics: Mapping[str, int]) -> None:
        self._access, self._topics = access, dict(topics)
        self._arrived: deque[Arrived] = deque()
        self._away: str | None = "it is not connected yet"
        self._away_since = time.monotonic()
        self._connections = 0
        self._client = self._make_client(name)

    def start(self) -> None:
        """Does not wait for the broker."""
        host, port, _ = read_address(self._access.url)
        self._client.connect_async(host, port, KEEPALIVE_S)
        self._client.loop_start()

    def stop(self) -> None:
        with suppress(Exception):  # whatever it is, it ends
            self._client.disconnect()
        self._client.loop_stop()

    @property
    def away(self) -> str | None:
        """Why the broker is not there; None while it is."""
        return self._away

    @property
    def away_s(self) -> float:
        return 0.0 if self._away is None else time.monotonic() - self._away_since

    @property
    def connections(self) -> int:
        """How often it has connected: what was sent before may be lost if that is another number than it was."""
        return self._connections

    @property
    def is_congested(self) -> bool:
        """Whether the broker has taken few of the messages that were sent."""
        return len(self._client._out_messages) >= IN_FLIGHT // 2

    def take(self) -> list[Arrived]:
        """Messages in the order in which they came."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._arrived.popleft())
        return found

    def publish(self, topic: str, body: bytes, qos: int) -> bool:
        """Whether it was sent: not while the broker is away."""
        if self._away is not None:
            return False
        return self._client.publish(topic, body, qos=qos).rc == 0

    def subscribe_again(self, topics: Mapping[str, int]) -> None:
        """Has the broker send what it retains at these topics, some of those that are read."""
        if self._away is None:
            self._client.subscribe(list(topics.items()))

    def _make_client(self, name: str) -> Client:
        client = make_client(self._access, name, RECONNECT_S, IN_FLIGHT)
        client.on_connect = self._note_connected
        client.on_connect_fail = lambda *_: self._note_away("it cannot be reached")
        client.on_disconnect = lambda *said: self._note_away(f"the connection ended: {said[3]}")
        client.on_subscribe = self._note_subscribed
        client.on_message = self._note_message
        return client

    def _note_connected(self, client: Client, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            self._note_away(f"it refuses us: {reason}")
            return
        self._note_away("it has not answered to our subscriptions yet")
        client.subscribe(list(self._topics.items()))

    def _note_subscribed(self, client: Client, _: Any, __: Any, reasons: Any, ___: Any) -> None:
        """Only now is the broker of use: one that lets us read but some of our topics is as good as away."""
        if any(reason.is_failure for reason in reasons):
            self._note_away("it refuses our subscriptions")
            return
        if self._away is not None:  # otherwise it has only subscribed again
            self._connections += 1
            self._away = None

    def _note_away(self, why: str) -> None:
        if self._away is None:
            self._away_since = time.monotonic()
        self._away = why

    def _note_message(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self._arrived.append(Arrived(message.topic, bytes(message.payload), bool(message.retain)))
