"""Times of transactions on our clock: strictly rising for each database, whatever the clocks say.

The largest time given so far is committed with the rows that carry it, so it also rises across restarts.
"""

from __future__ import annotations


def next_time(last: int, now: int) -> int:
    """Microseconds since 1970: now, or just after the last one when our clock stands still or was put back."""
    return max(last + 1, now)
