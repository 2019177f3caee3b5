"""How often events leave each node of a composite network, and how often each is asked: constants of the decision.

Events. A node gives out its own events and the share it passes of those that arrive, once per edge on which they
do. Nodes that follow each other in a circle drop what they have seen: each gives out an event once, if it passed
the filters on the way from where it entered the circle. Of several ways the one that passes most counts.

Queries. If an edge is pulled, nothing below it can be stored ahead, for there is nothing to store it from. So every
query below a pulled edge comes up through it: as often as all nodes below ask, counted once per path, or once per
query.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import rustworkx

from headrace.plan.exact_numbers import common_scale, scale_to_objects
from headrace.plan.feeds.amounts import NumberArray
from headrace.plan.feeds.instance import Composite, PullAccounting

BLOCK = 8192
"""Asking nodes whose queries are followed together: a kilobyte per node of the network."""


@dataclass(frozen=True, slots=True)
class FollowNetwork:
    """Neighbours of every node, and its circles: sets of nodes that reach each other, everyone else alone.

    Circles stand in an order in which followers come before those they follow.
    """

    sources: tuple[tuple[int, ...], ...]
    targets: tuple[tuple[int, ...], ...]
    circles: tuple[tuple[int, ...], ...]

    def true_circles(self) -> Iterator[tuple[int, ...]]:
        """Those of more than one node, or of one that follows itself."""
        return (nodes for nodes in self.circles if len(nodes) > 1 or nodes[0] in self.targets[nodes[0]])


def network_of(composite: Composite) -> FollowNetwork:
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from(range(len(composite.nodes)))
    graph.add_edges_from_no_data([(edge.source, edge.target) for edge in composite.edges])
    sources: list[list[int]] = [[] for _ in composite.nodes]
    targets: list[list[int]] = [[] for _ in composite.nodes]
    for edge in composite.edges:
        sources[edge.target].append(edge.source)
        targets[edge.source].append(edge.target)
    # Tarjan's algorithm ends a component after all that it leads to.
    circles = tuple(tuple(sorted(nodes)) for nodes in rustworkx.strongly_connected_components(graph))
    return FollowNetwork(tuple(map(tuple, sources)), tuple(map(tuple, targets)), circles)


# Events


def output_rates(composite: Composite, network: FollowNetwork) -> list[Fraction]:
    """Events that each node gives out per unit of time."""
    rates = [Fraction(0)] * len(composite.nodes)
    for circle in reversed(network.circles):
        inside = frozenset(circle)
        entering = [_entering(composite, network, rates, node, inside) for node in circle]
        if all(composite.nodes[node].passed == 1 for node in circle) or len(circle) == 1:
            everything = sum(entering, start=Fraction(0))
            for node in circle:
                rates[node] = everything
            continue
        for entry, rate in zip(circle, entering, strict=True):
            for node, passed in _find_passed_on(composite, network, entry, inside):
                rates[node] += rate * passed
    return rates


def _entering(
    composite: Composite, network: FollowNetwork, rates: list[Fraction], node: int, inside: frozenset[int]
) -> Fraction:
    """What a node gives out of its own events, and of those that arrive from outside its circle."""
    arriving = sum((rates[source] for source in network.sources[node] if source not in inside), start=Fraction(0))
    return composite.nodes[node].event_rate + composite.nodes[node].passed * arriving


def _find_passed_on(
    composite: Composite, network: FollowNetwork, entry: int, inside: frozenset[int]
) -> Iterator[tuple[int, Fraction]]:
    """Finds, for every node of a circle, the share of what enters at `entry` that it gives out: by Dijkstra's
    algorithm.
    """
    best = {entry: Fraction(1)}
    todo = [(Fraction(-1), entry)]
    done: set[int] = set()
    while todo:
        passed, node = heapq.heappop(todo)
        if node in done:
            continue
        done.add(node)
        yield node, -passed
        for target in network.targets[node]:
            share = -passed * composite.nodes[target].passed
            if target in inside and target not in done and share > best.get(target, -1):
                best[target] = share
                heapq.heappush(todo, (-share, target))


# Queries


def asked_rates(composite: Composite, network: FollowNetwork) -> list[Fraction]:
    """How often each node is asked, by itself and by those below, if everything below is pulled."""
    if composite.accounting is PullAccounting.PATHS:
        return _count_asks_by_paths(composite, network)
    return _count_asks_by_nodes(composite, network)


def _count_asks_by_paths(composite: Composite, network: FollowNetwork) -> list[Fraction]:
    """Once per path: finite only without circles."""
    asked = [node.query_rate for node in composite.nodes]
    for (node,) in network.circles:
        asked[node] += sum((asked[target] for target in network.targets[node]), start=Fraction(0))
    return asked


def _count_asks_by_nodes(composite: Composite, network: FollowNetwork) -> list[Fraction]:
    """Once per query: the rates of all nodes that can be reached, each counted once."""
    asking = [number for number, node in enumerate(composite.nodes) if node.query_rate]
    rates = [composite.nodes[node].query_rate for node in asking]
    scale = common_scale(rates)
    weights = scale_to_objects(rates, scale)
    if int(weights.sum()) < 1 << 62:
        weights = weights.astype(np.int64)
    asked = [0] * len(composite.nodes)
    for start in range(0, len(asking), BLOCK):
        weight_of = _weigher(weights[start : start + BLOCK])
        for circle, reached in _find_reached(network, asking[start : start + BLOCK]):
            for node in circle:
                asked[node] += weight_of(reached)
    return [Fraction(rate, scale) for rate in asked]


def _find_reached(network: FollowNetwork, some: list[int]) -> Iterator[tuple[tuple[int, ...], int]]:
    """Finds, for every circle, which of these nodes it reaches, as the bits of an integer."""
    bit = {node: 1 << position for position, node in enumerate(some)}
    reached = [0] * len(network.sources)
    for circle in network.circles:
        found = 0
        for node in circle:
            found |= bit.get(node, 0)
            for target in network.targets[node]:
                found |= reached[target]
        for node in circle:
            reached[node] = found
        yield circle, found


def _weigher(weights: NumberArray) -> Callable[[int], int]:
    """The sum of the weights whose bits are set. Many nodes reach the same ones: sums are kept."""

    @lru_cache(maxsize=1 << 16)
    def weight_of(bits: int) -> int:
        if not bits:
            return 0
        held = np.frombuffer(bits.to_bytes(-(-len(weights) // 8), "little"), dtype=np.uint8)
        return int(weights[np.unpackbits(held, count=len(weights), bitorder="little").astype(np.bool_)].sum())

    return weight_of
