"""Posts to somebody else's server: over https, or http on this machine."""

from __future__ import annotations

import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from urllib.parse import SplitResult, urlsplit

from headrace.connect.shared_port import is_loopback
from headrace.model.errors import ConnectError, UsageError

LINES = "application/x-ndjson"


def check_webhook(url: str) -> SplitResult:
    """Raises `UsageError` for an address that is none, or that others could read along. It may hold secrets: it is not
    in the message.
    """
    hint = "write https://HOST/PATH, or http://127.0.0.1:PORT/PATH"
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise UsageError("`notify` is no address", hint) from None
    if parts.scheme not in ("http", "https") or parts.hostname is None:
        raise UsageError("`notify` is no address of a web server", hint)
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise UsageError("`notify` is elsewhere, and not encrypted", hint)
    return parts


def post_lines(url: str, lines: bytes, within_s: float) -> None:
    """Raises `ConnectError` unless the receiver says that it has them (a status from 200 to 299)."""
    parts = check_webhook(url)
    assert parts.hostname is not None
    connection: HTTPConnection = (
        HTTPSConnection(parts.hostname, parts.port, timeout=within_s, context=ssl.create_default_context())
        if parts.scheme == "https"
        else HTTPConnection(parts.hostname, parts.port, timeout=within_s)
    )
    where = f"{parts.scheme}://{parts.hostname}"  # paths and users may be secret
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, lines, {"Content-Type": LINES})
        status = connection.getresponse().status
    except (OSError, HTTPException) as error:
        raise ConnectError(f"{where} does not answer: {str(error) or type(error).__name__}") from error
    finally:
        connection.close()
    if not 200 <= status < 300:
        raise ConnectError(f"{where} answers with status {status}")
