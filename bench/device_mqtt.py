"""Many sessions with a broker in one process, as small as MQTT 3.1.1 allows: what they cost is not what is measured."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress

CONNECT, PUBLISH, PUBACK, SUBSCRIBE = 0x10, 0x30, 0x40, 0x82
Heard = Callable[[str, bytes], None]


def _text(value: str) -> bytes:
    body = value.encode()
    return struct.pack("!H", len(body)) + body


def _packet(kind: int, body: bytes) -> bytes:
    length, left = bytearray(), len(body)
    while True:
        left, digit = left >> 7, left & 127
        length.append(digit | (128 if left else 0))
        if not left:
            return bytes((kind, *length)) + body


class Session(asyncio.Protocol):
    """Signed in, and subscribed to one topic, once `ready` is done. Messages with QoS 1 are acknowledged."""

    def __init__(self, user: str, password: str, client_id: str, topic: str, qos: int, heard: Heard) -> None:
        self._sign_in = _packet(
            CONNECT,
            _text("MQTT")
            + bytes((4, 0xC2))
            + struct.pack("!H", 300)
            + _text(client_id)
            + _text(user)
            + _text(password),
        )
        self._subscribe = _packet(SUBSCRIBE, struct.pack("!H", 1) + _text(topic) + bytes((qos,)))
        self._heard, self._buffer = heard, b""
        self._number = 1
        self.acknowledged = 0
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport
        transport.write(self._sign_in)

    def publish(self, topic: str, body: bytes, qos: int = 1) -> None:
        number = b""
        if qos:
            self._number = self._number % 65_535 + 1
            number = struct.pack("!H", self._number)
        self._transport.write(_packet(PUBLISH | qos << 1, _text(topic) + number + body))

    def close(self) -> None:
        with suppress(Exception):
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            packet = self._take_packet()
            if packet is None:
                return
            self._handle(*packet)

    def _take_packet(self) -> tuple[int, bytes] | None:
        buffer, length, at = self._buffer, 0, 1
        while True:
            if at >= len(buffer):
                return None
            length |= (buffer[at] & 127) << 7 * (at - 1)
            at += 1
            if buffer[at - 1] < 128:
                break
        if len(buffer) < at + length:
            return None
        self._buffer = buffer[at + length :]
        return buffer[0], buffer[at : at + length]

    def _handle(self, head: int, body: bytes) -> None:
        match head & 0xF0:
            case 0x20:
                if body[1]:
                    self.ready.set_exception(ConnectionError(f"the broker refuses a session ({body[1]})"))
                else:
                    self._transport.write(self._subscribe)
            case 0x90:
                if body[2] > 2:
                    self.ready.set_exception(ConnectionError(f"the broker refuses a subscription ({body!r})"))
                else:
                    self.ready.set_result(None)
            case 0x40:
                self.acknowledged += 1
            case 0x30:
                size = struct.unpack("!H", body[:2])[0] + 2
                rest = size
                if head & 0x06:
                    self._transport.write(_packet(PUBACK, body[size : size + 2]))
                    rest = size + 2
                self._heard(body[2:size].decode(), body[rest:])


async def open_session(
    port: int, user: str, password: str, client_id: str, topic: str, qos: int, heard: Heard
) -> Session:
    _, made = await asyncio.get_running_loop().create_connection(
        lambda: Session(user, password, client_id, topic, qos, heard), "127.0.0.1", port
    )
    await asyncio.wait_for(made.ready, 30)
    return made
