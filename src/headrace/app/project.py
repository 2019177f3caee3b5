"""The stages wired together: read this first.

    load_project     project folder -> Catalogue           declare/, and connect/postgres when asked to connect
    check_project    project folder -> CheckReport         the catalogue, or all of its mistakes
    init_project     an empty folder -> a starter project
    plan_project     project folder -> Plan                plan/make.py; plan_document is its JSON form
    plan_and_compare the same, with what it changes        plan/share/difference.py; plan_on_top plans on what runs
    explain          a name -> why it is planned so        plan/explain.py; imagine is "what if"
    check_plan       a plan document -> what is wrong      plan/check/, which shares no code with the planner

Doors (commands, HTTP, console) call these functions and show what they return. What reaches outside is imported where
it is used: checking a project needs neither a database driver nor Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.declare.api import Project
from headrace.declare.read import Inspect, read_project
from headrace.declare.units import BANDWIDTH, DURATION, FACTOR, RATE, Unreadable, read_amount
from headrace.declare.variables import fill
from headrace.declare.write import Started, write_starter
from headrace.model.catalogue import Catalogue, PostgresTable, Refresh, Refusal, Source, View
from headrace.model.errors import InputError, Problem, Severity, UsageError
from headrace.model.full_query import FullQuery
from headrace.model.relation import Field, fields_of
from headrace.model.statistics import rate_of

if TYPE_CHECKING:
    from headrace.model.difference import Difference
    from headrace.model.explanation import Change, Grounds, WhatIf, Why
    from headrace.model.plan import Plan, PlanOptions
    from headrace.plan.share.revalue import Measured

__all__ = [
    "CheckReport",
    "Difference",
    "Explained",
    "Imagined",
    "LoadedProject",
    "Planned",
    "Project",
    "Started",
    "ViewReport",
    "Wishes",
    "check_plan",
    "check_project",
    "explain",
    "imagine",
    "init_project",
    "load",
    "load_project",
    "plan_and_compare",
    "plan_document",
    "plan_on_top",
    "plan_project",
    "read_duration",
    "sample_project",
]


@dataclass(frozen=True, slots=True)
class LoadedProject:
    """A project folder as a value."""

    catalogue: Catalogue


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


def load(directory: str | Path) -> LoadedProject:
    """Read a project folder. Raises InputError with all its mistakes."""
    import os

    return LoadedProject(load_project(Path(directory), os.environ))


def load_project(directory: Path, environment: Mapping[str, str], connect: bool = False) -> Catalogue:
    """The catalogue of a project. With `connect`, databases are asked for what is not declared: columns, statistics."""
    return read_project(directory, environment, _inspector(environment) if connect else None)


def check_project(directory: Path, environment: Mapping[str, str], connect: bool = False) -> CheckReport:
    """Without `connect`, views over tables whose columns only a database knows are passed over with a warning."""
    inspect = _inspector(environment) if connect else None
    try:
        catalogue = read_project(directory, environment, inspect, unknown_columns=Severity.WARNING)
    except InputError as error:
        return CheckReport(None, (), error.problems)
    refusals = (
        _refusal(catalogue, view, view.query) for view in catalogue.views.values() if isinstance(view.query, Refusal)
    )
    problems = tuple(dict.fromkeys((*refusals, *catalogue.problems)))
    return CheckReport(catalogue, tuple(_report(view) for view in catalogue.views.values()), problems)


def plan_project(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files. Databases are asked only when the files do not say what planning needs."""
    from headrace.plan.make import make_plan

    return make_plan(planned_catalogue(directory, environment), options)


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan, and what it changes against what runs; None if nothing runs."""

    plan: Plan
    change: Difference | None


def plan_and_compare(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Planned:
    """The plan of a project's files, and what applying them would change."""
    from headrace.plan.make import make_plan, plan_on_running
    from headrace.plan.share.difference import difference_of
    from headrace.plan.share.outline import outline_of_document

    catalogue = planned_catalogue(directory, environment)
    plan, document = make_plan(catalogue, options), _running_document(directory)
    if document is None:
        return Planned(plan, None)
    running = _running_plan(directory)
    target = plan if running is None else plan_on_running(running, catalogue)
    return Planned(plan, difference_of(outline_of_document(document), outline_of_document(plan_document(target))))


def plan_on_top(directory: Path, environment: Mapping[str, str], options: PlanOptions) -> Plan:
    """The plan of a project's files on what runs: running contracts keep their vertices."""
    from headrace.plan.make import make_plan, plan_on_running

    catalogue = planned_catalogue(directory, environment)
    if _running_document(directory) is None:
        return make_plan(catalogue, options)
    running = _running_plan(directory)
    if running is None:
        hint = "`headrace apply --replan` goes over to the plan from nothing"
        raise UsageError("what runs was planned by another version of Headrace", hint)
    return plan_on_running(running, catalogue)


def _running_document(directory: Path) -> object | None:
    """The plan document of what runs."""
    import json

    try:
        found: object = json.loads((directory / ".headrace" / "plan.json").read_text())
        return found
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise UsageError(f'"{directory / ".headrace" / "plan.json"}" cannot be read: {error}') from error


def _running_plan(directory: Path) -> Plan | None:
    from headrace.service.folder import Folder
    from headrace.service.measured import running_to_plan_on

    return running_to_plan_on(Folder(directory))


def planned_catalogue(directory: Path, environment: Mapping[str, str]) -> Catalogue:
    """What a plan is made of: databases are asked only if the files do not say all that it takes."""
    catalogue = read_project(directory, environment, None, unknown_columns=Severity.WARNING)
    if any(_needs_asking(source) for source in catalogue.sources.values()):
        return load_project(directory, environment, connect=True)
    return catalogue


def plan_document(plan: Plan) -> dict[str, object]:
    from headrace.plan.document import plan_document as document_of

    return document_of(plan)


@dataclass(frozen=True, slots=True)
class Explained:
    """Answers about a name, the plan that they are about, and the statistics that they rest on."""

    plan: Plan
    answers: tuple[Why, ...]
    grounds: Grounds


def explain(directory: Path, environment: Mapping[str, str], name: str) -> Explained:
    """Why a plan is as it is for a contract, a view or a vertex: the plan that runs, as measured, if it has one of that
    name; else that of the files.
    """
    from headrace.model.plan import PlanOptions
    from headrace.plan.explain import grounds, sources_of, why

    running, measured = _as_it_runs(directory)
    if running is not None:
        try:
            answers = why(running, name)
            return Explained(running, answers, grounds(running.catalogue, sources_of(running, name), measured))
        except UsageError:
            pass  # what is not applied yet may be in the files
    plan = plan_project(directory, environment, PlanOptions())
    return Explained(plan, why(plan, name), grounds(plan.catalogue, sources_of(plan, name)))


def _as_it_runs(directory: Path) -> tuple[Plan, Measured] | tuple[None, None]:
    """The plan of a service that runs now, with what it measured."""
    from headrace.plan.share.adapt import plan_as_measured
    from headrace.plan.share.revalue import Measured
    from headrace.service.folder import Folder
    from headrace.service.measured import read_measured
    from headrace.service.process import running_process

    folder = Folder(directory)
    plan = None if running_process(folder) is None else folder.running()
    if plan is None:
        return None, None
    measured = read_measured(folder) or Measured(0.0)
    return plan_as_measured(plan, measured), measured


@dataclass(frozen=True, slots=True)
class Wishes:
    """What to imagine, as a person writes it: `5s`, a site, `us>eu=50 Mbps`, `tweets=2x` or `tweets=200 /s`."""

    freshness: str | None = None
    site: str | None = None
    links: tuple[str, ...] = ()
    rates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Imagined:
    answer: WhatIf
    grounds: Grounds


def imagine(directory: Path, environment: Mapping[str, str], contract: str, wishes: Wishes) -> Imagined:
    """The contract, and what else changes, before and after: from what runs, as measured, if it has the contract; else
    from the files.
    """
    from headrace.plan.explain import grounds, what_if, what_if_running

    running, measured = _as_it_runs(directory)
    if running is not None and contract in running.catalogue.contracts:
        catalogue = running.catalogue
        answer = what_if_running(running, contract, _change(catalogue, wishes))
    else:
        catalogue = planned_catalogue(directory, environment)
        answer = what_if(catalogue, contract, _change(catalogue, wishes))
    return Imagined(answer, grounds(catalogue, _reads(catalogue, catalogue.contracts[contract].view), measured))


def _change(catalogue: Catalogue, wishes: Wishes) -> Change:
    from headrace.model.explanation import Change

    try:
        return Change(
            freshness_s=None if wishes.freshness is None else read_amount(wishes.freshness, DURATION),
            site=wishes.site,
            bandwidth={_ends(name): read_amount(amount, BANDWIDTH) for name, amount in map(_pair, wishes.links)},
            rate={name: _rate(catalogue, name, amount) for name, amount in map(_pair, wishes.rates)},
        )
    except Unreadable as error:
        raise UsageError(error.message, error.hint) from error


def _pair(wish: str) -> tuple[str, str]:
    name, equals, amount = wish.partition("=")
    if not equals:
        raise UsageError(f'"{wish}" is not NAME=AMOUNT', "write for example tweets=2x, or 'us>eu=50 Mbps'")
    return name.strip(), amount.strip()


def _ends(link: str) -> tuple[str, str]:
    src, _, dst = link.partition(">")
    return src.strip(), dst.strip()


def _rate(catalogue: Catalogue, source: str, amount: str) -> float:
    """`2x` is twice what is measured, declared or assumed now."""
    if amount.endswith("x") and source in catalogue.sources:
        return rate_of(catalogue.sources[source]) * read_amount(amount, FACTOR)
    return read_amount(amount, RATE)


def check_plan(file: Path) -> list[tuple[str, str]]:
    """What is wrong with a plan document, as (where, what)."""
    import json

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


def _needs_asking(source: Source) -> bool:
    return isinstance(source.origin, PostgresTable) and (source.columns is None or source.rows is None)


def init_project(directory: Path) -> Started:
    return write_starter(directory)


def read_duration(text: str) -> float:
    """Seconds, of `60s` or `2 min`."""
    try:
        return read_amount(text, DURATION)
    except Unreadable as error:
        raise UsageError(error.message, error.hint) from error


def sample_project(name: str) -> Path | None:
    """The folder of a sample project: beside the sources in a checkout, within the package when installed."""
    package = Path(__file__).parents[1]
    places = (package.parents[1] / "examples" / name, package / "examples" / name)
    return next((place for place in places if (place / "headrace.yml").is_file()), None)


def _report(view: View) -> ViewReport:
    if isinstance(view.query, Refusal):
        columns = view.recomputed.fields if isinstance(view.recomputed, FullQuery) else ()
        return ViewReport(view.name, columns, None, view.reads, view.query)
    from headrace.plan.canonical.fingerprint import fingerprint_of

    return ViewReport(view.name, fields_of(view.query), fingerprint_of(view.query), view.reads, None)


def _refusal(catalogue: Catalogue, view: View, refusal: Refusal) -> Problem:
    """A mistake, unless every contract that needs the view asks for it to be recomputed, and it can be."""
    if isinstance(view.recomputed, Refusal):
        return view.recomputed.problem
    needed_by = [contract for contract in catalogue.contracts.values() if view.name in _reads(catalogue, contract.view)]
    if not needed_by or any(contract.refresh is not Refresh.FULL for contract in needed_by):
        return refusal.problem
    message = f'view "{view.name}" is recomputed at every push, as its contracts ask: {refusal.operator}'
    return Problem(message, refusal.problem.where, None, Severity.NOTE)


def _reads(catalogue: Catalogue, view: str) -> frozenset[str]:
    """A view and everything it reads, through views."""
    found = {view}
    if view in catalogue.views:
        for read in catalogue.views[view].reads:
            found |= _reads(catalogue, read)
    return frozenset(found)


def _inspector(environment: Mapping[str, str]) -> Inspect:
    """Asks PostgreSQL about the sources it holds. Addresses are filled in here, and forgotten afterwards."""
    from headrace.connect.postgres.inspect import inspect_sources

    def inspect(sources: Mapping[str, Source]) -> tuple[Mapping[str, Source], tuple[Problem, ...]]:
        addresses: dict[str, str] = {}
        unset: list[Problem] = []
        for source in sources.values():
            if isinstance(source.origin, PostgresTable):
                try:
                    addresses[source.origin.dsn] = fill(source.origin.dsn, environment, source.declared_at)
                except InputError as error:
                    unset += error.problems
        found, findings = inspect_sources(sources, addresses)
        return found, (*unset, *findings)

    return inspect
