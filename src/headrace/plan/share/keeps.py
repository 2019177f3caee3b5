"""Whether a graph keeps every promise: in time, no operator saturated, no capacity exceeded."""

from __future__ import annotations

from collections.abc import Collection

from headrace.plan.figures import busiest
from headrace.plan.live import resources_left
from headrace.plan.price import arrivals
from headrace.plan.share.arrangement import Arrangement


def keeps_all(now: Arrangement, contracts: Collection[str] | None = None) -> bool:
    """Whether the promises of all contracts are kept, or of some: those whose way to the view has changed. Capacities
    are checked always, and what is forced may be late.
    """
    forced = {kept.contract.name for kept in now.kept if kept.contract.forced}
    return has_room(now) and forced.issuperset(late_contracts(now, contracts))


def has_room(now: Arrangement) -> bool:
    return all(resource.left >= 0 for resource in resources_left(now.catalogue, now.claimed.bill))


def late_contracts(now: Arrangement, contracts: Collection[str] | None = None) -> tuple[str, ...]:
    """Contracts whose pushes take too long, or have an operator that cannot keep up."""
    found = []
    for kept in now.kept:
        if contracts is None or kept.contract.name in contracts:
            at = arrivals(now.graph, now.tariff, kept.batch_s, [kept.vertex])
            if at[kept.vertex] > now.limit_s(kept) or busiest(now.live, kept.batch_s, at) >= 1.0:
                found.append(kept.contract.name)
    return tuple(found)
