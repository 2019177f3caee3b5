"""Finds captures that make no step: suspended processes, and those that a database keeps waiting without an answer.

A capture commits what it has reached every second, and renews its lease while it works on something that takes longer.
One that does neither is named, and after a while replaced: the next one continues from the last commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.notes import CapturedUpTo, CaptureFailing, read_notes
from headrace.run.ports import Ledger

STILL_AFTER_S = 7.0
"""A capture renews its lease every five seconds, whatever it does."""
BEGINS_WITHIN_S = 30.0
"""One that has no lease yet is starting: on a busy machine Python takes long to import what it needs."""
REPLACE_AFTER_S = 45.0
"""Longer than a capture takes from one attempt to reach its database to the next."""


@dataclass(frozen=True, slots=True)
class CaptureMark:
    """What changes with every step: the time that was reached, the end of the lease, and what the capture has told."""

    t: int | None
    until: float | None
    told: str | None


@dataclass(frozen=True, slots=True)
class StillSince:
    """A mark, and since when it is the same: seconds of a clock that nobody sets."""

    mark: CaptureMark
    since_s: float


@dataclass(frozen=True, slots=True)
class StillVerdict:
    """Captures that stand still without having said why, for how many seconds; and those that are to be replaced."""

    still_s: Mapping[str, float]
    replace: frozenset[str]


def take_marks(ledger: Ledger, captures: Iterable[str]) -> dict[str, CaptureMark]:
    positions, failing = read_notes(ledger, CapturedUpTo), read_notes(ledger, CaptureFailing)
    found = {}
    for name in captures:
        held = ledger.find_lease(f"capture:{name}")
        t = positions[name].t if name in positions else None
        told = failing[name].why if name in failing else None
        found[name] = CaptureMark(t, None if held is None else held.until, told)
    return found


def compare_marks(
    before: Mapping[str, StillSince], marks: Mapping[str, CaptureMark], now_s: float
) -> dict[str, StillSince]:
    """Finds since when each capture is where it is now."""
    return {
        name: before[name] if name in before and before[name].mark == mark else StillSince(mark, now_s)
        for name, mark in marks.items()
    }


def judge_captures(seen: Mapping[str, StillSince], now_s: float) -> StillVerdict:
    still = {name: now_s - one.since_s for name, one in seen.items() if now_s - one.since_s >= _patience_s(one.mark)}
    unexplained = {name: seconds for name, seconds in still.items() if seen[name].mark.told is None}
    return StillVerdict(unexplained, frozenset(name for name, s in still.items() if s >= REPLACE_AFTER_S))


def _patience_s(mark: CaptureMark) -> float:
    return STILL_AFTER_S if mark.until is not None else BEGINS_WITHIN_S
