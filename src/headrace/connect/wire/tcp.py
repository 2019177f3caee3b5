"""What the kernel knows of a TCP connection, and is told about it: `TCP_INFO` of Linux. Nothing is known elsewhere."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

# struct tcp_info of linux/tcp.h: what is missing at the end, an older kernel does not say.
_BYTES = struct.Struct("@8B24I4Q6IQ")
_COUNT = struct.Struct("@i")
_RTT, _BYTES_ACKED, _BYTES_RECEIVED, _NOTSENT, _DELIVERY_RATE = 8 + 15, 34, 35, 38, 42


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """`rtt_s` is the kernel's smoothed round trip; `unsent_bytes` wait here, `delivery_rate` is in bytes/s."""

    rtt_s: float
    bytes_acked: int
    bytes_received: int
    unsent_bytes: int
    delivery_rate: int


class AnySocket(Protocol):
    """What both `socket` and `asyncio` call one."""

    def fileno(self) -> int: ...

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


KEPT_ALIVE = {"TCP_KEEPIDLE": 20, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 4, "TCP_USER_TIMEOUT": 60_000}
"""A connection whose other end is gone fails after a minute, also while nothing is sent over it. Less would end those
that wait behind what a slow link carries.
"""


LEAST_UNSENT = 128 * 1024
"""Bytes that wait in the kernel beside those that are on their way."""


def keep_alive(connection: AnySocket) -> None:
    """Finds out whether the other end is still there while an answer is made, for however long."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEPT_ALIVE.items():
        if (option := getattr(socket, name, None)) is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)


def keep_little_unsent(connection: AnySocket) -> None:
    """Has the kernel take no more than it needs to keep sending: what it has taken goes before all that comes later."""
    if (option := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
        connection.setsockopt(socket.IPPROTO_TCP, option, LEAST_UNSENT)


def count_outgoing(connection: AnySocket) -> int:
    """Bytes that were sent and that the other side does not have yet. 0 of a connection that is closed, and where the
    kernel does not say it.
    """
    with suppress(OSError, ValueError):
        found: tuple[int] = _COUNT.unpack(fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_COUNT.size)))
        return found[0]
    return 0


def read_tcp_info(connection: AnySocket) -> TcpInfo | None:
    """None where the kernel does not say it, and of a connection that is closed."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None:
        return None
    try:
        found = connection.getsockopt(socket.IPPROTO_TCP, option, _BYTES.size)
    except OSError:
        return None
    if len(found) < _BYTES.size:
        return None
    fields = _BYTES.unpack(found)
    return TcpInfo(
        fields[_RTT] / 1e6, fields[_BYTES_ACKED], fields[_BYTES_RECEIVED], fields[_NOTSENT], fields[_DELIVERY_RATE]
    )
