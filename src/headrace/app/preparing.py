"""The plan that a running project goes over to: that of its files, on what runs, with what was forced."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

from headrace.app.forcing import plan_with_forced, still_forced
from headrace.app.project import load_beside, planned_catalogue
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import InputError, UsageError
from headrace.model.full_query import FullQuery
from headrace.model.plan import Plan, Rejection
from headrace.model.running import ApplyWishes, RunEngine
from headrace.plan.share.difference import difference
from headrace.service.folder import Folder
from headrace.service.forced import forced_promises
from headrace.service.host import Applied, Prepared
from headrace.service.measured import running_to_plan_on
from headrace.service.resume import databases_away

__all__ = ["Applied", "Prepared", "prepare", "prepare_or_resume", "runnable"]


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
    base, forced = None if wishes.replan else running, still_forced(folder, declared)
    if base is None:
        forced = {name: declared.contracts[name].freshness_s for name in forced}
    forced = {name: kept_s for name, kept_s in forced.items() if name not in wishes.force}
    refused: dict[str, Rejection] = {}
    while True:
        kept = _with_terms_that_run(running, declared, refused)
        plan, promised = plan_with_forced(base, kept, forced, wishes.force)
        lost = {one.contract: one for one in plan.rejected if _runs(running, one.contract)}
        if lost.keys() <= refused.keys():
            break
        refused |= {name: one for name, one in lost.items() if name not in refused}
    stays = tuple(one for one in refused.values() if one.contract not in lost)
    return Prepared(plan, promised, None if running is None else difference(running, plan), stays)


def _runs(running: Plan | None, contract: str) -> bool:
    """Whether what runs keeps a contract; not if that was forced."""
    if running is None or running.catalogue.contracts.get(contract) is None:
        return False
    kept = any(one.contract == contract for one in running.contracts)
    return kept and not running.catalogue.contracts[contract].forced


def _with_terms_that_run(running: Plan | None, declared: Catalogue, refused: Collection[str]) -> Catalogue:
    """Contracts whose other terms are refused go on with those that they have."""
    terms = {} if running is None else running.catalogue.contracts
    stay = {
        name: replace(declared.contracts[name], freshness_s=terms[name].freshness_s, site=terms[name].site)
        for name in refused
    }
    return replace(declared, contracts={**declared.contracts, **stay})


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
    """The project's plan. While a database is away the one that ran last, so that views of the others are kept.

    On the state of Headrace 0.1 a plan is made from nothing: whoever runs it forgets the views of that state.
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
        say("going on with the plan that ran last; `headrace apply` looks at the project's files again")
        return Prepared(running, forced_promises(folder), None)
