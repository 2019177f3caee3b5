"""A part of the cloud at the broker: subscribes, publishes, and comes back by itself. Messages wait in a queue.

The session outlives a lost connection and this process: a broker keeps what comes meanwhile, so that answers of devices
are read late, not never. Everything is sent at least once (QoS 1).
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from headrace.model.errors import ConnectError, UsageError

if TYPE_CHECKING:
    from paho.mqtt.client import Client, MQTTMessage

KEEPALIVE_S = 30
RECONNECT_S = 1, 10
IN_FLIGHT = 200
PORT, TLS_PORT = 1883, 8883


@dataclass(frozen=True, slots=True)
class BrokerAccess:
    """Where a broker is, and who we are to it. A `certificate` is the only one that is believed, whoever signed it and
    whatever name it has: that of our own broker.
    """

    url: str
    user: str
    password: str = field(repr=False)
    certificate: str | None = None


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message as it came. One that is `retained` may be of long ago."""

    topic: str
    body: bytes
    retained: bool = False


class CloudClient:
    """May be used by any thread. `name` tells sessions apart: whoever connects with the same one takes its place."""

    def __init__(self, access: BrokerAccess, name: str, topics: Sequence[str]) -> None:
        self._access, self._topics = access, tuple(topics)
        self._arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        self._turn = threading.Lock()
        self._away: tuple[float, str] | None = (time.time(), "it is not connected yet")
        self._client = self._make_client(name)

    def start(self) -> None:
        """Does not wait for the broker: `away` says whether it is there. Raises `UsageError` for an address that is
        none.
        """
        host, port, _ = read_address(self._access.url)
        self._client.connect_async(host, port, KEEPALIVE_S)
        self._client.loop_start()

    def stop(self) -> None:
        with suppress(Exception):  # whatever it is, it ends
            self._client.disconnect()
        self._client.loop_stop()

    @property
    def away(self) -> tuple[float, str] | None:
        """The time since which the broker is away (seconds since 1970), and why; None while it is there."""
        with self._turn:
            return self._away

    def take(self, most: int = 10_000, wait_s: float = 0.0) -> list[Arrived]:
        """Messages in the order in which they came. Waits for the first, at most so long."""
        found: list[Arrived] = []
        with suppress(queue.Empty):
            found.append(self._arrived.get(timeout=wait_s) if wait_s > 0.0 else self._arrived.get_nowait())
            while len(found) < most:
                found.append(self._arrived.get_nowait())
        return found

    def publish(self, topic: str, body: bytes, retain: bool = False) -> None:
        """Sends now, or when the broker is back. Raises `ConnectError` if no more can wait."""
        sent = self._client.publish(topic, body, qos=1, retain=retain)
        if sent.rc not in (0, 4):  # 4: not connected; it waits
            raise ConnectError(f"the broker takes no messages (error {sent.rc})")

    def _make_client(self, name: str) -> Client:
        client = make_client(self._access, name, RECONNECT_S, IN_FLIGHT)
        client.on_connect = self._note_connected
        client.on_connect_fail = lambda *_: self._note_away("it cannot be reached")
        client.on_disconnect = self._note_disconnected
        client.on_subscribe = self._note_subscribed
        client.on_message = self._note_message
        return client

    def _note_connected(self, client: Client, _: Any, __: Any, reason: Any, ___: Any) -> None:
        if reason.is_failure:
            self._note_away(f"it refuses us: {reason}")
            return
        if self._topics:
            client.subscribe([(topic, 1) for topic in self._topics])
        with self._turn:
            self._away = None

    def _note_subscribed(self, _: Client, __: Any, ___: Any, reasons: list[Any], ____: Any) -> None:
        """A broker that refuses a topic says so here alone: we would wait for ever for what it does not send."""
        refused = [topic for topic, reason in zip(self._topics, reasons, strict=False) if reason.is_failure]
        if refused:
            self._note_away(f"it refuses that we read {refused[0]}")

    def _note_disconnected(self, _: Client, __: Any, ___: Any, reason: Any, ____: Any) -> None:
        if self.away is None:  # else it is known already why
            self._note_away(f"the connection ended: {reason}")

    def _note_away(self, why: str) -> None:
        with self._turn:
            self._away = (time.time() if self._away is None else self._away[0], why)

    def _note_message(self, _: Client, __: Any, message: MQTTMessage) -> None:
        self._arrived.put(Arrived(message.topic, bytes(message.payload), bool(message.retain)))


def make_client(access: BrokerAccess, name: str, reconnect_s: tuple[int, int], in_flight: int) -> Client:
    """A client that is not connected yet, and waits so long between attempts, from the least to the most."""
    # Imported here: a project without devices runs without the package.
    from paho.mqtt.client import Client
    from paho.mqtt.enums import CallbackAPIVersion

    client = Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False)
    client.username_pw_set(access.user, access.password)
    client.reconnect_delay_set(*reconnect_s)
    client.max_inflight_messages_set(in_flight)
    if read_address(access.url)[2]:
        client.tls_set_context(make_tls(access.certificate))
    return client


def read_address(url: str) -> tuple[str, int, bool]:
    """Host, port, and whether it speaks TLS."""
    try:
        parts = urlsplit(url)
        host, port, is_tls = parts.hostname, parts.port, parts.scheme == "mqtts"
    except ValueError:
        host, port, is_tls, parts = None, None, False, urlsplit("")
    if host is None or parts.scheme not in ("mqtt", "mqtts"):
        raise UsageError("the address of a broker is mqtt://HOST:PORT or mqtts://HOST:PORT")
    return host, port or (TLS_PORT if is_tls else PORT), is_tls


def make_tls(certificate: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=certificate)
    if certificate is not None:
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
