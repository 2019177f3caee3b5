"""The plan that a running project goes over to: that of its files, on what runs, with what was forced."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.app.forcing import still_forced, with_forced
from headrace.app.project import load_project, planned_catalogue
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import InputError, UsageError
from headrace.model.full_query import FullQuery
from headrace.model.plan import Plan, PlanOptions, Rejection
from headrace.model.running import ApplyWishes, RunEngine
from headrace.plan.make import make_plan, plan_on_running
from headrace.plan.share.difference import difference
from headrace.service.folder import Folder
from headrace.service.host import Applied, Prepared
from headrace.service.measured import running_to_plan_on
from headrace.service.reading import forced_promises
from headrace.service.resume import databases_away

__all__ = ["Applied", "Prepared", "prepare", "prepare_or_resume", "runnable"]


def prepare(directory: Path, environment: Mapping[str, str], wishes: ApplyWishes, connect: bool = True) -> Prepared:
    """The project's plan on what runs. Contracts that were forced stay so while they ask for the same."""
    declared = load_project(directory, environment, True) if connect else planned_catalogue(directory, environment)
    folder = Folder(directory)
    running = running_to_plan_on(folder)
    for name in wishes.force:
        if name not in declared.contracts:
            raise UsageError(f'contract "{name}" does not exist', "contracts are listed by `headrace plan`")
    planned_s = still_forced(folder, declared)
    base = None if wishes.replan else running
    plan = _plan_on(base, with_forced(declared, planned_s))
    while refused := [one for one in plan.rejected if one.contract in wishes.force or one.contract in planned_s]:
        planned_s |= {one.contract: _next_offer(one, declared, planned_s) for one in refused}
        plan = _plan_on(base, with_forced(declared, planned_s))
    forced = {name: declared.contracts[name].freshness_s for name in planned_s}
    return Prepared(plan, forced, None if running is None else difference(running, plan))


def _next_offer(refused: Rejection, declared: Catalogue, planned_s: Mapping[str, float]) -> float:
    """What to plan a contract for that is to be forced: what it asks for, beyond all capacities; if nothing is as fast
    as that, the smallest freshness that could be kept.
    """
    name, smallest_s = refused.contract, refused.smallest_staleness_s
    if name not in planned_s:
        return declared.contracts[name].freshness_s
    if smallest_s is None or smallest_s <= planned_s[name]:
        raise UsageError(f'contract "{name}" cannot be forced: {refused.detail}')
    return smallest_s


def _plan_on(running: Plan | None, catalogue: Catalogue) -> Plan:
    return make_plan(catalogue, PlanOptions()) if running is None else plan_on_running(running, catalogue)


def runnable(prepared: Prepared, engine: RunEngine) -> Prepared:
    """The plan to go over to, if this engine can run it."""
    views = prepared.plan.catalogue.views
    for contract in prepared.plan.contracts if engine is RunEngine.LOCAL else ():
        recomputed, query = views[contract.view].recomputed, views[contract.view].query
        if isinstance(recomputed, FullQuery) and isinstance(query, Refusal):
            raise UsageError(
                f'contract "{contract.contract}" needs Spark: only it can evaluate view "{contract.view}" '
                f"({query.operator})",
                "run the project without `--engine local`",
            )
    return prepared


def prepare_or_resume(folder: Folder, environment: Mapping[str, str], say: Callable[[str], None]) -> Prepared:
    """The project's plan. While a database is away the one that ran last, so that views of the others are kept."""
    try:
        return prepare(folder.project, environment, ApplyWishes())
    except InputError:
        running = folder.running()
        away = {} if running is None else databases_away(running, environment)
        if running is None or not away:
            raise
        for name, reason in away.items():
            say(f"database {name} does not answer: {reason}")
        say("going on with the plan that ran last; `headrace apply` looks at the project's files again")
        return Prepared(running, forced_promises(folder), None)
