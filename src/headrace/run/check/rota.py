"""Decides what is checked next, and keeps the record of each subject: what was found, when, and what it cost.

Subjects take turns piece by piece: the one whose last piece is longest ago comes first. So a large table does not keep
a small one waiting, and every subject finishes a pass within the time that all passes together take.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, Self

from headrace.run.check.pace import NO_COST, CheckBudget, CheckCost, seconds_within

UNCHANGED_FOR_S = 86_400.0
"""A subject that does not change is still checked once in this time: a fault may leave no trace of a change."""


class CheckKind(StrEnum):
    SOURCE = "source"
    VIEW = "view"


@dataclass(frozen=True, slots=True, order=True)
class CheckSubject:
    """A source, or the view of a contract, by that name."""

    kind: CheckKind
    name: str


class CheckFinding(StrEnum):
    """What the last pass found. `unchecked`: it cannot be checked, and the record says why."""

    NOTHING_YET = "not yet checked"
    EQUAL = "equal"
    DIFFERENT = "different"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """Times are seconds since 1970: the current or last pass began at `begun_at`; the last piece ran at `worked_at`.
    `checked_at` is when a pass ended last, or when nothing had changed since one did.

    `place` is where the current pass goes on, None between passes; `done` the share of it that is done. `mark` stands
    for what the subject was like when the pass began. `rows` and `cost` are of the last whole pass; `spent` and
    `counted` of the current one.
    """

    begun_at: float = 0.0
    worked_at: float = 0.0
    checked_at: float | None = None
    passed_at: float | None = None
    finding: CheckFinding = CheckFinding.NOTHING_YET
    why: str = ""
    place: tuple[str, ...] | None = None
    done: float = 0.0
    mark: str = ""
    rows: int = 0
    counted: int = 0
    cost: CheckCost = NO_COST
    spent: CheckCost = NO_COST

    # How a pass goes

    def begin(self, now: float, mark: str) -> Self:
        return replace(self, begun_at=now, mark=mark, why="", place=(), done=0.0, counted=0, spent=NO_COST)

    def is_unchanged(self, now: float, mark: str) -> bool:
        """Whether a pass would look at the same again that the last whole pass looked at."""
        equal = self.finding is CheckFinding.EQUAL and self.passed_at is not None
        return equal and mark == self.mark and 0 <= now - (self.passed_at or 0.0) < UNCHANGED_FOR_S

    def skip(self, now: float) -> Self:
        """Nothing has changed since the last whole pass."""
        return replace(self, begun_at=now, worked_at=now, checked_at=now, why="", place=None)

    def postpone(self, now: float) -> Self:
        """It cannot be looked at just now. A pass goes on later where it is."""
        return self if self.place is not None else replace(self, begun_at=now)

    def advance(self, place: tuple[str, ...], done: float, rows: int) -> Self:
        return replace(self, place=place, done=done, counted=self.counted + rows)

    def end(self, now: float, finding: CheckFinding, why: str = "", rows: int = 0) -> Self:
        """The pass is over: the whole subject was looked at, or a difference ends it early."""
        ended = replace(self, finding=finding, why=why, place=None, done=0.0, checked_at=now)
        if finding is CheckFinding.UNCHECKED:
            return replace(ended, checked_at=self.checked_at)
        return replace(ended, passed_at=now, rows=self.counted + rows)

    # As JSON

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for anything else."""
        place = None if found["place"] is None else tuple(map(str, found["place"]))
        costs = {name: CheckCost(**found[name]) for name in ("cost", "spent")}
        return cls(**{**found, **costs, "place": place, "finding": CheckFinding(found["finding"])})


Records = Mapping[CheckSubject, CheckRecord]


def charge_piece(before: CheckRecord, after: CheckRecord, now: float, cost: CheckCost) -> CheckRecord:
    """The record after a piece, with what the piece cost; a pass that it ended has its whole cost."""
    spent = after.spent + cost
    ended = after.passed_at != before.passed_at
    return replace(after, worked_at=now, spent=spent, cost=spent if ended else after.cost)


def choose_next(records: Records, now: float, budget: CheckBudget) -> CheckSubject | None:
    """The subject whose last piece is longest ago, of those in a pass or due for one; None if none is.

    A clock that was put back makes a subject due.
    """
    due = [subject for subject, record in records.items() if _is_due(record, now, budget)]
    return min(due, key=lambda subject: (records[subject].worked_at, subject), default=None)


def _is_due(record: CheckRecord, now: float, budget: CheckBudget) -> bool:
    return record.place is not None or not 0 <= now - record.begun_at < budget.again_after_s


def expect_pass_s(records: Iterable[CheckRecord], budget: CheckBudget) -> float:
    """Seconds within which every subject is checked once, as far as passes have shown what they cost."""
    costs = (record.cost for record in records)
    return sum(seconds_within(budget, cost) for cost in costs)


def write_records(records: Records) -> str:
    return json.dumps([[subject.kind, subject.name, record.to_json()] for subject, record in sorted(records.items())])


def read_records(text: str) -> dict[CheckSubject, CheckRecord]:
    """Raises KeyError, TypeError or ValueError for any other text."""
    return {
        CheckSubject(CheckKind(kind), str(name)): CheckRecord.from_json(record)
        for kind, name, record in json.loads(text)
    }
