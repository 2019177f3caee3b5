"""What the other way to refresh a view would cost, and at which rate of changes it would be the cheaper one.

The rate is found by pricing both plans as they are at other rates of all sources that the view reads, in proportion:
other rates may also bring about other plans, so it is a good guess and no promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import sqrt

from headrace.model.explanation import OtherWay
from headrace.model.full_query import FullQuery
from headrace.model.plan import ContractPlan, Plan
from headrace.model.statistics import LARGEST, rate_of
from headrace.plan.figures import score, weigh_contracts
from headrace.plan.share.arrangement import Arrangement, arrangement_of
from headrace.plan.share.keeps import has_room, late_contracts
from headrace.plan.share.revalue import at_rates, cores_of_kept, revalue
from headrace.plan.share.ways import place_either_way, ways_of

MOST_DOUBLINGS = 24
CLOSE = 1.005
"""Factor between two rates that are as good as one."""


def explain_other_way(plan: Plan, entry: ContractPlan) -> OtherWay | None:
    """The way that a contract did not get; None if it leaves no choice."""
    contract, now = plan.catalogue.contracts[entry.contract], arrangement_of(plan)
    if not contract.ways:
        return None
    cores = cores_of_kept(now, now.catalogue)
    others = {view: cores[view] for view in ways_of(contract, cores) if view != contract.view}
    if not others:
        return None
    then = place_either_way(now.without(contract.name), contract, others)
    rates = {name: rate_of(plan.catalogue.sources[name]) for name in _find_sources(plan, contract.ways)}
    found = OtherWay(in_full=plan.catalogue.is_in_full(contract.name), rate=sum(rates.values()))
    refused = next((one for one in then.rejected if one.contract == contract.name), None)
    if refused is not None:
        return replace(found, why_not=refused.detail)
    return replace(
        found,
        cost=entry.cost + score(then) - score(now),
        path_s=weigh_contracts(then)[contract.name].path_s,
        wins_at=_find_winning_rate(now, then, contract.name, rates),
    )


def _find_sources(plan: Plan, ways: tuple[str, ...]) -> tuple[str, ...]:
    recomputed = (plan.catalogue.views[way].recomputed for way in ways)
    return next((one.reads for one in recomputed if isinstance(one, FullQuery)), ())


def _find_winning_rate(now: Arrangement, then: Arrangement, contract: str, rates: Mapping[str, float]) -> float | None:
    """Changed rows per second from which on, up or down, the other way is better; None if it never is."""

    def wins(factor: float) -> bool:
        here, there = (_at_factor(one, rates, factor) for one in (now, then))
        if not _is_kept(there, contract):
            return False
        return not _is_kept(here, contract) or score(there) < score(here)

    step = 0.5 if now.catalogue.is_in_full(contract) else 2.0
    loses, factors = 1.0, (step**number for number in range(MOST_DOUBLINGS + 1))
    for factor in factors if sum(rates.values()) else ():
        if wins(factor):
            while factor != 1.0 and max(factor / loses, loses / factor) > CLOSE:
                middle = sqrt(factor * loses)
                loses, factor = (loses, middle) if wins(middle) else (middle, factor)
            return factor * sum(rates.values())
        loses = factor
    return None


def _at_factor(now: Arrangement, rates: Mapping[str, float], factor: float) -> Arrangement:
    catalogue = at_rates(now.catalogue, {name: min(rate * factor, LARGEST) for name, rate in rates.items()})
    return revalue(now, catalogue, cores_of_kept(now, catalogue))


def _is_kept(now: Arrangement, contract: str) -> bool:
    return has_room(now) and not late_contracts(now, [contract])
