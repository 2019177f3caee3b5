"""A template as part of a catalogue: sources that the service writes, and ordinary views over them.

    phones/location, nearby_friends/placement, nearby_friends/reported     sources at the site of the devices' table
    phones/my_place          a source, too: rows of a view that devices compute themselves (`plan.place.levels`)
    nearby_friends/cloud     the lifted view (`plan.place.lifting`) over the pairs that no device runs
    nearby_friends           that, and what devices reported of the pairs that they run: what people read

A pair without a row in `placement` runs in the cloud: that is always right, if perhaps not cheap. What a device reports
counts while the placement names it: so a pair that moves is never there twice, whoever computes it meanwhile.

The engine knows nothing special of all this. Sizes of what is not there yet are those of everything in the cloud, which
is how a template begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Derivation, DerivationKind
from headrace.model.catalogue import (
    Catalogue,
    Contract,
    Devices,
    DeviceStream,
    MeasuredSize,
    Refresh,
    Refusal,
    Source,
    SourceColumn,
    Template,
    View,
)
from headrace.model.errors import UnsupportedSql
from headrace.model.expr import Call, Column, Expr, conjunction
from headrace.model.relation import (
    Distinct,
    Filter,
    Join,
    JoinKind,
    Output,
    Projection,
    Relation,
    Scan,
    UnionAll,
    fields_of,
    inputs_of,
    scans_of,
)
from headrace.model.rewrite import with_inputs
from headrace.model.statistics import rows_of
from headrace.model.template_names import (
    AT,
    REPORTED,
    REPORTER,
    name_cloud,
    name_placement,
    name_reported,
    name_stream,
)
from headrace.model.types import BOOLEAN, Type
from headrace.model.written_source import make_written_source
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.place.levels import derive_streams
from headrace.plan.place.lifting import PairWorld, lift, replace_pairs
from headrace.plan.place.stream_rows import find_columns, find_id_type, find_key, find_pair_world, stream_rate

FRESHNESS_S = 10.0
"""What is promised of a template's results if no contract says so."""

SECONDS_PER_WEEK = 604_800.0
"""A pair is assumed to change places once a week, until that is measured."""

ASSUMED_ON_DEVICES = 0.5
"""The share of pairs that devices are assumed to run, where what they report is estimated."""


def expand_templates(declared: Catalogue) -> Catalogue:
    """The catalogue with the relations behind its templates. One that has them already is left as it is."""
    declared = derive_streams(declared)
    for template in declared.templates.values():
        if template.program is None and template.view in declared.views:
            declared = _expand_template(declared, template)
    return declared


@dataclass(frozen=True, slots=True)
class TemplateWorld:
    """A template with what it is about. `id_type` is the type by which relations name devices."""

    template: Template
    devices: Devices
    table: Source
    per: Source
    id_type: Type

    @property
    def site(self) -> str:
        return self.table.site

    @property
    def pair(self) -> PairWorld:
        return find_pair_world(self.devices, self.id_type, self.template.sides)


def find_world(catalogue: Catalogue, template: Template) -> TemplateWorld:
    devices = catalogue.devices[template.devices]
    table, per = catalogue.sources[devices.table], catalogue.sources[template.table]
    return TemplateWorld(template, devices, table, per, find_id_type(catalogue, devices))


# What is added to the catalogue


def _expand_template(catalogue: Catalogue, template: Template) -> Catalogue:
    world = find_world(catalogue, template)
    root = catalogue.views[template.view]
    program = root.query if isinstance(root.query, Refusal) else lift(root.query, world.pair)
    sources = {**catalogue.sources, **_make_sources(catalogue, world, program)}
    made = (program, program) if isinstance(program, Refusal) else _make_results(world, program, sources)
    planned = replace(template, program=program, reads=_find_read(root))
    reads = (template.table, *(name for name in sources if name not in catalogue.sources), *planned.tables)
    cloud = View(name_cloud(template.name), "", made[0], reads, (), template.declared_at)
    results = replace(root, query=made[1], reads=reads)
    contracts = catalogue.contracts
    if not any(one.view == root.name for one in contracts.values()):
        contracts = {**contracts, template.name: _make_contract(world)}
    sizes = {} if isinstance(program, Refusal) else _estimate_sizes(world, *made)
    expanded = {**catalogue.views, cloud.name: cloud, root.name: results}
    views = {name: _read_results(one, results) for name, one in expanded.items()}
    return replace(
        catalogue,
        sources=sources,
        views=views,
        contracts=contracts,
        templates={**catalogue.templates, template.name: planned},
        sizes={**sizes, **catalogue.sizes},
    )


def _find_read(root: View) -> tuple[str, ...]:
    """Streams and tables that a view reads, also through other views."""
    scans = () if isinstance(root.query, Refusal) else scans_of(root.query)
    return tuple(sorted({scan.source for scan in scans}))


def _make_contract(world: TemplateWorld) -> Contract:
    return Contract(
        name=world.template.name,
        view=world.template.view,
        site=world.site,
        freshness_s=FRESHNESS_S,
        penalty=0.0,
        owner=None,
        deliver=None,
        refresh=Refresh.INCREMENTAL,
        declared_at=world.template.declared_at,
    )


def _read_results(view: View, results: View) -> View:
    """A view that reads the results of a template, which were a table of that name when it was read."""
    if view.name == results.name or isinstance(view.query, Refusal) or results.name not in view.reads:
        return view
    query = results.query
    return replace(view, query=query if isinstance(query, Refusal) else _replace_scans(view.query, results.name, query))


def _replace_scans(relation: Relation, name: str, query: Relation) -> Relation:
    if isinstance(relation, Scan):
        if relation.source != name:
            return relation
        named = zip(fields_of(relation), fields_of(query), strict=True)
        return Projection(query, tuple(Output(one.name, Column(other.name, other.type)) for one, other in named))
    return with_inputs(relation, tuple(_replace_scans(one, name, query) for one in inputs_of(relation)))


# Relations


def _make_results(world: TemplateWorld, program: Relation, sources: Mapping[str, Source]) -> tuple[Relation, Relation]:
    """What runs in the cloud, and all results."""
    placement = _scan(sources[name_placement(world.template.name)])
    reported = _scan(sources[name_reported(world.template.name)])
    cloud = replace_pairs(program, _pairs_in_cloud(world, placement))
    sides = tuple(world.template.sides)
    counts = (*_equal_sides(sides, reported, placement), _equal(_column(placement, AT), _column(reported, REPORTER)))
    joined = Join(JoinKind.INNER, reported, placement, conjunction(counts))
    shown = (*sides, *(one.name for one in fields_of(program)[len(sides) :]))
    told = Projection(joined, tuple(Output(name, _column(reported, name)) for name in shown))
    return cloud, UnionAll((cloud, told))


def _pairs_in_cloud(world: TemplateWorld, placement: Scan) -> Relation:
    every = pairs_of_rows(world)
    mine = {one.name: Column(one.name, one.type) for one in fields_of(every)}
    same = (_equal(mine[side], _column(placement, side)) for side in world.template.sides)
    return Join(JoinKind.ANTI, every, placement, conjunction(tuple(same)))


def pairs_of_rows(world: TemplateWorld) -> Relation:
    """All pairs of a template, each once. A row without a device is none."""
    rows = _scan(world.per)
    columns = {side: _column(rows, column) for side, column in world.template.sides.items()}
    there = tuple(Call("not", (Call("is_null", (one,), BOOLEAN),), BOOLEAN) for one in columns.values())
    is_key = set(world.per.key) == set(world.template.sides.values())
    outputs = tuple(
        Output(side, one if one.type == world.id_type else Call("cast", (one,), world.id_type))
        for side, one in columns.items()
    )
    pairs = Projection(rows if is_key else Filter(rows, conjunction(there)), outputs)
    return pairs if is_key else Distinct(pairs)


def _scan(source: Source) -> Scan:
    columns = source.columns or ()
    alias = f"/{source.name}"
    return Scan(source.name, alias, tuple(one.name for one in columns), tuple(one.type for one in columns))


def _column(rows: Scan, name: str) -> Column:
    return Column(f"{rows.alias}.{name}", rows.types[rows.columns.index(name)])


def _equal_sides(sides: tuple[str, ...], one: Scan, other: Scan) -> tuple[Expr, ...]:
    return tuple(_equal(_column(one, side), _column(other, side)) for side in sides)


def _equal(one: Expr, other: Expr) -> Expr:
    return Call("=", (one, other), BOOLEAN)


# Sources


def _make_sources(catalogue: Catalogue, world: TemplateWorld, program: Relation | Refusal) -> dict[str, Source]:
    streams = [_make_stream(catalogue, world, stream) for stream in world.devices.streams]
    found = {one.name: one for one in streams if one.name not in catalogue.sources}
    pairs, key = rows_of(world.per), tuple(world.template.sides)
    # Reports meet the placement in several columns that depend on each other, which estimates take for independent.
    # So the first is said to tell pairs apart, and the others nothing.
    counts = {side: max(1.0, pairs * ASSUMED_ON_DEVICES) if side == key[0] else 1.0 for side in key}
    sides = tuple(SourceColumn(side, world.id_type, distinct=count) for side, count in counts.items())
    there = SourceColumn(AT, world.id_type, distinct=1.0)
    placement = _make_source(world, name_placement(world.template.name), (*sides, there), key)
    found[placement.name] = replace(placement, rows=pairs * ASSUMED_ON_DEVICES, rate=2 * pairs / SECONDS_PER_WEEK)
    results = () if isinstance(program, Refusal) else fields_of(program)[len(key) :]
    columns = (
        SourceColumn(REPORTER, world.id_type, distinct=1.0),
        *sides,
        *(SourceColumn(name, type_) for name, type_ in REPORTED.items()),
        *(SourceColumn(one.name, one.type) for one in results),
    )
    reported = _make_source(world, name_reported(world.template.name), columns, (REPORTER, *key, *REPORTED))
    changes = sum(one.rate or 0.0 for one in streams)
    found[reported.name] = replace(reported, rows=pairs * ASSUMED_ON_DEVICES, rate=changes * ASSUMED_ON_DEVICES)
    return found


def _make_stream(catalogue: Catalogue, world: TemplateWorld, stream: DeviceStream) -> Source:
    """Each new row of a device takes the place of another one, or of one that is too old in the end."""
    devices, rows_s = rows_of(world.table), _find_sent_rate(catalogue, world.devices, stream)
    rows = devices if stream.keep_s is None else devices * max(1.0, rows_s * stream.keep_s)
    device, *others = find_columns(stream, world.id_type)
    columns = (replace(device, distinct=devices), *others)
    made = _make_source(world, name_stream(world.devices.name, stream.name), columns, find_key(stream))
    return replace(made, rows=rows, rate=2 * devices * rows_s)


def _find_sent_rate(catalogue: Catalogue, devices: Devices, stream: DeviceStream) -> float:
    """Rows per second that a device sends: no more than the most demanding template needs."""
    wanted = []
    for template in (one for one in catalogue.templates.values() if one.devices == devices.name):
        view = catalogue.views.get(template.view)
        known = template if template.reads or view is None else replace(template, reads=_find_read(view))
        wanted += [template.every.get(side) for side, read in known.streams.items() if stream.name in read]
    needed = [1.0 / every if isinstance(every, float) else stream_rate(stream) for every in wanted]
    return min(stream_rate(stream), max(needed, default=stream_rate(stream)))


def _make_source(world: TemplateWorld, name: str, columns: tuple[SourceColumn, ...], key: tuple[str, ...]) -> Source:
    return make_written_source(name, world.site, columns, key, world.template.declared_at)


def _estimate_sizes(world: TemplateWorld, cloud: Relation, results: Relation) -> dict[str, MeasuredSize]:
    """What is known of the pairs in the cloud, and better than an estimate: at first these are all.

    An estimate would take sides for independent of each other, and find next to no pair on a device.
    """
    template = world.template
    placement, pairs = name_placement(template.name), rows_of(world.per)
    flips_s = 2 * pairs / SECONDS_PER_WEEK
    found = {}
    try:
        blocks = (*blocks_of(name_cloud(template.name), cloud), *blocks_of(template.view, results))
    except UnsupportedSql:
        return {}
    for block in blocks:
        is_anti = isinstance(block.top, Derivation) and block.top.kind is DerivationKind.ANTI
        if is_anti and any(one.source == placement for one in block.inputs):
            found[block.fingerprint] = MeasuredSize(pairs, flips_s, {placement: flips_s}, assumed=True)
    return found
