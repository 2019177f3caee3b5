"""Tokens of consumers: which feed of whom one opens, until when, and which app has given it out.

A consumer's token is not stored anywhere: it says all this itself, signed with a key of the project. It ends at its
time, or when the app that has minted it is revoked.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from headrace.run.feeds.signed import read_signed, write_signed

APP_PREFIX, CONSUMER_PREFIX = "hra_", "hrc_"
"""So that a token that turns up somewhere is recognised for what it is."""
ABOUT = ("consumer token",)
DEFAULT_S, LONGEST_S = 3600, 30 * 86_400
LONGEST_TOKEN = 4_000
"""Characters. Nothing longer is looked at."""


@dataclass(frozen=True, slots=True)
class ConsumerClaims:
    """`expires` is in seconds since 1970; `app` is the id of the app, which no later one of its name has."""

    feed: str
    consumer: str
    expires: int
    app: str


def write_token(claims: ConsumerClaims, key: bytes) -> str:
    said = [claims.feed, claims.consumer, claims.expires, claims.app]
    return CONSUMER_PREFIX + write_signed(json.dumps(said, separators=(",", ":")).encode(), ABOUT, key)


def read_token(text: str, key: bytes) -> ConsumerClaims | None:
    """What a token says, whether it still holds or not; None if it was not minted with this key."""
    if not text.startswith(CONSUMER_PREFIX) or len(text) > LONGEST_TOKEN:
        return None
    said = read_signed(text.removeprefix(CONSUMER_PREFIX), ABOUT, key)
    return None if said is None else ConsumerClaims(*json.loads(said))
