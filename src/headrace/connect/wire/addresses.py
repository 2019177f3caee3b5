"""Addresses as people write them: `host:port`, `host`, `[::1]:7433`, or a URL."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from headrace.connect.wire.client import WireAddress
from headrace.model.errors import UsageError

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")


def read_address(text: str) -> WireAddress:
    """Port 0 if it names none. Raises UsageError."""
    try:
        found = urlsplit(text if "//" in text else f"//{text}")
        host, port = found.hostname, found.port or 0
    except ValueError:
        host, port = None, 0
    if not host or found.scheme not in ("", "https"):
        raise UsageError(f'"{text}" is not an address', "write HOST, HOST:PORT or https://HOST:PORT")
    return WireAddress(host, port)


def find_own_host(listens: str, other: WireAddress) -> str:
    """How another process may reach this one: where it listens; if that is everywhere, the address of this machine on
    the way to the other.
    """
    if listens not in EVERYWHERE:
        return listens
    family = socket.AF_INET6 if ":" in other.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((other.host, other.port or 1))  # sends nothing
            found: str = probe.getsockname()[0]
        except OSError:
            return socket.gethostname()
    return found


def is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
