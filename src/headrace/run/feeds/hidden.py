"""How many producers a consumer may hide: each page looks at all of them, so that there has to be an end.

What is noted for the other side of a block does not count: nobody may be kept from blocking somebody whom many block.
"""

from __future__ import annotations

from headrace.model.errors import UsageError

MOST_HIDDEN = 10_000
"""Mutes and blocks of one consumer."""
BLOCKED = "blocked"
"""Kind of what is noted for the other side of a block."""


def say_too_many(consumer: str) -> UsageError:
    what = f'"{consumer}" mutes and blocks {MOST_HIDDEN:,} producers already, which is as many as one may'
    return UsageError(what, "take some back, or unfollow instead")


def say_emptied(feed: str) -> str:
    """Who is hidden, and what was seen, is in the store alone."""
    return f'the store of feed "{feed}" was emptied: whom people mute and block, and what they have seen, is gone'
