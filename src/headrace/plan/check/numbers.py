"""Whether times, loads and costs of a plan document follow from its graph, and whether every promise can be kept."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from graphlib import TopologicalSorter
from itertools import pairwise

from headrace.plan.check.form import ContractForm, EdgeForm, VertexForm
from headrace.plan.check.rates import TOLERANCE, Rates, differ
from headrace.plan.check.structure import Problem

GB = 1e9
MONTH_S = 30 * 24 * 3600.0

Amounts = defaultdict[str, float]
Loads = tuple[Amounts, Amounts, Amounts]
"""Cores by site, bytes per second by link, bytes by site."""


class Numbers:
    def __init__(self, rates: Rates) -> None:
        self.rates, self.document = rates, rates.document
        self.vertices, self.edges, self.serves = rates.vertices, rates.edges, rates.serves
        self.contracts = rates.contracts
        self.sites = {site.id: site for site in self.document.catalogue.sites}
        self.links = {(link.src, link.dst): link for link in self.document.catalogue.links}

    def problems(self) -> Iterator[Problem]:
        for contract in self.document.contracts:
            yield from self._check_contract(contract)
        yield from self._check_arrivals()
        yield from self._check_totals()

    # Times

    def time(self, edge: EdgeForm, contract: str, batch_s: float) -> tuple[float, float]:
        """Core seconds and seconds of a push of `batch_s` seconds of changes."""
        known, vertex = self.document.catalogue.times, self.vertices[edge.out]
        times = known.get("recompute", known[edge.op]) if edge.is_recomputed else known[edge.op]
        rows_in, rows_out = self._rows(edge, contract, batch_s)
        work = (times.fixed + times.per_in * rows_in + times.per_out * rows_out) / self.sites[vertex.site].speed
        if edge.op != "copy":
            return work, work
        link = self.links[self.vertices[edge.inputs[0]].site, vertex.site]
        sending = 0.0 if link.bandwidth is None else rows_out * vertex.width / link.bandwidth
        return work, work + link.latency + sending

    def _rows(self, edge: EdgeForm, contract: str, batch_s: float) -> tuple[float, float]:
        """Changes that a push reads and makes; what is recomputed reads and makes all rows, whatever has changed."""
        if edge.is_recomputed:
            relations = [name for name in edge.inputs if self.vertices[name].kind != "delta"]
            return sum(map(self.rates.rows, relations)), self.rates.rows(edge.out)
        rows_in = sum(self.rates.rate(name, contract) for name in edge.inputs)
        return rows_in * batch_s, self.rates.rate(edge.out, contract) * batch_s

    def arrivals(self, contract: str, batch_s: float) -> dict[str, float]:
        """The arrivals of everything upstream of a contract's vertex."""
        mine = {name for name, contracts in self.serves.items() if contract in contracts}
        graph = {name: self.edges[name].inputs for name in mine if name in self.edges}
        at: dict[str, float] = {}
        for name in (*TopologicalSorter(graph).static_order(), *mine):
            if name not in at:
                edge = self.edges.get(name)
                latest = 0.0 if edge is None else max(at[input_] for input_ in edge.inputs)
                at[name] = 0.0 if edge is None else latest + self.time(edge, contract, batch_s)[1]
        return at

    def _check_contract(self, contract: ContractForm) -> Iterator[Problem]:
        where, paper = f"contracts/{contract.id}", contract.rule == "paper"
        batch_s = 1.0 if paper else contract.staleness / 2
        if differ(contract.batch_s, batch_s):
            yield where, f"batch is {batch_s:.6g} s, not {contract.batch_s:.6g}"
            return
        at = self.arrivals(contract.id, batch_s)
        path_s = at[contract.vertex]
        if differ(contract.critical_path_s, path_s):
            yield where, f"critical path takes {path_s:.6g} s, not {contract.critical_path_s:.6g}"
        yield from self._check_path(contract, at)
        blocking = self.document.catalogue.headroom.blocking
        in_time = path_s < contract.staleness if paper else path_s + blocking <= batch_s * (1 + TOLERANCE)
        if not in_time and not contract.forced:
            yield where, f"critical path of {path_s:.6g} s is too long for a freshness of {contract.staleness:.6g} s"
        for name in at if not contract.forced else ():
            if name in self.edges and self.time(self.edges[name], contract.id, batch_s)[1] >= batch_s:
                yield where, f"edge {self.edges[name].id} takes longer than the {batch_s:.6g} s it has"

    def _check_path(self, contract: ContractForm, at: Mapping[str, float]) -> Iterator[Problem]:
        """The path goes from a base relation along edges to the view, always through the latest input."""
        where, path = f"contracts/{contract.id}", contract.critical_path
        if not path or path[-1] != contract.vertex or path[0] in self.edges:
            yield where, "critical path does not lead from a source to the view"
            return
        for before, after in pairwise(path):
            inputs = self.edges[after].inputs if after in self.edges else ()
            if before not in inputs or differ(at[before], max(at[name] for name in inputs)):
                yield where, f"critical path does not go from {before} to {after}"

    def _check_arrivals(self) -> Iterator[Problem]:
        at = {contract.id: self.arrivals(contract.id, contract.batch_s) for contract in self.document.contracts}
        for name, vertex in self.vertices.items():
            if vertex.arrival_s is not None and self.serves[name]:
                found = at[self.rates.eager(name)][name]
                if differ(vertex.arrival_s, found):
                    yield f"vertices/{name}", f"arrives after {found:.6g} s, not {vertex.arrival_s:.6g}"

    # Loads and costs

    def _check_totals(self) -> Iterator[Problem]:
        cpu, link, disk = loads = _no_loads()
        costs: dict[str, float] = {}
        for name, vertex in self.vertices.items():
            if self.serves[name]:
                costs[name] = self._charge(vertex, self.serves[name], loads)
        rescost, totals = sum(costs.values()), self.document.totals
        for kind, said, found in (("cpu", totals.cpu, cpu), ("link", totals.link, link), ("disk", totals.disk, disk)):
            for place in sorted({*said, *found}):
                if differ(said.get(place, 0.0), found[place]):
                    yield f"totals/{kind}/{place}", f"is {found[place]:.6g}, not {said.get(place, 0.0):.6g}"
        if differ(totals.rescost, rescost):
            yield "totals/rescost", f"is {rescost:.6g}, not {totals.rescost:.6g}"
        yield from self._check_costs(costs)
        yield from self._check_capacities()

    def _charge(self, vertex: VertexForm, serves: Collection[str], loads: Loads) -> float:
        """Adds what a vertex and its producer use for some contracts; $/s."""
        cpu, link, disk = loads
        eager, site, cost = self.rates.eager_of(serves), self.sites[vertex.site], 0.0
        batch_s = self.contracts[eager].batch_s
        kept_s = 2 * max(self.contracts[name].staleness for name in serves)
        edge, rate = self.edges.get(vertex.id), self.rates.rate(vertex.id, eager)
        if edge is not None:
            cores = self.time(edge, eager, batch_s)[0] / batch_s
            cpu[site.id] += cores
            cost += cores * site.cpu_price_h / 3600
        if edge is not None and edge.op == "copy":
            ends = self.vertices[edge.inputs[0]].site, site.id
            link[">".join(ends)] += rate * vertex.width
            cost += rate * vertex.width * self.links[ends].price_gb / GB
        if not vertex.base:
            size = (rate * kept_s if vertex.kind == "delta" else self.rates.rows(vertex.id)) * vertex.width
            disk[site.id] += size
            cost += size * site.disk_price_gb_month / GB / MONTH_S
        return cost

    def _check_costs(self, costs: Mapping[str, float]) -> Iterator[Problem]:
        for contract in self.document.contracts:
            mine = {name for name in costs if contract.id in self.serves[name]}
            share = sum(costs[name] / len(self.serves[name]) for name in mine)
            path_s = self.arrivals(contract.id, contract.batch_s)[contract.vertex]
            found = share * (1 + path_s / contract.staleness) + self._penalty(contract, mine)
            if differ(contract.cost, found):
                yield f"contracts/{contract.id}", f"costs {found:.6g} $/s, not {contract.cost:.6g}"

    def _penalty(self, contract: ContractForm, mine: set[str]) -> float:
        """Rows per second that come late in an M/M/1 queue with the busiest operator's load, times their price."""
        edge = self.edges.get(contract.vertex)
        if edge is None:
            return 0.0
        made = [self.edges[name] for name in mine if name in self.edges]
        peak = max(self.time(one, contract.id, contract.batch_s)[1] / contract.batch_s for one in made)
        rate = self._view_rate(contract, edge)
        if rate <= 0 or peak <= 0:
            return 0.0
        late = 1.0 if peak >= 1 else math.exp(rate * (1 - 1 / peak) * contract.staleness)
        return rate * late * contract.penalty

    def _view_rate(self, contract: ContractForm, edge: EdgeForm) -> float:
        """The rate of the delta that the view is made of, after a filter that only the last edge applies."""
        changes, view = self.rates.meanings.of[edge.inputs[0]], self.rates.meanings.of[edge.out]
        return self.rates.rate(edge.inputs[0], contract.id) * self.rates.lost_share(view, changes)

    def _check_capacities(self) -> Iterator[Problem]:
        """Contracts that are forced count against none."""
        room = self.document.catalogue.headroom
        cpu, link, disk = loads = _no_loads()
        for name, vertex in self.vertices.items():
            claiming = [contract for contract in self.serves[name] if not self.contracts[contract].forced]
            if claiming:
                self._charge(vertex, claiming, loads)
        for site in self.document.catalogue.sites:
            if site.cpu_cap is not None and _exceeds(cpu[site.id], (1 - room.cpu) * site.cpu_cap):
                yield f"totals/cpu/{site.id}", f"{cpu[site.id]:.6g} cores are more than may be used"
            if site.disk_cap is not None and _exceeds(disk[site.id], site.disk_cap):
                yield f"totals/disk/{site.id}", f"{disk[site.id]:.6g} bytes are more than there are"
        for host in self.document.catalogue.hosts:
            cores = sum(cpu[site.id] for site in self.document.catalogue.sites if site.host == host.id)
            if _exceeds(cores, (1 - room.cpu) * host.cpu_cap):
                yield f"totals/cpu/{host.id}", f"{cores:.6g} cores are more than may be used of the host"
        for one in self.document.catalogue.links:
            used = link[f"{one.src}>{one.dst}"]
            if one.bandwidth is not None and _exceeds(used, (1 - room.link) * one.bandwidth):
                yield f"totals/link/{one.src}>{one.dst}", f"{used:.6g} B/s are more than may be used"


def _no_loads() -> Loads:
    return Amounts(float), Amounts(float), Amounts(float)


def _exceeds(used: float, limit: float) -> bool:
    return used > limit * (1 + TOLERANCE)
