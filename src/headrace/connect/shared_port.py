"""Ports that several processes of ours listen on at once: the kernel divides connections between them."""

from __future__ import annotations

import ipaddress
import socket
import time

from headrace.model.errors import UsageError

FREE_WITHIN_S = 10.0
TRY_EVERY_S = 0.2


def reserve_port(host: str, port: int, within_s: float = FREE_WITHIN_S) -> socket.socket:
    """A socket as `share_port` makes it, at a port where nobody listens yet: whoever shares one later is ours.

    Processes of a service that was killed may take a moment to end, so it is tried again for a while.
    """
    until = time.monotonic() + within_s
    while port:
        try:
            _bind(host, port, is_shared=False).close()
            break
        except OSError as error:
            if time.monotonic() > until:
                raise _say_not_there(host, port, error) from error
            time.sleep(TRY_EVERY_S)
    return share_port(host, port)


def share_port(host: str, port: int) -> socket.socket:
    """A socket at a port that other processes of this user may share; port 0 is any that is free.

    It gets no connections before it listens, so that one that only holds the port takes none from those that serve.
    """
    try:
        return _bind(host, port, is_shared=True)
    except OSError as error:
        raise _say_not_there(host, port, error) from error


def _bind(host: str, port: int, is_shared: bool) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, is_shared)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _say_not_there(host: str, port: int, error: OSError) -> UsageError:
    what = f'feed servers cannot listen at "{host}", port {port}: {(error.strerror or str(error)).lower()}'
    return UsageError(what, "choose another with --feed-port or --feed-host")


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach a host of this name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
