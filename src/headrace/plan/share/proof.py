"""Whether a contract is planned as well as can be: no other plan of it gives a lower score, given all others' vertices.

Let a plan use vertices v that live already, each for n contracts of average weight M (1 + CP/s) at cost c. At its own
weight m the plan changes the score by c * (m - M) / (n + 1) for each of these, and by more if v has to run more often
or to keep more. What it makes again costs m times its price, and the penalty comes on top. The least of that over all
plans, with every v taken that lowers it, is a bound below: a contract that adds no more than the bound is proven best.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headrace.model.catalogue import Contract
from headrace.model.plan_modes import Sharing
from headrace.plan.admit import Question, optimistic_plans
from headrace.plan.figures import score, weigh_contracts
from headrace.plan.price import upstream_first
from headrace.plan.search.terrain import Floats
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.order import Cores
from headrace.plan.share.place import questions_of
from headrace.plan.share.subject import Subjects, subject_in
from headrace.plan.share.subsume import all_filters, missing_filters
from headrace.plan.share.ways import ways_of

ROUNDING = 1e-9
"""Share of the score by which equal sums differ at most."""


def proven_best(now: Arrangement, cores: Cores) -> frozenset[str]:
    """Contracts of which no other plan gives a lower score, given the vertices of all others."""
    if now.wishes.sharing is Sharing.NONE:
        return frozenset(kept.contract.name for kept in now.kept if kept.exact)
    if any(kept.contract.forced for kept in now.kept):
        return frozenset()
    total = score(now)
    return frozenset(kept.contract.name for kept in now.kept if _is_proven(now, total, kept.contract, cores))


def _is_proven(now: Arrangement, total: float, contract: Contract, cores: Cores) -> bool:
    others = now.without(contract.name)
    ways = ways_of(contract, cores)
    questions = tuple(one for way in ways for one in questions_of(others, replace(contract, view=way), cores[way]))
    if not all(question.is_exact for question in questions) or _has_wider(others, questions):
        return False
    shared, added = _Shared.of(others, questions), total - score(others) - ROUNDING * total
    if added > _bound_of_taken(now, contract, shared):
        return False  # the bound is not better than that: no need to search
    return added <= min(_least(question, shared) for question in questions)


def _bound_of_taken(now: Arrangement, contract: Contract, shared: _Shared) -> float:
    """The bound, if the plan that is taken were the only one."""
    (weighed,) = (one for name, one in weigh_contracts(now).items() if name == contract.name)
    mine = (name for name in weighed.at if len(now.live.served[name]) == 1)
    own = sum(now.live.bill.cost_of[name] for name in mine)
    weight = 1 + weighed.path_s / contract.freshness_s
    return own * weight + weighed.penalty + float(shared.least(np.array([weight]))[0])


def _least(question: Question, shared: _Shared) -> float:
    """What a contract adds to the score at least."""
    found = optimistic_plans(question)
    weight = 1 + found.states.ready / question.freshness_s
    return float((found.cost + shared.least(weight)).min(initial=np.inf))


@dataclass(frozen=True, slots=True)
class _Shared:
    """Vertices that a contract may use together with others: what each costs for one contract more, and the average
    weight of those that it has.
    """

    cost: Floats
    weight: Floats

    @staticmethod
    def of(others: Arrangement, questions: tuple[Question, ...]) -> _Shared:
        names = {
            name for one in questions for core in one.cores for i in core.inputs for name in (i.alias, i.facts.name)
        }
        mine = [name for name, vertex in others.graph.vertices.items() if names.issuperset(vertex.scope)]
        path_s = {name: one.path_s for name, one in weigh_contracts(others).items()}
        served, cost = others.live.served, others.live.bill.cost_of
        usable = upstream_first(others.graph, mine)
        return _Shared(
            np.array([cost[name] / (len(served[name]) + 1) for name in usable]),
            np.array(
                [np.mean([1 + path_s[one.contract] / one.freshness_s for one in served[name]]) for name in usable]
            ),
        )

    def least(self, weight: Floats) -> Floats:
        """How much the score falls at most when others share with a plan of some weight."""
        gain: Floats = np.minimum(0.0, self.cost[None, :] * (weight[:, None] - self.weight[None, :])).sum(axis=1)
        return gain


def _has_wider(others: Arrangement, questions: tuple[Question, ...]) -> bool:
    """Whether a join of the view lives with fewer filters: rows that are filtered out of it are not searched for."""
    filters, subjects = all_filters(others), Subjects(others.graph, others.blocks)
    if not filters:
        return False
    live = {subjects.of(vertex) for vertex in others.graph.vertices.values() if not vertex.base}
    wanted = {
        subject_in(core, part) for one in questions for core in one.cores if core.is_joined for part in core.sub_joins
    }
    return any(missing_filters(subject, wider, filters) for subject in wanted for wider in live)
