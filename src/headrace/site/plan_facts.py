"""Facts of a plan that a service needs: the sources it reads, the contracts to watch, and the space for its logs."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.plan import Plan
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.columns import serving_log
from headrace.run.program import Program
from headrace.site.auditor import Watched
from headrace.site.sources.databases import by_contract, databases_of, folder_databases

HOUR_S = 3600.0
CHANGES_BYTES = 4_000_000_000
"""What changes may take at a site that does not say how large its disk is."""


def budgets_of(plan: Plan) -> dict[str, int]:
    """Bytes that changes may take, by site."""
    sites = plan.catalogue.sites.items()
    return {name: CHANGES_BYTES if site.disk_capacity is None else int(site.disk_capacity) for name, site in sites}


def sources_of(program: Program) -> frozenset[str]:
    """The sources that a program reads."""
    return frozenset(
        read.removeprefix(SPOOL) for task in program.tasks.values() for read in task.reads if read.startswith(SPOOL)
    )


def watched_of(plan: Plan, program: Program, forced: Mapping[str, float]) -> tuple[Watched, ...]:
    """The contracts of a plan, as the auditor sees them. `forced` says what forced ones are promised, in seconds."""
    databases = databases_of(plan.catalogue, sources_of(program))
    sources: dict[str, frozenset[str]] = {}
    for name, task in program.tasks.items():
        own = {read.removeprefix(SPOOL) for read in task.reads if read.startswith(SPOOL)}
        inner = {source for read in task.reads for source in sources.get(read, ())}
        sources[name] = frozenset(own | inner)
    reads = by_contract(databases, {one.contract: sources[one.vertex] for one in plan.contracts})
    return tuple(
        Watched(
            one.contract,
            log,
            forced.get(one.contract, one.freshness_s),
            one.penalty,
            (*reads[one.contract], *folder_databases(plan.catalogue, sources[log])),
            sources[log],
            one.money * HOUR_S,
        )
        for one in plan.contracts
        for log in (serving_log(program, one),)
    )
