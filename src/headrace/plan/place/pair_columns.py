"""What templates need of their devices, as columns: the form in which the pairs of all templates are placed together.

    rows of `per`  --number_pairs-->  PairRows: devices by number, each pair once, seconds between rows that it needs
    what the view reads               TemplateDemand: streams by side, tables

A view that needs a row every ten seconds at most is served by any stream that is as fast, and nobody sends faster than
the device has rows: so a pair needs a stream at the smaller of the two rates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.model.catalogue import Devices, Template
from headrace.model.template_names import SIDES

DeviceNumbers = NDArray[np.int32]
"""Devices by number."""

Seconds = NDArray[np.float64]
Rates = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class PairRows:
    """The pairs of a template. `b` is None if it has one side. `every` are seconds by side, one for each pair: 0 means
    every row that there is. `of` is the row of the table that each pair came from.
    """

    a: DeviceNumbers
    b: DeviceNumbers | None
    every: Mapping[str, Seconds]
    of: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.a)

    def side(self, side: str) -> DeviceNumbers:
        found = self.a if side == "a" else self.b
        assert found is not None, "a template of one side has no b"
        return found

    @property
    def sides(self) -> tuple[str, ...]:
        return SIDES if self.b is not None else SIDES[:1]


@dataclass(frozen=True, slots=True)
class TemplateDemand:
    """A template with its pairs. `streams` are those that its view reads, by side; `tables` come from the cloud to
    devices that run pairs, `side_tables` to all devices of a side, which make derived streams of them.
    """

    name: str
    rows: PairRows
    streams: Mapping[str, tuple[str, ...]]
    tables: tuple[str, ...] = ()
    side_tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """All devices of a group. Rates are rows per second, of streams one for each device, of tables one.

    `sizes` are bytes of a message of a stream or table. `capacity` is how many pairs a device may run, None if any.
    """

    count: int
    up: float
    down: float
    rates: Mapping[str, Rates]
    tables: Mapping[str, float] = field(default_factory=dict)
    sizes: Mapping[str, float] = field(default_factory=dict)
    capacity: NDArray[np.int64] | None = None

    def weigh(self, name: str) -> float:
        """What a message of a stream or table costs, in messages of the narrowest stream."""
        return weigh_message(self.sizes.get(name), [self.sizes.get(stream) for stream in self.rates])


def weigh_message(size: float | None, of_streams: Iterable[float | None]) -> float:
    """What a message of so many bytes costs, in messages of the narrowest of a group's streams. None is not known, and
    as narrow as that.
    """
    least = min((one for one in of_streams if one), default=1.0)
    return (size or least) / least


def make_demand(template: Template, devices: Devices, rows: PairRows) -> TemplateDemand:
    """The demand of a template that is part of a plan: only then it is known what its view reads."""
    derived = devices.derived
    side_tables = {
        side: tuple(dict.fromkeys(table for name in streams if name in derived for table in derived[name].tables))
        for side, streams in template.streams.items()
    }
    return TemplateDemand(template.name, rows, template.streams, template.tables, side_tables)


def number_pairs(
    ids: NDArray[Any], a: NDArray[Any], b: NDArray[Any] | None, every: Mapping[str, float | NDArray[Any]] | None = None
) -> PairRows:
    """The pairs of rows whose devices are known. `ids` are those of all devices: a device's number is its place there.

    Rows with the same devices are one pair, which needs what the most demanding of them needs.
    """
    order = np.argsort(ids, kind="stable")
    found = {
        side: _number(ids, order, column) for side, column in zip(SIDES, (a, b), strict=True) if column is not None
    }
    known = np.flatnonzero(np.all([numbers >= 0 for numbers in found.values()], axis=0))
    seconds = {
        side: np.broadcast_to(np.nan_to_num(np.asarray(wanted, np.float64)), len(a))[known]
        for side, wanted in (every or {}).items()
    }
    rows = PairRows(found["a"][known], found["b"][known] if "b" in found else None, seconds, known)
    return _without_repeated(rows, len(ids))


def _number(ids: NDArray[Any], order: NDArray[np.int64], column: NDArray[Any]) -> DeviceNumbers:
    """The number of each device in a column, -1 of one that is not known."""
    if not len(ids):
        return np.full(len(column), -1, np.int32)
    place = np.minimum(np.searchsorted(ids, column, sorter=order), len(ids) - 1)
    number = order[place]
    return np.where(ids[number] == column, number, -1).astype(np.int32)


def _without_repeated(rows: PairRows, devices: int) -> PairRows:
    key = rows.a.astype(np.int64) * devices + (0 if rows.b is None else rows.b)
    unique, first, pair = np.unique(key, return_index=True, return_inverse=True)
    if len(unique) == len(key):
        return rows
    every = {}
    for side, seconds in rows.every.items():
        least = np.full(len(unique), np.inf)
        np.minimum.at(least, pair, seconds)
        every[side] = least
    b = None if rows.b is None else rows.b[first]
    return PairRows(rows.a[first], b, every, rows.of[first])


def needed_rate(rates: Rates, devices: DeviceNumbers, every: Seconds | None) -> Rates:
    """The rate at which a stream of some devices is needed, by those who need a row that often at most."""
    there = rates[devices]
    if every is None:
        return there
    with np.errstate(divide="ignore"):
        return np.minimum(there, np.where(every > 0, 1.0 / every, np.inf))
