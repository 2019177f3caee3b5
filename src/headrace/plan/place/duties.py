"""From where pairs run to what devices do: who sends which stream how often, who takes whose, who runs what.

A device sends a stream up if some pair that needs it runs elsewhere, as often as the most demanding of these pairs
needs it. It takes the streams of the partners of the pairs that it runs, and the tables that these read; those of a
derived stream it takes wherever its pairs run. Whatever several pairs or templates need is sent and taken once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headrace.plan.place.pair_columns import DeviceFacts, Rates, Seconds, TemplateDemand
from headrace.plan.place.pairs import AT_A, AT_B, Where
from headrace.plan.place.place_templates import hosts_of

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SendDuty:
    """Devices that send a stream up, in the order of their numbers; every so many seconds at most (0: every row)."""

    device: Numbers
    every_s: Seconds


@dataclass(frozen=True, slots=True)
class TakeDuty:
    """Devices (`host`) that take a stream of others (`partner`), in the order of hosts, then of partners."""

    host: Numbers
    partner: Numbers
    every_s: Seconds


@dataclass(frozen=True, slots=True)
class RunDuty:
    """Pairs of a template that devices run, in the order of devices: `host` is the device, which is the pair's `side`
    (AT_A or AT_B), and `partner` the other one, -1 if there is none.
    """

    host: Numbers
    side: NDArray[np.uint8]
    partner: Numbers


@dataclass(frozen=True, slots=True)
class FamilyDuties:
    """`sends` and `takes` by stream, `tables` that devices take by table (numbers of devices), `runs` by template."""

    sends: Mapping[str, SendDuty]
    takes: Mapping[str, TakeDuty]
    tables: Mapping[str, Numbers]
    runs: Mapping[str, RunDuty]


class FamilyTraffic(NamedTuple):
    """Messages and bytes per second between devices and the cloud; `cost` is prices times messages."""

    messages_up: float
    messages_down: float
    bytes_up: float
    bytes_down: float
    cost: float

    @property
    def messages(self) -> float:
        return self.messages_up + self.messages_down

    @property
    def bytes(self) -> float:
        return self.bytes_up + self.bytes_down


class _Need(NamedTuple):
    """Pairs that need a stream: of which device, where they run (-1 in the cloud), and how often."""

    device: Numbers
    host: Numbers
    every_s: Seconds


def find_duties(wanted: Sequence[TemplateDemand], places: Sequence[Where], count: int) -> FamilyDuties:
    """What `count` devices do, for the pairs of all their templates."""
    needs: dict[str, list[_Need]] = {}
    runs, tables = {}, dict[str, list[Numbers]]()
    for one, where in zip(wanted, places, strict=True):
        hosts = hosts_of(one, where)
        for side in one.rows.sides:
            devices = one.rows.side(side).astype(np.int64)
            every = one.rows.every.get(side, np.zeros(len(devices)))
            for stream in one.streams[side]:
                needs.setdefault(stream, []).append(_Need(devices, hosts, every))
            for table in one.side_tables.get(side, ()):
                tables.setdefault(table, []).append(devices)
        runs[one.name] = _find_runs(one, where, hosts)
        for table in one.tables:
            tables.setdefault(table, []).append(runs[one.name].host)
    joined = {stream: _Need(*map(np.concatenate, zip(*found, strict=True))) for stream, found in needs.items()}
    return FamilyDuties(
        {stream: _find_sends(need) for stream, need in joined.items()},
        {stream: _find_takes(need, count) for stream, need in joined.items()},
        {table: np.unique(np.concatenate(hosts)) for table, hosts in tables.items()},
        runs,
    )


def _find_sends(need: _Need) -> SendDuty:
    away = np.flatnonzero(need.device != need.host)
    return SendDuty(*_find_most_often(need.device[away], need.every_s[away]))


def _find_takes(need: _Need, count: int) -> TakeDuty:
    here = np.flatnonzero((need.host >= 0) & (need.host != need.device))
    key, every_s = _find_most_often(need.host[here] * count + need.device[here], need.every_s[here])
    return TakeDuty(key // max(1, count), key % max(1, count), every_s)


def _find_most_often(key: Numbers, every_s: Seconds) -> tuple[Numbers, Seconds]:
    """Each key once, with the least of its seconds."""
    if not len(key):
        return key, every_s
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    return ordered[starts], np.minimum.reduceat(every_s[order], starts)


def _find_runs(one: TemplateDemand, where: Where, hosts: Numbers) -> RunDuty:
    here = np.flatnonzero(hosts >= 0)
    here = here[np.argsort(hosts[here], kind="stable")]
    none = np.full(len(here), -1, np.int64)
    partner = none if one.rows.b is None else np.where(where[here] == AT_A, one.rows.b[here], one.rows.a[here])
    return RunDuty(hosts[here], where[here], partner.astype(np.int64))


# What that sends


def measure_traffic(duties: FamilyDuties, devices: DeviceFacts) -> FamilyTraffic:
    up = {stream: _sum_rates(devices.rates[stream], one.device, one.every_s) for stream, one in duties.sends.items()}
    down = {stream: _sum_rates(devices.rates[stream], one.partner, one.every_s) for stream, one in duties.takes.items()}
    for table, hosts in duties.tables.items():
        down[table] = down.get(table, 0.0) + len(hosts) * devices.tables.get(table, 0.0)
    return FamilyTraffic(
        messages_up=sum(up.values()),
        messages_down=sum(down.values()),
        bytes_up=sum(rate * devices.sizes.get(name, 0.0) for name, rate in up.items()),
        bytes_down=sum(rate * devices.sizes.get(name, 0.0) for name, rate in down.items()),
        cost=devices.up * sum(rate * devices.weigh(name) for name, rate in up.items())
        + devices.down * sum(rate * devices.weigh(name) for name, rate in down.items()),
    )


def _sum_rates(rates: Rates, of: Numbers, every_s: Seconds) -> float:
    with np.errstate(divide="ignore"):
        return float(np.minimum(rates[of], np.where(every_s > 0, 1.0 / every_s, np.inf)).sum())


# One device's part


class DeviceDuties(NamedTuple):
    """What one device does. `sends` and `takes` are (stream, seconds) and (stream, partner, seconds); `runs` are
    partners by template and side, -1 alone for a template of one side.
    """

    sends: tuple[tuple[str, float], ...]
    takes: tuple[tuple[str, int, float], ...]
    tables: tuple[str, ...]
    runs: tuple[tuple[str, str, tuple[int, ...]], ...]


def duties_of(duties: FamilyDuties, devices: Iterable[int]) -> dict[int, DeviceDuties]:
    """What some devices do: all that a document says. A device without any duty has empty ones."""
    wanted = list(devices)
    sends = {name: _as_mapping(one.device, one.every_s) for name, one in duties.sends.items()}
    tables = {name: frozenset(hosts.tolist()) for name, hosts in duties.tables.items()}
    bounds = np.array([[device, device + 1] for device in wanted], np.int64).reshape(-1, 2)
    takes = {name: (np.searchsorted(one.host, bounds), one) for name, one in duties.takes.items()}
    runs = {name: (np.searchsorted(one.host, bounds), one) for name, one in duties.runs.items()}
    return {
        device: DeviceDuties(
            tuple((name, found[device]) for name, found in sends.items() if device in found),
            tuple(
                (name, partner, every)
                for name, (cuts, one) in takes.items()
                for partner, every in zip(
                    one.partner[slice(*cuts[place])].tolist(), one.every_s[slice(*cuts[place])].tolist(), strict=True
                )
            ),
            tuple(name for name, hosts in tables.items() if device in hosts),
            tuple(run for name, (cuts, one) in runs.items() for run in _cut_runs(name, one, slice(*cuts[place]))),
        )
        for place, device in enumerate(wanted)
    }


def _as_mapping(device: Numbers, every_s: Seconds) -> dict[int, float]:
    return dict(zip(device.tolist(), every_s.tolist(), strict=True))


def _cut_runs(name: str, one: RunDuty, part: slice) -> list[tuple[str, str, tuple[int, ...]]]:
    side, partner = one.side[part], one.partner[part]
    found = [(name, text, tuple(partner[side == at].tolist())) for at, text in ((AT_A, "a"), (AT_B, "b"))]
    return [run for run in found if run[2]]
