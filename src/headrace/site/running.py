"""What runs: one frozen value for each plan, with all that follows from the plan alone, made once.

The thread that goes over to a plan makes its `Running` before it touches anything, and hands this value around:
no plan is compiled a second time. What several threads see of a plan is this value, swapped whole by one assignment.
A reader takes it once, at its start, and uses it throughout: a second look may find another plan.

It is here and not in `run/`, because databases and watched contracts belong to a site.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.model.plan import Plan
from headrace.run.capture.spool import SPOOL
from headrace.run.compile.columns import serving_log
from headrace.run.compile.compile_plan import compile_plan
from headrace.run.program import Program, origins_of
from headrace.run.source_port import SourceDatabase
from headrace.site.auditor import WatchedContract
from headrace.site.sources.databases import by_contract, databases_of

HOUR_S = 3600.0
CHANGES_BYTES = 4_000_000_000
"""What changes may take at a site that does not say how large its disk is."""


@dataclass(frozen=True, slots=True)
class Running:
    """A plan that runs, is about to, or ran last.

    `forced` contracts were refused and are kept on a best-effort basis: what they are promised, in seconds. `sources`
    are those that the program reads, `databases` where they are. `watched` are the contracts as the auditor sees them.
    `budgets` are bytes that changes may take, by site.
    """

    plan: Plan
    program: Program
    forced: Mapping[str, float]
    sources: frozenset[str]
    databases: tuple[SourceDatabase, ...]
    watched: tuple[WatchedContract, ...]
    budgets: Mapping[str, int]


def make_running(plan: Plan, forced: Mapping[str, float] | None = None, compiled: Program | None = None) -> Running:
    """All that follows from a plan; `compiled` is its program if somebody has compiled it already.

    Raises UsageError if the plan reads a source of which nobody knows where its rows are.
    """
    program = compile_plan(plan) if compiled is None else compiled
    promised = {} if forced is None else dict(forced)
    sources = find_sources(program)
    databases = databases_of(plan.catalogue, sources)
    watched = watch_contracts(plan, program, promised, databases)
    return Running(plan, program, promised, sources, databases, watched, find_budgets(plan))


def find_budgets(plan: Plan) -> dict[str, int]:
    """Bytes that changes may take, by site."""
    sites = plan.catalogue.sites.items()
    return {name: CHANGES_BYTES if site.disk_capacity is None else int(site.disk_capacity) for name, site in sites}


def find_sources(program: Program) -> frozenset[str]:
    """The sources that a program reads."""
    return frozenset(
        read.removeprefix(SPOOL) for task in program.tasks.values() for read in task.reads if read.startswith(SPOOL)
    )


def watch_contracts(
    plan: Plan, program: Program, forced: Mapping[str, float], databases: tuple[SourceDatabase, ...]
) -> tuple[WatchedContract, ...]:
    """The contracts of a plan, as the auditor sees them."""
    sources: dict[str, frozenset[str]] = {}
    links: dict[str, frozenset[tuple[str, str]]] = {}
    for name, task in program.tasks.items():
        crossed = {(origin, task.site) for origin in origins_of(program, task)}
        crossed |= {(program.imports[read].origin, task.site) for read in task.reads if read in program.imports}
        links[name] = frozenset(crossed.union(*(links.get(read, ()) for read in task.reads)))
        own = {read.removeprefix(SPOOL) for read in task.reads if read.startswith(SPOOL)}
        inner = {source for read in task.reads for source in sources.get(read, ())}
        sources[name] = frozenset(own | inner)
    reads = by_contract(databases, {one.contract: sources[one.vertex] for one in plan.contracts})
    return tuple(
        WatchedContract(
            one.contract,
            log,
            forced.get(one.contract, one.freshness_s),
            one.penalty,
            reads[one.contract],
            sources[log],
            one.money * HOUR_S,
            delivers=plan.catalogue.contracts[one.contract].deliver is not None,
            links=links[log],
            imports=frozenset(program.imports_of([log])),
        )
        for one in plan.contracts
        for log in (serving_log(program, one),)
    )
