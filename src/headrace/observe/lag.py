"""Lag: how far a view is behind its sources now, by the commit times of what it does not have yet.

    lag = now - commit time of the oldest change or heartbeat of its databases that is not in the view

Every database gets a heartbeat per second. A view that has all that was captured lacks only the next heartbeat, which
no one has seen yet and which came after the last commit that was seen: its lag counts from there. An idle source that
is healthy therefore has a lag of about a second, and one whose capture stands still a lag that grows with the clock.

Commit times are on our clock: captures turn those of databases into ours, wherever their clocks stand. A time after now
is one from before our own clock was put back; until it catches up, lag counts from the first commit after that.

All times are microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.model.log import CommitMark

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class DatabaseProgress:
    """What is known of a database with regard to a view at time m.

    `lacking` is the oldest of its commit marks after m; `last` its last mark of all (the capture's position), None
    before the first. A capture keeps the first and the last mark of what it commits at once: between these, the lag is
    too small by at most the time that one commit spans.
    """

    database: str
    lacking: CommitMark | None
    last: CommitMark | None


def lag_s(now: int, view_t: int, databases: Iterable[DatabaseProgress]) -> float:
    """Seconds, never negative. A view without databases (its sources are files, or never change) has all there is."""
    return max((0, *(now - _oldest(view_t, captured) for captured in databases))) / SECOND


def _oldest(view_t: int, captured: DatabaseProgress) -> int:
    """Committed not before this: the oldest that is not in the view."""
    mark = captured.lacking or captured.last
    return view_t if mark is None else mark.commit_time
