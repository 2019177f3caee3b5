"""What operators take and what a graph costs (SMILE §4 and §6, in common units).

    T_e(x)  = (fixed + per_in * rows in + per_out * rows out) / speed  [+ latency + bytes / bandwidth for a copy]
    arrival = latest arrival of the inputs + T_e(x);  base relations arrive at 0;  CP(x) is the arrival of the view
    cost    = cores * price + bytes over links * price + bytes on disks * price

x is the batch: seconds of changes pushed at once. Rows in are those of delta inputs, before the edge's own select; an
edge runs at its output's site. A view that is recomputed reads all rows of its inputs' relations and makes all of its
own, whatever the batch; that takes as long as deriving, until it was measured. A shared edge runs at the smallest batch
that it serves, a shared log is kept for twice the largest freshness that it serves.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from headrace.model.catalogue import Catalogue, Link, OperatorTime, Site
from headrace.model.plan import Edge, Graph, Operator, Totals, VertexKind

SECONDS_PER_HOUR = 3600.0
SECONDS_PER_MONTH = 2_592_000.0
BYTES_PER_GB = 1e9

RECOMPUTE = "recompute"
"""The time of recomputing views in full, where it was measured."""


@dataclass(frozen=True, slots=True)
class Tariff:
    """Prices and speeds of sites and links, and the times of operators."""

    sites: Mapping[str, Site]
    links: Mapping[tuple[str, str], Link]
    times: Mapping[str, OperatorTime]

    @property
    def recomputing(self) -> OperatorTime:
        return self.times.get(RECOMPUTE, self.times[Operator.DERIVE])

    def work_s(self, time: OperatorTime, site: str, rows_in: float, rows_out: float) -> float:
        return (time.fixed + time.per_in * rows_in + time.per_out * rows_out) / self.sites[site].speed

    def transfer_s(self, src: str, dst: str, size: float) -> float:
        return self.links[src, dst].latency_s + size * self.byte_s(src, dst)

    def byte_s(self, src: str, dst: str) -> float:
        """Seconds of one byte over a link: none if it has no limit."""
        bandwidth = self.links[src, dst].carries
        return 0.0 if bandwidth is None else 1.0 / bandwidth

    def core_price(self, site: str) -> float:
        """$/s of one busy core."""
        return self.sites[site].cpu_price_h / SECONDS_PER_HOUR

    def byte_price(self, src: str, dst: str) -> float:
        """$ per byte sent."""
        return self.links[src, dst].price_gb / BYTES_PER_GB

    def storage_price(self, site: str) -> float:
        """$/s of one byte kept."""
        return self.sites[site].disk_price_gb_month / BYTES_PER_GB / SECONDS_PER_MONTH


def tariff_of(catalogue: Catalogue) -> Tariff:
    links = {(link.src, link.dst): link for link in catalogue.links}
    return Tariff(catalogue.sites, links, catalogue.operator_times)


@dataclass(frozen=True, slots=True)
class Promise:
    """What a vertex is kept for: a contract's batch and freshness."""

    contract: str
    vertex: str
    batch_s: float
    freshness_s: float


def rows_of_edge(graph: Graph, edge: Edge, batch_s: float) -> tuple[float, float]:
    """Rows in and rows out of a push of one batch."""
    if edge.is_recomputed:
        relations = (graph.vertices[name].rows for name in edge.inputs)
        return sum(rows or 0.0 for rows in relations), graph.vertices[edge.output].rows or 0.0
    rows_in = sum(graph.vertices[name].rate.at(batch_s) for name in edge.inputs)
    return rows_in * batch_s, graph.vertices[edge.output].rate.at(batch_s) * batch_s


def work_of_edge(graph: Graph, edge: Edge, tariff: Tariff, batch_s: float) -> float:
    """Core seconds of a push."""
    time = tariff.recomputing if edge.is_recomputed else tariff.times[edge.op]
    return tariff.work_s(time, graph.vertices[edge.output].site, *rows_of_edge(graph, edge, batch_s))


def time_of_edge(graph: Graph, edge: Edge, tariff: Tariff, batch_s: float) -> float:
    """Seconds of a push."""
    work = work_of_edge(graph, edge, tariff, batch_s)
    if edge.op is not Operator.COPY:
        return work
    source, target = graph.vertices[edge.inputs[0]], graph.vertices[edge.output]
    return work + tariff.transfer_s(source.site, target.site, target.rate.at(batch_s) * batch_s * target.width)


def upstream_first(graph: Graph, wanted: Iterable[str]) -> list[str]:
    """Everything that the wanted vertices are made of, and they themselves, inputs before outputs."""
    done: dict[str, None] = {}
    pending = list(wanted)[::-1]
    while pending:
        name = pending[-1]
        edge = graph.edges.get(name)
        missing = [] if edge is None or name in done else [input_ for input_ in edge.inputs if input_ not in done]
        if missing:
            pending.extend(reversed(missing))
        else:
            done.setdefault(pending.pop())
    return list(done)


def arrivals(graph: Graph, tariff: Tariff, batch_s: float, wanted: Iterable[str]) -> dict[str, float]:
    """Seconds after the start of a push until each vertex upstream of the wanted ones has it."""
    at: dict[str, float] = {}
    for name in upstream_first(graph, wanted):
        edge = graph.edges.get(name)
        if edge is None:
            at[name] = 0.0
        else:
            at[name] = max(at[input_] for input_ in edge.inputs) + time_of_edge(graph, edge, tariff, batch_s)
    return at


def critical_path(graph: Graph, at: Mapping[str, float], vertex: str) -> tuple[str, ...]:
    """The chain of latest inputs that ends in a vertex; of equally late ones the first by id."""
    path = [vertex]
    while path[-1] in graph.edges:
        path.append(min(graph.edges[path[-1]].inputs, key=lambda name: (-at[name], name)))
    return tuple(reversed(path))


def serves(graph: Graph, promises: Iterable[Promise]) -> dict[str, tuple[Promise, ...]]:
    """Finds, for each vertex, the promises it is kept for: those whose vertex can be reached from it."""
    found: dict[str, list[Promise]] = {}
    for promise in promises:
        for name in upstream_first(graph, [promise.vertex]):
            found.setdefault(name, []).append(promise)
    return {name: tuple(kept) for name, kept in found.items()}


@dataclass(slots=True)
class Bill:
    """Resources and cost: cores and bytes per site, bytes per second per link, and $/s of each vertex with its
    producer.
    """

    cpu: dict[str, float] = field(default_factory=dict)
    link: dict[tuple[str, str], float] = field(default_factory=dict)
    disk: dict[str, float] = field(default_factory=dict)
    cost_of: dict[str, float] = field(default_factory=dict)

    @property
    def rescost(self) -> float:
        return sum(self.cost_of.values())

    def add(self, other: Bill, sign: float = 1.0) -> None:
        _add(self.cpu, other.cpu, sign)
        _add(self.link, other.link, sign)
        _add(self.disk, other.disk, sign)
        _add(self.cost_of, other.cost_of, sign)

    def minus(self, other: Bill) -> Bill:
        difference = Bill(dict(self.cpu), dict(self.link), dict(self.disk), dict(self.cost_of))
        difference.add(other, -1.0)
        return difference

    def totals(self) -> Totals:
        """Zero entries are left out."""
        return Totals(
            self.rescost,
            {site: cores for site, cores in self.cpu.items() if cores},
            {ends: rate for ends, rate in self.link.items() if rate},
            {site: size for site, size in self.disk.items() if size},
        )


Name = TypeVar("Name")


def _add(to: dict[Name, float], more: Mapping[Name, float], sign: float) -> None:
    for name, amount in more.items():
        to[name] = to.get(name, 0.0) + sign * amount


def bill_of(graph: Graph, tariff: Tariff, served: Mapping[str, tuple[Promise, ...]]) -> Bill:
    """Resources and cost of everything that serves somebody."""
    bill = Bill()
    for name, promises in served.items():
        batch_s = min(promise.batch_s for promise in promises)
        kept_s = 2 * max(promise.freshness_s for promise in promises)
        bill.add(charge(graph, tariff, name, batch_s, kept_s))
    return bill


def charge(graph: Graph, tariff: Tariff, name: str, batch_s: float, kept_s: float) -> Bill:
    """What one vertex and its producer use, pushed every `batch_s` seconds, with changes kept for `kept_s` seconds.

    Base vertices take no disk of ours.
    """
    vertex, edge, bill, cost = graph.vertices[name], graph.edges.get(name), Bill(), 0.0
    if edge is not None:
        bill.cpu[vertex.site] = work_of_edge(graph, edge, tariff, batch_s) / batch_s
        cost += bill.cpu[vertex.site] * tariff.core_price(vertex.site)
    if edge is not None and edge.op is Operator.COPY:
        ends = graph.vertices[edge.inputs[0]].site, vertex.site
        bill.link[ends] = vertex.rate.at(batch_s) * vertex.width
        cost += bill.link[ends] * tariff.byte_price(*ends)
    if not vertex.base:
        kept = vertex.rows if vertex.kind is VertexKind.RELATION else vertex.rate.at(batch_s) * kept_s
        bill.disk[vertex.site] = (kept or 0.0) * vertex.width
        cost += bill.disk[vertex.site] * tariff.storage_price(vertex.site)
    bill.cost_of[name] = cost
    return bill


def late_share(rate: float, peak: float, freshness_s: float) -> float:
    """P(a change is later than promised), as the sojourn time of an M/M/1 queue whose server is busy for a share
    `peak` of the time.
    """
    if rate <= 0.0 or peak <= 0.0:
        return 0.0
    capacity = rate / peak
    return math.exp((rate - capacity) * freshness_s) if rate < capacity else 1.0


def total_cost(rescost: float, path_s: float, freshness_s: float, penalty_per_s: float) -> float:
    """$/s of a promise: late plans tie up what they use for longer, and late rows are paid for."""
    return rescost * (1.0 + path_s / freshness_s) + penalty_per_s
