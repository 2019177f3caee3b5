"""Ports that several processes of ours listen on at once: the kernel divides connections between them."""

from __future__ import annotations

import ipaddress
import socket

from headrace.model.errors import UsageError


def share_port(host: str, port: int) -> socket.socket:
    """A socket at a port that other processes of this user may share; port 0 is any that is free.

    It gets no connections before it listens, so that one that only holds the port takes none from those that serve.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(family, socket.SOCK_STREAM)
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            made.bind(address)
        except OSError:
            made.close()
            raise
    except OSError as error:
        why = error.strerror or str(error)
        what = f'feed servers cannot listen at "{host}", port {port}: {why}'
        raise UsageError(what, "choose another with --feed-port or --feed-host") from error
    return made


def is_loopback(host: str) -> bool:
    """Whether only processes of this machine reach a host of this name."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
