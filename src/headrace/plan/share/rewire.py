"""Giving vertices other producers, and what that saves.

Whom a vertex serves is found by walking from it to the views, never by editing what was known before: a contract that
stops using a vertex by one way may still use it by another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from headrace.model.plan import Edge, Graph, Vertex
from headrace.plan.price import charge
from headrace.plan.share.arrangement import Arrangement


@dataclass(frozen=True, slots=True)
class Rewiring:
    """`dst` is made from `src` from now on. `edges` are new producers by output, `vertices` those that they add."""

    kind: str
    src: str
    dst: str
    edges: Mapping[str, Edge]
    vertices: Mapping[str, Vertex] = field(default_factory=dict)

    def applied(self, graph: Graph) -> Graph:
        return Graph({**graph.vertices, **self.vertices}, {**graph.edges, **self.edges})


class RewiringCosts:
    """What every vertex of an arrangement costs and whom it serves, to price rewirings without pricing everything."""

    def __init__(self, now: Arrangement) -> None:
        self._graph, self._tariff = now.graph, now.tariff
        self._promises = now.live.promises
        self._cost = now.live.bill.cost_of
        self._own: dict[str, int] = {}
        for number, promise in enumerate(self._promises):
            self._own[promise.vertex] = self._own.get(promise.vertex, 0) | 1 << number
        number_of = {promise.contract: number for number, promise in enumerate(self._promises)}
        self._mask = {
            name: sum(1 << number_of[promise.contract] for promise in promises)
            for name, promises in now.live.served.items()
        }
        self._readers: dict[str, list[str]] = {}
        for edge in now.graph.edges.values():
            for input_ in set(edge.inputs):
                self._readers.setdefault(input_, []).append(edge.output)
        self._terms_of: dict[int, tuple[float, float]] = {}

    def benefit(self, rewiring: Rewiring) -> float | None:
        """$/s saved, after everything that serves nobody is gone; None if something would be made of itself."""
        graph = rewiring.applied(self._graph)
        after = _upstream(graph, rewiring.edges)
        if after is None:
            return None
        before = _upstream(self._graph, (name for name in rewiring.edges if name in self._graph.vertices))
        assert before is not None, "a graph that is arranged has no circles"
        masks = self._masks(before | after, rewiring)
        return sum(self._cost.get(name, 0.0) - self._new_cost(graph, name, mask) for name, mask in masks.items())

    def _masks(self, touched: set[str], rewiring: Rewiring) -> dict[str, int]:
        """Whom each touched vertex serves afterwards; a bit per promise."""
        readers = {name: [r for r in self._readers.get(name, ()) if r not in rewiring.edges] for name in touched}
        for output, edge in rewiring.edges.items():
            for input_ in set(edge.inputs):
                readers[input_].append(output)
        masks: dict[str, int] = {}

        def mask(name: str) -> int:
            if name not in touched:
                return self._mask.get(name, 0)
            if name not in masks:
                found = self._own.get(name, 0)
                for reader in readers[name]:
                    found |= mask(reader)
                masks[name] = found
            return masks[name]

        for name in touched:
            mask(name)
        return masks

    def _new_cost(self, graph: Graph, name: str, mask: int) -> float:
        if not mask:
            return 0.0
        same_producer = graph.edges.get(name) is self._graph.edges.get(name) and name in self._graph.vertices
        if same_producer and mask == self._mask.get(name):
            return self._cost[name]
        batch_s, freshness_s = self._terms(mask)
        return charge(graph, self._tariff, name, batch_s, 2 * freshness_s).cost_of[name]

    def _terms(self, mask: int) -> tuple[float, float]:
        """The smallest batch and the largest freshness of some promises."""
        if mask not in self._terms_of:
            chosen = [promise for number, promise in enumerate(self._promises) if mask >> number & 1]
            self._terms_of[mask] = min(p.batch_s for p in chosen), max(p.freshness_s for p in chosen)
        return self._terms_of[mask]


def _upstream(graph: Graph, names: Iterable[str]) -> set[str] | None:
    """What vertices are made of, and they themselves; None if one is made of itself."""
    done: set[str] = set()
    open_: set[str] = set()
    pending = [(name, False) for name in names]
    while pending:
        name, is_left = pending.pop()
        if is_left:
            open_.discard(name)
            done.add(name)
        elif name in open_:
            return None
        elif name not in done:
            open_.add(name)
            pending.append((name, True))
            edge = graph.edges.get(name)
            pending.extend((input_, False) for input_ in (() if edge is None else edge.inputs))
    return done
