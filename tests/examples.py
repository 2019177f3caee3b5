"""How many examples are tried where each takes long."""

from __future__ import annotations

from hypothesis import settings

ALL = 100
"""What hypothesis tries unless it is told otherwise."""


def examples(number: int) -> int:
    """As large a part of `number` as the profile tries of all; never more than it."""
    return max(2, number * min(settings().max_examples, ALL) // ALL)
