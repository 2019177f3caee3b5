"""Which views devices compute and send in place of the streams that these read: the levels of a template.

    my_place       a.location, places       a view of one side. Its rows change more seldom than the stream does
    their_place    b.location, places       the same for the other side: one stream, since a device is on both sides
    together       my_place, their_place    reads `a.my_place` and `b.my_place` as if they were declared streams

An operator between levels is then a stream like any other (RACE, fig. 15): it is sent, placed by its rate and read by
partners and by the cloud. A device computes it wherever its pairs run. Since a value that equals the one before is not
sent, it is sent at most as often as what it is made of. So that this holds for all that a device sends, a stream is
either sent or made into one other stream, never both. A side that reads anything beside one such view stays as it is,
or results would be made of rows that were never there together. So do devices that hold a limited number of views.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.meaning.deltas import reads_time
from headrace.meaning.functions import PYTHON_PREFIX
from headrace.model.catalogue import (
    Catalogue,
    DerivedFrom,
    Devices,
    DeviceStream,
    Refusal,
    SourceColumn,
    Template,
    View,
)
from headrace.model.errors import UnsupportedSql
from headrace.model.expr import Call, Column, Expr
from headrace.model.relation import Output, Projection, Relation, Scan, fields_of, inputs_of, scans_of
from headrace.model.rewrite import expressions_of, with_inputs
from headrace.model.statistics import row_width_of
from headrace.model.template_names import DEVICE, POSITION, SIDES, read_side
from headrace.model.type_names import type_named
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.place.lifting import lift, stays_empty
from headrace.plan.place.stream_rows import find_id_type, find_pair_world, stream_rate

LARGEST_TABLES = 100_000
"""Bytes of the tables that every device is sent to compute a view, as they are declared."""
TABLES_CHANGE = 0.1
"""What changes of these tables may cost, as a part of what sending the streams would."""
LONGEST_NAME = 200


def derive_streams(declared: Catalogue) -> Catalogue:
    """The catalogue whose devices have derived streams, and whose templates read these."""
    taken = {stream.name for devices in declared.devices.values() for stream in devices.streams}
    taken |= declared.templates.keys()
    for name in declared.devices:
        declared = _derive_of_group(declared, name, taken)
    return declared


@dataclass(frozen=True, slots=True)
class _Level:
    """A view of one side of a template as the stream that it could be."""

    template: str
    side: str
    view: str
    stream: DeviceStream

    @property
    def made_of(self) -> DerivedFrom:
        assert self.stream.derived is not None
        return self.stream.derived


def _derive_of_group(catalogue: Catalogue, group: str, taken: set[str]) -> Catalogue:
    devices = catalogue.devices[group]
    templates = [one for one in catalogue.templates.values() if one.devices == group]
    if devices.capacity is not None or any(one.program is not None for one in templates):
        return catalogue
    found = [level for one in templates for level in _find_levels(catalogue, devices, one, taken)]
    levels = _leave_out_shared(catalogue, templates, _join_equal(found))
    if not levels:
        return catalogue
    streams = {level.stream.name: level.stream for level in levels}
    taken |= streams.keys()
    views, declared = dict(catalogue.views), {stream.name for stream in devices.streams}
    inner = {name: one for name, one in views.items() if name not in declared}
    for template in templates:
        mine = {f"{one.side}.{one.view}": one for one in levels if one.template == template.name}
        root = views.get(template.view)
        if mine and root is not None and root.levels is not None:
            views[root.name] = replace(root, query=_read_streams(root.levels, mine, inner))
    made = replace(devices, streams=(*devices.streams, *streams.values()))
    return replace(catalogue, devices={**catalogue.devices, group: made}, views=views)


# Views that could be streams


def _find_levels(catalogue: Catalogue, devices: Devices, template: Template, taken: set[str]) -> Iterator[_Level]:
    root = catalogue.views.get(template.view)
    if root is None or root.levels is None or template.b is None:
        return
    for side in SIDES:
        read = {found[1] for scan in scans_of(root.levels) if (found := read_side(scan.source)) and found[0] == side}
        view = catalogue.views.get(next(iter(read))) if len(read) == 1 else None
        if view is not None and view.name not in taken and len(view.name) <= LONGEST_NAME:
            stream = _make_stream(catalogue, devices, view)
            if stream is not None:
                yield _Level(template.name, side, view.name, stream)


def _make_stream(catalogue: Catalogue, devices: Devices, view: View) -> DeviceStream | None:
    """The view as a stream; None if it has to stay as it is."""
    if isinstance(view.query, Refusal):
        return None
    query = _turn_to_a(view.query)
    world = find_pair_world(devices, find_id_type(catalogue, devices), SIDES[:1])
    read = sorted({scan.source for scan in scans_of(query)})
    names = {found[1] for name in read if (found := read_side(name)) is not None}
    streams = [one for one in devices.streams if one.name in names]
    tables = tuple(name for name in read if read_side(name) is None)
    if (
        not streams
        or any(one.keep_s is not None for one in streams)
        or not _can_send(query)
        or not stays_empty(query, world)
        or not _are_small(catalogue, devices, tables, streams)
    ):
        return None
    rates = [stream_rate(one) for one in streams]
    columns = tuple(SourceColumn(one.name, one.type) for one in fields_of(query))
    made_of = DerivedFrom(lift(query, world), tuple(one.name for one in streams), tables)
    priority = max(one.priority for one in streams)
    return DeviceStream(view.name, columns, sum(rates), priority=priority, derived=made_of)


def _turn_to_a(query: Relation) -> Relation:
    """The view of a side as that of side a."""
    if isinstance(query, Scan):
        found = read_side(query.source)
        return query if found is None else replace(query, source=f"{SIDES[0]}.{found[1]}")
    return with_inputs(query, tuple(map(_turn_to_a, inputs_of(query))))


def _can_send(query: Relation) -> bool:
    """Whether it changes with what it reads alone, is made of what every device has, and its rows can be sent."""
    fields = fields_of(query)
    if any(one.name in (DEVICE, POSITION) or type_named(str(one.type)) != one.type for one in fields):
        return False
    waiting: list[Relation] = [query]
    while waiting:
        one = waiting.pop()
        if reads_time(one) or any(map(_calls_python, expressions_of(one))):
            return False
        waiting += inputs_of(one)
    return True


def _calls_python(expr: Expr) -> bool:
    if not isinstance(expr, Call):
        return False
    return expr.function.startswith(PYTHON_PREFIX) or any(map(_calls_python, expr.arguments))


def _are_small(catalogue: Catalogue, devices: Devices, tables: tuple[str, ...], streams: list[DeviceStream]) -> bool:
    """Whether every device may have these tables. What is declared counts, not what is measured: a view that is a
    stream at one time and none at another would be computed anew each time.
    """
    sources = [catalogue.sources[name] for name in tables if name in catalogue.sources]
    if len(sources) < len(tables) or any(one.rows is None for one in sources):
        return False
    if any(one.rate is None and not one.static for one in sources):
        return False
    size = sum((one.rows or 0.0) * row_width_of(one) for one in sources)
    changes = sum(0.0 if one.static else one.rate or 0.0 for one in sources)
    most = TABLES_CHANGE * devices.up * sum(map(stream_rate, streams))
    return size <= LARGEST_TABLES and devices.down * changes <= most


def _join_equal(levels: list[_Level]) -> list[_Level]:
    """Views that mean the same as an earlier one are that one."""
    found: list[_Level] = []
    for level in levels:
        same = next((one for one in found if _are_equal(one.stream, level.stream)), level)
        found.append(replace(level, stream=same.stream))
    return found


def _are_equal(one: DeviceStream, other: DeviceStream) -> bool:
    if one.columns != other.columns or one.derived is None or other.derived is None:
        return False
    try:
        return blocks_of("/view", one.derived.program) == blocks_of("/view", other.derived.program)
    except UnsupportedSql:
        return one.derived.program == other.derived.program


def _leave_out_shared(catalogue: Catalogue, templates: list[Template], levels: list[_Level]) -> list[_Level]:
    """The levels whose streams are read by nothing else."""
    while True:
        readers: dict[str, set[str]] = {}
        for template in templates:
            mine = {one.side: one for one in levels if one.template == template.name}
            for side, stream in _find_streams(catalogue.views.get(template.view)):
                readers.setdefault(stream, set()).add(mine[side].stream.name if side in mine else "")
        left = [one for one in levels if all(len(readers[stream]) == 1 for stream in one.made_of.streams)]
        if len(left) == len(levels):
            return left
        levels = left


def _find_streams(root: View | None) -> set[tuple[str, str]]:
    scans = () if root is None or isinstance(root.query, Refusal) else scans_of(root.query)
    return {found for scan in scans if (found := read_side(scan.source)) is not None}


# The view that reads them


def _read_streams(levels: Relation, mine: Mapping[str, _Level], views: Mapping[str, View]) -> Relation:
    """The view of a template over streams where there are some, and over what they would be made of elsewhere."""
    if isinstance(levels, Scan):
        found = read_side(levels.source)
        if levels.source in mine:
            level = mine[levels.source]
            return replace(levels, source=f"{level.side}.{level.stream.name}")
        inner = None if found is None else views.get(found[1])
        if inner is None or isinstance(inner.query, Refusal):
            return levels
        named = zip(fields_of(levels), fields_of(inner.query), strict=True)
        return Projection(inner.query, tuple(Output(one.name, Column(other.name, other.type)) for one, other in named))
    return with_inputs(levels, tuple(_read_streams(one, mine, views) for one in inputs_of(levels)))
