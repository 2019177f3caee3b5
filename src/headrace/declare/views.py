"""All views of a project, read with what they may name: sources, functions, and for templates the devices' streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from headrace.declare import build
from headrace.declare.entries import Entries
from headrace.declare.query.scope import fold
from headrace.declare.sql import ViewText, find_mentioned, read_views
from headrace.model.catalogue import Devices, PythonFunction, Refusal, Source, SourceColumn, Template, View
from headrace.model.errors import Problem, Severity
from headrace.model.relation import Relation, fields_of, scans_of
from headrace.model.template_names import PAIRS, REPORTER, ROW_ID, SIDES, read_side
from headrace.model.types import STRING


def read_all_views(
    texts: Mapping[str, ViewText], entries: Entries, sources: Mapping[str, Source], unknown_columns: Severity | None
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    """The views that are right, in the order of the texts, and the mistakes of the others.

    Columns of a source that are not known are as bad as `unknown_columns` says; None if it was said already why.

    The view of a template reads the streams of its devices, itself or through other views. Each template is a world of
    its own, in which these views mean something.
    """
    functions = build.build_functions(entries)
    readable = _readable(entries, sources)
    mentioned = {name: find_mentioned(text) for name, text in texts.items()}
    worlds = _find_worlds(entries, mentioned)
    of_devices = {name for world in worlds for name in world.views}
    plain = {name: text for name, text in texts.items() if name not in of_devices}
    views, problems, results = dict[str, View](), list[Problem](), dict[str, Source]()
    for world in worlds:
        found, mistakes = _read_world(world, texts, readable, functions)
        views = {**found, **views}
        problems += mistakes
        results |= _show_results(world, found, readable)
    found, mistakes = read_views(plain, {**readable, **results}, functions)
    views |= found
    problems += mistakes
    found = {name: views[name] for name in texts if name in views}
    return found, tuple(_without_consequences(tuple(problems), entries, readable, unknown_columns))


@dataclass(frozen=True, slots=True)
class _World:
    """A template with its devices (None where those are not known), and the views that read the devices' streams."""

    template: Template
    devices: Devices | None
    views: frozenset[str]


def _find_worlds(entries: Entries, mentioned: Mapping[str, frozenset[str]]) -> list[_World]:
    devices, templates = build.build_devices(entries), build.build_templates(entries)
    return [
        _World(template, devices.get(template.devices), _find_device_views(template.view, mentioned))
        for template in templates.values()
        if template.view in mentioned
    ]


def _find_device_views(root: str, mentioned: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The view of a template, and those of the views that it reads which read streams of its devices."""
    names = {fold(name): name for name in mentioned}
    reads = {name: {names[fold(read)] for read in found if fold(read) in names} for name, found in mentioned.items()}
    found, waiting = set[str](), [root]
    while waiting:
        name = waiting.pop()
        found.add(name)
        waiting += reads[name] - found
    own = {name for name in found if any(read_side(fold(read)) for read in mentioned[name])}
    while more := {name for name in found - own if reads[name] & own}:
        own |= more
    return frozenset(own | {root})


def _read_world(
    world: _World,
    texts: Mapping[str, ViewText],
    sources: Mapping[str, Source],
    functions: Mapping[str, PythonFunction],
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    if world.devices is None:
        return {}, ()
    table = sources.get(world.devices.table)
    streams = build.device_sources(world.devices, table.site if table else "", world.template.sides)
    views, problems = read_views(texts, {**sources, **streams}, functions)
    files = {texts[name].file for name in world.views}
    own = tuple(problem for problem in problems if problem.where is not None and problem.where.file in files)
    found = {name: view for name, view in views.items() if name in world.views}
    root = found.get(world.template.view)
    if root is None:
        return found, own
    if table is not None:
        levels = _read_levels(world, found, texts, sources, streams, functions)
        found[root.name] = replace(root, levels=levels)
    return found, (*own, *_check_root(world.template, root))


def _read_levels(
    world: _World,
    views: Mapping[str, View],
    texts: Mapping[str, ViewText],
    sources: Mapping[str, Source],
    streams: Mapping[str, Source],
    functions: Mapping[str, PythonFunction],
) -> Relation | None:
    """The view of a template over the views of one side that it reads, itself or through views of both sides.

    A view with the name of a stream is read as any other: `a.location` is the stream.
    """
    root = world.template.view
    inner = {name: view for name, view in views.items() if name != root and not _is_stream(name, world)}
    sides = {name: next(iter(found)) for name, view in inner.items() if len(found := _find_sides(view)) == 1}
    if not sides or isinstance(views[root].query, Refusal) or len(_find_sides(views[root])) < len(SIDES):
        return None
    stream = next(iter(streams.values()))
    rows = {name: _show_rows(f"{side}.{name}", views[name], stream) for name, side in sides.items()}
    others = {name: text for name, text in texts.items() if name not in rows}
    read, _ = read_views(others, {**sources, **streams, **rows}, functions)
    query = read[root].query if root in read else None
    names = {one.name for one in rows.values()}
    return query if isinstance(query, Relation) and any(one.source in names for one in scans_of(query)) else None


def _is_stream(name: str, world: _World) -> bool:
    streams = () if world.devices is None else world.devices.streams
    return any(fold(stream.name) == fold(name) for stream in streams)


def _find_sides(view: View) -> frozenset[str]:
    scans = () if isinstance(view.query, Refusal) else scans_of(view.query)
    return frozenset(found[0] for scan in scans if (found := read_side(scan.source)) is not None)


def _show_rows(name: str, view: View, stream: Source) -> Source:
    """The rows of a view as if they were those of a stream."""
    assert not isinstance(view.query, Refusal), "it has sides"
    return replace(stream, name=name, columns=tuple(SourceColumn(one.name, one.type) for one in fields_of(view.query)))


def _show_results(world: _World, views: Mapping[str, View], sources: Mapping[str, Source]) -> dict[str, Source]:
    """The results of a template as other views read them: the pair, then the columns of its view.

    If they are not known, nothing is known of them: what is wrong is said of the template.
    """
    root = views.get(world.template.view)
    table = None if world.devices is None else sources.get(world.devices.table)
    per = sources.get(world.template.table)
    if table is None or per is None or world.devices is None:
        return {}
    ids = {one.name: one.type for one in table.columns or ()}
    known = root is not None and not isinstance(root.query, Refusal) and world.devices.id in ids
    fields = fields_of(root.query) if root is not None and not isinstance(root.query, Refusal) else ()
    pair = tuple(SourceColumn(side, ids.get(world.devices.id, STRING)) for side in world.template.sides)
    columns = (*pair, *(SourceColumn(one.name, one.type) for one in fields)) if known else None
    name = world.template.view
    return {name: replace(table, name=name, key=(), columns=columns, left_out=())}


def _check_root(template: Template, view: View) -> Iterator[Problem]:
    """Results of a template are read with the pair that each is of."""
    if isinstance(view.query, Refusal):
        return
    for one in fields_of(view.query):
        if fold(one.name) in (*template.sides, REPORTER, ROW_ID):
            what = f'view "{view.name}" of template "{template.name}" has a column "{one.name}"'
            sides = " and ".join(f"`{side}`" for side in template.sides)
            hint = f"name it otherwise with AS: results have {sides} of the pair, `{REPORTER}` and `{ROW_ID}`"
            yield Problem(what, view.declared_at, hint)
    if any(one.source == PAIRS for one in scans_of(view.query)):
        what = f'view "{view.name}" of template "{template.name}" reads source "{PAIRS}", a name that is taken'
        yield Problem(what, view.declared_at, "rename the source: in templates, the pairs themselves are called so")
    if not any(read_side(one.source) for one in scans_of(view.query)):
        what = f'view "{view.name}" of template "{template.name}" reads no stream of its devices'
        hint = "read one as `a.STREAM`, or write a contract instead of a template"
        yield Problem(what, view.declared_at, hint, Severity.WARNING)


def _readable(entries: Entries, sources: Mapping[str, Source]) -> dict[str, Source]:
    """All sources that are written, those with mistakes in their columns as if these were not known."""
    readable = {}
    for name in entries.written["sources"]:
        source = sources.get(name) or build.unknown_source(name, entries)
        readable[name] = replace(source, columns=None) if _is_broken(name, entries) else source
    return readable


def _is_broken(name: str, entries: Entries) -> bool:
    return name not in entries.sources or "columns" in entries.lost["sources", name]


def _without_consequences(
    problems: tuple[Problem, ...], entries: Entries, sources: Mapping[str, Source], unknown_columns: Severity | None
) -> Iterator[Problem]:
    """A source with mistakes is reported where it is written, not again where it is read."""
    unknown = {f'the columns of source "{name}" are not known': name for name in sources}
    for problem in problems:
        source = unknown.get(problem.message)
        if source is None:
            yield problem
        elif unknown_columns is not None and not _is_broken(source, entries):
            yield replace(problem, severity=unknown_columns)
