"""All views of a project, read with what they may name: sources, functions, and for templates the devices' streams."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from headrace.declare import build
from headrace.declare.entries import Entries
from headrace.declare.sql import ViewText, read_views
from headrace.model.catalogue import Devices, PythonFunction, Source, View
from headrace.model.errors import Problem, Severity


def read_all_views(
    texts: Mapping[str, ViewText], entries: Entries, sources: Mapping[str, Source], unknown_columns: Severity | None
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    """The views that are right, in the order of the texts, and the mistakes of the others.

    Columns of a source that are not known are as bad as `unknown_columns` says; None if it was said already why.

    The view of a template reads the streams of its devices; each group of devices is a world of its own.
    """
    functions = build.build_functions(entries)
    readable = _readable(entries, sources)
    groups = _template_views(entries, texts)
    plain = {name: text for name, text in texts.items() if name not in groups}
    views, problems = read_views(plain, readable, functions)
    for name, group in groups.items():
        if group is not None:
            view, mistakes = _read_template_view(texts[name], plain, group, readable, functions)
            views |= view
            problems += mistakes
    found = {name: views[name] for name in texts if name in views}
    return found, tuple(_without_consequences(problems, entries, readable, unknown_columns))


def _readable(entries: Entries, sources: Mapping[str, Source]) -> dict[str, Source]:
    """All sources that are written, those with mistakes in their columns as if these were not known."""
    readable = {}
    for name in entries.written["sources"]:
        source = sources.get(name) or build.unknown_source(name, entries)
        readable[name] = replace(source, columns=None) if _is_broken(name, entries) else source
    return readable


def _is_broken(name: str, entries: Entries) -> bool:
    return name not in entries.sources or "columns" in entries.lost["sources", name]


def _template_views(entries: Entries, texts: Mapping[str, ViewText]) -> dict[str, Devices | None]:
    """Views that templates name, with their devices: None where those are not known."""
    devices = build.build_devices(entries)
    templates = build.build_templates(entries).values()
    return {template.view: devices.get(template.devices) for template in templates if template.view in texts}


def _read_template_view(
    text: ViewText,
    others: Mapping[str, ViewText],
    devices: Devices,
    sources: Mapping[str, Source],
    functions: Mapping[str, PythonFunction],
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    table = sources.get(devices.table)
    streams = build.device_sources(devices, table.site if table else "")
    views, problems = read_views({**others, text.name: text}, {**sources, **streams}, functions)
    own = tuple(problem for problem in problems if problem.where is not None and problem.where.file == text.file)
    return {name: view for name, view in views.items() if name == text.name}, own


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
