"""The figures of a plan: loads, times and costs, all computed from the graph and the promises that it keeps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from headrace.model.plan import ContractPlan, EdgeFigures, Graph, Plan, VertexFigures
from headrace.plan.live import Live
from headrace.plan.price import (
    Promise,
    arrivals,
    critical_path,
    late_share,
    time_of_edge,
    total_cost,
    upstream_first,
)
from headrace.plan.share.arrangement import Arrangement, KeptContract, collect_graph


def plan_of(arrangement: Arrangement, proven: Collection[str] = ()) -> Plan:
    """The plan, with contracts in the order in which they are declared. Those that share sources with others are exact
    only if that is proven.
    """
    live = arrangement.live
    graph = collect_graph(live.graph, (promise.vertex for promise in live.promises))
    contracts = {entry.contract.name: _contract_plan(entry, live, proven) for entry in arrangement.kept}
    return Plan(
        catalogue=arrangement.catalogue,
        options=arrangement.options,
        blocks=arrangement.blocks,
        graph=graph,
        contracts=tuple(contracts[name] for name in arrangement.catalogue.contracts if name in contracts),
        rejected=arrangement.rejected,
        vertex_figures=_vertex_figures(live, graph),
        edge_figures={name: _edge_figures(live, graph, name, live.served[name]) for name in graph.edges},
        totals=live.bill.totals(),
        goes_on=arrangement.goes_on,
    )


def _vertex_figures(live: Live, graph: Graph) -> dict[str, VertexFigures]:
    """Every vertex at the smallest batch that it serves."""
    served = live.served
    batch_of = {name: min(promise.batch_s for promise in served[name]) for name in graph.vertices}
    arrived = {batch: arrivals(graph, live.tariff, batch, graph.vertices) for batch in set(batch_of.values())}
    return {
        name: VertexFigures(
            vertex.rate.at(batch_of[name]), arrived[batch_of[name]][name], tuple(p.contract for p in served[name])
        )
        for name, vertex in graph.vertices.items()
    }


def _edge_figures(live: Live, graph: Graph, name: str, promises: tuple[Promise, ...]) -> EdgeFigures:
    edge, vertex = graph.edges[name], graph.vertices[name]
    batch_s = min(promise.batch_s for promise in promises)
    rows_per_s = vertex.rate.at(batch_s)
    return EdgeFigures(
        rows_per_s=rows_per_s,
        bytes_per_s=rows_per_s * vertex.width if edge.op == "copy" else None,
        time_s=time_of_edge(graph, edge, live.tariff, batch_s),
        serves=tuple(promise.contract for promise in promises),
    )


def score(arrangement: Arrangement) -> float:
    """What every search, move and rewiring lowers: the sum over contracts of share * (1 + CP/s) + penalty, in $/s."""
    return sum(weighed.cost for weighed in weigh_contracts(arrangement).values())


def weigh_contracts(arrangement: Arrangement) -> dict[str, Weighed]:
    return {entry.contract.name: _weigh(entry, arrangement.live) for entry in arrangement.kept}


@dataclass(frozen=True, slots=True)
class Weighed:
    """When a contract has its rows, how busy its busiest operator is, how likely it is late, the penalty for
    that ($/s), and its part of the score.
    """

    at: Mapping[str, float]
    path_s: float
    peak: float
    p_late: float
    penalty: float
    cost: float


def _weigh(kept: KeptContract, live: Live) -> Weighed:
    """The contract with its share of what it uses together with others."""
    contract, at = kept.contract, arrivals(live.graph, live.tariff, kept.batch_s, [kept.vertex])
    path_s, peak = at[kept.vertex], busiest(live, kept.batch_s, at)
    share = sum(live.bill.cost_of[name] / len(live.served[name]) for name in at)
    p_late = late_share(kept.rate, peak, contract.freshness_s)
    penalty = kept.rate * p_late * contract.penalty
    cost = total_cost(share, path_s, contract.freshness_s, penalty)
    return Weighed(at, path_s, peak, p_late, penalty, cost)


def _contract_plan(kept: KeptContract, live: Live, proven: Collection[str]) -> ContractPlan:
    contract, weighed = kept.contract, _weigh(kept, live)
    return ContractPlan(
        contract=contract.name,
        view=contract.view,
        site=contract.site,
        freshness_s=contract.freshness_s,
        penalty=contract.penalty,
        rule=kept.rule,
        vertex=kept.vertex,
        batch_s=kept.batch_s,
        critical_path_s=weighed.path_s,
        critical_path=critical_path(live.graph, weighed.at, kept.vertex),
        rate=kept.rate,
        capacity=kept.rate / weighed.peak if weighed.peak > 0 else None,
        p_late=weighed.p_late,
        cost=weighed.cost,
        exact=contract.name in proven or (kept.exact and not _could_share(kept, live)),
    )


def _could_share(kept: KeptContract, live: Live) -> bool:
    """Whether another contract reads what this one does."""
    mine = {vertex.scope for vertex in map(live.graph.vertices.__getitem__, _find_made_of(kept, live)) if vertex.base}
    others = (promise for promise in live.promises if promise.contract != kept.contract.name)
    read = (live.graph.vertices[name] for one in others for name in upstream_first(live.graph, [one.vertex]))
    return any(vertex.base and vertex.scope in mine for vertex in read)


def _find_made_of(kept: KeptContract, live: Live) -> list[str]:
    return upstream_first(live.graph, [kept.vertex])


def busiest(live: Live, batch_s: float, among: Mapping[str, float]) -> float:
    """The largest share of a batch's seconds that an operator needs for its push."""
    graph = live.graph
    edges = (graph.edges[name] for name in among if name in graph.edges)
    return max((time_of_edge(graph, edge, live.tariff, batch_s) / batch_s for edge in edges), default=0.0)
