"""Prepares the next plan of a running project: its files, planned on the running plan, with forced contracts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.app.project import load_beside, planned_catalogue
from headrace.app.versions import plan_on_what_runs
from headrace.coordinate.existing import existing_in
from headrace.coordinate.host import Applied, Prepared, Reread
from headrace.coordinate.measured import running_to_plan_on
from headrace.coordinate.resume import databases_away
from headrace.coordinate.steps import compile_with, steps_between
from headrace.model.catalogue import Refusal
from headrace.model.errors import InputError, UsageError
from headrace.model.full_query import FullQuery
from headrace.model.names import name_of_view
from headrace.model.options import ApplyWishes, RunEngine
from headrace.model.plan import Plan
from headrace.plan.share.difference import difference
from headrace.site.folder import Folder
from headrace.site.forced import read_forced_promises

__all__ = ["Applied", "Prepared", "Reread", "prepare", "prepare_or_resume", "runnable"]


def prepare(directory: Path, environment: Mapping[str, str], wishes: ApplyWishes, connect: bool = True) -> Prepared:
    """The project's plan on what runs. Contracts that were forced stay so while they ask for the same."""
    return _prepare_on(running_to_plan_on(Folder(directory)), directory, environment, wishes, connect)


def _prepare_on(
    running: Plan | None, directory: Path, environment: Mapping[str, str], wishes: ApplyWishes, connect: bool = True
) -> Prepared:
    folder = Folder(directory)
    load = load_beside if connect else planned_catalogue
    declared = load(directory, environment, {} if running is None else running.catalogue.sources)
    for name in wishes.force:
        if name not in declared.contracts:
            raise UsageError(f'contract "{name}" does not exist', "contracts are listed by `headrace plan`")
    plan, promised = plan_on_what_runs(folder, running, declared, wishes)
    before = None if running is None else compile_with(running, read_forced_promises(folder))
    steps = steps_between(before, compile_with(plan, promised), existing_in(folder))
    return Prepared(plan, promised, None if running is None else difference(running, plan), steps)


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


def prepare_or_resume(folder: Folder, environment: Mapping[str, str], say: Callable[[str], None]) -> Prepared:
    """The project's plan. While a database is away the one that ran last, so that views of the others are kept.

    On the state of Headrace 0.1 a plan is made from nothing: the service that runs it forgets the views of that state.
    """
    if folder.is_of_old_version:
        return _prepare_on(None, folder.project, environment, ApplyWishes())
    try:
        return prepare(folder.project, environment, ApplyWishes())
    except InputError:
        running = folder.running()
        away = {} if running is None else databases_away(running, environment)
        if running is None or not away:
            raise
        for name, reason in away.items():
            say(f"database {name} does not answer: {reason}")
        say("continuing with the plan that ran last; `headrace apply` reads the project's files again")
        return Prepared(running, read_forced_promises(folder), None)
