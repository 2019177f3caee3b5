"""Finds a port for a server that will listen there again after a crash.

The kernel gives ports of its own range to outgoing connections. A server that is restarted at such a port may find it
taken. Worse, a client that keeps asking on the same machine while nobody listens can be given that very port and end
up connected to itself. So servers of ours get a port below that range.
"""

from __future__ import annotations

import random
import socket
from pathlib import Path

LOWEST = 10_000
OUTGOING = 32_768
"""Where Linux begins with ports for outgoing connections, unless a machine says otherwise."""

SETTING = Path("/proc/sys/net/ipv4/ip_local_port_range")
ATTEMPTS, ENOUGH = 100, 1_000


def free_port(host: str = "127.0.0.1") -> int:
    """Chosen at random, so that two processes that look at the same time rarely find the same.

    Where hardly any port is below the range of outgoing connections, any that is free will do.
    """
    first = _first_outgoing()
    for _ in range(ATTEMPTS if first - LOWEST >= ENOUGH else 0):
        port = random.randrange(LOWEST, first)
        try:
            return _bind(host, port)
        except OSError:
            continue
    return _bind(host, 0)


def _first_outgoing() -> int:
    try:
        return int(SETTING.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return OUTGOING


def _bind(host: str, port: int) -> int:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind(address)
        found: int = probe.getsockname()[1]
        return found
