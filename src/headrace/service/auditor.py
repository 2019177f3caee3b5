"""Watches promises, whatever the scheduler believes: its own clock, source commit times, and what the ledger holds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.model.log import Lease, Moment, Round
from headrace.observe.audit import Record, look
from headrace.observe.lag import Captured, lag_s
from headrace.run.ports import Ledger

AUDIT_NOTE = "audit:"


@dataclass(frozen=True, slots=True)
class Watched:
    """A contract to watch: its vertex, its promise, and the databases whose changes it reflects."""

    contract: str
    vertex: str
    freshness_s: float
    penalty: float
    databases: tuple[str, ...]


@dataclass(slots=True)
class Auditor:
    ledger: Ledger
    clock: Callable[[], int]
    watched: tuple[Watched, ...] = ()
    lags_s: dict[str, float] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)

    def resume(self) -> None:
        """Records of earlier runs."""
        for name, text in self.ledger.notes(AUDIT_NOTE).items():
            try:
                self.records[name.removeprefix(AUDIT_NOTE)] = Record.from_json(text)
            except (TypeError, ValueError):
                continue  # another version wrote it

    def measure(self) -> Mapping[str, float]:
        """Lags now, by contract; of those that are loaded."""
        now, times = self.clock(), self.ledger.times()
        last = {
            name.removeprefix("position:"): _moment(name.removeprefix("position:"), text)
            for name, text in self.ledger.notes("position:").items()
        }
        self.lags_s = {
            one.contract: lag_s(now, times[one.vertex], self._captured(one, times[one.vertex], last))
            for one in self.watched
            if one.vertex in times
        }
        return self.lags_s

    def _captured(self, one: Watched, view_t: int, last: Mapping[str, Moment]) -> list[Captured]:
        found = []
        for database in one.databases:
            lacking = self.ledger.moments(database, view_t, 1)
            found.append(Captured(database, lacking[0] if lacking else None, last.get(database)))
        return found

    def audit(self, lease: Lease) -> None:
        """Looks at all contracts, and keeps what was seen."""
        lags, now = self.measure(), self.clock()
        for one in self.watched:
            if one.contract in lags:
                record = self.records.get(one.contract, Record())
                self.records[one.contract] = look(record, now, lags[one.contract], one.freshness_s)
        notes = {AUDIT_NOTE + name: record.to_json() for name, record in self.records.items()}
        self.ledger.commit(lease, Round(notes=notes))


def _moment(database: str, note: str) -> Moment:
    position = json.loads(note)
    return Moment(database, int(position["t"]), int(position["commit_time"]))
