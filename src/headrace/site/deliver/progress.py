"""How far a copy is, how long it takes to write it, and what is said of one that is being written for long."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headrace.model.amounts import format_seconds

FADES = 0.9
"""Of each delivery that was quicker, how much stays of what the slowest took."""
LONG_S = 0.5
"""A delivery that takes longer than this is told as the cause of a late copy."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """A copy as its thread last told of it.

    `where` says in words where it is. `t` is the time that it has reached, None before it was asked; `takes_s` are the
    seconds in which most deliveries are done. `begun_s` is when the delivery began that is under way, on the clock that
    nobody sets.
    """

    where: str
    t: int | None = None
    takes_s: float = 0.0
    begun_s: float | None = None

    def begin(self, now_s: float) -> CopyProgress:
        return replace(self, begun_s=now_s)

    def end(self) -> CopyProgress:
        return replace(self, begun_s=None)

    def reach(self, t: int, now_s: float) -> CopyProgress:
        """The delivery that is under way has brought the copy to a time."""
        took_s = 0.0 if self.begun_s is None else now_s - self.begun_s
        return CopyProgress(self.where, t, max(took_s, FADES * self.takes_s))


def say_writing(copy: CopyProgress, now_s: float) -> str | None:
    """What holds a copy up, if it is that it is being written; None if no delivery has been under way for long."""
    for_s = 0.0 if copy.begun_s is None else now_s - copy.begun_s
    return (
        None if for_s < LONG_S else f"{copy.where} has not answered the delivery for {format_seconds(round(for_s, 1))}"
    )
