"""Times of transactions on our clock, whatever the clocks of databases say and wherever anybody puts them.

Every transaction gets two. Its `t` says when we received it; it rises strictly for each database, also across restarts,
since the largest one so far is committed with the rows that carry it. Its commit time says how old it is, which only
its database knows, on a clock of its own. How far that clock is ahead of ours is measured by heartbeats: one is
committed between the moment when we asked for it and the moment when we had the answer. The heartbeat itself is in the
log, so each measurement belongs to a place there, and a clock that jumps does so between two of them.

All times are microseconds since 1970.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from headrace.model.log import NEVER


def clock_now() -> int:
    """Microseconds since 1970, by our own clock."""
    return time.time_ns() // 1000


def next_time(last: int, now: int) -> int:
    """Now, or just after the last one when our clock stands still or was put back."""
    return max(last + 1, now)


@dataclass(frozen=True, slots=True)
class Skew:
    """A database's clock is ahead of ours by at least `least` and at most `most`; negative if it is behind."""

    least: int
    most: int

    @property
    def ahead(self) -> int:
        return (self.least + self.most) // 2

    def and_also(self, later: Skew) -> Skew:
        """What both say; the later one if they contradict each other, since a clock has moved between them.

        Measurements with slow answers say little, and spoil nothing. Clocks that drift apart contradict the common
        part sooner or later, and the search begins anew.
        """
        least, most = max(self.least, later.least), min(self.most, later.most)
        return Skew(least, most) if least <= most else later


def measure_skew(asked: int, shown: int, answered: int) -> Skew:
    """The database's clock showed this between two moments of ours."""
    return Skew(shown - answered, shown - asked)


@dataclass(slots=True)
class DatabaseClock:
    """Turns commit times of one database into ours, in the order of its log.

    `last` is that of the transaction before: the next was committed no earlier, and neither later than now. So a jump
    of the database's clock leads astray by no more than the time between two heartbeats.
    """

    skew: Skew
    last: int = NEVER

    def measure(self, skew: Skew) -> None:
        self.skew = self.skew.and_also(skew)

    def committed_at(self, shown: int, now: int) -> int:
        """When a transaction was committed whose database's clock showed this time then."""
        if self.last > now:
            self.last = NEVER  # our own clock was put back: what it showed before says nothing any more
        self.last = min(max(shown - self.skew.ahead, self.last), now)
        return self.last
