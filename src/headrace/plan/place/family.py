"""Templates in a plan: one vertex for the family of all pairs of a template, with what travels for it.

    rows of tables  --place_group-->  PlacedGroup: where each pair of the templates over a group of devices runs
    a plan with their contracts  --describe_templates-->  TemplatePlan: messages, bytes, load on sites; or the refusal

A template is refused if none of its contracts can be kept. Without rows nobody knows who is whose partner: then it is
told what everything in the cloud would send, which is the most that a placement sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.model.catalogue import Catalogue, Devices, DeviceStream, Refusal, Template
from headrace.model.plan import Plan, Rejection
from headrace.model.statistics import distinct_of, rate_of, rows_of, width_of
from headrace.model.template_plan import DeviceTraffic, TemplatePlan
from headrace.plan.live import Live
from headrace.plan.place.duties import FamilyTraffic, find_duties, measure_traffic
from headrace.plan.place.expansion import TemplateWorld, find_world
from headrace.plan.place.pair_columns import DeviceFacts, Rates, TemplateDemand, make_demand, number_pairs
from headrace.plan.place.place_templates import PlacedTemplates, place_templates
from headrace.plan.place.stream_rows import stream_rate
from headrace.plan.price import Promise, tariff_of
from headrace.plan.share.arrangement import collect_graph

MESSAGE_BYTES = 35.0
"""Of a message beside its values: its topic, its number and its time, as JSON in an MQTT publish."""

Columns = Mapping[str, NDArray[Any]]
"""Columns of a table by name. A NULL in a column of numbers is NaN."""

ReadRows = Mapping[str, Columns | str]
"""Columns by source; a text says why they were not read."""


@dataclass(frozen=True, slots=True)
class PlacedGroup:
    """Where all pairs over a group of devices run. `ids` name the devices, whose numbers are their places there."""

    devices: Devices
    ids: NDArray[Any]
    wanted: tuple[TemplateDemand, ...]
    facts: DeviceFacts
    placed: PlacedTemplates

    def find(self, template: str) -> int | None:
        return next((number for number, one in enumerate(self.wanted) if one.name == template), None)


def find_needed_columns(catalogue: Catalogue) -> dict[str, tuple[str, ...]]:
    """What has to be read of which sources to place the templates of a catalogue."""
    found: dict[str, dict[str, None]] = {}
    for template in catalogue.templates.values():
        devices = catalogue.devices[template.devices]
        mine = found.setdefault(devices.table, {})
        mine[devices.id] = None
        if isinstance(devices.capacity, str):
            mine[devices.capacity] = None
        per = found.setdefault(template.table, {})
        per.update(dict.fromkeys(template.sides.values()))
        per.update(dict.fromkeys(every for every in template.every.values() if isinstance(every, str)))
    return {source: tuple(columns) for source, columns in found.items()}


def place_group(
    catalogue: Catalogue, devices: Devices, rows: Mapping[str, Columns], rates: Mapping[str, Rates] | None = None
) -> PlacedGroup:
    """The placement of all templates over a group of devices whose tables were read.

    The catalogue is that of a plan. `rates` are rows per second of streams, by device in the order of the devices'
    table: those that were measured take the place of declared ones.
    """
    ids = np.asarray(rows[devices.table][devices.id])
    capacity = _find_capacity(devices, rows[devices.table], len(ids))
    wanted = tuple(
        make_demand(template, devices, _number(template, rows[template.table], ids))
        for template in catalogue.templates.values()
        if template.devices == devices.name and not isinstance(template.program, Refusal)
    )
    facts = make_facts(catalogue, devices, len(ids), capacity, rates or {})
    return PlacedGroup(devices, ids, wanted, facts, place_templates(wanted, facts))


def _number(template: Template, columns: Columns, ids: NDArray[Any]) -> Any:
    every = {side: columns[one] if isinstance(one, str) else one for side, one in template.every.items()}
    return number_pairs(ids, columns[template.a], None if template.b is None else columns[template.b], every)


def _find_capacity(devices: Devices, columns: Columns, count: int) -> NDArray[np.int64] | None:
    if devices.capacity is None:
        return None
    if isinstance(devices.capacity, int):
        return np.full(count, devices.capacity, np.int64)
    return np.nan_to_num(columns[devices.capacity].astype(np.float64)).astype(np.int64)


def make_facts(
    catalogue: Catalogue,
    devices: Devices,
    count: int,
    capacity: NDArray[np.int64] | None,
    rates: Mapping[str, Rates],
) -> DeviceFacts:
    own = (one for one in catalogue.templates.values() if one.devices == devices.name)
    tables = {table for one in own for table in one.tables}
    tables |= {table for made in devices.derived.values() for table in made.tables}
    sizes = {stream.name: find_message_bytes(stream) for stream in devices.streams}
    sizes |= {name: MESSAGE_BYTES + sum(map(width_of, catalogue.sources[name].columns or ())) for name in tables}
    return DeviceFacts(
        count=count,
        up=devices.up,
        down=devices.down,
        rates={one.name: rates.get(one.name, np.full(count, stream_rate(one))) for one in devices.streams},
        tables={name: rate_of(catalogue.sources[name]) for name in tables},
        sizes=sizes,
        capacity=capacity,
    )


def find_message_bytes(stream: DeviceStream) -> float:
    return MESSAGE_BYTES + sum(map(width_of, stream.columns))


# Templates in a plan


def with_templates(plan: Plan, rows: ReadRows | None = None) -> Plan:
    """The plan with its templates, for whose contracts it was made. `rows` of their tables were read, or not."""
    return replace(plan, templates=describe_templates(plan, rows or {}))


def describe_templates(plan: Plan, rows: ReadRows) -> tuple[TemplatePlan, ...]:
    groups = place_groups(plan.catalogue, rows)
    known = (one for one in plan.catalogue.templates.values() if one.program is not None)
    return tuple(_describe(plan, template, groups, rows) for template in known)


def place_groups(catalogue: Catalogue, rows: ReadRows) -> dict[str, PlacedGroup]:
    """The placements of groups all of whose tables were read."""
    found = {}
    for devices in catalogue.devices.values():
        tables = [one.table for one in catalogue.templates.values() if one.devices == devices.name]
        read = {
            name: columns for name in (devices.table, *tables) if not isinstance(columns := rows.get(name, ""), str)
        }
        if tables and read.keys() == {devices.table, *tables}:
            found[devices.name] = place_group(catalogue, devices, read)
    return found


def _describe(plan: Plan, template: Template, groups: Mapping[str, PlacedGroup], rows: ReadRows) -> TemplatePlan:
    world = find_world(plan.catalogue, template)
    parts = tuple(name for name, one in plan.catalogue.contracts.items() if one.view == template.view)
    cpu, link, disk = _measure_views(plan, parts)
    refused = _find_refusal(plan, parts)
    group = groups.get(template.devices)
    number = None if group is None else group.find(template.name)
    figures = _estimate(plan.catalogue, template, rows) if group is None or number is None else _count(group, number)
    return TemplatePlan(
        template=template.name,
        site=world.site,
        vertex=f"t:{template.name}@{world.site}",
        view=template.view,
        group=template.devices,
        contracts=parts,
        devices=figures.devices,
        pairs=figures.pairs,
        all_cloud=figures.all_cloud,
        placed=figures.placed,
        on_devices=figures.on_devices,
        method=figures.method,
        unread=figures.unread,
        cpu=cpu,
        link=link,
        disk=disk,
        reason=None if refused is None else refused.reason,
        detail="" if refused is None else refused.detail,
        smallest_staleness_s=None if refused is None else refused.smallest_staleness_s,
        derived=_find_derived(world),
    )


def _find_derived(world: TemplateWorld) -> tuple[str, ...]:
    read = {stream for streams in world.template.streams.values() for stream in streams}
    return tuple(sorted(read & world.devices.derived.keys()))


@dataclass(frozen=True, slots=True)
class _Figures:
    devices: float
    pairs: float
    all_cloud: DeviceTraffic
    placed: DeviceTraffic | None = None
    on_devices: int | None = None
    method: str = ""
    unread: str = ""


def _count(group: PlacedGroup, number: int) -> _Figures:
    """What travels for one template alone. What it shares with others is counted for each."""
    one, where = group.wanted[number], group.placed.where[number]
    in_cloud = find_duties((one,), (np.zeros_like(where),), group.facts.count)
    placed = find_duties((one,), (where,), group.facts.count)
    return _Figures(
        devices=len(group.ids),
        pairs=len(one.rows),
        all_cloud=_write_traffic(measure_traffic(in_cloud, group.facts)),
        placed=_write_traffic(measure_traffic(placed, group.facts)),
        on_devices=int(np.count_nonzero(where)),
        method=group.placed.method,
    )


def _write_traffic(found: FamilyTraffic) -> DeviceTraffic:
    return DeviceTraffic(*found)


def _estimate(catalogue: Catalogue, template: Template, rows: ReadRows) -> _Figures:
    """Everything in the cloud, for as many devices as the tables are said to name."""
    world = find_world(catalogue, template)
    devices, pairs = rows_of(world.table), rows_of(world.per)
    columns = {one.name: one for one in world.per.columns or ()}
    named = {
        side: min(devices, distinct_of(world.per, columns[column]) if column in columns else devices)
        for side, column in template.sides.items()
    }
    messages = bytes_s = down = down_bytes_s = 0.0
    facts = make_facts(catalogue, world.devices, 1, None, {})
    for stream in world.devices.streams:
        sides = [side for side in template.sides if stream.name in template.streams[side]]
        # Nobody knows who is on both sides: whoever is on one may be on the other.
        senders = max((named[side] for side in sides), default=0.0)
        rate = max((_needed_rate(stream, template.every.get(side)) for side in sides), default=0.0)
        messages += senders * rate
        bytes_s += senders * rate * facts.sizes[stream.name]
        for table in () if stream.derived is None else stream.derived.tables:
            down += senders * facts.tables[table]
            down_bytes_s += senders * facts.tables[table] * facts.sizes[table]
    names = (world.devices.table, template.table)
    unread = next((why for name in names if isinstance(why := rows.get(name), str)), "its tables were not read")
    cost = messages * world.devices.up + down * world.devices.down
    return _Figures(devices, pairs, DeviceTraffic(messages, down, bytes_s, down_bytes_s, cost), unread=unread)


def _needed_rate(stream: DeviceStream, every: float | str | None) -> float:
    return min(stream_rate(stream), 1.0 / every) if isinstance(every, float) else stream_rate(stream)


def _find_refusal(plan: Plan, parts: tuple[str, ...]) -> Rejection | None:
    """Why a template is refused: it is, if all of its contracts are."""
    refused = [one for one in plan.rejected if one.contract in parts]
    return refused[0] if refused and len(refused) == len(parts) else None


def _measure_views(
    plan: Plan, parts: tuple[str, ...]
) -> tuple[dict[str, float], dict[tuple[str, str], float], dict[str, float]]:
    """What serves the contracts of a template: cores and bytes at sites, bytes per second over links."""
    kept = [one for one in plan.contracts if one.contract in parts]
    promises = tuple(Promise(one.contract, one.vertex, one.batch_s, one.freshness_s) for one in kept)
    graph = collect_graph(plan.graph, (promise.vertex for promise in promises))
    totals = Live(tariff_of(plan.catalogue), graph, promises).bill.totals()
    return dict(totals.cpu), dict(totals.link), dict(totals.disk)
