"""What still runs of views that are gone or say something else now: under which names, and as whose work.

Equal blocks of several views go by one name, and an operator works for the block that asked for it first. When that
view goes, the others still read its rows. So its operators are given to another view that needs the same; what only it
can name stays among the blocks of the plan, as long as somebody reads it. A view of its name that means something else
leaves no room for it: contracts that depend on the old one are then planned again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from headrace.model.block import Block, BlockFilter
from headrace.model.catalogue import Refusal
from headrace.model.plan import Edge, Graph, Operator, PlannedBlock, Vertex
from headrace.plan.price import upstream_first
from headrace.plan.share.arrangement import Arrangement, KeptContract
from headrace.plan.share.subject import subject_of_join

Declared = Mapping[str, str]
"""The fingerprints of all blocks of today's views, by id."""


def find_declared_blocks(views: Mapping[str, tuple[Block, ...] | Refusal]) -> Declared:
    found = (blocks for blocks in views.values() if not isinstance(blocks, Refusal))
    return {block.id: block.fingerprint for blocks in found for block in blocks}


def give_to_others(now: Arrangement, declared: Declared) -> Arrangement:
    """Gives operators of blocks that are not declared any more to blocks that are, where they fit."""
    blocks = {entry.block.id: entry for entry in now.blocks}
    views = {kept.contract.name: kept.contract.view for kept in now.kept}
    edges = dict(now.graph.edges)
    for name, edge in now.graph.edges.items():
        old = blocks.get(edge.block or "")
        if old is not None and _is_stale(old.block, declared):
            mine = {views[promise.contract] for promise in now.live.served[name]}
            heirs = (one for one in now.blocks if _view_of(one) in mine and not _is_stale(one.block, declared))
            fitting = (one for one in heirs if _fits(edge, now.graph.vertices[name], old, one))
            heir = next(fitting, None)
            edges[name] = edge if heir is None else replace(edge, block=heir.block.id)
    return replace(now, graph=Graph(now.graph.vertices, edges))


def _is_stale(block: Block, declared: Declared) -> bool:
    return declared.get(block.id) != block.fingerprint


def _view_of(planned: PlannedBlock) -> str:
    return planned.block.id.partition("/")[0]


def _fits(edge: Edge, vertex: Vertex, old: PlannedBlock, heir: PlannedBlock) -> bool:
    """Whether an operator does for a block what it did for another."""
    if edge.op in (Operator.AGGREGATE, Operator.DERIVE):
        return (heir.block.fingerprint, heir.name) == (old.block.fingerprint, old.name)
    if edge.op is Operator.JOIN:
        has_aliases = set(vertex.scope) <= {input_.alias for input_ in heir.block.inputs}
        reads_same = has_aliases and all(heir.reads[alias] == old.reads[alias] for alias in vertex.scope)
        return reads_same and subject_of_join(heir.block, vertex.scope) == subject_of_join(old.block, vertex.scope)
    return all(_has_filter(heir, filter_, old) for filter_ in edge.select)


def _has_filter(heir: PlannedBlock, filter_: BlockFilter, old: PlannedBlock) -> bool:
    reads_same = heir.reads.get(filter_.alias, "") == old.reads.get(filter_.alias)
    return reads_same and any(one == filter_ for one in heir.block.filters)


def names_stand(kept: KeptContract, now: Arrangement, declared: Declared) -> bool:
    """Whether no block that a contract depends on has lost its name to another."""
    old = {entry.block.id: entry.block for entry in now.blocks}
    used = blocks_used(now, kept.vertex)
    return all(name not in declared or not _is_stale(old[name], declared) for name in used)


def blocks_used(now: Arrangement, *wanted: str) -> frozenset[str]:
    """The ids of blocks that operators upstream of some vertices work for, or by which rows are named."""
    known = {entry.block.id for entry in now.blocks}
    return frozenset(find_names_used(now.graph, wanted)) & known


def find_names_used(graph: Graph, wanted: Iterable[str]) -> Iterator[str]:
    """The names of blocks and sources that operators upstream of some vertices work for, or by which rows are named."""
    for name in upstream_first(graph, wanted):
        vertex, edge = graph.vertices[name], graph.edges.get(name)
        yield from (alias.partition("#")[0] for alias in vertex.scope)
        yield vertex.stands_for or ""
        yield edge.block or "" if edge is not None else ""
