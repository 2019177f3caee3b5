"""A plan of one site in which some contracts go on as they are made now, and all others are made as another plan says.

What these contracts are made of stays as it is, up to the sources, also where the later plan makes it in another way.
Names of vertices say what they hold, so vertices of both plans fit into one graph: those of the later plan may read
what stays, and never the other way round.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from headrace.model.catalogue import Catalogue
from headrace.model.plan import ContractPlan, Graph, Plan, PlannedBlock
from headrace.model.source_shape import shape_of
from headrace.plan.share.arrangement import both, collect_graph
from headrace.plan.share.inherited import find_names_used


def may_be_held(before: Plan, wanted: Plan, contract: str) -> bool:
    """Whether a contract of both plans may go on as it is made now: its names mean the same in both, its sources are as
    they were, and may be where they were.
    """
    entries = {one.contract: one for one in before.contracts}
    if contract not in entries or all(one.contract != contract for one in wanted.contracts):
        return False
    return is_compatible(before, wanted, (entries[contract].vertex,))


def is_compatible(before: Plan, wanted: Plan, vertices: Collection[str]) -> bool:
    """Whether vertices of a plan, with all that they are made of, fit into another plan."""
    kept, now, then = collect_graph(before.graph, vertices), before.catalogue, wanted.catalogue
    sites = {vertex.site for vertex in kept.vertices.values()}
    blocks = {entry.block.id: entry for entry in wanted.blocks}
    used = _find_blocks(before, kept)
    means_same = all(entry.block.id not in blocks or _is_same(entry, blocks[entry.block.id]) for entry in used)
    sources = {vertex.scope[0] for vertex in kept.vertices.values() if vertex.base}
    are_same = all(
        name in then.sources
        and shape_of(now.sources[name]) == shape_of(then.sources[name])
        and now.sources[name].stays == then.sources[name].stays
        for name in sources
    )
    return sites <= then.sites.keys() and means_same and are_same


def hold_back(before: Plan, wanted: Plan, contracts: Collection[str], vertices: Collection[str] = ()) -> Plan:
    """The later plan, but for contracts and vertices that are made as before; they have to fit into it."""
    entries = {one.contract: one for one in before.contracts if one.contract in contracts}
    kept = collect_graph(before.graph, [*(one.vertex for one in entries.values()), *vertices])
    known = {entry.block.id for entry in wanted.blocks}
    added = tuple(entry for entry in _find_blocks(before, kept, entries.values()) if entry.block.id not in known)
    made = {name: before.vertex_figures[name] for name in kept.vertices}
    return replace(
        wanted,
        catalogue=_with_terms(before.catalogue, wanted.catalogue, entries.values()),
        blocks=(*wanted.blocks, *added),
        graph=both(kept, wanted.graph),
        contracts=tuple(entries.get(one.contract, one) for one in wanted.contracts),
        vertex_figures={**wanted.vertex_figures, **made},
        edge_figures={**wanted.edge_figures, **{name: before.edge_figures[name] for name in kept.edges}},
    )


def _find_blocks(plan: Plan, graph: Graph, entries: Collection[ContractPlan] = ()) -> list[PlannedBlock]:
    """The blocks that operators work for, or by which rows are named."""
    used = {*find_names_used(graph, graph.vertices), *(one.view for one in entries)}
    return [entry for entry in plan.blocks if entry.block.id in used]


def _is_same(one: PlannedBlock, other: PlannedBlock) -> bool:
    return (one.block.fingerprint, one.name) == (other.block.fingerprint, other.name)


def _with_terms(before: Catalogue, wanted: Catalogue, entries: Collection[ContractPlan]) -> Catalogue:
    """Contracts that go on are promised what they were."""
    terms = {one.contract: before.contracts[one.contract] for one in entries}
    views = {one.view: before.views[one.view] for one in entries if one.view in before.views}
    return replace(wanted, contracts={**wanted.contracts, **terms}, views={**views, **wanted.views})
