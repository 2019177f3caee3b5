"""JSON text -> `Single` or `Dag`. Every mistake is reported with its place; what comes out needs no further check."""

from __future__ import annotations

from headrace.model.errors import nearest_name
from headrace.plan.exact_json import read_json, show_value
from headrace.plan.place.fields import PlacementFields
from headrace.plan.place.instance import CLOUD, Dag, Device, Single
from headrace.plan.place.read_core import read_core
from headrace.plan.place.read_graph import check_graph, read_mode, read_operators, read_sources, read_sums
from headrace.plan.place.read_views import read_views

SINGLE_FIELDS = ("kind", "cu", "cd", "devices", "cloud_sources", "pairs", "core")
DAG_FIELDS = ("kind", "cu", "cd", "mode", "devices", "sources", "ops", "share", "core")
DEVICE_FIELDS = ("cu", "cd", "capacity")


def read_instance(text: str, file: str) -> Single | Dag:
    """Raises InputError with all mistakes."""
    read = read_json(text, file)
    document = read if isinstance(read, dict) else {}
    fields = PlacementFields(document, text, file)
    kind = document.get("kind")
    if kind == "single":
        return _single(fields)
    if kind == "dag":
        return _dag(fields)
    found = f", not {show_value(kind)}" if kind is not None else ""
    hint = '{"kind": "single", "pairs": [...]}'
    fields.wrong(("kind",), f'a placement instance has the kind "single" or "dag"{found}', hint)
    fields.end()
    raise AssertionError("unreachable: a problem was just added")


def _single(fields: PlacementFields) -> Single:
    fields.fields(fields.document, (), "the instance", SINGLE_FIELDS)
    default = Device(fields.number_of("cu", 1), fields.number_of("cd", 1))
    views = read_views(fields)
    names = {name for view in views for name in (view.a, view.b)}
    in_cloud = frozenset(fields.names(fields.document.get("cloud_sources", []), ("cloud_sources",), '"cloud_sources"'))
    core = read_core(fields, names - in_cloud, in_cloud)
    read = Single(views, default, _devices(fields, default, names), in_cloud, core)
    fields.end()
    return read


def _dag(fields: PlacementFields) -> Dag:
    fields.fields(fields.document, (), "the instance", DAG_FIELDS)
    default = Device(fields.number_of("cu", 1), fields.number_of("cd", 1))
    sources = read_sources(fields)
    operators = read_operators(fields, sources)
    known = {home for home in sources.values() if home != CLOUD}
    in_cloud = frozenset(name for name, home in sources.items() if home == CLOUD)
    read = Dag(
        sources,
        operators,
        read_mode(fields),
        default,
        _devices(fields, default, known),
        read_sums(fields, {*sources, *(operator.id for operator in operators)}),
        read_core(fields, known, in_cloud),
    )
    fields.end()
    check_graph(fields, read)
    fields.end()
    return read


def _devices(fields: PlacementFields, default: Device, known: set[str]) -> dict[str, Device]:
    found = fields.members(fields.document.get("devices", {}), ("devices",), '"devices"')
    read = {}
    for name, entry in found.items():
        path = ("devices", name)
        if name not in known:
            hint = nearest_name(name, known) or "devices are those of the pairs or sources"
            fields.wrong(path, f'device "{name}" is unknown', hint)
        entry = fields.fields(entry, path, f'device "{name}"', DEVICE_FIELDS)
        capacity = entry.get("capacity")
        read[name] = Device(
            fields.number_of("cu", default.up, entry, path),
            fields.number_of("cd", default.down, entry, path),
            None if capacity is None else fields.number(capacity, (*path, "capacity"), "capacity"),
        )
    return read
