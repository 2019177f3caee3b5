"""Prepares the next plan of a running project: its files, planned on the running plan, with forced contracts.

What reads files and plans is imported by those who do: the process of a site is told what it runs, and does neither.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.coordinate.compile_part import compile_part
from headrace.coordinate.existing import existing_in
from headrace.coordinate.host import Applied, Prepared, Reread
from headrace.coordinate.joined_files import read_joined
from headrace.coordinate.measured import running_to_plan_on
from headrace.coordinate.perform import TRIES, find_unfinished, is_stuck
from headrace.coordinate.resume import databases_away
from headrace.coordinate.steps import compile_with, shapes_of, steps_between
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import InputError, Problem, Severity, UnknownName, UsageError
from headrace.model.full_query import FullQuery
from headrace.model.going_over import GoingOver
from headrace.model.names import name_of_view
from headrace.model.options import ApplyWishes, DeclaredEngine, RunEngine, SitesMode
from headrace.model.plan import Plan
from headrace.model.plan_modes import PlanWishes
from headrace.model.source_shape import shape_of
from headrace.model.steps import say_step
from headrace.plan.share.difference import difference
from headrace.site.folder import Folder
from headrace.site.forced import read_forced_promises
from headrace.site.site_folders import read_part, read_sites_mode

if TYPE_CHECKING:
    from headrace.app.lost_sources import LostSource

__all__ = [
    "Applied",
    "AskSources",
    "Prepared",
    "Reread",
    "prepare",
    "prepare_beside_lost",
    "prepare_or_resume",
    "prepare_part",
    "prepare_while_stopped",
    "refuse_without_spark",
    "runnable",
]


class AskSources(StrEnum):
    """Who asks where sources are about them before a plan is made: this process; this process, except those that only
    the machines of their sites can reach; or nobody, if the project's files say enough.
    """

    HERE = "here"
    ELSEWHERE = "elsewhere"
    DECLARED = "declared"


def who_asks(sites: SitesMode) -> AskSources:
    return AskSources.ELSEWHERE if sites is SitesMode.AGENTS else AskSources.HERE


def prepare(
    directory: Path,
    environment: Mapping[str, str],
    wishes: ApplyWishes,
    asks: AskSources = AskSources.HERE,
    sites: SitesMode = SitesMode.INSIDE,
) -> Prepared:
    """The project's plan on what runs. Contracts that were forced stay so while they ask for the same."""
    return _prepare_on(running_to_plan_on(Folder(directory)), directory, environment, wishes, asks, sites)


def _prepare_on(
    running: Plan | None,
    directory: Path,
    environment: Mapping[str, str],
    wishes: ApplyWishes,
    asks: AskSources = AskSources.HERE,
    sites: SitesMode = SitesMode.INSIDE,
) -> Prepared:
    from headrace.app.project import inspector, load_beside, planned_catalogue
    from headrace.declare.project_text import digest_files

    files = digest_files(directory)  # before they are read: what changes later is seen
    known = {} if running is None else running.catalogue.sources
    if asks is AskSources.DECLARED:
        declared = planned_catalogue(directory, environment, known)
    else:
        inspect = inspector(directory, environment, elsewhere=asks is AskSources.ELSEWHERE)
        declared = load_beside(directory, environment, known, inspect)
    return _prepare_declared(running, Folder(directory), declared, files, wishes, sites)


def _prepare_declared(
    running: Plan | None, folder: Folder, declared: Catalogue, files: str, wishes: ApplyWishes, sites: SitesMode
) -> Prepared:
    from headrace.app.apart import leave_out_what_runs_inside
    from headrace.app.forgotten_sites import leave_out_sites
    from headrace.app.versions import plan_on_what_runs

    declared = leave_out_sites(declared, read_joined(folder).forgotten)
    declared, left_out = (declared, ()) if sites is SitesMode.INSIDE else leave_out_what_runs_inside(declared)
    for name in wishes.force:
        if name not in declared.contracts:
            raise UnknownName(f'contract "{name}" does not exist', "contracts are listed by `headrace plan`")
    plan, promised = plan_on_what_runs(folder, running, declared, wishes)
    wanted, change = compile_with(plan, promised), None if running is None else difference(running, plan)
    before = None if running is None else compile_with(running, read_forced_promises(folder))
    steps = steps_between(before, wanted, existing_in(folder))
    return Prepared(plan, promised, change, steps, files, program=wanted.program, left_out=left_out)


def runnable(prepared: Prepared, engine: RunEngine) -> Prepared:
    """The plan to go over to, if this engine can run it."""
    views = prepared.plan.catalogue.views
    for contract in prepared.plan.contracts if engine is RunEngine.LOCAL else ():
        recomputed, query = views[contract.view].recomputed, views[contract.view].query
        name = name_of_view(contract.view)
        if isinstance(recomputed, FullQuery) and isinstance(query, Refusal):
            raise UsageError(
                f'contract "{contract.contract}" needs Spark: only it can evaluate view "{name}" ({query.operator})',
                "run the project without `--engine local`",
            )
    return prepared


def refuse_without_spark(plan: Plan, engines: Mapping[str, DeclaredEngine]) -> None:
    """Raises UsageError if a site is to evaluate a view in full that its engine cannot."""
    for name, edge in plan.graph.edges.items():
        vertex = plan.graph.vertices[name]
        recomputed = None if edge.derivation is None else edge.derivation.recomputed
        if recomputed is None or recomputed.query is not None or engines[vertex.site].kind is not RunEngine.LOCAL:
            continue
        view = plan.catalogue.views[str(vertex.stands_for)]
        why = f" ({view.query.operator})" if isinstance(view.query, Refusal) else ""
        raise UsageError(
            f'site "{vertex.site}" needs Spark: only it can evaluate view "{name_of_view(view.name)}"{why}',
            f"run the project without `--engine local`, and site {vertex.site} without `engine: {{kind: local}}`",
        )


def prepare_or_resume(
    folder: Folder,
    environment: Mapping[str, str],
    planning: PlanWishes,
    say: Callable[[str], None],
    sites: SitesMode = SitesMode.INSIDE,
) -> Prepared:
    """The project's plan. While a database is away the one that ran last, so that views of the others are kept. Where
    only tables are missing, or are not what they were, their sources are as they ran last.

    The plan that the last service was on its way to, if that died and the project's files are the same.
    On the state of Headrace 0.1 a plan is made from nothing: the service that runs it forgets the views of that state.
    """
    wishes = ApplyWishes(planning=planning)
    if folder.is_of_old_version:
        return _prepare_on(None, folder.project, environment, wishes, who_asks(sites), sites)
    resumed = _resume_steps(folder, environment, say) if planning == PlanWishes() else None
    if resumed is not None:
        return resumed
    try:
        return prepare(folder.project, environment, wishes, who_asks(sites), sites)
    except InputError:
        running = folder.running()
        if running is None:
            raise
        if not _is_a_database_away(running, environment, say):
            return _tell_lost(_prepare_without_lost(running, folder, environment, wishes, sites), say)
        say("continuing with the plan that ran last; `headrace apply` reads the project's files again")
        ran = compile_with(running, read_forced_promises(folder))
        steps = steps_between(ran, ran, existing_in(folder))
        return Prepared(ran.plan, ran.forced, None, steps, program=ran.program)


def prepare_beside_lost(
    directory: Path, environment: Mapping[str, str], wishes: ApplyWishes, sites: SitesMode = SitesMode.INSIDE
) -> Prepared:
    """The project's plan on what runs. Sources whose tables are missing, or are not what they were, stay as they ran.

    Raises InputError for all other mistakes, and while a database is away.
    """
    try:
        return prepare(directory, environment, wishes, who_asks(sites), sites)
    except InputError:
        folder = Folder(directory)
        running = folder.running()
        if running is None or databases_away(running, environment):
            raise
        return _prepare_without_lost(running, folder, environment, wishes, sites)


def _prepare_without_lost(
    running: Plan, folder: Folder, environment: Mapping[str, str], wishes: ApplyWishes, sites: SitesMode
) -> Prepared:
    """Raises InputError if more is wrong than tables of sources that ran."""
    from headrace.app.lost_sources import load_without_lost
    from headrace.declare.project_text import digest_files

    files = digest_files(folder.project)
    declared, lost = load_without_lost(folder.project, environment, running.catalogue.sources)
    prepared = _prepare_declared(running_to_plan_on(folder), folder, declared, files, wishes, sites)
    return replace(prepared, lost=tuple(map(_say_lost, lost)))


def _say_lost(lost: LostSource) -> Problem:
    readers = f"; {_say_readers(lost.contracts)}" if lost.contracts else ""
    what = f'continuing without source "{lost.name}": {lost.problem.message}{readers}'
    return Problem(what, lost.problem.where, lost.problem.hint, Severity.WARNING)


def _tell_lost(prepared: Prepared, say: Callable[[str], None]) -> Prepared:
    for one in prepared.lost:
        say(one.message)
        if one.hint:
            say(f"  hint: {one.hint}")
    return prepared


def _say_readers(contracts: Sequence[str]) -> str:
    named = ", ".join(f'"{name}"' for name in contracts)
    return f"contract {named} waits for it" if len(contracts) == 1 else f"contracts {named} wait for it"


def prepare_part(folder: Folder, wishes: ApplyWishes) -> Prepared:
    """What a site was told to run, on what it runs."""
    part = read_part(folder)
    if part is None:
        raise UsageError(f'nobody has said what the site in "{folder.project}" is to run', "run `headrace up` again")
    running = folder.running()
    wanted = compile_part(part.plan, part.forced, part.earlier)
    # What is kept now was kept, or ran, before: a service that died may have gone over already.
    before = None if running is None else compile_part(running, read_forced_promises(folder), part.earlier)
    change = None if before is None else difference(before.plan, wanted.plan)
    steps = steps_between(before, wanted, existing_in(folder))
    return Prepared(wanted.plan, part.forced, change, steps, str(part.number), program=wanted.program)


def prepare_while_stopped(
    directory: Path, environment: Mapping[str, str], wishes: ApplyWishes, say: Callable[[str], None]
) -> Prepared:
    """What the next `up` would do, of a project that does not run."""
    asks, folder = wishes.replan or wishes.force or wishes.planning != PlanWishes(), Folder(directory)
    resumed = None if asks else _resume_steps(folder, environment, say)
    return resumed or prepare_beside_lost(directory, environment, wishes, read_sites_mode(folder))


def _is_a_database_away(plan: Plan, environment: Mapping[str, str], say: Callable[[str], None]) -> bool:
    away = databases_away(plan, environment)
    for name, reason in away.items():
        say(f"database {name} does not answer: {reason}")
    return bool(away)


def _resume_steps(folder: Folder, environment: Mapping[str, str], say: Callable[[str], None]) -> Prepared | None:
    """What a service did not finish when it died; None if nothing is left, or if that leads nowhere by now: then the
    steps that are left are dropped, and what they made in vain is removed.
    """
    found = None if folder.is_of_old_version else find_unfinished(folder)
    if found is None:
        return None
    going, done = found
    why = _why_not_resumed(going, folder, environment, say)
    if why is not None:
        say(f"dropping the steps that the last run did not finish: {why}")
        return None
    say(f"the last run had done {done} of {len(going.steps)} steps to another plan; what is left:")
    for step in going.steps[done:]:
        say(f"  {say_step(step)}")
    return Prepared(going.plan, going.forced, None, going.steps, going.files, done)


def _why_not_resumed(
    going: GoingOver, folder: Folder, environment: Mapping[str, str], say: Callable[[str], None]
) -> str | None:
    """None if the steps still lead to what the project asks for."""
    from headrace.app.project import load_beside
    from headrace.declare.project_text import digest_files

    if not going.files:
        return "it had begun them by itself, not for a change of the project's files"
    if going.files != digest_files(folder.project):
        return "they lead to a plan of other files than there are now"
    if is_stuck(folder):
        return f"they were begun {TRIES} times, and none of them was done"
    try:
        found = load_beside(folder.project, environment, going.plan.catalogue.sources).sources
    except InputError:  # if no database is away, planning again says what is wrong
        return None if _is_a_database_away(going.plan, environment, say) else "its sources have changed"
    changed = sorted(name for name, shape in shapes_of(going.plan).items() if shape_of(found[name]) != shape)
    return f"{', '.join(changed)} changed in the meantime" if changed else None
