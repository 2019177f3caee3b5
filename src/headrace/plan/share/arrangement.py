"""What is arranged: one graph, and the promises that it keeps. Figures follow from it, and are not part of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.model.catalogue import Admission, Catalogue, Contract
from headrace.model.plan import GoesOn, Graph, Plan, PlannedBlock, PlanOptions, Rejection, settle_wishes
from headrace.model.plan_modes import Method, PlanWishes, Sharing
from headrace.plan.admit import Answer, Question
from headrace.plan.live import NOTHING, Live
from headrace.plan.price import Promise, Tariff, tariff_of, upstream_first
from headrace.plan.search.views import rate_of_view
from headrace.plan.statistics import CoreStatistics


@dataclass(frozen=True, slots=True)
class KeptContract:
    """A contract that is kept: which vertex it reads, and the batch, with the view's rate at it (rows per second)."""

    contract: Contract
    rule: Admission
    vertex: str
    batch_s: float
    rate: float
    exact: bool

    @property
    def promise(self) -> Promise:
        return Promise(self.contract.name, self.vertex, self.batch_s, self.contract.freshness_s)


@dataclass(frozen=True)
class Arrangement:
    """Everything in the graph serves a contract that is kept."""

    catalogue: Catalogue
    options: PlanOptions
    blocks: tuple[PlannedBlock, ...]
    graph: Graph = NOTHING
    kept: tuple[KeptContract, ...] = ()
    rejected: tuple[Rejection, ...] = ()
    goes_on: tuple[GoesOn, ...] = ()

    @cached_property
    def wishes(self) -> PlanWishes:
        """How to plan; nothing of it is left open."""
        return settle_wishes(self.options, self.catalogue)

    @cached_property
    def tariff(self) -> Tariff:
        return tariff_of(self.catalogue)

    @cached_property
    def live(self) -> Live:
        return Live(self.tariff, self.graph, tuple(kept.promise for kept in self.kept))

    @cached_property
    def claimed(self) -> Live:
        """What lives for contracts that are not forced: only they count against capacities."""
        promises = tuple(kept.promise for kept in self.kept if not kept.contract.forced)
        if len(promises) == len(self.kept):
            return self.live
        return Live(self.tariff, collect_graph(self.graph, (promise.vertex for promise in promises)), promises)

    def question(self, contract: Contract, cores: tuple[CoreStatistics, ...]) -> Question:
        """A contract on top of what lives; or apart from it, if nothing is shared."""
        return Question(
            catalogue=self.catalogue,
            contract=contract,
            cores=cores,
            rule=self.options.admission or self.catalogue.admission,
            method=self.wishes.method or Method.CHEAPEST,
            live=self.live if contract.forced else self.claimed,
            salt=f"#{contract.name}" if self.wishes.sharing is Sharing.NONE else "",
        )

    def limit_s(self, kept: KeptContract) -> float:
        """The longest critical path that keeps a promise."""
        return replace(self.question(kept.contract, ()), rule=kept.rule).limit_s

    def keeping(self, question: Question, answer: Answer) -> Arrangement:
        """The arrangement with one more contract. What lives already stays as it is, but for what lives only for
        contracts that are forced: where another makes the same in its own way, they take that.
        """
        kept = KeptContract(
            contract=question.contract,
            rule=question.rule,
            vertex=answer.promise.vertex,
            batch_s=question.batch_s,
            rate=rate_of_view(question.wish, question.batch_s),
            exact=question.is_exact,
        )
        before = self.live if question.contract.forced else self.claimed
        graph = before.extended(answer.vertices, answer.edges)
        then = replace(self, graph=graph, kept=(*self.kept, kept))
        return then if before is self.live else then.with_graph(both(graph, self.graph))

    def refusing(self, rejection: Rejection) -> Arrangement:
        return replace(self, rejected=(*self.rejected, rejection))

    def without(self, contract: str) -> Arrangement:
        """The arrangement without a contract, and without what served nobody else."""
        kept = tuple(entry for entry in self.kept if entry.contract.name != contract)
        rejected = tuple(entry for entry in self.rejected if entry.contract != contract)
        return replace(self, kept=kept, rejected=rejected).with_graph(self.graph)

    def with_graph(self, graph: Graph) -> Arrangement:
        """The arrangement on another graph, of which only what serves somebody is taken."""
        return replace(self, graph=collect_graph(graph, (entry.vertex for entry in self.kept)))


def collect_graph(graph: Graph, wanted: Iterable[str]) -> Graph:
    """What the wanted vertices are made of, inputs before outputs."""
    order = upstream_first(graph, wanted)
    return Graph(
        {name: graph.vertices[name] for name in order},
        {name: graph.edges[name] for name in order if name in graph.edges},
    )


def both(first: Graph, second: Graph) -> Graph:
    """What both make is made as in the first."""
    return Graph({**second.vertices, **first.vertices}, {**second.edges, **first.edges})


def arrangement_of(plan: Plan) -> Arrangement:
    """A plan without its figures."""
    kept = tuple(
        KeptContract(
            plan.catalogue.contracts[entry.contract], entry.rule, entry.vertex, entry.batch_s, entry.rate, entry.exact
        )
        for entry in plan.contracts
    )
    return Arrangement(plan.catalogue, plan.options, plan.blocks, plan.graph, kept, plan.rejected, plan.goes_on)
