"""Lag: how far a view is behind its sources now, by the commit times of what it does not have yet.

    lag = now - commit time of the oldest change or heartbeat of its databases that is not in the view

Every database gets a heartbeat per second. A view that has all that was captured lacks only the next heartbeat, which
no one has seen yet and which came after the last moment that was seen: its lag counts from there. An idle source that
is healthy therefore has a lag of about a second, and one whose capture stands still a lag that grows with the clock.

Clocks: a transaction was committed before it was received, so its commit time is at most its t, which is our clock at
its reception. A database whose clock is ahead is thereby no fresher than it is: whatever delay the capture has is then
not seen. One whose clock is behind looks late by as much. `ahead` (what the database's clock shows minus ours, measured
by asking it) mends both.

All times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.model.log import Moment

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Captured:
    """What is known of a database with regard to a view at time m.

    `lacking` is its first moment after m; `last` its last moment of all (the capture's position), None before the
    first. A capture keeps the first and last moment of what it commits at once: between these, the lag is too small by
    at most the time that one commit spans.
    """

    database: str
    lacking: Moment | None
    last: Moment | None
    ahead: int = 0


def lag_s(now: int, view_t: int, databases: Iterable[Captured]) -> float:
    """Seconds, never negative. A view without databases (its sources are files, or never change) has all there is."""
    return max((0, *(now - _oldest(view_t, captured) for captured in databases))) / SECOND


def _oldest(view_t: int, captured: Captured) -> int:
    """Committed not before this: the oldest that is not in the view."""
    moment = captured.lacking or captured.last
    return view_t if moment is None else committed_at(moment, captured.ahead)


def committed_at(moment: Moment, ahead: int = 0) -> int:
    """The commit time of a moment on our clock."""
    return min(moment.commit_time - ahead, moment.t)
