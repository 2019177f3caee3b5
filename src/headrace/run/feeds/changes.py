"""What changes on a consumer's pages from one time to another, as a stream tells it.

An entry is told when it becomes readable, and again when it was edited: it then takes the place of the earlier one with
its producer and id, or without an id, its producer and time. One that is gone is told by these. Changes are told in the
order in which they happened. Whoever keeps what is told has what pages can show of the producers that are followed
since the beginning.

What is gone can be told for `KEPT_AFTER_END` only, since then the store forgets it; and not at all once the store was
filled again. A reader who is further behind has to read a page (`is_complete`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.run.feeds.page import FeedPlace, PageEntry

KEPT_AFTER_END = 30_000_000
"""Microseconds for which an event that is gone can still be read as of a time before."""
MOST_CHANGES = 1_000
"""Of one consumer at a time; whoever has more to catch up with reads a page."""


@dataclass(frozen=True, slots=True)
class StreamPlace:
    """How far a stream was told: up to time `t`, and of that time up to an entry; all of it if `told` is None."""

    t: int
    told: FeedPlace | None = None


@dataclass(frozen=True, slots=True)
class FeedChange:
    """An entry that came or was edited at time `t`, or one that went then."""

    t: int
    entry: PageEntry = field(compare=False)
    is_gone: bool = False

    @property
    def order(self) -> tuple[int, FeedPlace]:
        return self.t, self.entry.feed_place


@dataclass(frozen=True, slots=True)
class FeedChanges:
    """What changed for a consumer until `t`, in order; not `is_complete` if that is not all, or nobody knows."""

    t: int
    changes: tuple[FeedChange, ...]
    is_complete: bool = True

    def place_after(self, position: int) -> StreamPlace:
        """Where a stream is once it has told the change at a position."""
        change = self.changes[position]
        is_last = position + 1 == len(self.changes)
        return StreamPlace(self.t) if is_last else StreamPlace(change.t, change.entry.feed_place)
