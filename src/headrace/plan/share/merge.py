"""Plans made alone, put together: equal vertices become one.

Two plans may make one vertex in different ways. The way that costs less in all is kept, among those with which every
contract is kept (SMILE §7 does not say which). It is the baseline that planning on what lives is measured against.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from headrace.model.catalogue import Contract
from headrace.model.plan import Edge, Graph, Vertex
from headrace.plan.admit import admit
from headrace.plan.live import Live
from headrace.plan.price import upstream_first
from headrace.plan.refuse import refuse
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.keeps import keeps_all
from headrace.plan.share.place import place
from headrace.plan.share.rewire import Rewiring, RewiringCosts
from headrace.plan.statistics import CoreStatistics


def merge(now: Arrangement, contract: Contract, cores: tuple[CoreStatistics, ...]) -> Arrangement:
    """Adds a contract that is planned as if nothing lived. If the plans do not fit together, it is planned on top of
    what lives instead.
    """
    question = replace(now.question(contract, cores), live=Live(now.tariff))
    answer = admit(question)
    if answer is None:
        return now.refusing(refuse(question))
    merged = _with_best_producers(now.keeping(question, answer), answer.vertices, answer.edges)
    return merged if keeps_all(merged) else place(now, contract, cores)


def _with_best_producers(merged: Arrangement, vertices: Mapping[str, Vertex], edges: Mapping[str, Edge]) -> Arrangement:
    """Decides, inputs before outputs, for each vertex that a new plan makes in another way than is usual."""
    for name in upstream_first(Graph(vertices, edges), [merged.kept[-1].vertex]):
        if name in edges and not _same(merged.graph.edges[name], edges[name]):
            merged = _better(merged, Rewiring("merge", name, name, {name: edges[name]}))
    return merged.with_graph(merged.graph)


def _same(one: Edge, other: Edge) -> bool:
    return (one.op, one.inputs) == (other.op, other.inputs)


def _better(usual: Arrangement, rewiring: Rewiring) -> Arrangement:
    """The cheaper of two ways that keeps all promises; the usual one if neither does and it is cheaper."""
    saved = RewiringCosts(usual).benefit(rewiring)
    if saved is None:
        return usual
    other = replace(usual, graph=rewiring.applied(usual.graph))
    first, second = (other, usual) if saved > 0 else (usual, other)
    return second if not keeps_all(first) and keeps_all(second) else first
