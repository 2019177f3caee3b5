"""May we promise this? The cheapest plan that keeps one contract, on top of what lives already; or that there is none.

The half-freshness rule: pushes of x seconds of changes that take CP(x) show a view that is x + CP(x) old at worst,
and are sustainable if CP(x) <= x. Such an x exists exactly if CP(s/2) <= s/2, because CP(x)/x never grows with x.
(SMILE's rule CP(1) < s, kept as `paper`, admits promises that cannot be kept.) Besides, no operator may need more
than x seconds for x seconds of changes, and every capacity must hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from headrace.model.catalogue import Admission, Catalogue, Contract
from headrace.model.plan import Edge, Graph, Vertex
from headrace.model.plan_modes import Method
from headrace.plan.cores import is_counted_once, source_count
from headrace.plan.join_graph import MOST_ORDERS
from headrace.plan.live import Live, find_overloaded, resources_left
from headrace.plan.price import (
    Promise,
    arrivals,
    bill_of,
    critical_path,
    late_share,
    serves,
    time_of_edge,
    total_cost,
)
from headrace.plan.search.joins import Rules
from headrace.plan.search.sites import sites_to_search
from headrace.plan.search.terrain import Resource, StandingVertex, Terrain
from headrace.plan.search.views import Choice, Places, ViewPlans, Wish, cheapest_few, choose, find_plans, rate_of_view
from headrace.plan.statistics import CoreStatistics

MOST_EXACT_SOURCES = 4
MOST_LABELS = 64
"""Labels kept for each delta of a view with more sources than are searched exactly."""

CLOSE_CALLS = 8
"""Plans that are measured where blocks of a view share vertices."""

FEW_LABELS = 8
"""The limit for views with so many sources that not even all orders of joins are tried."""

NEVER_LATE_EXPONENT = 746.0
"""exp(-746) is 0: a smaller exponent makes lateness impossible."""


@dataclass(frozen=True, slots=True)
class Question:
    """One contract before the planner: its view's blocks, the rule, and what lives already.

    `salt` keeps its vertices apart from all others'; `places` are sites that are given.
    """

    catalogue: Catalogue
    contract: Contract
    cores: tuple[CoreStatistics, ...]
    rule: Admission
    method: Method
    live: Live
    salt: str = ""
    places: Places | None = None

    @property
    def freshness_s(self) -> float:
        return self.contract.freshness_s

    @property
    def batch_s(self) -> float:
        """Seconds of changes that a push carries."""
        return 1.0 if self.rule is Admission.PAPER else self.freshness_s / 2

    @property
    def limit_s(self) -> float:
        """The longest critical path that keeps the promise."""
        if self.rule is Admission.PAPER:
            return math.nextafter(self.freshness_s, 0.0)
        return self.freshness_s / 2 - (self.catalogue.headroom.blocking_s or 0.0)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """What is left of every capacity. Nothing limits a contract that is forced: all others go before it."""
        if self.contract.forced:
            return ()
        left = resources_left(self.catalogue, self.live.bill)
        return tuple(replace(one, left=max(0.0, one.left)) for one in left)

    @property
    def wish(self) -> Wish:
        return Wish(self.cores, self.contract.site, self.contract.penalty, self.places)

    @property
    def is_exact(self) -> bool:
        """Whether the search leaves nothing out."""
        few = source_count(self.cores) <= MOST_EXACT_SOURCES
        return self.method is Method.CHEAPEST and few and is_counted_once(self.cores)

    def at_freshness(self, freshness_s: float) -> Question:
        return replace(self, contract=replace(self.contract, freshness_s=freshness_s))


@dataclass(frozen=True, slots=True)
class Answer:
    """A plan for a contract, measured on the graph that it makes together with what lives."""

    vertices: Mapping[str, Vertex]
    edges: Mapping[str, Edge]
    promise: Promise
    graph: Graph
    path: tuple[str, ...]
    path_s: float
    peak: float
    rescost: float
    """$/s that the plan adds."""
    cost: float
    overloaded: tuple[Resource, ...]


def admit(question: Question) -> Answer | None:
    """The plan for a contract; None if no plan that the method finds keeps it."""
    methods = {Method.SMILE: (Method.DPD, Method.DPT)}.get(question.method, (question.method,))
    for method in methods:
        answer = best_plan(replace(question, method=method))
        if answer is not None and keeps(question, answer):
            return answer
    return None


def best_plan(question: Question) -> Answer | None:
    """What the method finds best. SMILE's methods look only in the end whether a plan keeps the promise."""
    limit_s = question.limit_s if question.method is Method.CHEAPEST else np.inf
    rate = rate_of_view(question.wish, question.batch_s)
    rules = Rules(question.method, limit_s, _idle_peak(rate, question), most=_most_labels(question))
    return _within(question.resources, lambda watched: _find_answer(question, terrain_of(question, watched), rules))[0]


def next_best_plan(question: Question, taken: Answer) -> Answer | None:
    """The cheapest plan that keeps the promise in another way: dearer than the one taken, or not as fast.

    It is looked for among plans that are better in something (time, a scarce resource), those that do not work at one
    of the sites where the one taken joins, and the fastest.
    """
    limits = question.resources
    joins = {taken.graph.vertices[name].site for name, edge in taken.edges.items() if edge.op == "join"}
    closed = [Resource(f"cpu:{site}", 0.0, cpu_of=(site,)) for site in sorted(joins - {question.contract.site})]
    rules = Rules(Method.CHEAPEST, question.limit_s, 1.0, _most_labels(question))
    answers = [
        measure_choice(question, choice)
        for resources in (limits, *((*limits, site) for site in closed))
        for choice in cheapest_few(find_plans(question.wish, terrain_of(question, resources), rules), 2)
    ]
    fastest = fastest_plan(question, limits, question.limit_s)
    answers += [] if fastest is None else [fastest]
    others = (
        answer
        for answer in answers
        if keeps(question, answer)
        and not (math.isclose(answer.cost, taken.cost) and math.isclose(answer.path_s, taken.path_s))
    )
    return min(others, key=lambda answer: (answer.cost, answer.path_s), default=None)


def optimistic_plans(question: Question) -> ViewPlans:
    """All plans worth comparing if using what lives cost nothing and no capacity were watched."""
    idle_peak = _idle_peak(rate_of_view(question.wish, question.batch_s), question)
    rules = Rules(Method.CHEAPEST, question.limit_s, idle_peak, _most_labels(question))
    return find_plans(question.wish, terrain_of(question, shared_is_free=True), rules)


def cheapest_plan(question: Question) -> Answer | None:
    """The plan that uses least, however late it is and whatever it exhausts."""
    rules = Rules(Method.CHEAPEST, np.inf, 1.0, _most_labels(question), np.inf)
    return _find_answer(question, terrain_of(question), rules)


def fastest_plan(
    question: Question, resources: Sequence[Resource] = (), limit_s: float = np.inf, highest_peak: float = 1.0
) -> Answer | None:
    """The plan with the shortest critical path, whatever it costs, within some capacities."""
    return _fastest(question, resources, limit_s, highest_peak)[0]


def find_exhausted(question: Question) -> tuple[Resource, ...]:
    """The resources that together leave no plan in time; empty if there is one."""
    answer, watched = _fastest(question, question.resources, question.limit_s, 1.0)
    return () if answer is not None else watched


def _fastest(
    question: Question, resources: Sequence[Resource], limit_s: float, highest_peak: float
) -> tuple[Answer | None, tuple[Resource, ...]]:
    rules = Rules(Method.CHEAPEST, limit_s, 1.0, _most_labels(question), highest_peak)
    return _within(resources, lambda watched: _find_answer(question, terrain_of(question, watched, free=True), rules))


def _find_answer(question: Question, terrain: Terrain, rules: Rules) -> Answer | None:
    wish = replace(question.wish, penalty=0.0) if rules.idle_peak == 1.0 else question.wish
    found = find_plans(wish, terrain, rules)
    if terrain.free or is_counted_once(question.cores):
        choice = choose(found)
        return None if choice is None else measure_choice(question, choice)
    # What several blocks share is counted for each of them, so the order of costs is not quite right.
    answers = [measure_choice(question, choice) for choice in cheapest_few(found, CLOSE_CALLS)]
    return min(answers, key=lambda answer: (answer.cost, answer.path_s), default=None)


def _within(
    resources: Sequence[Resource], search: Callable[[Sequence[Resource]], Answer | None]
) -> tuple[Answer | None, tuple[Resource, ...]]:
    """The best plan that exceeds none of the resources, and those that had to be watched to find it.

    Every resource that is watched multiplies the labels, and few ever run out. So the search starts without them: a
    plan that is best without a limit, and within it, is best. Only what it exceeds is watched the next time.
    """
    watched: tuple[Resource, ...] = ()
    while (answer := search(watched)) is not None:
        exceeded = {resource.name for resource in answer.overloaded} - {resource.name for resource in watched}
        more = tuple(resource for resource in resources if resource.name in exceeded)
        if not more:
            break
        watched += more
    return answer, watched


def _most_labels(question: Question) -> int | None:
    count = source_count(question.cores)
    if count <= MOST_EXACT_SOURCES:
        return None
    return MOST_LABELS if count <= MOST_ORDERS else FEW_LABELS


def _idle_peak(rate: float, question: Question) -> float:
    """No operator that is less busy than this makes any row late."""
    if question.contract.penalty <= 0.0 or rate <= 0.0:
        return 1.0
    return 1.0 / (1.0 + NEVER_LATE_EXPONENT / (rate * question.freshness_s))


def terrain_of(
    question: Question, watched: Sequence[Resource] = (), free: bool = False, shared_is_free: bool = False
) -> Terrain:
    """The sites and live vertices that matter to a contract, with the capacities to watch."""
    live = question.live
    names = {input_.alias for core in question.cores for input_ in core.inputs}
    names |= {input_.facts.name for core in question.cores for input_ in core.inputs}
    standing = {} if question.salt else live.standing(question.batch_s, question.freshness_s)
    if shared_is_free:
        standing = {name: StandingVertex(one.arrival_s) for name, one in standing.items()}
    occupied = {v.site for v in live.graph.vertices.values() if standing and names >= set(v.scope)}
    occupied |= {site for places in (question.places or {}).values() for site in places.values()}
    sites = sites_to_search(question.catalogue, question.cores, question.contract.site, occupied, watched)
    return Terrain(
        live.tariff,
        sites,
        question.batch_s,
        question.freshness_s,
        watched,
        standing,
        question.salt,
        free,
        unlogged=live.unlogged if standing else (),
    )


def measure_choice(question: Question, choice: Choice) -> Answer:
    """A chosen plan on the whole graph: critical path, load and cost as they come out."""
    live, contract, x = question.live, question.contract, question.batch_s
    promise = Promise(contract.name, choice.vertex, x, contract.freshness_s)
    graph = live.extended(choice.vertices, choice.edges)
    at = arrivals(graph, live.tariff, x, [choice.vertex])
    peak = max(
        (time_of_edge(graph, graph.edges[name], live.tariff, x) / x for name in at if name in graph.edges), default=0.0
    )
    bill = bill_of(graph, live.tariff, serves(graph, (*live.promises, promise)))
    rescost = bill.rescost - live.bill.rescost
    rate = rate_of_view(question.wish, x)
    penalty = rate * late_share(rate, peak, contract.freshness_s) * contract.penalty
    return Answer(
        vertices=choice.vertices,
        edges=choice.edges,
        promise=promise,
        graph=graph,
        path=critical_path(graph, at, choice.vertex),
        path_s=at[choice.vertex],
        peak=peak,
        rescost=rescost,
        cost=total_cost(rescost, at[choice.vertex], contract.freshness_s, penalty),
        overloaded=() if contract.forced else find_overloaded(question.catalogue, bill, live.bill),
    )


def keeps(question: Question, answer: Answer) -> bool:
    """Whether a plan keeps the promise: in time, no operator saturated, no capacity exceeded."""
    return answer.path_s <= question.limit_s and answer.peak < 1.0 and not answer.overloaded
