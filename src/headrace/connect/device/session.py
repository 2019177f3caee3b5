"""One MQTT session on a socket that does not block: bytes in, bytes out, whoever waits for it decides when.

away -> connecting -> greeting (CONNECT sent) -> subscribing -> ready
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum, auto

from headrace.connect.device.address import BrokerAddress
from headrace.connect.device.packets import (
    CONNACK,
    DISCONNECT,
    PINGREQ,
    PUBLISH,
    REFUSED,
    SUBACK,
    Packet,
    PacketReader,
    Publication,
    read_publish,
    write_connect,
    write_plain,
    write_puback,
    write_publish,
    write_subscribe,
)
from headrace.model.device_messages import client_id_of, quote_id
from headrace.model.errors import ConnectError
from headrace.run.device.agent import Identity, OutMessage, Subscription

KEEP_ALIVE_S = 60
PING_AFTER_S = 45.0
SILENT_FOR_S = 100.0
CONNECTED_WITHIN_S = 30.0
SOONEST_S, LATEST_S = 1.0, 60.0
"""Between two attempts to connect."""
READ_AT_ONCE = 1 << 16
LARGEST_NUMBER = 65_535


class SessionState(Enum):
    AWAY = auto()
    CONNECTING = auto()
    GREETING = auto()
    SUBSCRIBING = auto()
    READY = auto()


@dataclass(slots=True)
class SessionCounts:
    """Messages and bytes on the wire, both ways, with everything that MQTT adds. Acknowledgements count as bytes."""

    sent: int = 0
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0


@dataclass(slots=True)
class MqttSession:
    """Times are seconds of one clock. `retry_s` is when to connect again."""

    identity: Identity
    address: BrokerAddress
    subscriptions: tuple[Subscription, ...]
    will: OutMessage
    counts: SessionCounts = field(default_factory=SessionCounts)
    state: SessionState = SessionState.AWAY
    socket: socket.socket | None = None
    retry_s: float = 0.0
    failure: str = ""
    is_known: bool = False
    """Whether the broker had kept the session."""
    subscribed: int = 0
    """How often the broker has taken other subscriptions during this connection."""
    _asked: tuple[Subscription, ...] = ()
    _failures: int = 0
    _reader: PacketReader = field(default_factory=PacketReader)
    _out: bytearray = field(default_factory=bytearray)
    _number: int = 0
    _since_s: float = 0.0
    _sent_s: float = 0.0
    _heard_s: float = 0.0

    def connect(self, now_s: float) -> None:
        """Begins to connect; the socket can be written to once that is done."""
        made = socket.socket(socket.AF_INET6 if ":" in self.address.host else socket.AF_INET, socket.SOCK_STREAM)
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found = made.connect_ex((self.address.host, self.address.port))
        self.socket, self.state, self._since_s = made, SessionState.CONNECTING, now_s
        self._reader, self._out = PacketReader(), bytearray()
        if found not in (0, errno.EINPROGRESS):
            self.fail(f"the broker cannot be reached: {errno.errorcode.get(found, found)}", now_s)

    @property
    def is_connecting(self) -> bool:
        return self.state not in (SessionState.AWAY, SessionState.READY)

    @property
    def wants_to_write(self) -> bool:
        return bool(self._out) or self.state is SessionState.CONNECTING

    def write(self, now_s: float) -> None:
        """Sends what waits, as far as the socket takes it."""
        assert self.socket is not None
        if self.state is SessionState.CONNECTING:
            failed = self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failed:
                self.fail(f"the broker cannot be reached: {errno.errorcode.get(failed, failed)}", now_s)
                return
            user = quote_id(self.identity.device)
            name = client_id_of(self.identity.token)
            self._out += write_connect(name, user, self.identity.token, self.will, KEEP_ALIVE_S)
            self.state, self._heard_s = SessionState.GREETING, now_s
        try:
            sent = self.socket.send(self._out) if self._out else 0
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(str(error), now_s)
            return
        del self._out[:sent]
        self.counts.sent_bytes += sent
        self._sent_s = now_s

    def read(self, now_s: float, receive: Callable[[Publication], None]) -> None:
        """Takes what came; messages go to `receive`, and are acknowledged after it."""
        assert self.socket is not None
        try:
            data = self.socket.recv(READ_AT_ONCE)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(str(error), now_s)
            return
        if not data:
            self.fail("the broker ended the session", now_s)
            return
        self.counts.received_bytes += len(data)
        self._heard_s = now_s
        try:
            for packet in self._reader.read(data):
                self._take(packet, now_s, receive)
        except ConnectError as error:
            self.fail(str(error), now_s)

    def send(self, messages: Iterable[OutMessage], now_s: float) -> None:
        """Messages of QoS 1, at once if the socket takes them."""
        for topic, body in messages:
            self._number = self._number % LARGEST_NUMBER + 1
            self._out += write_publish(topic, body, self._number)
            self.counts.sent += 1
        if self._out:
            self.write(now_s)

    def subscribe(self, wanted: tuple[Subscription, ...], now_s: float) -> None:
        """Asks for what is wanted now and was not before."""
        self.subscriptions = wanted
        self._subscribe_changes()
        if self.state is SessionState.READY:
            self.write(now_s)

    def _subscribe_changes(self) -> None:
        """While a connection begins, what came to be wanted meanwhile waits for its end."""
        changed = [one for one in self.subscriptions if one not in self._asked]
        if changed and self.state is SessionState.READY:
            self._asked = self.subscriptions
            self._number = self._number % LARGEST_NUMBER + 1
            self._out += write_subscribe(self._number, changed)

    def look_at_clock(self, now_s: float) -> None:
        """Keeps a quiet session alive, and gives up one that is dead."""
        if self.state is SessionState.READY:
            if now_s - self._heard_s > SILENT_FOR_S:
                self.fail("the broker says nothing any more", now_s)
            elif now_s - self._sent_s > PING_AFTER_S:
                self._out += write_plain(PINGREQ)
                self.write(now_s)
        elif self.state is not SessionState.AWAY and now_s - self._since_s > CONNECTED_WITHIN_S:
            self.fail("the broker does not answer", now_s)

    def fail(self, why: str, now_s: float) -> None:
        """The connection is over; `retry_s` says when to try again."""
        self.drop()
        self.failure = why
        # Devices that lost their broker together do not come back together.
        share = 0.5 + int(client_id_of(self.identity.token)[-4:], 16) / 0x1FFFF
        self.retry_s = now_s + share * min(LATEST_S, SOONEST_S * 2**self._failures)
        self._failures = min(self._failures + 1, 10)

    def drop(self) -> None:
        """Ends the connection without a word, as a device out of reach does."""
        if self.socket is not None:
            self.socket.close()
        self.socket, self.state = None, SessionState.AWAY

    def leave(self, now_s: float) -> None:
        """Says that the device is gone, and ends the session in order, as far as the socket takes that now."""
        if self.state is SessionState.READY:
            self._number = self._number % LARGEST_NUMBER + 1
            self._out += write_publish(*self.will, self._number) + write_plain(DISCONNECT)
            self.write(now_s)
        self.drop()

    def _take(self, packet: Packet, now_s: float, receive: Callable[[Publication], None]) -> None:
        if packet.kind == PUBLISH:
            found = read_publish(packet)
            self.counts.received += 1
            receive(found)
            if found.number:
                self._out += write_puback(found.number)
        elif packet.kind == CONNACK and self.state is SessionState.GREETING:
            if packet.body[1:2] != b"\x00":
                self.fail("the broker refuses the device: its id or token is wrong", now_s)
                return
            self.is_known, self.subscribed = bool(packet.body[0] & 1), 0
            self._number = self._number % LARGEST_NUMBER + 1
            self._out += write_subscribe(self._number, self.subscriptions)
            self._asked = self.subscriptions
            self.state = SessionState.SUBSCRIBING
        elif packet.kind == SUBACK and self.state is SessionState.SUBSCRIBING:
            if REFUSED in packet.body[2:]:
                topics = ", ".join(topic for topic, _ in self.subscriptions)
                self.fail(f"the broker does not let the device read all of {topics}", now_s)
                return
            self.state, self._failures, self.failure = SessionState.READY, 0, ""
            self._subscribe_changes()
        elif packet.kind == SUBACK and self.state is SessionState.READY:
            self.subscribed += 1
