"""Reads the rows that decide where pairs run, as they are captured: members of groups, pairs, tables of programs."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from headrace.connect.written.inbox import list_files
from headrace.coordinate.devices.kept import FollowedRows, KeptGroup, KeptTemplate, KeptTemplates
from headrace.coordinate.devices.presence import Presence
from headrace.model.device_messages import CLOUD
from headrace.model.log import Log
from headrace.model.types import Row
from headrace.plan.place.handover import TemplatePair
from headrace.plan.place.instance import Device
from headrace.run.device.fitting import write_id
from headrace.run.ports import Ledger, Store

Version = tuple[int, int]


def version_of(log: Log) -> Version:
    """Differs when rows have changed."""
    return log.start, max((piece.upto for piece in log.contents), default=log.start)


@dataclass(frozen=True, slots=True)
class Members:
    """Rows of a group's table, and what changed: devices that can hold more or less than before, and devices that are
    gone.
    """

    version: Version
    ids: frozenset[str]
    kinds: Mapping[str, Device]
    changed: Mapping[str, Device]
    gone: frozenset[str]


@dataclass(frozen=True, slots=True)
class ProgramTable:
    """All rows of a table of programs, at time `t`."""

    version: Version
    t: int
    rows: tuple[Row, ...]


@dataclass(slots=True)
class FollowedTables:
    """`members` are ids of devices by group, once they are known."""

    ledger: Ledger
    store: Store
    members: dict[str, frozenset[str]] = field(default_factory=dict)
    _kept: KeptTemplates = field(default_factory=lambda: KeptTemplates({}, {}, {}))
    _kinds: dict[str, Mapping[str, Device]] = field(default_factory=dict)
    _seen: dict[str, Version] = field(default_factory=dict)
    _published: dict[str, Version] = field(default_factory=dict)

    def use(self, kept: KeptTemplates) -> None:
        self._kept = kept
        self._seen.clear()
        self._kinds.clear()
        self._published.clear()
        self.members = {name: found for name, found in self.members.items() if name in kept.groups}

    def publish_again(self) -> None:
        """The broker may be another one."""
        self._published.clear()

    def knows_members(self, groups: Iterable[str]) -> bool:
        return all(name in self.members for name in groups)

    def read_members(self, name: str, group: KeptGroup) -> Members | None:
        """What changed among the rows of a group's table; None if nothing did, or it is not loaded yet. It is told
        again until it is noted (`note_members`): whatever follows from it may fail.
        """
        log = _find_log(self.ledger, group.rows)
        if log is None or self._seen.get(name) == version_of(log):
            return None
        rows = group.rows.read(self.store, log)
        ids = _write_ids(rows.column(group.devices.id))
        found = {device for device in ids if device is not None}
        kinds = {} if group.capacity is None else _read_kinds(ids, rows.column(group.capacity), group.kind)
        before, known = self._kinds.get(name, {}), self.members.get(name, frozenset())
        changed = {device: kind for device, kind in kinds.items() if before.get(device) != kind}
        return Members(version_of(log), frozenset(found), kinds, changed, known - found)

    def note_members(self, name: str, found: Members) -> None:
        """What follows from these rows has been done."""
        self._seen[name], self._kinds[name], self.members[name] = found.version, found.kinds, found.ids

    def next_tables(self, later: Container[str] = ()) -> dict[str, ProgramTable]:
        """Tables of programs that are new or have changed, until they are noted as published; not those that are to be
        published `later`.
        """
        found = {}
        for name, rows in self._kept.tables.items():
            log = None if name in later else _find_log(self.ledger, rows)
            if log is not None and self._published.get(name) != version_of(log):
                found[name] = ProgramTable(version_of(log), log.t, _read_rows(rows.read(self.store, log)))
        return found

    def note_published(self, name: str, version: Version) -> None:
        self._published[name] = version


@dataclass(frozen=True, slots=True)
class FoundPairs:
    """`standing` are pairs that are seen for the first time by this service, and run somewhere; `new` ones run nowhere
    yet. `strays` are placements of pairs that are not there.
    """

    standing: Mapping[TemplatePair, str]
    new: tuple[TemplatePair, ...]
    gone: tuple[TemplatePair, ...]
    strays: tuple[TemplatePair, ...]
    every: Mapping[TemplatePair, Mapping[str, float]]


@dataclass(slots=True)
class FollowedPairs:
    """The pairs of one template, as its table has them. Begins once all placements of earlier services are captured."""

    name: str
    _kept: KeptTemplate | None = None
    _pairs: frozenset[TemplatePair] | None = None
    _every: dict[TemplatePair, dict[str, float]] = field(default_factory=dict)
    _seen: Version | None = None
    _members: frozenset[str] | None = None
    _drained: int | None = None
    _forgotten: set[str] = field(default_factory=set)

    def use(self, kept: KeptTemplate) -> None:
        if self._kept is None or self._kept.rows != kept.rows or self._kept.every != kept.every:
            self._seen = None
        self._kept = kept

    @property
    def is_read(self) -> bool:
        """Whether it is known which pairs there are."""
        return self._pairs is not None

    def forget(self, devices: frozenset[str]) -> None:
        """Pairs of these devices are not there until they are back."""
        self._forgotten |= devices
        if self._pairs is not None:
            self._pairs = frozenset(pair for pair in self._pairs if devices.isdisjoint(pair.ids))

    def read(
        self, ledger: Ledger, store: Store, inbox: Path, members: frozenset[str], presence: Presence
    ) -> FoundPairs | None:
        """What changed; None if nothing did, or the table is not loaded yet."""
        assert self._kept is not None
        back = {device for device in self._forgotten if presence.is_known(device)}
        self._forgotten -= back
        log = _find_log(ledger, self._kept.rows)
        if log is None or (self._seen == version_of(log) and self._members == members and not back):
            return None
        first = self._pairs is None
        standing = self._read_placement(ledger, store, inbox) if first else {}
        if standing is None:
            return None
        found = self._read_pairs(self._kept.rows.read(store, log), members)
        self._seen, self._members = version_of(log), members
        before, self._pairs = self._pairs or frozenset(), frozenset(found)
        changed = {pair: every for pair, every in found.items() if self._every.get(pair, {}) != every}
        self._every = found
        new = sorted(found.keys() - before)
        # Pairs without a row are the cloud's; while a device of theirs was never seen, nobody has to send anything.
        known = [pair for pair in new if first and all(presence.is_known(device) for device in pair.ids)]
        stands = {pair: standing.get(pair, CLOUD) for pair in known}
        stands |= {pair: at for pair, at in standing.items() if pair in found}
        return FoundPairs(
            stands,
            tuple(pair for pair in new if pair not in stands),
            tuple(sorted(before - found.keys())),
            tuple(sorted(standing.keys() - found.keys())),
            changed,
        )

    def _read_placement(self, ledger: Ledger, store: Store, inbox: Path) -> dict[TemplatePair, str] | None:
        """Where pairs run as the ledger says, once it says all; None before."""
        assert self._kept is not None
        log = _find_log(ledger, self._kept.placement_rows)
        if log is None:
            return None
        if self._drained is None:
            if list_files(inbox, 1):
                return None
            self._drained = log.t  # the last file is captured: it is in what comes next, at the latest
            return None
        if log.t <= self._drained:
            return None
        rows = self._kept.placement_rows.read(store, log)
        sides = [_write_ids(rows.column(side)) for side in self._kept.sides]
        places = _write_ids(rows.column("at"))
        return {
            TemplatePair(self.name, ids): at
            for *ids_, at in zip(*sides, places, strict=True)
            if at is not None and (ids := _all_there(ids_)) is not None
        }

    def _read_pairs(self, rows: pa.Table, members: Collection[str]) -> dict[TemplatePair, dict[str, float]]:
        """Pairs whose devices are all members, with the seconds that each asks for itself."""
        assert self._kept is not None
        sides = [_write_ids(rows.column(column)) for column in self._kept.sides.values()]
        every = {side: rows.column(column).to_pylist() for side, column in self._kept.every.items()}
        found: dict[TemplatePair, dict[str, float]] = {}
        for position, ids_ in enumerate(zip(*sides, strict=True)):
            ids = _all_there(ids_)
            if ids is None or any(one not in members or one in self._forgotten for one in ids):
                continue
            asked = found.setdefault(TemplatePair(self.name, ids), {})
            for side, values in every.items():
                seconds = _read_seconds(values[position])
                if seconds is not None:
                    asked[side] = min(seconds, asked.get(side, seconds))
        return found


def _find_log(ledger: Ledger, rows: FollowedRows) -> Log | None:
    return ledger.logs([rows.log]).get(rows.log)


def _all_there(ids: Iterable[str | None]) -> tuple[str, ...] | None:
    found = tuple(ids)
    return None if any(one is None for one in found) else tuple(map(str, found))


def _write_ids(column: pa.ChunkedArray) -> list[str | None]:
    return [None if value is None else write_id(value) for value in column.to_pylist()]


def _read_kinds(ids: list[str | None], capacities: pa.ChunkedArray, kind: Device) -> dict[str, Device]:
    """A device that does not say how much it can hold can hold anything."""
    return {
        device: Device(kind.up, kind.down, None if capacity is None else max(0, math.floor(capacity)))
        for device, capacity in zip(ids, capacities.to_pylist(), strict=True)
        if device is not None
    }


def _read_seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value >= 0 else None


def _read_rows(rows: pa.Table) -> tuple[Row, ...]:
    return tuple(zip(*(column.to_pylist() for column in rows.columns), strict=True))
