"""What is planned or runs already: the graph that a new contract may build on, and what is left of every capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from headrace.model.catalogue import Catalogue
from headrace.model.plan import Edge, Graph, Operator, Vertex
from headrace.plan.price import Bill, Promise, Tariff, arrivals, bill_of, charge, serves, upstream_first
from headrace.plan.search.terrain import Resource, StandingVertex

NOTHING = Graph({}, {})
ROUNDING = 1e-9
"""The share by which sums of the same uses differ at most."""


@dataclass(frozen=True)
class Live:
    """A graph and the promises that it keeps."""

    tariff: Tariff
    graph: Graph = NOTHING
    promises: tuple[Promise, ...] = field(default=())

    def extended(self, vertices: Mapping[str, Vertex], edges: Mapping[str, Edge]) -> Graph:
        return Graph({**vertices, **self.graph.vertices}, {**edges, **self.graph.edges})

    @cached_property
    def served(self) -> Mapping[str, tuple[Promise, ...]]:
        return serves(self.graph, self.promises)

    @cached_property
    def bill(self) -> Bill:
        return bill_of(self.graph, self.tariff, self.served)

    @cached_property
    def unlogged(self) -> frozenset[str]:
        """Relations that are filtered out of wider changes, so that their own are not logged beside them."""
        graph = self.graph
        logged = {(v.fingerprint, v.site) for v in graph.vertices.values() if v.delta_of == v.scope}
        narrowed = (name for name, edge in graph.edges.items() if edge.op is Operator.APPLY and edge.select)
        places = ((name, graph.vertices[name]) for name in narrowed)
        return frozenset(name for name, vertex in places if (vertex.fingerprint, vertex.site) not in logged)

    def standing(self, batch_s: float, freshness_s: float) -> dict[str, StandingVertex]:
        """Every live vertex as a contract with this batch and freshness sees it.

        A smaller batch makes shared edges run more often, a larger freshness makes shared logs longer: a vertex costs
        what that adds upstream of it. Vertices that are upstream of several others are counted for each.
        """
        at = arrivals(self.graph, self.tariff, batch_s, self.graph.vertices)
        added = {name: self._bill_added(name, promises, batch_s, freshness_s) for name, promises in self.served.items()}
        if not any(bill.cost_of for bill in added.values()):
            return {name: StandingVertex(at[name]) for name in self.served}
        return {name: self._revive(name, at[name], added) for name in self.served}

    def _bill_added(self, name: str, promises: tuple[Promise, ...], batch_s: float, freshness_s: float) -> Bill:
        """What one vertex and its producer use more for a new contract; an empty bill if nothing."""
        now = min(p.batch_s for p in promises), max(p.freshness_s for p in promises)
        then = min(now[0], batch_s), max(now[1], freshness_s)
        more = Bill()
        if now != then:
            before, after = (charge(self.graph, self.tariff, name, batch, 2 * kept) for batch, kept in (now, then))
            more = after.minus(before)
        return more

    def _revive(self, name: str, arrival_s: float, added: Mapping[str, Bill]) -> StandingVertex:
        cost, use = 0.0, dict[str, float]()
        for part in upstream_first(self.graph, [name]):
            cost += added[part].rescost
            for resource, amount in used_resources(added[part]).items():
                use[resource] = use.get(resource, 0.0) + amount
        return StandingVertex(arrival_s, cost, use)


def used_resources(bill: Bill) -> dict[str, float]:
    """Uses by the names of resources."""
    return {
        **{f"cpu:{site}": cores for site, cores in bill.cpu.items()},
        **{f"disk:{site}": size for site, size in bill.disk.items()},
        **{f"link:{src}>{dst}": rate for (src, dst), rate in bill.link.items()},
    }


def find_overloaded(catalogue: Catalogue, bill: Bill, before: Bill) -> tuple[Resource, ...]:
    """Resources of which a bill takes more than there is, and more than was taken before: what runs already may take
    more than there is, and keeps nobody out who takes nothing of it.
    """
    left_before = {one.name: one.left for one in resources_left(catalogue, before)}
    found = resources_left(catalogue, bill)
    return tuple(one for one in found if one.left < min(0.0, left_before[one.name] * (1 + ROUNDING)))


def resources_left(catalogue: Catalogue, bill: Bill) -> tuple[Resource, ...]:
    """Everything that has a limit, less headroom, with what the bill leaves of it.

    A host's cores are one resource of all its sites.
    """
    room = catalogue.headroom
    found = []
    for site in catalogue.sites.values():
        if site.cores is not None:
            left = (1 - room.cpu) * site.cores - bill.cpu.get(site.name, 0.0)
            found.append(Resource(f"cpu:{site.name}", left, cpu_of=(site.name,)))
        if site.disk_capacity is not None:
            left = site.disk_capacity - bill.disk.get(site.name, 0.0)
            found.append(Resource(f"disk:{site.name}", left, disk_of=site.name))
    for host in catalogue.hosts.values():
        sites = tuple(site.name for site in catalogue.sites.values() if site.host == host.name)
        if sites:
            left = (1 - room.cpu) * host.cores - sum(bill.cpu.get(name, 0.0) for name in sites)
            found.append(Resource(f"host:{host.name}", left, cpu_of=sites))
    for link in catalogue.links:
        if link.carries is not None:
            left = (1 - room.link) * link.carries - bill.link.get((link.src, link.dst), 0.0)
            found.append(Resource(f"link:{link.src}>{link.dst}", left, link=(link.src, link.dst)))
    return tuple(found)
