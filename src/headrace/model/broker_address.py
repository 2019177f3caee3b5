"""Addresses of brokers: `mqtt://USER:PASSWORD@HOST:PORT`."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit, urlunsplit


def split_user(url: str) -> tuple[str, str, str]:
    """The address without user and password, and these."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return urlunsplit((parts.scheme, place, parts.path, "", "")), user, password
