"""Packets of MQTT 3.1.1 as bytes, as far as a device needs them: QoS 0 and 1, one session, no websockets.

paho is what a device uses. This is for many devices in one process (`connect.device.many`), where a thread, a socket
pair and a queue of its own for each would cost more than the devices do.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from headrace.model.errors import ConnectError

CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK, PINGREQ, PINGRESP, DISCONNECT = 1, 2, 3, 4, 8, 9, 12, 13, 14
REFUSED = 0x80
"""The code of a SUBACK that grants nothing."""
LARGEST = 4_000_000
"""Bytes of one packet; what is larger is not waited for."""


class Packet(NamedTuple):
    """`flags` are the lower four bits of its first byte."""

    kind: int
    flags: int
    body: bytes


class Publication(NamedTuple):
    """`number` is 0 with QoS 0, which nobody acknowledges."""

    topic: str
    payload: bytes
    number: int


def write_connect(client: str, user: str, password: str, will: tuple[str, bytes], keep_alive_s: int) -> bytes:
    """A session that the broker keeps (no clean session), with a last will of QoS 1."""
    flags = 0x80 | 0x40 | 0x08 | 0x04
    head = b"\x00\x04MQTT\x04" + struct.pack("!BH", flags, keep_alive_s)
    topic, payload = will
    rest = _text(client) + _text(topic) + _data(payload) + _text(user) + _text(password)
    return _packet(CONNECT << 4, head + rest)


def write_subscribe(number: int, topics: Iterable[tuple[str, int]]) -> bytes:
    """`topics` with the QoS that each is asked for."""
    asked = b"".join(_text(topic) + bytes((qos,)) for topic, qos in topics)
    return _packet(SUBSCRIBE << 4 | 0x02, struct.pack("!H", number) + asked)


def write_publish(topic: str, payload: bytes, number: int) -> bytes:
    """A message of QoS 1."""
    return _packet(PUBLISH << 4 | 0x02, _text(topic) + struct.pack("!H", number) + payload)


def write_puback(number: int) -> bytes:
    return struct.pack("!BBH", PUBACK << 4, 2, number)


def write_plain(kind: int) -> bytes:
    """A packet without a body: PINGREQ, DISCONNECT."""
    return bytes((kind << 4, 0))


def read_publish(packet: Packet) -> Publication:
    """Raises `ConnectError` for what is none."""
    try:
        (length,) = struct.unpack_from("!H", packet.body)
        topic, rest = packet.body[2 : 2 + length].decode(), packet.body[2 + length :]
        if not packet.flags & 0x06:
            return Publication(topic, rest, 0)
        return Publication(topic, rest[2:], struct.unpack_from("!H", rest)[0])
    except (struct.error, UnicodeDecodeError) as error:
        raise ConnectError(f"the broker sent what is no message: {error}") from error


class PacketReader:
    """Finds packets in bytes that come in pieces."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting = b""

    def read(self, more: bytes) -> list[Packet]:
        """The packets that are complete now. Raises `ConnectError`."""
        data = self._waiting + more if self._waiting else more
        found, at = [], 0
        while True:
            size = _read_size(data, at + 1)
            if size is None or size[1] + size[0] > len(data):
                break
            length, begin = size
            found.append(Packet(data[at] >> 4, data[at] & 0x0F, data[begin : begin + length]))
            at = begin + length
        self._waiting = data[at:]
        return found


def _read_size(data: bytes, at: int) -> tuple[int, int] | None:
    """A length of one to four bytes, and where it ends; None if that is not there yet."""
    length = 0
    for place in range(4):
        if at + place >= len(data):
            return None
        length |= (data[at + place] & 0x7F) << 7 * place
        if not data[at + place] & 0x80:
            if length > LARGEST:
                raise ConnectError(f"the broker sent a packet of {length:,} bytes; {LARGEST:,} are read")
            return length, at + place + 1
    raise ConnectError("the broker sent what is no packet")


def _packet(first: int, body: bytes) -> bytes:
    length, size = len(body), bytearray()
    while True:
        size.append(length & 0x7F | (0x80 if length > 0x7F else 0))
        length >>= 7
        if not length:
            return bytes((first,)) + bytes(size) + body


def _text(text: str) -> bytes:
    return _data(text.encode())


def _data(data: bytes) -> bytes:
    return struct.pack("!H", len(data)) + data
