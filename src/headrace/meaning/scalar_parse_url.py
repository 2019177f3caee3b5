"""Parts of addresses of the web, as Java's URI takes them apart: `parse_url` and `try_parse_url`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address

from headrace.meaning.scalar_text import java_pattern
from headrace.model.errors import EvaluationError
from headrace.model.types import Value

_ANY = r"\w\-.!~*'()"
_ESCAPED = r"%[0-9A-Fa-f]{2}|[^\x00-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"


def _made_of(signs: str) -> re.Pattern[str]:
    return re.compile(f"(?:[{_ANY}{signs}]|{_ESCAPED})*", re.ASCII)


_ADDRESS = re.compile(r"(?:([^:/?#]*):)?(.*)", re.DOTALL)
_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*")
_SPECIFIC = re.compile(r"(?://([^/?#]*))?([^?#]*)(?:\?(.*))?", re.DOTALL)
_URIC, _PATH = _made_of(r";/?:@&=+$,\[\]"), _made_of(":@&=+$,;/")
_SERVER, _SERVER_OF_IPV6, _NAME = _made_of(r";:&=+$,@\[\]"), _made_of(r";:&=+$,@\[\]%"), _made_of("$,;:@&=+")
_USER = _made_of(";:&=+$,")
_PORT = re.compile("(?::([0-9]*))?")
_NUMBERS = re.compile(r"[0-9]+(?:\.[0-9]+){3}")
_LABEL = "[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = re.compile(rf"(?:(?:{_LABEL}\.)+(?=[A-Za-z]))?{_LABEL}\.?")
_SCOPE = re.compile("[A-Za-z0-9_.]+")
_LARGEST_PORT = 2**31 - 1
_LARGEST_BYTE = 255

PARTS = ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO")
KEY = re.compile("[A-Za-z0-9_.~-]+")
"""Keys that are one as patterns in Java and in Python."""


@dataclass(frozen=True, slots=True)
class _Address:
    scheme: str | None = None
    authority: str | None = None
    user: str | None = None
    host: str | None = None
    path: str | None = None
    query: str | None = None
    fragment: str | None = None


def _read_address(text: str) -> _Address | None:
    """None for what is no address."""
    before, mark, after = text.partition("#")
    fragment = after if mark else None
    found = _ADDRESS.fullmatch(before)
    assert found is not None, "a pattern that all texts have"
    scheme, rest = found.groups()
    if not _URIC.fullmatch(after) or (scheme is not None and not _SCHEME.fullmatch(scheme)):
        return None
    if scheme is not None and not rest.startswith("/"):
        return _Address(scheme, fragment=fragment) if rest and _URIC.fullmatch(rest) else None
    parts = _SPECIFIC.fullmatch(rest)
    assert parts is not None, "a pattern that all texts have"
    authority, path, query = parts.groups()
    if not _PATH.fullmatch(path) or not _URIC.fullmatch(query or ""):
        return None
    if authority == "" and not path and query is None and not mark:
        return None
    server = _read_server(authority) if authority else (None, None)
    if server is None:
        return None
    return _Address(scheme, authority or None, *server, path, query, fragment)


def _read_server(authority: str) -> tuple[str | None, str | None] | None:
    """Who and where; neither if it is a name of another kind. None if it is nothing."""
    allowed = _SERVER_OF_IPV6 if authority.find("]") > 0 else _SERVER
    server = _read_host(authority) if allowed.fullmatch(authority) else None
    if server is not None:
        return server
    return (None, None) if _NAME.fullmatch(authority) else None


def _read_host(authority: str) -> tuple[str | None, str] | None:
    user, at, place = authority.partition("@")
    user, place = (user, place) if at else ("", authority)
    if not _USER.fullmatch(user):
        return None
    if place.startswith("["):
        host, end, port = place.partition("]")
        host += end
        known = _is_ipv6(host[1:-1]) if end else False
    else:
        host, colon, port = place.partition(":")
        port = colon + port
        known = _is_ipv4(host) or _HOST.fullmatch(host) is not None
    number = _PORT.fullmatch(port)
    if not known or number is None or int(number[1] or 0) > _LARGEST_PORT:
        return None
    return user if at else None, host


def _is_ipv4(host: str) -> bool:
    return _NUMBERS.fullmatch(host) is not None and all(int(part) <= _LARGEST_BYTE for part in host.split("."))


def _is_ipv6(host: str) -> bool:
    host, mark, scope = host.partition("%")
    try:
        IPv6Address(host)
    except AddressValueError:
        return False
    return not mark or _SCOPE.fullmatch(scope) is not None


def parse_url(text: str, part: str, key: str | None = None) -> str | None:
    if key is not None and part != "QUERY":
        return None
    address = _read_address(text)
    if address is None:
        raise EvaluationError(f"parse_url: '{text[:100]}' is not an address")
    found = _find_part(address, part)
    if key is None or found is None:
        return found
    match = java_pattern(f"(&|^){key}=([^&]*)").search(found)
    return None if match is None else match[2]


def _find_part(address: _Address, part: str) -> str | None:
    match part:
        case "FILE" if address.query is not None and address.path is not None:
            return f"{address.path}?{address.query}"
        case "FILE" | "PATH":
            return address.path
        case "HOST":
            return address.host
        case "QUERY":
            return address.query
        case "REF":
            return address.fragment
        case "PROTOCOL":
            return address.scheme
        case "AUTHORITY":
            return address.authority
        case _:
            return address.user


FUNCTIONS: Mapping[str, Callable[..., Value]] = {"parse_url": parse_url}
"""Functions of values that are not NULL."""
