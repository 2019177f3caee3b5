"""A project folder to a Catalogue, or all of its mistakes at once.

    headrace.yml --yaml_text--> Document --entries--> entries --references--> names that exist
                                                         |
    views/*.sql ----------------------------+          build --[inspect]--> sources --columns--> columns that exist
                                            |                                  |
                                            +---------------- sql -------------+--> views --> Catalogue

Each step goes on with what the one before could read, so that the mistakes of all steps are reported together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from headrace.declare import build
from headrace.declare.columns import check_columns
from headrace.declare.entries import Entries, read_entries
from headrace.declare.project_text import ProjectText, read_files
from headrace.declare.references import check_references
from headrace.declare.sql import ViewText, read_predicate, read_views
from headrace.declare.variables import secrets_in_clear, unset_variables
from headrace.model.catalogue import Catalogue, Devices, PythonFunction, Selectivity, Source, Template, View
from headrace.model.errors import InputError, Location, Problem, Severity

Inspect = Callable[[Mapping[str, Source]], tuple[Mapping[str, Source], tuple[Problem, ...]]]
"""Asks the databases about sources: gives them back with measured facts filled in, and what is wrong with them."""


def read_project(directory: Path, environment: Mapping[str, str], inspect: Inspect | None = None) -> Catalogue:
    """Raises InputError with all mistakes, or UsageError where there is no project."""
    return read_text(read_files(directory), environment, inspect)


def read_text(project: ProjectText, environment: Mapping[str, str], inspect: Inspect | None = None) -> Catalogue:
    """Check everything that a project says. Python calls come in here, too."""
    if project.document is None:
        raise InputError(_in_order(project.problems))
    entries, mistakes = read_entries(project.document)
    files = {view.name: Location(view.file) for view in project.views.values()}
    problems = [*project.problems, *mistakes, *check_references(entries, files)]
    sources: Mapping[str, Source] = build.build_sources(entries)
    if inspect is not None:
        sources, findings = inspect(sources)
        problems += findings
    problems += check_columns(entries, sources)
    views, mistakes = _read_views(project.views, entries, sources)
    problems += mistakes
    selectivity, mistakes = _read_selectivity(entries, sources)
    problems += mistakes
    problems += [*secrets_in_clear(project.document), *unset_variables(project.document, environment)]
    if any(problem.severity is Severity.ERROR for problem in problems):
        raise InputError(_in_order(problems))
    return _catalogue(project, entries, sources, views, selectivity, [*problems, *_notes(entries, views)])


def _catalogue(
    project: ProjectText,
    entries: Entries,
    sources: Mapping[str, Source],
    views: Mapping[str, View],
    selectivity: tuple[Selectivity, ...],
    problems: list[Problem],
) -> Catalogue:
    assert entries.fields is not None, "the fields of a project without mistakes were read"
    return Catalogue(
        project=entries.fields.project,
        directory=project.directory,
        hosts=build.build_hosts(entries),
        sites=build.build_sites(entries),
        links=build.build_links(entries),
        sources=sources,
        views=views,
        contracts=build.build_contracts(entries),
        feeds=build.build_feeds(entries),
        devices=build.build_devices(entries),
        templates=build.build_templates(entries),
        functions=build.build_functions(entries),
        selectivity=selectivity,
        operator_times=build.build_operator_times(entries),
        operator_times_declared=bool(entries.operator_times),
        admission=entries.fields.admission,
        headroom=build.build_headroom(entries),
        problems=_in_order(problems),
    )


def _read_views(
    texts: Mapping[str, ViewText], entries: Entries, sources: Mapping[str, Source]
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    """Views of templates read the streams of their devices; each group of devices is a world of its own."""
    functions = build.build_functions(entries)
    devices, templates = build.build_devices(entries), build.build_templates(entries)
    family = {template.view: template for template in templates.values() if template.view in texts}
    readable = _without_unreadable(texts, entries)
    plain = {name: text for name, text in readable.items() if name not in family}
    views, problems = read_views(plain, sources, functions)
    for name, template in family.items():
        if name in readable and template.devices in devices:
            one, mistakes = _read_template_view(readable[name], plain, template, devices, sources, functions)
            views |= one
            problems += mistakes
    return {name: views[name] for name in texts if name in views}, problems


def _read_template_view(
    text: ViewText,
    others: Mapping[str, ViewText],
    template: Template,
    devices: Mapping[str, Devices],
    sources: Mapping[str, Source],
    functions: Mapping[str, PythonFunction],
) -> tuple[dict[str, View], tuple[Problem, ...]]:
    group = devices[template.devices]
    table = sources.get(group.table)
    streams = build.device_sources(group, table.site if table else "")
    views, problems = read_views({**others, text.name: text}, {**sources, **streams}, functions)
    own = tuple(problem for problem in problems if problem.where is not None and problem.where.file == text.file)
    return {name: view for name, view in views.items() if name == text.name}, own


def _without_unreadable(texts: Mapping[str, ViewText], entries: Entries) -> dict[str, ViewText]:
    """Views that mention no source with unreadable columns: what they would be told is not their mistake."""
    gone = {
        name
        for name in entries.written["sources"]
        if name not in entries.sources or "columns" in entries.lost["sources", name]
    }
    readable = dict(texts)
    while True:
        words = re.compile(r"\b(" + "|".join(map(re.escape, sorted(gone))) + r")\b", re.IGNORECASE)
        lost = [name for name, text in readable.items() if gone and words.search(text.sql)]
        if not lost:
            return readable
        gone |= set(lost)
        readable = {name: text for name, text in readable.items() if name not in lost}


def _read_selectivity(
    entries: Entries, sources: Mapping[str, Source]
) -> tuple[tuple[Selectivity, ...], tuple[Problem, ...]]:
    found: list[Selectivity] = []
    problems: list[Problem] = []
    for (name, text), share in entries.selectivity.items():
        source = sources.get(name)
        where = entries.document.key_at(("selectivity", name, text))
        try:
            known = source is not None and source.columns is not None
            predicate = read_predicate(text, where, source) if source is not None and known else None
        except InputError as error:
            problems += error.problems
        else:
            found.append(Selectivity(name, text, predicate, share, where))
    return tuple(found), tuple(problems)


def _notes(entries: Entries, views: Mapping[str, View]) -> Iterator[Problem]:
    """What is no mistake, but may not be meant."""
    used = {contract.view for contract in entries.contracts.values()}
    used |= {template.view for template in entries.templates.values()}
    used |= {read for view in views.values() for read in view.reads}
    for name, view in views.items():
        yield from view.notes
        if name not in used:
            hint = "write a contract for it, or remove the file"
            yield Problem(f'view "{name}" is not used', view.declared_at, hint, Severity.NOTE)


def _in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each once, in the order of the text; what has no place comes last."""
    once = dict.fromkeys(problems)
    return tuple(sorted(once, key=lambda problem: (problem.where is None, problem.where or Location(""))))
