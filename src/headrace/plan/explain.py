"""Why a plan is as it is, and what would be different: answers with their numbers, for people and programs to show.

    why       a contract: its critical path step by step, what it shares, and the plans it was preferred to
              a vertex: how it is made, who reads it, whom it serves, and what it costs
    what_if   a project before and after a change: which contracts would be kept, and what each would cost; of a
              running one, from the plan that runs

Alternatives are planned afresh with everybody else unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from statistics import median

import numpy as np

from headrace.model.amounts import format_seconds
from headrace.model.catalogue import Catalogue, Source
from headrace.model.errors import UnknownName, UsageError, nearest_name
from headrace.model.explanation import (
    Alternative,
    ContractOutcome,
    Grounds,
    ImaginedChange,
    PathVertex,
    ResultSize,
    SourceRate,
    StatisticOrigin,
    WhatIf,
    Why,
    WhyContract,
    WhyRejected,
    WhyVertex,
)
from headrace.model.feed_names import feed_of
from headrace.model.feed_plan import FeedPlan
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Edge, Plan, PlannedBlock, PlanOptions, Rejection, Vertex, settle_wishes
from headrace.model.plan_modes import Method
from headrace.model.statistics import rate_of
from headrace.plan.admit import Answer, Question, best_plan, cheapest_plan, fastest_plan, keeps, next_best_plan
from headrace.plan.explain_ways import explain_other_way
from headrace.plan.figures import score
from headrace.plan.make import expand_declared, make_plan, plan_on_running
from headrace.plan.price import arrivals, charge, tariff_of, time_of_edge, upstream_first
from headrace.plan.refuse import what_is_left
from headrace.plan.share.arrangement import arrangement_of
from headrace.plan.share.forms import form_of
from headrace.plan.share.revalue import Measured
from headrace.plan.sizes import size_now

SHARING_NOTHING = "cheapest, sharing nothing"
NEGLIGIBLE = 1e-6
"""Share of the score below which a difference is none."""


def why(plan: Plan, name: str) -> tuple[Why, ...]:
    """The answer about a contract, a feed, a pair of a feed, a template, a view (all its contracts) or a vertex. Raises
    UsageError with the nearest name.
    """
    if name in plan.catalogue.templates:
        return _why_template(plan, name)
    if plan.catalogue.feeds:
        from headrace.plan.feeds.explain_feed import explain_feed

        fed = explain_feed(plan, name)
        if fed is not None:
            return (fed,)
    entries: tuple[ContractPlan | Rejection, ...] = (*plan.contracts, *plan.rejected)
    named = [entry for entry in entries if entry.contract == name]
    views = {contract: name_of_view(one.view) for contract, one in plan.catalogue.contracts.items()}
    named = named or [entry for entry in entries if views[entry.contract] == name]
    if named:
        return tuple(_why_contract(plan, entry) for entry in named)
    vertices = [v for v in plan.graph.vertices.values() if _is_called(v, name)]
    if vertices:
        return tuple(_why_vertex(plan, vertex) for vertex in vertices)
    raise _nothing_planned(plan.catalogue, name)


def _why_template(plan: Plan, name: str) -> tuple[Why, ...]:
    """The template, then each of its contracts."""
    from headrace.plan.place.explain_template import explain_template

    template = explain_template(plan, name)
    entries: tuple[ContractPlan | Rejection, ...] = (*plan.contracts, *plan.rejected)
    parts = () if template is None else template.plan.contracts
    told = tuple(_why_contract(plan, entry) for entry in entries if entry.contract in parts)
    return (*(() if template is None else (template,)), *told)


def _is_called(vertex: Vertex, name: str) -> bool:
    """Whether a vertex goes by a name: by its id, with or without the fingerprint; what is captured of a source by the
    name of the source, too.
    """
    return name in (vertex.id, vertex.id.split("~")[0]) or (vertex.base and vertex.scope == (name,))


def _nothing_planned(catalogue: Catalogue, name: str) -> UsageError:
    """What a name is that the plan has nothing for."""
    if name in catalogue.views:
        return UsageError(f'view "{name}" has no contract: nothing is planned for it', "write a contract for it")
    if name in catalogue.sources:
        return UsageError(f'no contract needs source "{name}": it is not captured', None)
    if name in catalogue.sites:
        return UsageError(f'"{name}" is a site', "`headrace plan` lists what runs at each site")
    known = (*catalogue.contracts, *catalogue.feeds, *map(name_of_view, catalogue.views), *catalogue.sources)
    listed = f"contracts are {', '.join(catalogue.contracts)}" if catalogue.contracts else "there are no contracts"
    return UnknownName(f'"{name}" is not a contract, a view or a source', nearest_name(name, known) or listed)


# Contracts


def _why_contract(plan: Plan, entry: ContractPlan | Rejection) -> WhyContract | WhyRejected:
    if isinstance(entry, Rejection) and (entry.reason.startswith("unsupported:") or entry.fastest_cp_s is None):
        return WhyRejected(entry, ())
    question = _question(plan, entry.contract)
    if isinstance(entry, Rejection):
        return WhyRejected(entry, _alternatives(question))
    upstream = upstream_first(plan.graph, [entry.vertex])
    shared = tuple(name for name in upstream if len(plan.vertex_figures[name].serves) > 1)
    others = {other for name in shared for other in plan.vertex_figures[name].serves} - {entry.contract}
    return WhyContract(
        plan=entry,
        limit_s=question.limit_s,
        steps=_steps(plan, question, entry),
        states=_states(plan.graph.edges, upstream),
        shared=shared,
        others=len(others),
        alternatives=_by_score(plan, entry, question),
        other_way=explain_other_way(plan, entry),
    )


def _question(plan: Plan, name: str) -> Question:
    """The contract before the planner, with all others as they are."""
    now, contract = arrangement_of(plan), plan.catalogue.contracts[name]
    return now.without(name).question(contract, form_of(now, contract.view))


def _steps(plan: Plan, question: Question, entry: ContractPlan) -> tuple[PathVertex, ...]:
    graph, tariff, x = plan.graph, question.live.tariff, entry.batch_s
    at = arrivals(graph, tariff, x, [entry.vertex])
    steps = []
    for name in entry.critical_path:
        edge = graph.edges.get(name)
        took = 0.0 if edge is None else time_of_edge(graph, edge, tariff, x)
        steps.append(
            PathVertex(name, None if edge is None else edge.op.value, graph.vertices[name].site, took, at[name])
        )
    return tuple(steps)


def _states(edges: Mapping[str, Edge], upstream: list[str]) -> tuple[str, ...]:
    joins = (edges[name] for name in upstream if name in edges and edges[name].op in ("join", "derive"))
    return tuple(sorted({name for edge in joins for name in edge.inputs if name.startswith("r:")}))


# Alternatives


def _alternatives(question: Question) -> tuple[Alternative, ...]:
    """Alternatives to a contract that is refused, each with what it would add."""
    return tuple(_alternative(question, name, answer, answer.cost) for name, answer in _other_plans(question))


def _by_score(plan: Plan, entry: ContractPlan, question: Question) -> tuple[Alternative, ...]:
    """Alternatives to a contract that is kept. Each costs what the contract does, and what it adds to the score of
    everything: what others share with this contract they would pay alone without it.
    """
    now = arrangement_of(plan)
    others, total = now.without(entry.contract), score(now)
    found = []
    for name, answer in _other_plans(question):
        then = score(others) + answer.cost if name == SHARING_NOTHING else score(others.keeping(question, answer))
        one = _alternative(question, name, answer, entry.cost + then - total)
        is_better = one.why_not is None and then < total * (1 - NEGLIGIBLE)
        found.append(replace(one, why_not=_why_not_yet(plan, name)) if is_better else one)
    return tuple(found)


def _why_not_yet(plan: Plan, name: str) -> str:
    """Why a plan with a lower score is not the one."""
    if name == SHARING_NOTHING:
        return "would compute what other contracts already compute; a site computes a dataset only once"
    wishes = settle_wishes(plan.options, plan.catalogue)
    if wishes.wide_area is not None:
        return f'mode "{wishes.wide_area.value}" of --wide-area places operators differently'
    if wishes.method is not None and wishes.method is not Method.CHEAPEST:
        return f'method "{wishes.method.value}" does not find it'
    return "is better only now that the others are planned; a running project moves to it if that pays"


def _other_plans(question: Question) -> list[tuple[str, Answer]]:
    """The runner-up; the cheapest plan if time did not matter, the fastest whatever it costs, the cheapest without the
    others.
    """
    taken = best_plan(question)
    found: list[tuple[str, Answer | None]] = [
        ("runner-up", None if taken is None else next_best_plan(question, taken)),
        ("cheapest, however late", cheapest_plan(question)),
        ("fastest, whatever it costs", fastest_plan(question, highest_peak=np.inf)),
    ]
    if not question.salt and question.live.promises:
        alone = replace(question, salt=f"#{question.contract.name}")
        found.append((SHARING_NOTHING, best_plan(replace(alone, method=Method.CHEAPEST))))
    return [(name, answer) for name, answer in found if answer is not None]


def _alternative(question: Question, name: str, answer: Answer, cost: float) -> Alternative:
    upstream = upstream_first(answer.graph, [answer.promise.vertex])
    return Alternative(name, cost, answer.path_s, _states(answer.graph.edges, upstream), _why_not(question, answer))


def _why_not(question: Question, answer: Answer) -> str | None:
    if answer.path_s > question.limit_s:
        return f"takes {format_seconds(answer.path_s)}, and {what_is_left(question)}"
    if answer.peak >= 1.0:
        return "an operator cannot keep up"
    if answer.overloaded:
        return f"exceeds {', '.join(resource.name for resource in answer.overloaded)}"
    assert keeps(question, answer)
    return None


# Vertices


def _why_vertex(plan: Plan, vertex: Vertex) -> WhyVertex:
    figures = plan.vertex_figures[vertex.id]
    served = [entry for entry in plan.contracts if entry.contract in figures.serves]
    batch_s, kept_s = min(e.batch_s for e in served), 2 * max(e.freshness_s for e in served)
    return WhyVertex(
        vertex=vertex,
        producer=plan.graph.edges.get(vertex.id),
        readers=tuple(name for name, edge in plan.graph.edges.items() if vertex.id in edge.inputs),
        serves=figures.serves,
        rate=figures.rate,
        arrival_s=figures.arrival_s,
        cost=charge(plan.graph, tariff_of(plan.catalogue), vertex.id, batch_s, kept_s).rescost,
    )


# What answers rest on


def grounds(
    catalogue: Catalogue,
    sources: Collection[str],
    measured: Measured | None = None,
    results: Iterable[PlannedBlock] = (),
) -> Grounds:
    """The statistics behind an answer about what is made of some sources, through some results; `measured` is what a
    running plan taught.
    """
    rates = (_source_rate(source) for name, source in catalogue.sources.items() if name in sources)
    taken = [] if measured is None else list(measured.slowness.values())
    sizes = (_result_size(catalogue, result) for result in results if not _is_size_assumed(catalogue, result))
    known = tuple(one for one in sizes if one.rows is not None or one.rate is not None)
    return Grounds(measured is not None, tuple(rates), median(taken) if taken else None, known)


def _is_size_assumed(catalogue: Catalogue, result: PlannedBlock) -> bool:
    found = catalogue.sizes.get(result.block.fingerprint)
    return found is not None and found.assumed


def _result_size(catalogue: Catalogue, result: PlannedBlock) -> ResultSize:
    size = size_now(catalogue, result.block.fingerprint)
    return ResultSize(name_of_view(result.name), size.rows, size.rate)


def sources_of(plan: Plan, name: str) -> frozenset[str]:
    """The sources that a contract, a view or a vertex is made of; all that the plan reads, if it has none such."""
    return frozenset(vertex.scope[0] for vertex in _find_made_of(plan, name) if vertex.base)


def results_of(plan: Plan, name: str) -> tuple[PlannedBlock, ...]:
    """The blocks with an operator on top through which the same is made, each once."""
    made = {vertex.fingerprint for vertex in _find_made_of(plan, name)}
    found = {entry.name: entry for entry in plan.blocks if entry.block.fingerprint in made}
    return tuple(entry for entry in found.values() if entry.block.top is not None)


def _find_made_of(plan: Plan, name: str) -> list[Vertex]:
    """The vertices that a contract, a view or a vertex is made of; all, if there is none such."""
    graph = plan.graph
    named = [entry.vertex for entry in plan.contracts if name in (entry.contract, name_of_view(entry.view))]
    named += [vertex.id for vertex in graph.vertices.values() if _is_called(vertex, name)]
    return [graph.vertices[vertex] for vertex in upstream_first(graph, named or graph.vertices)]


def _source_rate(source: Source) -> SourceRate:
    measured, declared = source.measured_rate is not None, source.rate is not None or source.static
    origin = StatisticOrigin.MEASURED if measured else StatisticOrigin.DECLARED if declared else StatisticOrigin.ASSUMED
    return SourceRate(source.name, rate_of(source), origin, 0.0 if source.static else source.rate)


# What if


def what_if(catalogue: Catalogue, contract: str, change: ImaginedChange, options: PlanOptions | None = None) -> WhatIf:
    """Plans the project as it is and as it would be. Raises UsageError for names that do not exist."""
    options, catalogue = options or PlanOptions(), expand_declared(catalogue)
    return _compare_plans(
        make_plan(catalogue, options), make_plan(change_catalogue(catalogue, contract, change), options), contract
    )


def what_if_running(running: Plan, contract: str, change: ImaginedChange) -> WhatIf:
    """What runs, and what it would become: contracts that the change does not concern keep their vertices. Those that
    were refused are judged anew, at today's statistics.
    """
    now = plan_on_running(running, running.catalogue)
    return _compare_plans(
        now, plan_on_running(running, change_catalogue(running.catalogue, contract, change)), contract
    )


def _compare_plans(now: Plan, then: Plan, contract: str) -> WhatIf:
    before, after = _outcomes(now), _outcomes(then)
    others = {
        name: (before[name], after[name])
        for name in before
        if name != contract and not _alike(before[name], after[name])
    }
    return WhatIf(before[contract], after[contract], others, (now.totals.rescost, then.totals.rescost))


def change_catalogue(catalogue: Catalogue, contract: str, change: ImaginedChange) -> Catalogue:
    """The catalogue with a change made. A contract that asks for another freshness is not forced any more."""
    _check_names(catalogue, contract, change)
    if contract in catalogue.feeds:
        return _change_around(_change_feed(catalogue, contract, change), change)
    terms = catalogue.contracts[contract]
    if change.freshness_s not in (None, terms.freshness_s):
        terms = replace(terms, freshness_s=change.freshness_s, forced=False)
    if change.site is not None:
        terms = replace(terms, site=change.site)
    return _change_around(replace(catalogue, contracts={**catalogue.contracts, contract: terms}), change)


def _change_feed(catalogue: Catalogue, name: str, change: ImaginedChange) -> Catalogue:
    """The catalogue with other terms of a feed, and of its views if it runs."""
    feed = catalogue.feeds[name]
    freshness_s = feed.freshness_s if change.freshness_s is None else change.freshness_s
    site = feed.site if change.site is None else change.site
    parts = {
        part: replace(terms, freshness_s=freshness_s, site=site)
        for part, terms in catalogue.contracts.items()
        if feed_of(part, (name,)) is not None
    }
    feeds = {**catalogue.feeds, name: replace(feed, freshness_s=freshness_s, site=site)}
    return replace(catalogue, feeds=feeds, contracts={**catalogue.contracts, **parts})


def _change_around(catalogue: Catalogue, change: ImaginedChange) -> Catalogue:
    """The catalogue with other links and rates."""
    links = tuple(
        link if wanted is None else replace(link, bandwidth=wanted, measured=None)
        for link in catalogue.links
        for wanted in (change.bandwidth.get((link.src, link.dst)),)
    )
    sources = {
        name: replace(source, measured_rate=change.rate.get(name, source.measured_rate))
        for name, source in catalogue.sources.items()
    }
    return replace(catalogue, links=links, sources=sources)


def _check_names(catalogue: Catalogue, contract: str, change: ImaginedChange) -> None:
    links = {(link.src, link.dst) for link in catalogue.links}
    for kind, names, known in (
        ("contract", [contract], {*catalogue.contracts, *catalogue.feeds}),
        ("site", [] if change.site is None else [change.site], set(catalogue.sites)),
        ("source", list(change.rate), set(catalogue.sources)),
        ("link", [">".join(ends) for ends in change.bandwidth], {">".join(ends) for ends in links}),
    ):
        for name in names:
            if name not in known:
                hint = nearest_name(name, known) or f"there are {', '.join(sorted(known))}"
                raise UsageError(f'{kind} "{name}" does not exist', hint)


def _outcomes(plan: Plan) -> dict[str, ContractOutcome]:
    full = {name: plan.catalogue.is_in_full(name) for name in plan.catalogue.contracts}
    kept = {
        e.contract: ContractOutcome(True, e.cost, e.money, e.critical_path_s, None, None, full[e.contract])
        for e in plan.contracts
    }
    refused = {
        r.contract: ContractOutcome(
            False, None, None, r.fastest_cp_s, r.reason, r.smallest_staleness_s, full[r.contract]
        )
        for r in plan.rejected
    }
    feeds = {one.feed: _outcome_of_feed(plan, one) for one in _find_feeds(plan)}
    return {name: one for name, one in {**kept, **refused, **feeds}.items() if feed_of(name, feeds) is None}


def _find_feeds(plan: Plan) -> tuple[FeedPlan, ...]:
    """The feeds of a plan, also of one that was made again on what runs, which has only their contracts."""
    if plan.feeds or not plan.catalogue.feeds:
        return plan.feeds
    from headrace.plan.feeds.family import describe_feeds

    return describe_feeds(plan)


def _outcome_of_feed(plan: Plan, feed: FeedPlan) -> ContractOutcome:
    """A feed as one promise: its views together."""
    kept = [one for one in plan.contracts if one.contract in feed.contracts]
    if feed.reason is None:
        path_s = max((one.critical_path_s for one in kept), default=0.0)
        return ContractOutcome(True, sum(e.cost for e in kept), sum(e.money for e in kept), path_s, None, None)
    refused = [one for one in plan.rejected if one.contract in feed.contracts]
    offers = [one.smallest_staleness_s for one in refused if one.smallest_staleness_s is not None]
    return ContractOutcome(False, None, None, None, feed.reason, max(offers, default=None))


def _alike(before: ContractOutcome, after: ContractOutcome) -> bool:
    if before.cost is None or after.cost is None:
        return before == after
    return abs(before.cost - after.cost) <= 1e-9 * before.cost and before.path_s == after.path_s
