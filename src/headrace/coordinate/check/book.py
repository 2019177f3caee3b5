"""Keeps what was checked: a record for each source and view, what it all cost, and how `status` shows it.

Records are also a note in the ledger, so that passes over large tables go on after a restart.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.log import Commit, Lease
from headrace.model.notes import CheckedSubjects, read_document, read_note
from headrace.run.check.pace import DEFAULT_BUDGET, NO_COST, CheckBudget, CheckCost
from headrace.run.check.rota import (
    CheckRecord,
    CheckSubject,
    expect_pass_s,
    read_records,
    write_records,
)
from headrace.run.ports import Ledger

KEEP_EVERY_S = 20.0


@dataclass(frozen=True, slots=True)
class ChecksShown:
    """What was checked so far, for `status`: a frozen value, swapped whole. `cost` is since the service started."""

    records: Mapping[CheckSubject, CheckRecord] = field(default_factory=dict)
    cost: CheckCost = NO_COST
    budget: CheckBudget = DEFAULT_BUDGET

    def document(self) -> dict[str, Any]:
        """Times are seconds since 1970."""
        return {
            "subjects": [_describe(subject, record) for subject, record in sorted(self.records.items())],
            "pass_s": expect_pass_s(self.records.values(), self.budget),
            "seconds": self.cost.seconds,
            "bytes": self.cost.bytes,
        }


def _describe(subject: CheckSubject, record: CheckRecord) -> dict[str, Any]:
    return {
        "kind": subject.kind.value,
        "name": subject.name,
        "found": record.finding.value,
        **({"reason": record.why} if record.why else {}),
        "checked": record.checked_at,
        "rows": record.rows,
        "done": record.done,
    }


@dataclass(slots=True)
class CheckBook:
    """One thread writes; anybody may take `shown`."""

    ledger: Ledger
    lease: Lease
    budget: CheckBudget
    shown: ChecksShown = field(default_factory=ChecksShown)
    _records: dict[CheckSubject, CheckRecord] = field(default_factory=dict)
    _cost: CheckCost = NO_COST
    _kept_at: float = field(default_factory=time.monotonic)

    def resume(self) -> None:
        """Goes on with the records of the last run."""
        note = read_note(self.ledger, CheckedSubjects)
        self._records = {} if note is None else read_document(note, read_records) or {}
        self._show()

    def follow(self, subjects: Collection[CheckSubject]) -> None:
        """These are checked from now on."""
        if self._records.keys() != set(subjects):
            self._records = {one: self._records.get(one, CheckRecord()) for one in subjects}
            self._show()

    @property
    def records(self) -> Mapping[CheckSubject, CheckRecord]:
        return self._records

    def note(self, subject: CheckSubject, record: CheckRecord, cost: CheckCost) -> None:
        """What became of a subject, and what that cost."""
        self._records[subject] = record
        self._cost += cost
        self._show()
        if time.monotonic() - self._kept_at > KEEP_EVERY_S:
            self.keep()

    def keep(self) -> None:
        self._kept_at = time.monotonic()
        self.ledger.commit(self.lease, Commit(notes=(CheckedSubjects(write_records(self._records)),)))

    def _show(self) -> None:
        self.shown = ChecksShown(dict(self._records), self._cost, self.budget)
