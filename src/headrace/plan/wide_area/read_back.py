"""Where the operators of a contract that runs are, read off its part of the graph.

An operator is where the complete delta of its sub-join, or of its output, is made. Contracts that were not placed
operator by operator (one that is held in another way, say) may join in a tree or make something at several sites.
Those are no chains of operators at sites: they stay as they are, and only the check of capacities counts them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from headrace.model.plan import Graph, Operator, VertexKind
from headrace.plan.outputs import facts_of_block
from headrace.plan.price import upstream_first
from headrace.plan.search.joins import OUTPUT
from headrace.plan.share.arrangement import Arrangement, KeptContract
from headrace.plan.statistics import CoreStatistics
from headrace.plan.wide_area.contracts import StreamedContract, list_sub_joins, make_streamed, operator_id, sink_id

Made = Mapping[tuple[str, tuple[str, ...] | None], frozenset[str]]
"""The sites where something makes a dataset, by its fingerprint and whose changes it carries."""

MAKERS = frozenset({Operator.JOIN, Operator.UNION, Operator.AGGREGATE, Operator.DERIVE})


def read_back(
    now: Arrangement, kept: KeptContract, cores: tuple[CoreStatistics, ...]
) -> tuple[StreamedContract, dict[str, str]] | None:
    """A contract as a query, and the sites of its operators; None if it is no chain of operators at sites."""
    question = replace(now.question(kept.contract, cores), rule=kept.rule)
    made = _find_made(now.graph, kept.vertex, question.salt)
    sites, chains = {sink_id(kept.contract.name): kept.contract.site}, dict[str, tuple[int, ...]]()
    for core in cores:
        joined = {
            subset: made[key]
            for subset in core.sub_joins
            if subset.bit_count() > 1
            and (key := (core.fingerprint(subset), core.aliases_of(core.complete(subset)))) in made
        }
        chain = _find_chain(core, frozenset(joined))
        if chain is None:
            return None
        chains[core.name] = chain
        found = {part: joined[part] for part in chain}
        if core.block.top is not None:
            facts = facts_of_block(core)
            found[OUTPUT] = made.get((facts.fingerprint, (facts.name,)), frozenset())
        if any(len(where) != 1 for where in found.values()):
            return None
        sites |= {operator_id(core, part): next(iter(where)) for part, where in found.items()}
    return make_streamed(question, chains, sites), sites


def _find_made(graph: Graph, wanted: str, salt: str) -> Made:
    found: dict[tuple[str, tuple[str, ...] | None], frozenset[str]] = {}
    for name in upstream_first(graph, [wanted]):
        vertex, edge = graph.vertices[name], graph.edges.get(name)
        if edge is not None and edge.op in MAKERS and vertex.kind is VertexKind.DELTA:
            key = vertex.fingerprint.removesuffix(salt), vertex.delta_of
            found[key] = found.get(key, frozenset()) | {vertex.site}
    return found


def _find_chain(core: CoreStatistics, joined: frozenset[int]) -> tuple[int, ...] | None:
    """The sub-joins that are made, each with one input more than the one before; None if they are others."""
    usual = list_sub_joins(core)
    if joined.issuperset(usual):
        return usual
    chain = tuple(sorted(joined, key=int.bit_count))
    grows = all(small & large == small and (large & ~small).bit_count() == 1 for small, large in pairwise(chain))
    return chain if grows and len(chain) == len(usual) else None
