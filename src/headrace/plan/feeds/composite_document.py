"""An instance of kind `composite`: nodes, the edges between them, prices, and how fetches are counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from headrace.model.errors import nearest_name
from headrace.plan.exact_fields import DocumentFields
from headrace.plan.exact_json import Path
from headrace.plan.feeds.amounts import Positions
from headrace.plan.feeds.instance import Composite, FollowEdge, FollowNode, PullAccounting
from headrace.plan.feeds.network import network_of


@dataclass(frozen=True, slots=True)
class NamedComposite:
    """A network with the names behind its positions."""

    composite: Composite
    names: tuple[str, ...]

    def pairs(self, numbers: Positions) -> list[tuple[str, str]]:
        """Source and target of each of these edges."""
        edges = (self.composite.edges[number] for number in numbers.tolist())
        return [(self.names[edge.source], self.names[edge.target]) for edge in edges]

    def find(self, who: str, whom: str) -> int | None:
        """The number of the edge by which one node follows another."""
        ends = ((self.names[edge.source], self.names[edge.target]) for edge in self.composite.edges)
        return next((number for number, end in enumerate(ends) if end == (whom, who)), None)


def read_composite(fields: DocumentFields, document: object) -> NamedComposite:
    known = ("kind", "H", "L", "pull_accounting", "nodes", "edges")
    given = fields.fields(document, (), "the instance", known, ("nodes", "edges"))
    accounting = fields.choice(
        given.get("pull_accounting", "paths"), ("pull_accounting",), "the pull accounting", PullAccounting
    )
    members = fields.members(given.get("nodes", {}), ("nodes",), '"nodes"')
    nodes = tuple(_read_node(fields, name, value) for name, value in members.items())
    edges = _read_edges(fields, given, {name: number for number, name in enumerate(members)})
    fields.end()
    named = NamedComposite(Composite(nodes, tuple(edges.values()), accounting), tuple(members))
    _check_circles(fields, named, tuple(edges))
    fields.end()
    return named


def _read_node(fields: DocumentFields, name: str, value: object) -> FollowNode:
    path: Path = ("nodes", name)
    entry = fields.fields(value, path, f'node "{name}"', ("event_rate", "query_rate", "pass"))
    return FollowNode(
        fields.amount(entry.get("event_rate", 0), (*path, "event_rate"), f'the event rate of node "{name}"'),
        fields.amount(entry.get("query_rate", 0), (*path, "query_rate"), f'the query rate of node "{name}"'),
        fields.amount(entry.get("pass", 1), (*path, "pass"), f'what node "{name}" passes'),
    )


def _read_edges(fields: DocumentFields, given: Mapping[str, object], position: dict[str, int]) -> dict[int, FollowEdge]:
    """Edges by their place in the list."""
    edges: dict[int, FollowEdge] = {}
    ends: set[tuple[str, str]] = set()
    for number, value in enumerate(fields.items(given.get("edges", []), ("edges",), '"edges"')):
        path: Path = ("edges", number)
        named = _read_ends(fields, value, path, position)
        if named is None:
            continue
        if named in ends:
            fields.wrong(path, f'the edge from node "{named[0]}" to node "{named[1]}" is there twice', "leave one out")
        ends.add(named)
        own = value[2] if isinstance(value, list) and len(value) == 3 else {}
        prices = fields.fields(own, (*path, 2), "the third entry of an edge", ("H", "L"))
        store, fetch = (_price(fields, given, prices, path, name) for name in ("H", "L"))
        edges[number] = FollowEdge(position[named[0]], position[named[1]], store, fetch)
    return edges


def _read_ends(fields: DocumentFields, value: object, path: Path, position: dict[str, int]) -> tuple[str, str] | None:
    entries = fields.items(value, path, "an edge")
    if not isinstance(value, list):
        return None
    if len(entries) not in (2, 3) or not all(isinstance(end, str) for end in entries[:2]):
        fields.wrong(path, "an edge must name two nodes", '["a", "b"] or ["a", "b", {"H": 3, "L": 1}]: b follows a')
        return None
    unknown = [end for end in entries[:2] if end not in position]
    for name in unknown:
        hint = nearest_name(str(name), position) or 'nodes are declared under "nodes"'
        fields.wrong(path, f'an edge names an unknown node, "{name}"', hint)
    return None if unknown else (str(entries[0]), str(entries[1]))


def _price(
    fields: DocumentFields, given: Mapping[str, object], own: Mapping[str, object], edge: Path, name: str
) -> Fraction:
    """The price of an edge: its own, or that of the instance."""
    if name in own:
        return fields.amount(own[name], (*edge, 2, name), f'"{name}" of an edge')
    if name not in given:
        fields.wrong(
            edge, f'neither the instance nor this edge has "{name}"', "H is the price of storing, L of fetching"
        )
        return Fraction(0)
    return fields.amount(given[name], (name,), f'"{name}"')


def _check_circles(fields: DocumentFields, named: NamedComposite, numbers: tuple[int, ...]) -> None:
    """Circles need fetches counted once per query, and nodes that do not multiply events."""
    nodes = named.composite.nodes
    for circle in network_of(named.composite).true_circles():
        names = " -> ".join(f'"{named.names[node]}"' for node in circle)
        if named.composite.accounting is PullAccounting.PATHS:
            inside = (
                number for number, edge in zip(numbers, named.composite.edges, strict=True) if edge.source in circle
            )
            hint = 'along a circle there are paths without end: use "pull_accounting": "distinct"'
            fields.wrong(("edges", next(inside)), f"nodes follow each other in a circle: {names}", hint)
        for node in circle:
            if nodes[node].passed > 1:
                path = ("nodes", named.names[node], "pass")
                fields.wrong(path, f'node "{named.names[node]}" is in a circle and passes more than it gets')
