"""Cursors as text that people can neither read nor change: they are signed for one feed and one consumer."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json

from headrace.model.errors import UsageError
from headrace.run.feeds.page import PageCursor

SIGNATURE_BYTES = 16


class WrongCursor(UsageError):
    """A text is no cursor that was given out for this consumer."""


def write_cursor(cursor: PageCursor, feed: str, consumer: str, key: bytes) -> str:
    said = json.dumps([cursor.as_of, cursor.ceiling, cursor.shown], separators=(",", ":"), ensure_ascii=False).encode()
    return base64.urlsafe_b64encode(_sign(said, feed, consumer, key) + said).rstrip(b"=").decode("ascii")


def read_cursor(text: str, feed: str, consumer: str, key: bytes) -> PageCursor:
    """Raises `WrongCursor`."""
    try:
        given = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refuse() from error
    signature, said = given[:SIGNATURE_BYTES], given[SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _sign(said, feed, consumer, key)):
        raise _refuse()
    as_of, (time, id_, producer), shown = json.loads(said)
    return PageCursor(as_of, (time, id_, producer), {name: (last[0], last[1]) for name, last in shown.items()})


def _sign(said: bytes, feed: str, consumer: str, key: bytes) -> bytes:
    about = json.dumps(["cursor", feed, consumer]).encode()
    return hmac.new(key, about + said, hashlib.sha256).digest()[:SIGNATURE_BYTES]


def _refuse() -> WrongCursor:
    return WrongCursor(
        "this is no cursor of this feed and consumer",
        "leave it out to begin at the newest entry, or send `next` as given",
    )
