"""A project folder to a Catalogue, or all of its mistakes at once.

    headrace.yml --yaml_text--> Document --entries--> entries --references--> names that exist
                                                         |
    views/*.sql ----------------------------+          build --[inspect]--> sources --columns--> columns that exist
                                            |                                  |
                                            +---------------- sql -------------+--> views --feeds--> Catalogue

Each step goes on with what the one before could read, so that the mistakes of all steps are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from headrace.declare import build
from headrace.declare.columns import check_columns
from headrace.declare.entries import Entries, read_entries
from headrace.declare.feeds import read_feeds
from headrace.declare.project_text import ProjectText, read_files
from headrace.declare.recompute import InFull, with_recomputed
from headrace.declare.references import check_references
from headrace.declare.sql import ViewText, read_predicate
from headrace.declare.variables import secrets_in_clear, unset_variables
from headrace.declare.views import read_all_views
from headrace.model.catalogue import Catalogue, Feed, Refusal, Selectivity, Source, View
from headrace.model.dialect import SqlDialect
from headrace.model.errors import InputError, Location, Problem, Severity
from headrace.model.plan_modes import PlanWishes

Inspect = Callable[[str, Mapping[str, Source]], tuple[Mapping[str, Source], tuple[Problem, ...]]]
"""Asks the databases about the sources of a project: gives them back with measured facts, and what is wrong."""


def read_project(
    directory: Path,
    environment: Mapping[str, str],
    inspect: Inspect | None = None,
    unknown_columns: Severity = Severity.ERROR,
) -> Catalogue:
    """Raises InputError with all mistakes, or UsageError where there is no project.

    `unknown_columns` says how bad it is that a view reads a source whose columns are neither declared nor inspected. As
    a warning, the view is left out of the catalogue.
    """
    return read_text(read_files(directory), environment, inspect, unknown_columns)


def read_text(
    project: ProjectText,
    environment: Mapping[str, str],
    inspect: Inspect | None = None,
    unknown_columns: Severity = Severity.ERROR,
) -> Catalogue:
    """Check everything that a project says. Python calls come in here, too."""
    if project.document is None:
        raise InputError(in_order(project.problems))
    entries, mistakes = read_entries(project.document)
    files = {view.name: Location(view.file) for view in project.views.values()}
    texts = give_dialects(project.views, entries)
    problems = [*project.problems, *mistakes, *check_references(entries, files)]
    sources: Mapping[str, Source] = build.build_sources(entries)
    unanswered = False
    if inspect is not None:
        sources, findings = inspect(entries.fields.project if entries.fields else "", sources)
        problems += findings
        unanswered = any(problem.severity is Severity.ERROR for problem in findings)
    problems += check_columns(entries, sources)
    views, mistakes = read_all_views(texts, entries, sources, None if unanswered else unknown_columns)
    problems += mistakes
    feeds, mistakes = read_feeds(entries, sources, views)
    problems += mistakes
    functions = build.build_functions(entries)
    in_full = with_recomputed(views, build.build_contracts(entries), texts, sources, functions)
    problems += in_full.problems
    selectivity, mistakes = _read_selectivity(entries, sources)
    problems += mistakes
    problems += [*secrets_in_clear(project.document), *unset_variables(project.document, environment)]
    if any(problem.severity is Severity.ERROR for problem in problems):
        raise InputError(in_order(problems))
    return _catalogue(project, entries, sources, in_full, feeds, selectivity, [*problems, *_notes(entries, views)])


def give_dialects(views: Mapping[str, ViewText], entries: Entries) -> dict[str, ViewText]:
    """Views that say no dialect are in that of the project."""
    default = entries.fields.dialect if entries.fields else SqlDialect.SPARK
    return {name: replace(view, dialect=view.dialect or default) for name, view in views.items()}


def _catalogue(
    project: ProjectText,
    entries: Entries,
    sources: Mapping[str, Source],
    in_full: InFull,
    feeds: Mapping[str, Feed],
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
        views=in_full.views,
        contracts=in_full.contracts,
        feeds=feeds,
        devices=build.build_devices(entries),
        templates=build.build_templates(entries),
        functions=build.build_functions(entries),
        selectivity=selectivity,
        operator_times=build.build_operator_times(entries),
        operator_times_declared=bool(entries.operator_times),
        admission=entries.fields.admission,
        headroom=build.build_headroom(entries),
        engine=build.build_engine(entries),
        planning=PlanWishes(entries.fields.method, entries.fields.share, entries.fields.wide_area),
        problems=in_order(problems),
    )


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
    used |= {rows.view for feed in entries.feeds.values() for rows in (feed.events, feed.follows) if rows.view}
    for name, view in views.items():
        yield from view.notes
        if name not in used and not isinstance(view.query, Refusal):
            hint = "write a contract for it, or remove the file"
            yield Problem(f'view "{name}" is not used', view.declared_at, hint, Severity.NOTE)


def in_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Each once, in the order of the text; what has no place comes last. What is an error is no warning as well."""
    once = dict.fromkeys(problems)
    errors = {problem.message for problem in once if problem.severity is Severity.ERROR}
    kept = (problem for problem in once if problem.severity is Severity.ERROR or problem.message not in errors)
    return tuple(sorted(kept, key=lambda problem: (problem.where is None, problem.where or Location(""))))
