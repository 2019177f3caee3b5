"""Decides how what a check found is mended, from when that was tried before.

The first time the gentle way is taken, then the thorough one. If it differs again after that, mending does not help,
and each further try waits longer: a fault of ours must not keep a service busy with reading and loading.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

REMEMBERED_S = 86_400.0
"""Tries longer ago say nothing about the present."""
BACKOFF_S = (0.0, 0.0, 600.0, 3_600.0, 21_600.0)
"""Seconds since the last try until there is another one, after none, one, two, ... tries."""


class Mend(StrEnum):
    GENTLY = "gently"
    THOROUGHLY = "thoroughly"
    NOT_NOW = "not now"


def choose_mend(tried: Sequence[float], now: float) -> Mend:
    """`tried` are the seconds since 1970 at which mending was tried, oldest first."""
    recent = [one for one in tried if 0 <= now - one < REMEMBERED_S]
    if not recent:
        return Mend.GENTLY
    backoff_s = BACKOFF_S[min(len(recent), len(BACKOFF_S) - 1)]
    return Mend.THOROUGHLY if now - recent[-1] >= backoff_s else Mend.NOT_NOW
