"""Messages between the service and its standing tasks: whole, in order, and from nobody else.

Both sides know a secret that Spark carried to the task. Each side sends a random number; the key that signs messages is
made of the secret and both numbers. A signature covers the direction and the number of its message, so nobody can
forge, repeat, drop or reorder one. Messages are signed, not encrypted: they hold file names and parts of queries, which
Spark sends in the clear as well unless it is told to encrypt.

    16 bytes    a random number, once from each side
    4 bytes     length of the message, then of each message:
    32 bytes    its signature
    ...         the message
"""

from __future__ import annotations

import hmac
import os
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass, field

NONCE_BYTES, SIGNATURE_BYTES = 16, 32
LENGTH = struct.Struct(">I")
NUMBER = struct.Struct(">cQ")
LARGEST_MESSAGE = 256_000_000
GREETING = b"standing"
GREETED_WITHIN_S = 10.0


class LinkBroken(OSError):
    """The other side is gone, or is not the one that it should be."""


@dataclass(slots=True, eq=False)
class SignedLink:
    """One side of a connection. A thread may send while another receives."""

    connection: socket.socket
    key: bytes
    own: bytes
    """A letter for the direction in which this side sends."""
    other: bytes
    _sent: int = field(default=0, init=False)
    _received: int = field(default=0, init=False)

    def send(self, message: bytes) -> None:
        """Raises OSError if nobody is there any more."""
        signature = self._sign(self.own, self._sent, message)
        self._sent += 1
        self.connection.sendall(b"".join((LENGTH.pack(len(message)), signature, message)))

    def receive(self, at_most: int = LARGEST_MESSAGE) -> bytes | None:
        """The next message; None if the other side has closed the connection between two messages."""
        head = _read_exactly(self.connection, LENGTH.size + SIGNATURE_BYTES, may_end=True)
        if head is None:
            return None
        (length,) = LENGTH.unpack_from(head)
        if length > at_most:
            raise LinkBroken(f"a message of {length} bytes, of at most {at_most}")
        message = _read_exactly(self.connection, length) or b""
        if not hmac.compare_digest(head[LENGTH.size :], self._sign(self.other, self._received, message)):
            raise LinkBroken("a message is not signed by the other side")
        self._received += 1
        return message

    def is_closed(self) -> bool:
        """Whether the other side has gone, as far as can be told without waiting."""
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Wakes a thread that receives as well: closing alone would leave it waiting."""
        with suppress(OSError):  # it is closed already
            self.connection.shutdown(socket.SHUT_RDWR)
        self.connection.close()

    def _sign(self, direction: bytes, number: int, message: bytes) -> bytes:
        signature = hmac.new(self.key, NUMBER.pack(direction, number), "sha256")
        signature.update(message)
        return signature.digest()


def greet_service(address: tuple[str, int], secret: bytes) -> SignedLink:
    """Connects a task to the service that started it."""
    connection = socket.create_connection(address, GREETED_WITHIN_S)
    try:
        link = _agree_on_key(connection, secret, is_service=False)
        link.send(GREETING)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return link


def greet_task(connection: socket.socket, secret: bytes) -> SignedLink:
    """Lets a task in that knows the secret. Raises LinkBroken for everybody else, and whoever says nothing in time."""
    connection.settimeout(GREETED_WITHIN_S)
    link = _agree_on_key(connection, secret, is_service=True)
    if link.receive(at_most=len(GREETING)) != GREETING:
        raise LinkBroken("the other side does not greet")
    connection.settimeout(None)
    return link


def _agree_on_key(connection: socket.socket, secret: bytes, is_service: bool) -> SignedLink:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A machine that lost its power says nothing: without this, a thread would wait for it for ever.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    own = os.urandom(NONCE_BYTES)
    connection.sendall(own)
    other = _read_exactly(connection, NONCE_BYTES) or b""
    key = hmac.digest(secret, own + other if is_service else other + own, "sha256")
    return SignedLink(connection, key, *((b"s", b"t") if is_service else (b"t", b"s")))


def _read_exactly(connection: socket.socket, count: int, may_end: bool = False) -> bytes | None:
    """Bytes from a connection; None if it ends before the first of them and `may_end`."""
    found = bytearray(count)
    view, have = memoryview(found), 0
    while have < count:
        got = connection.recv_into(view[have:])
        if not got:
            if may_end and not have:
                return None
            raise LinkBroken("the other side is gone in the middle of a message")
        have += got
    return bytes(found)
