"""Which views are aggregated in parts, below UNION ALL (`canonical.below_unions`): those for which that is cheaper.

Each such view is planned alone, both ways. A view that runs stays as it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue, Refusal
from headrace.model.errors import UnsupportedSql
from headrace.model.plan import Plan
from headrace.plan.canonical.below_unions import aggregate_below_unions
from headrace.plan.canonical.blocks import blocks_of
from headrace.plan.share.ways import ROUNDING

Views = Mapping[str, tuple[Block, ...] | Refusal]
"""The blocks of every view, inner ones first; or why it is not maintained."""

PlanAlone = Callable[[Catalogue, Views], Plan]


def find_in_parts(catalogue: Catalogue, views: Views) -> dict[str, tuple[Block, ...]]:
    """The blocks of views that could be aggregated in parts, and that some contract is for."""
    found: dict[str, tuple[Block, ...]] = {}
    for name in sorted({contract.view for contract in catalogue.contracts.values()}):
        view = catalogue.views.get(name)
        if view is None or view.recomputed is not None or isinstance(view.query, Refusal):
            continue
        if isinstance(views.get(name, ()), Refusal):
            continue
        query = aggregate_below_unions(view.query, lambda source: catalogue.sources[source].site)
        if query is not None:
            try:
                found[name] = blocks_of(name, query)
            except UnsupportedSql:  # what has blocks as a whole need not have them in parts
                continue
    return found


def choose_in_parts(
    catalogue: Catalogue, views: Views, plan_alone: PlanAlone, running: Plan | None = None
) -> dict[str, tuple[Block, ...]]:
    """The blocks of views that are better aggregated in parts."""
    chosen: dict[str, tuple[Block, ...]] = {}
    runs = {} if running is None else {entry.block.id: entry.block.fingerprint for entry in running.blocks}
    kept = set() if running is None else {entry.view for entry in running.contracts}
    for name, blocks in find_in_parts(catalogue, views).items():
        whole = views[name]
        if name in kept and not isinstance(whole, Refusal) and runs.get(name) in _fingerprints(whole, blocks):
            is_better = runs[name] == blocks[-1].fingerprint
        else:
            contracts = {key: one for key, one in catalogue.contracts.items() if one.view == name and not one.forced}
            alone = replace(catalogue, contracts=contracts, feeds={}, templates={})
            is_better = is_better_plan(plan_alone(alone, {**views, name: blocks}), plan_alone(alone, views))
        if is_better:
            chosen[name] = blocks
    return chosen


def _fingerprints(*forms: tuple[Block, ...]) -> tuple[str, ...]:
    return tuple(blocks[-1].fingerprint for blocks in forms)


def is_better_plan(then: Plan, now: Plan) -> bool:
    """Whether a plan refuses fewer contracts, or as many at a lower cost."""
    if len(then.rejected) != len(now.rejected):
        return len(then.rejected) < len(now.rejected)
    return sum(one.cost for one in then.contracts) < sum(one.cost for one in now.contracts) * (1 - ROUNDING)
