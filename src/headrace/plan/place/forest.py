"""Conflicts that form trees: the cheapest levels by dynamic programming from the leaves up.

Every vertex has a `Chain` of levels whose costs do not fall. A `Joint` asks that one of its two vertices reaches a
level.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True, slots=True)
class Chain:
    """A device's possible upload limits, rising, and the cost of reaching each.

    `limit` is the cheapest limit at or above it.
    """

    levels: tuple[int, ...]
    cost: tuple[int, ...]
    limit: tuple[int, ...]

    def position(self, level: int) -> int:
        return bisect_left(self.levels, level)


class Joint(NamedTuple):
    """Vertex `one` is at `level_one` or higher, or `other` at `level_other` or higher (positions in their chains)."""

    one: int
    other: int
    level_one: int
    level_other: int


Edges = dict[int, dict[int, list[tuple[int, int]]]]
"""vertex -> neighbour -> (level the vertex needs, level the neighbour needs), one for each joint of the two."""


def cheapest_levels(chains: Sequence[Chain], vertices: Sequence[int], joints: Sequence[Joint]) -> dict[int, int]:
    """The cheapest level (position) of every vertex; the joints must form trees. Ties go to the lower level."""
    edges = _edges(joints)
    parent, order = _root_forest(vertices, edges)
    # at_least[v][l]: the cheapest cost of v's subtree with v at level l or higher, and that level.
    at_least: dict[int, list[tuple[int, int]]] = {}
    needs: dict[int, list[int]] = {}
    for vertex in reversed(order):
        cost = list(chains[vertex].cost)
        for child in edges.get(vertex, {}):
            if parent.get(child) != vertex:
                continue
            needs[child] = _find_needed_levels(len(cost), edges[vertex][child])
            for level, need in enumerate(needs[child]):
                cost[level] += at_least[child][need][0]
        at_least[vertex] = _suffix_minima(cost)
    chosen: dict[int, int] = {}
    for vertex in order:
        above = parent[vertex]
        need = 0 if above is None else needs[vertex][chosen[above]]
        chosen[vertex] = at_least[vertex][need][1]
    return chosen


def _edges(joints: Sequence[Joint]) -> Edges:
    edges: Edges = {}
    for one, other, level_one, level_other in joints:
        edges.setdefault(one, {}).setdefault(other, []).append((level_one, level_other))
        edges.setdefault(other, {}).setdefault(one, []).append((level_other, level_one))
    return edges


def _root_forest(
    vertices: Sequence[int], edges: Mapping[int, Mapping[int, object]]
) -> tuple[dict[int, int | None], list[int]]:
    """Each vertex's parent, and an order in which parents come before their children."""
    parent: dict[int, int | None] = {}
    order: list[int] = []
    for root in vertices:
        if root in parent:
            continue
        parent[root] = None
        todo = [root]
        while todo:
            vertex = todo.pop()
            order.append(vertex)
            for neighbour in edges.get(vertex, ()):
                if neighbour not in parent:
                    parent[neighbour] = vertex
                    todo.append(neighbour)
    return parent, order


def _find_needed_levels(levels: int, joint_levels: Sequence[tuple[int, int]]) -> list[int]:
    """Finds, for each level of a vertex, the level that its child must then reach."""
    needed = [0] * levels
    for own, of_child in joint_levels:
        for level in range(own):
            needed[level] = max(needed[level], of_child)
    return needed


def _suffix_minima(cost: Sequence[int]) -> list[tuple[int, int]]:
    best = (cost[-1], len(cost) - 1)
    minima = [best]
    for level in range(len(cost) - 2, -1, -1):
        best = min(best, (cost[level], level))
        minima.append(best)
    return minima[::-1]
