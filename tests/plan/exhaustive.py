"""Every plan of a join at a target, enumerated and priced one by one: the oracle for the search.

Written for plainness, apart from the planner: vertices are tuples, a plan is a dict from vertices to their producers,
and each formula stands here once more.

    ("r", S, site)         relation of sub-join S (a frozenset of aliases); the source itself for a single alias at home
    ("d", S, F, site)      changes of S that F causes;  a raw single alias at home is filtered by whatever reads it
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.model.block import Block
from headrace.model.catalogue import Catalogue

Alias = str
Vertex = tuple[Any, ...]
Producers = dict[Vertex, tuple[str, tuple[Vertex, ...]]]


@dataclass(frozen=True)
class Priced:
    """A plan with everything that decides about it."""

    producers: Producers
    view: Vertex
    path_s: float
    peak: float
    rescost: float
    cost: float
    arrival_sum: float
    overloaded: tuple[str, ...]


def merged(*parts: Producers) -> Producers | None:
    """Parts of a plan together; None if they make one vertex in two ways."""
    together: Producers = {}
    for part in parts:
        if any(together.get(vertex, producer) != producer for vertex, producer in part.items()):
            return None
        together.update(part)
    return together


class Oracle:
    """`shares` are selectivities by alias. `batch_s` and `limit_s` follow from the rule."""

    def __init__(
        self,
        catalogue: Catalogue,
        block: Block,
        target: str,
        shares: Mapping[Alias, float] | None = None,
        penalty: float = 0.0,
    ) -> None:
        self.catalogue, self.block, self.target, self.penalty = catalogue, block, target, penalty
        self.shares = shares or {}
        self.sources: dict[Alias, Any] = {entry.alias: catalogue.sources[entry.source] for entry in block.inputs}
        self.sites = list(catalogue.sites)
        self.links = {(link.src, link.dst): link for link in catalogue.links}
        self.all = frozenset(self.sources)
        self.shared_by = self._shared_by()

    def _shared_by(self) -> dict[Alias, Alias]:
        """Aliases of one source with the same filter and columns share their vertices: they go by the first."""
        texts = {entry.alias: entry.text for entry in self.block.filters}
        first: dict[tuple[str, str, tuple[str, ...]], Alias] = {}
        found = {}
        for entry in self.block.inputs:
            columns = tuple(sorted(column for _, column in self.columns(frozenset((entry.alias,)))))
            found[entry.alias] = first.setdefault((entry.source, texts.get(entry.alias, ""), columns), entry.alias)
        return found

    def named(self, subset: frozenset[Alias]) -> frozenset[Alias]:
        return frozenset(self.shared_by[alias] for alias in subset) if len(subset) == 1 else subset

    # Statistics

    def rows(self, alias: Alias) -> float:
        return float(self.sources[alias].rows) * self.shares.get(alias, 1.0)

    def source_rate(self, alias: Alias) -> float:
        source = self.sources[alias]
        return 0.0 if source.static else float(source.rate)

    def card(self, subset: frozenset[Alias]) -> float:
        card = math.prod(self.rows(alias) for alias in subset)
        for class_ in self.block.classes:
            values = sorted(
                min(self._distinct(self.sources[alias], column), self.rows(alias))
                for alias, column in class_
                if alias in subset
            )
            for value in values[1:]:
                card /= value
        return card

    def _distinct(self, source: Any, column: str) -> float:
        found = next(entry for entry in source.columns if entry.name == column)
        if found.distinct is not None:
            return float(found.distinct)
        return float(source.rows if source.key == (column,) else min(source.rows, 0.1 * source.rows + 10))

    def rate(self, vertex: Vertex) -> float:
        if vertex[0] == "r":
            return 0.0
        _, subset, changed, site = vertex
        if len(subset) == 1:
            (alias,) = subset
            raw = site == self.sources[alias].site
            return self.source_rate(alias) * (1.0 if raw else self.shares.get(alias, 1.0))
        return self.card(subset) * sum(
            self.source_rate(alias) * self.shares.get(alias, 1.0) / self.rows(alias) for alias in changed
        )

    def width(self, subset: frozenset[Alias]) -> float:
        return sum(self._column_width(*column) for column in self.columns(subset))

    def columns(self, subset: frozenset[Alias]) -> set[tuple[Alias, str]]:
        columns = {(alias, column) for alias in subset for column in self.block.keep.get(alias, ())}
        for class_ in self.block.classes:
            inside = [member for member in class_ if member[0] in subset]
            outside = [member for member in class_ if member[0] not in subset]
            if inside and outside and not columns & set(inside):
                columns.add(min(inside, key=lambda member: f"{member[0]}.{member[1]}"))
        return columns

    def _column_width(self, alias: Alias, column: str) -> float:
        return float(next(entry.width for entry in self.sources[alias].columns if entry.name == column))

    # Enumeration

    def plans(self) -> Iterator[tuple[Producers, Vertex]]:
        for producers, _ in self.states(self.all, self.target):
            yield producers, ("r", self.all, self.target)

    def connected(self, subset: frozenset[Alias]) -> bool:
        reached = {min(subset)}
        while True:
            more = {
                alias
                for class_ in self.block.classes
                if {member[0] for member in class_} & reached
                for alias, _ in class_
                if alias in subset
            }
            if more <= reached:
                return reached == subset
            reached |= more

    def splits(self, subset: frozenset[Alias]) -> Iterator[tuple[frozenset[Alias], frozenset[Alias]]]:
        first, *rest = sorted(subset)
        for size in range(len(rest)):
            for others in itertools.combinations(rest, size):
                left = frozenset((first, *others))
                if self.connected(left) and self.connected(subset - left):
                    yield left, subset - left

    def static(self, subset: frozenset[Alias]) -> bool:
        return all(self.sources[alias].static for alias in subset)

    def changing(self, subset: frozenset[Alias]) -> frozenset[Alias]:
        moving = frozenset(alias for alias in subset if not self.sources[alias].static)
        return moving or frozenset([min(subset)])

    def delta(self, subset: frozenset[Alias], site: str) -> Vertex:
        return ("d", self.named(subset), self.named(self.changing(subset)), site)

    def relation(self, subset: frozenset[Alias], site: str) -> Vertex:
        return ("r", self.named(subset), site)

    def states(self, subset: frozenset[Alias], site: str) -> Iterator[tuple[Producers, frozenset[str]]]:
        """Plans for relation and delta at a site, with all the sites that then hold the delta."""
        for producers, held in self.deltas(subset, site):
            if len(subset) == 1 and site == self.sources[min(subset)].site:
                yield producers, held
            else:
                apply = {self.relation(subset, site): ("apply", (self.delta(subset, site),))}
                yield {**producers, **apply}, held

    def deltas(self, subset: frozenset[Alias], site: str) -> Iterator[tuple[Producers, frozenset[str]]]:
        """Plans for the complete delta at a site."""
        for producers, made_at in self.made(subset, site):
            if made_at == site:
                yield producers, frozenset([site])
            elif (made_at, site) in self.links:
                copy = {self.delta(subset, site): ("copy", (self.delta(subset, made_at),))}
                yield {**producers, **copy}, frozenset([made_at, site])

    def made(self, subset: frozenset[Alias], wanted: str) -> Iterator[tuple[Producers, str]]:
        """Plans that make the complete delta, at the wanted site or where both joins are."""
        if len(subset) == 1:
            home = self.sources[min(subset)].site
            yield {self.delta(subset, home): ("capture", (self.relation(subset, home),))}, home
            return
        for left, right in self.splits(subset):
            if self.static(left) or self.static(right):
                yield from self._one_term(subset, left, right)
            else:
                yield from self._two_terms(subset, left, right, wanted)

    def _one_term(
        self, subset: frozenset[Alias], left: frozenset[Alias], right: frozenset[Alias]
    ) -> Iterator[tuple[Producers, str]]:
        changed, fixed = (left, right) if self.changing(subset) <= left else (right, left)
        for site in self.sites:
            for (first, _), (second, _) in itertools.product(self.deltas(changed, site), self.states(fixed, site)):
                term: Producers = {
                    self.delta(subset, site): ("join", (self.relation(fixed, site), self.delta(changed, site)))
                }
                together = merged(first, second, term)
                if together is not None:
                    yield together, site

    def _two_terms(
        self, subset: frozenset[Alias], left: frozenset[Alias], right: frozenset[Alias], wanted: str
    ) -> Iterator[tuple[Producers, str]]:
        for j1, j2 in itertools.product(self.sites, self.sites):
            unions = {wanted, j1} if j1 == j2 else {wanted}
            for (a, held_a), (b, held_b) in itertools.product(self.states(left, j1), self.states(right, j2)):
                for to_j2, to_j1 in itertools.product(self._copies(left, held_a, j2), self._copies(right, held_b, j1)):
                    sides = merged(a, b, to_j2, to_j1)
                    if sides is None:
                        continue
                    at_j1 = ("d", subset, self.changing(right), j1)
                    at_j2 = ("d", subset, self.changing(left), j2)
                    terms = {
                        at_j1: ("join", (self.relation(left, j1), self.delta(right, j1))),
                        at_j2: ("join", (self.relation(right, j2), self.delta(left, j2))),
                    }
                    for site in sorted(unions):
                        united = self._united(subset, (at_j1, at_j2), site)
                        if united is not None:
                            yield {**sides, **terms, **united}, site

    def _copies(self, subset: frozenset[Alias], held: frozenset[str], site: str) -> Iterator[Producers]:
        if site in held:
            yield {}
            return
        for source in sorted(held):
            if (source, site) in self.links:
                yield {self.delta(subset, site): ("copy", (self.delta(subset, source),))}

    def _united(self, subset: frozenset[Alias], terms: tuple[Vertex, Vertex], site: str) -> Producers | None:
        producers: Producers = {}
        brought = []
        for term in terms:
            here = (*term[:3], site)
            if term[3] != site:
                if (term[3], site) not in self.links:
                    return None
                producers[here] = ("copy", (term,))
            brought.append(here)
        producers[self.delta(subset, site)] = ("union", tuple(brought))
        return producers

    # Prices

    def time(self, op: str, inputs: tuple[Vertex, ...], output: Vertex, batch_s: float) -> tuple[float, float]:
        """Core seconds and seconds of one push."""
        times, site = self.catalogue.operator_times[op], output[-1]
        rows_in = 0.0 if op == "capture" else sum(self.rate(vertex) for vertex in inputs) * batch_s
        rows_out = self.rate(output) * batch_s
        work = (times.fixed + times.per_in * rows_in + times.per_out * rows_out) / self.catalogue.sites[site].speed
        if op != "copy":
            return work, work
        link = self.links[inputs[0][-1], site]
        sent = rows_out * (self.width(output[1]) + 16)
        return work, work + link.latency_s + (0.0 if link.bandwidth is None else sent / link.bandwidth)

    def arrivals(self, producers: Producers, batch_s: float) -> dict[Vertex, float]:
        at: dict[Vertex, float] = {}

        def arrival(vertex: Vertex) -> float:
            if vertex not in at:
                if vertex in producers:
                    op, inputs = producers[vertex]
                    at[vertex] = max(map(arrival, inputs)) + self.time(op, inputs, vertex, batch_s)[1]
                else:
                    at[vertex] = 0.0
            return at[vertex]

        for vertex in producers:
            arrival(vertex)
        return at

    def priced(self, producers: Producers, view: Vertex, batch_s: float, freshness_s: float) -> Priced:
        at = self.arrivals(producers, batch_s)
        cpu: dict[str, float] = {}
        disk: dict[str, float] = {}
        sent: dict[tuple[str, str], float] = {}
        peak = 0.0
        for vertex, (op, inputs) in producers.items():
            work, time = self.time(op, inputs, vertex, batch_s)
            site = vertex[-1]
            peak = max(peak, time / batch_s)
            cpu[site] = cpu.get(site, 0.0) + work / batch_s
            if op == "copy":
                ends = inputs[0][-1], site
                sent[ends] = sent.get(ends, 0.0) + self.rate(vertex) * (self.width(vertex[1]) + 16)
            if op != "capture":
                disk[site] = disk.get(site, 0.0) + self._stored(vertex, freshness_s)
        rescost = self._rescost(cpu, sent, disk)
        rate = self._view_rate()
        late = math.exp(min(0.0, rate * (1 - 1 / peak) * freshness_s)) if rate and peak else 0.0
        cost = rescost * (1 + at[view] / freshness_s) + rate * late * self.penalty
        return Priced(
            producers, view, at[view], peak, rescost, cost, sum(at.values()), self._overloaded(cpu, sent, disk)
        )

    def _view_rate(self) -> float:
        if len(self.all) > 1:
            return self.rate(("d", self.all, self.all, None))
        (alias,) = self.all
        return self.source_rate(alias) * self.shares.get(alias, 1.0)

    def _stored(self, vertex: Vertex, freshness_s: float) -> float:
        if vertex[0] == "r":
            return self.card(vertex[1]) * self.width(vertex[1])
        return self.rate(vertex) * 2 * freshness_s * (self.width(vertex[1]) + 16)

    def _rescost(self, cpu: dict[str, float], sent: dict[tuple[str, str], float], disk: dict[str, float]) -> float:
        sites = self.catalogue.sites
        return (
            sum(cores * sites[site].cpu_price_h / 3600 for site, cores in cpu.items())
            + sum(rate * self.links[ends].price_gb / 1e9 for ends, rate in sent.items())
            + sum(size * sites[site].disk_price_gb_month / 1e9 / 2_592_000 for site, size in disk.items())
        )

    def _overloaded(
        self, cpu: dict[str, float], sent: dict[tuple[str, str], float], disk: dict[str, float]
    ) -> tuple[str, ...]:
        room, found = self.catalogue.headroom, []
        for site in self.catalogue.sites.values():
            if site.cores is not None and cpu.get(site.name, 0.0) > (1 - room.cpu) * site.cores:
                found.append(f"cpu:{site.name}")
            if site.disk_capacity is not None and disk.get(site.name, 0.0) > site.disk_capacity:
                found.append(f"disk:{site.name}")
        for host in self.catalogue.hosts.values():
            on_host = sum(cpu.get(site.name, 0.0) for site in self.catalogue.sites.values() if site.host == host.name)
            if on_host > (1 - room.cpu) * host.cores:
                found.append(f"host:{host.name}")
        for ends, rate in sent.items():
            bandwidth = self.links[ends].bandwidth
            if bandwidth is not None and rate > (1 - room.link) * bandwidth:
                found.append("link:" + ">".join(ends))
        return tuple(found)

    # Answers

    def all_priced(self, batch_s: float, freshness_s: float) -> list[Priced]:
        return [self.priced(producers, view, batch_s, freshness_s) for producers, view in self.plans()]

    def admissible(self, freshness_s: float, paper: bool = False) -> list[Priced]:
        """The plans that keep the promise."""
        batch_s = 1.0 if paper else freshness_s / 2
        return [
            plan
            for plan in self.all_priced(batch_s, freshness_s)
            if plan.peak < 1
            and not plan.overloaded
            and (plan.path_s < freshness_s if paper else plan.path_s <= freshness_s / 2)
        ]

    def cheapest(self, freshness_s: float, paper: bool = False) -> Priced | None:
        plans = self.admissible(freshness_s, paper)
        if not plans:
            return None
        least = min(plan.cost for plan in plans)
        plans = [plan for plan in plans if plan.cost <= least * (1 + 1e-9)]
        fastest = min(plan.path_s for plan in plans)
        plans = [plan for plan in plans if plan.path_s <= fastest * (1 + 1e-9)]
        return min(plans, key=lambda plan: plan.arrival_sum)

    def fastest_path_s(self, freshness_s: float, paper: bool = False) -> float | None:
        batch_s = 1.0 if paper else freshness_s / 2
        return min((plan.path_s for plan in self.all_priced(batch_s, freshness_s)), default=None)

    def smallest_freshness_s(self, paper: bool = False, largest: float = 1e6) -> float | None:
        """The least freshness that some plan keeps, by bisection plan by plan; disks must not bind."""
        best = math.inf
        for producers, view in self.plans():
            best = min(best, self._smallest_of(producers, view, paper, min(best, largest)))
        return None if best > largest else best

    def _smallest_of(self, producers: Producers, view: Vertex, paper: bool, largest: float) -> float:
        def kept(freshness_s: float) -> bool:
            plan = self.priced(producers, view, 1.0 if paper else freshness_s / 2, freshness_s)
            in_time = plan.path_s < freshness_s if paper else plan.path_s <= freshness_s / 2
            return in_time and plan.peak < 1 and not plan.overloaded

        if not kept(largest):
            return math.inf
        low, high = 0.0, largest
        while high - low > 1e-9 * high:
            middle = (low + high) / 2
            low, high = (low, middle) if kept(middle) else (middle, high)
        return high
