"""Whether a graph keeps every promise: in time, no operator saturated, no capacity exceeded."""

from __future__ import annotations

from collections.abc import Collection

from headrace.model.plan import Operator
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


def find_crowded(now: Arrangement) -> frozenset[str]:
    """Contracts that use a site, a host or a link which has no room for all who use it."""
    short = [resource for resource in resources_left(now.catalogue, now.claimed.bill) if resource.left < 0]
    found, graph = set[str](), now.graph
    for name, promises in now.live.served.items() if short else ():
        site, edge = graph.vertices[name].site, graph.edges.get(name)
        is_copy = edge is not None and edge.op is Operator.COPY
        ends = (graph.vertices[edge.inputs[0]].site, site) if edge is not None and is_copy else None
        if any(site in one.cpu_of or site == one.disk_of or (ends is not None and ends == one.link) for one in short):
            found.update(promise.contract for promise in promises)
    return frozenset(found)


def late_contracts(now: Arrangement, contracts: Collection[str] | None = None) -> tuple[str, ...]:
    """Contracts whose pushes take too long, or have an operator that cannot keep up."""
    found = []
    for kept in now.kept:
        if contracts is None or kept.contract.name in contracts:
            at = arrivals(now.graph, now.tariff, kept.batch_s, [kept.vertex])
            if at[kept.vertex] > now.limit_s(kept) or busiest(now.live, kept.batch_s, at) >= 1.0:
                found.append(kept.contract.name)
    return tuple(found)
