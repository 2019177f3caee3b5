"""Every plan of a group-by over a join: aggregated whole at some site, or in parts where the terms of the last join
arise.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.model.catalogue import Catalogue
from tests.plan.exhaustive import Alias, Oracle, Priced, Producers, Vertex, merged

FULL = frozenset(["(full)"])
PARTIAL = frozenset(["(partial)"])


class GroupedOracle(Oracle):
    """`groups` is how many there are; widths are those of relations."""

    def __init__(
        self,
        catalogue: Catalogue,
        block: Any,
        target: str,
        groups: float,
        widths: Mapping[frozenset[str], float],
        penalty: float = 0.0,
    ) -> None:
        super().__init__(catalogue, block, target, {}, penalty)
        self.groups, self.widths, self.batch_s = groups, widths, 1.0

    def rate(self, vertex: Vertex) -> float:
        if vertex[0] == "r" or vertex[1] not in (FULL, PARTIAL):
            return super().rate(vertex)
        changed = self.all if vertex[1] == FULL else vertex[2]
        arriving = super().rate(("d", self.all, changed, None)) * self.batch_s
        touched = self.groups * (1 - (1 - 1 / self.groups) ** arriving)
        return float(2 * min(touched, arriving) / self.batch_s)

    def width(self, subset: frozenset[Alias]) -> float:
        return self.widths[subset] if subset in self.widths else super().width(subset)

    def card(self, subset: frozenset[Alias]) -> float:
        return self.groups if subset in (FULL, PARTIAL) else super().card(subset)

    def priced(self, producers: Producers, view: Vertex, batch_s: float, freshness_s: float) -> Priced:
        self.batch_s = batch_s
        return super().priced(producers, view, batch_s, freshness_s)

    def plans(self) -> Iterator[tuple[Producers, Vertex]]:
        for producers, site in itertools.chain(self._whole(), self._in_parts()):
            made = ("d", FULL, FULL, site)
            there = ("d", FULL, FULL, self.target)
            if site != self.target:
                if (site, self.target) not in self.links:
                    continue
                producers = {**producers, there: ("copy", (made,))}
            view = ("r", FULL, self.target)
            yield {**producers, view: ("apply", (there,))}, view

    def _whole(self) -> Iterator[tuple[Producers, str]]:
        for site in self.sites:
            for producers, _ in self.deltas(self.all, site):
                yield {**producers, ("d", FULL, FULL, site): ("aggregate", (self.delta(self.all, site),))}, site

    def _in_parts(self) -> Iterator[tuple[Producers, str]]:
        for left, right in self.splits(self.all):
            for j1, j2 in itertools.product(self.sites, self.sites):
                if j1 == j2:
                    continue
                for (a, held_a), (b, held_b) in itertools.product(self.states(left, j1), self.states(right, j2)):
                    for to_j2, to_j1 in itertools.product(
                        self._copies(left, held_a, j2), self._copies(right, held_b, j1)
                    ):
                        sides = merged(a, b, to_j2, to_j1)
                        if sides is not None:
                            yield from self._parts_of(sides, left, right, j1, j2)

    def _parts_of(
        self, sides: Producers, left: frozenset[Alias], right: frozenset[Alias], j1: str, j2: str
    ) -> Iterator[tuple[Producers, str]]:
        made: Producers = {
            ("d", self.all, right, j1): ("join", (self.relation(left, j1), self.delta(right, j1))),
            ("d", self.all, left, j2): ("join", (self.relation(right, j2), self.delta(left, j2))),
            ("d", PARTIAL, right, j1): ("aggregate", (("d", self.all, right, j1),)),
            ("d", PARTIAL, left, j2): ("aggregate", (("d", self.all, left, j2),)),
        }
        for site in self.sites:
            parts, possible = [], True
            producers = {**sides, **made}
            for changed, source in ((right, j1), (left, j2)):
                parts.append(("d", PARTIAL, changed, site))
                if source != site:
                    possible &= (source, site) in self.links
                    producers[parts[-1]] = ("copy", (("d", PARTIAL, changed, source),))
            united = ("d", PARTIAL, self.all, site)
            producers[united] = ("union", tuple(parts))
            producers["d", FULL, FULL, site] = ("aggregate", (united,))
            if possible:
                yield producers, site

    def _view_rate(self) -> float:
        return self.rate(("d", FULL, FULL, None))
