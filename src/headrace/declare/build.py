"""Entries to values of the model. Defaults that depend on other fields are applied here and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from headrace.declare.entries import Entries
from headrace.declare.project_file import (
    ColumnFields,
    ContractEntry,
    DevicesEntry,
    EngineEntry,
    FunctionEntry,
    SiteEntry,
    SourceEntry,
    TemplateEntry,
)
from headrace.model.catalogue import (
    STREAMING,
    STREAMING_S,
    Contract,
    Devices,
    DeviceStream,
    Headroom,
    Host,
    Link,
    OperatorTime,
    PythonFunction,
    Site,
    Source,
    SourceColumn,
    SourceKind,
    Stays,
    Template,
)
from headrace.model.errors import Location
from headrace.model.options import DeclaredEngine
from headrace.model.template_names import AT, SIDES
from headrace.model.types import TIMESTAMP

OPERATOR_TIMES: Mapping[str, OperatorTime] = MappingProxyType(
    {
        "capture": OperatorTime(0, 0, 0),
        "copy": OperatorTime(0.02, 2e-6, 0),
        "join": OperatorTime(0.15, 2e-6, 4e-6),
        "union": OperatorTime(0.02, 0, 1e-6),
        "apply": OperatorTime(0.05, 1.5e-5, 0),
        "aggregate": OperatorTime(0.15, 5e-6, 0),
        "derive": OperatorTime(0.15, 5e-6, 0),
    }
)
"""What was measured on the warm engine, in seconds."""

HEADROOM = Headroom(cpu=0.3, link=0.1, blocking_s=None)
NO_HEADROOM = Headroom(cpu=0.0, link=0.0, blocking_s=0.0)
"""For a published workload: its operator times are declared, and its numbers leave nothing free."""


def build_hosts(entries: Entries) -> dict[str, Host]:
    where = entries.document.key_at
    return {name: Host(name, entry.cores, where(("hosts", name))) for name, entry in entries.hosts.items()}


def build_sites(entries: Entries) -> dict[str, Site]:
    where = entries.document.key_at
    return {name: _build_site(name, entry, where(("sites", name))) for name, entry in entries.sites.items()}


def _build_site(name: str, entry: SiteEntry, where: Location) -> Site:
    return Site(
        name=name,
        cpu_price_h=entry.cpu,
        disk_price_gb_month=entry.disk,
        cores=entry.cores,
        disk_capacity=entry.disk_capacity,
        speed=entry.speed,
        host=entry.host,
        declared_at=where,
        engine=None if entry.engine is None else _engine(entry.engine),
    )


def build_engine(entries: Entries) -> DeclaredEngine:
    """The project's own; sites may have others."""
    return DeclaredEngine() if entries.fields is None else _engine(entries.fields.engine)


def _engine(entry: EngineEntry) -> DeclaredEngine:
    return DeclaredEngine(entry.kind, entry.master, entry.cores, entry.memory, entry.properties, entry.standing)


def build_links(entries: Entries) -> tuple[Link, ...]:
    where = entries.document.value_at
    return tuple(
        Link(src, dst, entry.bandwidth, entry.latency, entry.price, where(("links", position)), entry.limit)
        for position, entry in entries.links.items()
        for src, dst in entry.directions()
    )


def build_sources(entries: Entries) -> dict[str, Source]:
    where = entries.document.key_at
    return {name: _source(name, entry, where(("sources", name))) for name, entry in entries.sources.items()}


def _source(name: str, entry: SourceEntry, where: Location) -> Source:
    return Source(
        name=name,
        kind=entry.kind,
        site=entry.at,
        key=tuple(entry.key),
        columns=None if entry.columns is None else _build_columns(entry.columns),
        rows=entry.rows,
        rate=entry.rate,
        static=entry.static,
        parent_first=entry.parent_first,
        stays=Stays(tuple(entry.stays.sites), entry.stays.aggregates is not None) if entry.stays else None,
        time=entry.time,
        retention_s=entry.retention,
        origin=next((origin.to_origin() for origin in entry.origins().values()), None),
        declared_at=where,
        joins_as_of_event=entry.joins == "as_of_event",
        has_trigger=entry.postgres is not None and entry.postgres.watch is not None,
    )


def unknown_source(name: str, entries: Entries) -> Source:
    """Stands for a source that could not be read."""
    return _source(name, SourceEntry(kind=SourceKind.TABLE, at="unknown"), entries.document.key_at(("sources", name)))


def _build_columns(entries: Mapping[str, ColumnFields]) -> tuple[SourceColumn, ...]:
    return tuple(
        SourceColumn(name, entry.type.type, entry.width, entry.distinct, entry.type.origin_type)
        for name, entry in entries.items()
    )


def build_contracts(entries: Entries) -> dict[str, Contract]:
    where = entries.document.key_at
    return {name: _build_contract(name, entry, where(("contracts", name))) for name, entry in entries.contracts.items()}


def _build_contract(name: str, entry: ContractEntry, where: Location) -> Contract:
    return Contract(
        name=name,
        view=entry.view,
        site=entry.at,
        freshness_s=STREAMING_S if entry.freshness == STREAMING else entry.freshness,
        penalty=entry.penalty,
        owner=entry.owner,
        deliver=None if entry.deliver is None else entry.deliver.to_place(),
        refresh=entry.refresh,
        declared_at=where,
        streaming=entry.freshness == STREAMING,
    )


def build_devices(entries: Entries) -> dict[str, Devices]:
    where = entries.document.key_at
    return {name: _devices(name, entry, where(("devices", name))) for name, entry in entries.devices.items()}


def _devices(name: str, entry: DevicesEntry, where: Location) -> Devices:
    streams = tuple(
        DeviceStream(stream, _build_columns(fields.columns), fields.rate, fields.keep, fields.priority)
        for stream, fields in entry.streams.items()
    )
    return Devices(
        name=name,
        table=entry.table,
        id=entry.id,
        up=entry.up,
        down=entry.down,
        capacity=entry.capacity,
        streams=streams,
        declared_at=where,
        broker=None if entry.broker is None else entry.broker.mqtt,
        buffer_bytes=entry.buffer,
        forget_s=entry.forget,
    )


def build_templates(entries: Entries) -> dict[str, Template]:
    where = entries.document.key_at
    return {name: _template(name, entry, where(("templates", name))) for name, entry in entries.templates.items()}


def _template(name: str, entry: TemplateEntry, where: Location) -> Template:
    return Template(
        name=name,
        table=entry.per.table,
        a=entry.per.a,
        b=entry.per.b,
        devices=entry.devices,
        view=entry.view,
        declared_at=where,
        every=entry.every,
        notify=entry.notify,
    )


def build_functions(entries: Entries) -> dict[str, PythonFunction]:
    where = entries.document.key_at
    return {name: _function(name, entry, where(("functions", name))) for name, entry in entries.functions.items()}


def _function(name: str, entry: FunctionEntry, where: Location) -> PythonFunction:
    return PythonFunction(name, entry.python, tuple(entry.arguments), entry.returns, entry.version, where)


def build_operator_times(entries: Entries) -> dict[str, OperatorTime]:
    """What is declared, field by field, over the defaults."""
    times = dict(OPERATOR_TIMES)
    for name, entry in entries.operator_times.items():
        default = times[name]
        times[name] = OperatorTime(
            fixed=default.fixed if entry.fixed is None else entry.fixed,
            per_in=default.per_in if entry.per_in is None else entry.per_in,
            per_out=default.per_out if entry.per_out is None else entry.per_out,
        )
    return times


def build_headroom(entries: Entries) -> Headroom:
    default = NO_HEADROOM if entries.operator_times else HEADROOM
    entry = entries.fields.headroom if entries.fields else None
    if entry is None:
        return default
    return Headroom(
        cpu=default.cpu if entry.cpu is None else entry.cpu,
        link=default.link if entry.link is None else entry.link,
        blocking_s=entry.blocking if "blocking" in entry.model_fields_set else default.blocking_s,
    )


def device_sources(devices: Devices, site: str, sides: Iterable[str] = SIDES) -> dict[str, Source]:
    """The streams of a template's devices as SQL reads them: `a.location`, `b.location`, with the time of each row.

    Each holds one row, the device's latest, or those of some time. So to a query they are tables, not streams.
    """
    return {
        f"{side}.{stream.name}": Source(
            name=f"{side}.{stream.name}",
            kind=SourceKind.TABLE,
            site=site,
            key=(),
            columns=(*stream.columns, SourceColumn(AT, TIMESTAMP)),
            rows=1.0,
            rate=stream.rate,
            static=False,
            parent_first=False,
            stays=None,
            time=None,
            retention_s=None,
            origin=None,
            declared_at=devices.declared_at,
        )
        for stream in devices.streams
        for side in sides
    }
