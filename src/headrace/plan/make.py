"""One plan for all contracts of a project: one after the other, each on top of what the earlier ones made.

Small views first: what they make is what larger ones are made of. A contract that cannot be kept is refused with a
counter-offer, and the others are planned as if it were not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue, Contract, Refusal
from headrace.model.errors import UnsupportedSql, UsageError
from headrace.model.plan import (
    ContractOrder,
    ContractPlan,
    EdgeFigures,
    Graph,
    Plan,
    PlannedBlock,
    PlanOptions,
    Rejection,
    Sharing,
    VertexFigures,
)
from headrace.plan.admit import Answer, Question, admit
from headrace.plan.blocks import blocks_of
from headrace.plan.cores import cores_of, planned_block, source_count
from headrace.plan.live import Live
from headrace.plan.price import (
    Bill,
    Promise,
    arrivals,
    late_share,
    rows_of_edge,
    tariff_of,
    time_of_edge,
    total_cost,
    upstream_first,
)
from headrace.plan.refuse import refuse, refuse_unsupported
from headrace.plan.search.views import rate_of_view
from headrace.plan.statistics import Core

Views = Mapping[str, tuple[Block, ...] | Refusal]
"""The blocks of every view, inner ones first; or why it is not maintained."""


def make_plan(catalogue: Catalogue, options: PlanOptions = PlanOptions()) -> Plan:  # noqa: B008 - options are frozen
    """The plan of a project's files."""
    return plan_views(catalogue, views_of(catalogue), options)


def views_of(catalogue: Catalogue) -> dict[str, tuple[Block, ...] | Refusal]:
    return {name: _blocks_of(catalogue, name) for name in catalogue.views}


def _blocks_of(catalogue: Catalogue, name: str) -> tuple[Block, ...] | Refusal:
    query = catalogue.views[name].query
    if isinstance(query, Refusal):
        return query
    try:
        return blocks_of(name, query)
    except UnsupportedSql as error:
        return Refusal(error.operator, error.problems[0])


def plan_views(catalogue: Catalogue, views: Views, options: PlanOptions) -> Plan:
    """The plan for the contracts of a catalogue whose views are given as blocks."""
    if options.sharing not in (Sharing.NONE, Sharing.MARGINAL):
        raise UsageError(f'sharing "{options.sharing}" is not planned yet', 'use "marginal" or "none"')
    cores = _all_cores(catalogue, views)
    live, kept, rejected = Live(tariff_of(catalogue)), list[_Kept](), list[Rejection]()
    for contract in _in_order(catalogue, cores, options):
        refusal = views[contract.view]
        if isinstance(refusal, Refusal):
            rejected.append(refuse_unsupported(contract.name, refusal))
            continue
        question = _question(catalogue, contract, cores[contract.view], options, live)
        answer = admit(question)
        if answer is None:
            rejected.append(refuse(question))
        else:
            kept.append(_Kept(question, answer))
            live = live.with_plan(answer.vertices, answer.edges, answer.promise)
    return _plan(catalogue, options, _planned_blocks(cores), kept, tuple(rejected), live)


def _all_cores(catalogue: Catalogue, views: Views) -> dict[str, tuple[Core, ...]]:
    """Blocks of equal fingerprints go by the name of the first, so that what one view makes is found by the next."""
    known = {name: blocks for name, blocks in views.items() if not isinstance(blocks, Refusal)}
    names: dict[str, str] = {}
    for block in (block for blocks in known.values() for block in (blocks[-1], *blocks[:-1])):
        names.setdefault(block.fingerprint, block.id)
    return {name: cores_of(blocks, catalogue, names) for name, blocks in known.items()}


@dataclass(frozen=True, slots=True)
class _Kept:
    question: Question
    answer: Answer


def _question(
    catalogue: Catalogue, contract: Contract, cores: tuple[Core, ...], options: PlanOptions, live: Live
) -> Question:
    return Question(
        catalogue=catalogue,
        contract=contract,
        cores=cores,
        rule=options.admission or catalogue.admission,
        method=options.method,
        live=live,
        salt=f"#{contract.name}" if options.sharing is Sharing.NONE else "",
    )


def _in_order(catalogue: Catalogue, cores: Mapping[str, tuple[Core, ...]], options: PlanOptions) -> list[Contract]:
    """Fewer sources first, then slower views, then by name; or as declared. Refused views come last."""
    contracts = list(catalogue.contracts.values())
    if options.order is ContractOrder.DECLARED:
        return contracts
    live = Live(tariff_of(catalogue))

    def size(contract: Contract) -> tuple[float, float, str]:
        if contract.view not in cores:
            return float("inf"), 0.0, contract.name
        question = _question(catalogue, contract, cores[contract.view], options, live)
        return source_count(question.cores), rate_of_view(question.wish, question.batch_s), contract.name

    return sorted(contracts, key=size)


def _planned_blocks(cores: Mapping[str, tuple[Core, ...]]) -> tuple[PlannedBlock, ...]:
    return tuple(planned_block(core, core is not view[-1]) for view in cores.values() for core in view)


def _plan(
    catalogue: Catalogue,
    options: PlanOptions,
    blocks: tuple[PlannedBlock, ...],
    kept: list[_Kept],
    rejected: tuple[Rejection, ...],
    live: Live,
) -> Plan:
    served, bill = live.served, live.bill
    order = upstream_first(live.graph, [promise.vertex for promise in live.promises])
    graph = Graph(
        {name: live.graph.vertices[name] for name in order},
        {name: live.graph.edges[name] for name in order if name in live.graph.edges},
    )
    contracts = {entry.question.contract.name: _contract_plan(entry, live, bill) for entry in kept}
    return Plan(
        catalogue=catalogue,
        options=options,
        blocks=blocks,
        graph=graph,
        contracts=tuple(contracts[name] for name in catalogue.contracts if name in contracts),
        rejected=rejected,
        vertex_figures=_vertex_figures(live, graph, served),
        edge_figures={name: _edge_figures(live, graph, name, served[name]) for name in graph.edges},
        totals=bill.totals(),
    )


def _vertex_figures(live: Live, graph: Graph, served: Mapping[str, tuple[Promise, ...]]) -> dict[str, VertexFigures]:
    """Every vertex at the smallest batch that it serves."""
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
    rows_per_s = rows_of_edge(graph, edge, batch_s)[1] / batch_s
    return EdgeFigures(
        rows_per_s=rows_per_s,
        bytes_per_s=rows_per_s * vertex.width if edge.op == "copy" else None,
        time_s=time_of_edge(graph, edge, live.tariff, batch_s),
        serves=tuple(promise.contract for promise in promises),
    )


def _contract_plan(entry: _Kept, live: Live, bill: Bill) -> ContractPlan:
    """The contract with its share of what it uses together with others."""
    question, answer, contract = entry.question, entry.answer, entry.question.contract
    vertex = answer.promise.vertex
    share = sum(bill.cost_of[name] / len(live.served[name]) for name in upstream_first(live.graph, [vertex]))
    rate = rate_of_view(question.wish, question.batch_s)
    p_late = late_share(rate, answer.peak, contract.freshness_s)
    return ContractPlan(
        contract=contract.name,
        view=contract.view,
        site=contract.site,
        freshness_s=contract.freshness_s,
        penalty=contract.penalty,
        rule=question.rule,
        vertex=vertex,
        batch_s=question.batch_s,
        critical_path_s=answer.path_s,
        critical_path=answer.path,
        rate=rate,
        capacity=rate / answer.peak if answer.peak > 0 else None,
        p_late=p_late,
        cost=total_cost(share, answer.path_s, contract.freshness_s, rate * p_late * contract.penalty),
        exact=replace(question).is_exact,
    )
