"""Finds what is wrong with a project, a plan document, this machine, or the databases of a project."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.app.project import everything_read, load_project, trial
from headrace.connect.sources import connector_of, is_asked, sources_by_kind
from headrace.declare.project_text import PROJECT_FILE
from headrace.declare.read import read_project
from headrace.model.catalogue import Catalogue, Refusal, View
from headrace.model.errors import InputError, Problem, Severity, UsageError
from headrace.model.full_query import FullQuery
from headrace.model.names import name_of_view
from headrace.model.relation import Field, fields_of

if TYPE_CHECKING:
    from headrace.run.source_port import Looked

__all__ = ["CheckReport", "Looked", "ViewReport", "check_plan", "check_project", "examine"]


@dataclass(frozen=True, slots=True)
class ViewReport:
    """What became of a view: its columns and fingerprint, or why it is not maintained.

    One that is recomputed instead has columns, too.
    """

    name: str
    columns: tuple[Field, ...]
    fingerprint: str | None
    reads: tuple[str, ...]
    refused: Refusal | None


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All findings about a project; `catalogue` is None when it has mistakes other than SQL that is not maintained."""

    catalogue: Catalogue | None
    views: tuple[ViewReport, ...]
    problems: tuple[Problem, ...]

    def of(self, severity: Severity) -> tuple[Problem, ...]:
        return tuple(problem for problem in self.problems if problem.severity is severity)


def check_project(directory: Path, environment: Mapping[str, str], connect: bool = False) -> CheckReport:
    """Checks a project.

    Without `connect`, views over tables whose columns only a database knows are passed over with a warning.
    """
    inspect = trial(directory, environment, differences=True) if connect else None
    try:
        catalogue = read_project(directory, environment, inspect, unknown_columns=Severity.WARNING)
    except InputError as error:
        return CheckReport(None, (), error.problems)
    refusals = (
        problem
        for view in catalogue.views.values()
        if (refusal := _refusal_of(view)) is not None
        for problem in _refusals(catalogue, view, refusal)
    )
    problems = tuple(dict.fromkeys((*refusals, *catalogue.problems, *_check_near_sources(catalogue, environment))))
    declared = (view for view in catalogue.views.values() if name_of_view(view.name) == view.name)
    return CheckReport(catalogue, tuple(_report(view) for view in declared), problems)


def _check_near_sources(catalogue: Catalogue, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Sources on this machine: others are asked only with `--connect`."""
    near = [source for source in catalogue.sources.values() if not is_asked(source)]
    for kind, sources in sources_by_kind(near).items():
        from headrace.site.sources.databases import place_of

        place = place_of(catalogue.project, Path(catalogue.directory), environment)
        yield from connector_of(kind).check(sources, place)


def _report(view: View) -> ViewReport:
    if isinstance(view.query, Refusal):
        columns = view.recomputed.fields if isinstance(view.recomputed, FullQuery) else ()
        return ViewReport(view.name, columns, None, view.reads, view.query)
    from headrace.plan.canonical.fingerprint import fingerprint_of

    return ViewReport(view.name, fields_of(view.query), fingerprint_of(view.query), view.reads, None)


def _refusal_of(view: View) -> Refusal | None:
    """Why a view is not maintained, or not recomputed though contracts ask for it."""
    found = view.query if isinstance(view.query, Refusal) else view.recomputed
    return found if isinstance(found, Refusal) else None


def _refusals(catalogue: Catalogue, view: View, refusal: Refusal) -> tuple[Problem, ...]:
    """Mistakes, unless every contract that needs the view asks for it to be recomputed, and it can be."""
    if isinstance(view.recomputed, Refusal):
        return view.recomputed.problems
    needed_by = [
        contract for contract in catalogue.contracts.values() if view.name in everything_read(catalogue, contract.view)
    ]
    if not needed_by or not all(catalogue.is_in_full(contract.name) for contract in needed_by):
        return refusal.problems
    message = f'view "{name_of_view(view.name)}" is recomputed at every push, as its contracts ask: {refusal.operator}'
    return (Problem(message, refusal.problems[0].where, None, Severity.NOTE),)


def check_plan(file: Path) -> list[tuple[str, str]]:
    """What is wrong with a plan document, as (where, what)."""
    from headrace.plan.check import check_document

    try:
        document = json.loads(file.read_text())
        wrong = None if isinstance(document, dict) else "is not a plan document"
    except OSError as error:
        wrong = f"cannot be read: {error.strerror}"
    except ValueError as error:
        wrong = f"is not JSON: {error}"
    if wrong:
        raise UsageError(f'"{file}" {wrong}', "write one with `headrace plan --json`")
    return check_document(document)


def examine(directory: Path, environment: Mapping[str, str]) -> list[Looked]:
    """All that can be looked at; without a project, this machine alone."""
    from headrace.coordinate.doctor import look_at_machine, look_at_sources, look_at_state
    from headrace.run.source_port import Looked
    from headrace.site.folder import Folder
    from headrace.site.sources.databases import place_of

    folder = Folder(directory)
    found = list(look_at_machine(environment, directory if directory.is_dir() else Path()))
    if not (directory / PROJECT_FILE).is_file():
        return [*found, Looked("project", f'none in "{directory}"')]
    found += look_at_state(folder)
    try:
        catalogue = load_project(directory, environment, trial(directory, environment))
    except InputError as error:
        found += (Looked("project", "has mistakes", problem) for problem in error.problems)
        return found
    found.append(Looked("project", f"{catalogue.project}, {len(catalogue.sources)} sources are ready"))
    found += (Looked("project", "warned about", problem) for problem in catalogue.problems)
    return [
        *found,
        *look_at_sources(catalogue, place_of(catalogue.project, folder.project, environment)),
    ]
