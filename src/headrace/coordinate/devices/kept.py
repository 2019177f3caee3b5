"""Which templates of a plan run, and what the placement loop needs of each: its rows, its sources, its terms."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa

from headrace.meaning.python_functions import Functions
from headrace.model.catalogue import Catalogue, Devices, Refusal, Source, Template
from headrace.model.device_messages import StreamShape
from headrace.model.log import Log
from headrace.model.plan import Plan
from headrace.model.relation import Field, Output, Relation
from headrace.model.template_names import name_placement, name_reported, name_rows, name_stream
from headrace.model.types import Type
from headrace.model.wire import write_wire
from headrace.plan.place.device_documents import DerivedTerms, DocumentTerms, GroupTerms, TemplateTerms
from headrace.plan.place.family import find_message_bytes
from headrace.plan.place.instance import Device
from headrace.run.compile.columns import serving_log, view_outputs
from headrace.run.ports import Store
from headrace.run.program import Program
from headrace.run.views.view import rows_at

WRITER = "headrace"
DIGITS = 16


@dataclass(frozen=True, slots=True)
class FollowedRows:
    """Rows of a source as they were captured: their log, the columns of its files, and how rows are made of them."""

    log: str
    columns: tuple[Field, ...]
    outputs: tuple[Output, ...]
    functions: Functions = ()

    def read(self, store: Store, log: Log) -> pa.Table:
        return rows_at(store, log, self.columns, self.outputs, log.t, self.functions)


@dataclass(frozen=True, slots=True)
class KeptTemplate:
    """`sides` are the columns of its table by side, `every` those with the seconds that a side asks for."""

    terms: TemplateTerms
    template: Template
    id_type: Type
    sides: Mapping[str, str]
    every: Mapping[str, str]
    rows: FollowedRows
    placement_rows: FollowedRows
    placement: Source
    reported: Source

    @property
    def streams(self) -> frozenset[str]:
        """Those that its view reads, of whichever side."""
        return frozenset(stream for streams in self.terms.streams.values() for stream in streams)


@dataclass(frozen=True, slots=True)
class KeptGroup:
    """`kind` has its prices, and its capacity where that is the same for all; else `capacity` is the column. `unread`
    are streams that no template reads, so that nobody captures their rows.
    """

    devices: Devices
    terms: GroupTerms
    kind: Device
    rows: FollowedRows
    capacity: str | None
    id_type: Type
    streams: Mapping[str, Source]
    unread: frozenset[str] = frozenset()

    @property
    def captured(self) -> dict[str, Source]:
        return {name: source for name, source in self.streams.items() if name not in self.unread}


@dataclass(frozen=True, slots=True)
class KeptTemplates:
    """All that run, by name; with the groups of their devices, and the tables that their programs read."""

    templates: Mapping[str, KeptTemplate]
    groups: Mapping[str, KeptGroup]
    tables: Mapping[str, FollowedRows]

    @property
    def document_terms(self) -> DocumentTerms:
        return DocumentTerms(
            {name: one.terms for name, one in self.templates.items()},
            {name: one.terms for name, one in self.groups.items()},
        )

    @property
    def prices(self) -> dict[str, Device]:
        return {name: one.kind for name, one in self.groups.items()}


def find_templates(plan: Plan, program: Program) -> KeptTemplates:
    """The templates whose results some contract keeps, and whose rows are all followed."""
    served = _Served(plan, program)
    catalogue = plan.catalogue
    templates = {
        template.name: kept
        for template in catalogue.templates.values()
        if (kept := _find_template(served, template)) is not None
    }
    names = sorted({one.template.devices for one in templates.values()})
    read = {
        name: {stream for one in templates.values() if one.template.devices == name for stream in one.streams}
        for name in names
    }
    groups = {name: _find_group(served, catalogue.devices[name], read[name]) for name in names}
    tables = {table for one in templates.values() for table in one.terms.tables}
    tables |= {table for one in groups.values() for made in one.terms.derived.values() for table in made.tables}
    return KeptTemplates(templates, groups, {table: served.rows[table] for table in sorted(tables)})


class _Served:
    """What contracts keep, by view, and rows of sources that are followed, by source."""

    def __init__(self, plan: Plan, program: Program) -> None:
        self.catalogue = plan.catalogue
        self.views = {entry.view for entry in plan.contracts}
        self.rows: dict[str, FollowedRows] = {}
        entries = {entry.view: entry for entry in plan.contracts}
        for source in plan.catalogue.sources:
            entry = entries.get(name_rows(source))
            if entry is not None:
                log = serving_log(program, entry)
                outputs = view_outputs(plan, program, entry)
                self.rows[source] = FollowedRows(log, tuple(program.logs[log].columns), outputs, program.functions)


def _find_template(served: _Served, template: Template) -> KeptTemplate | None:
    catalogue, relation = served.catalogue, template.program
    if relation is None or isinstance(relation, Refusal) or template.view not in served.views:
        return None
    group, placement = catalogue.devices[template.devices], name_placement(template.name)
    made_of = (table for made in group.derived.values() for table in made.tables)
    if any(one not in served.rows for one in (group.table, template.table, placement, *template.tables, *made_of)):
        return None
    terms = TemplateTerms(
        template.name,
        template.devices,
        *_write_program(relation),
        template.streams,
        template.tables,
        {side: every for side, every in template.every.items() if not isinstance(every, str)},
    )
    return KeptTemplate(
        terms,
        template,
        _find_id_type(catalogue, group),
        template.sides,
        {side: every for side, every in template.every.items() if isinstance(every, str)},
        served.rows[template.table],
        served.rows[placement],
        catalogue.sources[placement],
        catalogue.sources[name_reported(template.name)],
    )


def _write_program(relation: Relation) -> tuple[str, str]:
    """Its fingerprint and its text, without spaces, which a device would be sent with every document."""
    text = json.dumps(json.loads(write_wire(relation, WRITER)), separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS], text


def _find_group(served: _Served, devices: Devices, read: Collection[str]) -> KeptGroup:
    shapes = {
        one.name: StreamShape(
            tuple((column.name, column.type) for column in one.columns), one.keep_s or 0.0, one.priority
        )
        for one in devices.streams
    }
    derived = {name: DerivedTerms(*_write_program(made.program), made.tables) for name, made in devices.derived.items()}
    sizes = {one.name: find_message_bytes(one) for one in devices.streams}
    capacity = devices.capacity
    return KeptGroup(
        devices,
        GroupTerms(shapes, int(devices.buffer_bytes), derived, sizes),
        Device(_exact(devices.up), _exact(devices.down), None if isinstance(capacity, str) else capacity),
        served.rows[devices.table],
        capacity if isinstance(capacity, str) else None,
        _find_id_type(served.catalogue, devices),
        {one.name: served.catalogue.sources[name_stream(devices.name, one.name)] for one in devices.streams},
        frozenset(one.name for one in devices.streams if one.name not in read),
    )


def _find_id_type(catalogue: Catalogue, devices: Devices) -> Type:
    columns = catalogue.sources[devices.table].columns or ()
    return next(one.type for one in columns if one.name == devices.id)


def _exact(price: float) -> int | Fraction:
    found = Fraction(repr(price))
    return found.numerator if found.denominator == 1 else found
