"""Filtered datasets from wider ones that live: what was joined for one contract is filtered for another.

    read     an apply or an aggregate reads the changes of a wider dataset at its site, and filters on the way
    copied   changes are copied, filtered, from a site where they are wider
    stood in for    everyone who reads a dataset at a site, joins too, reads the wider one there instead

Wider is a dataset with the same inputs and conditions whose filters let everything through: those of an alias are the
same, or none, or contain the narrower's (`x > 5` contains `x > 7`). The edge selects by the narrower's whole filter:
that is the string which a plan document gives for the alias, and it says how many rows pass.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from headrace.model.block import BlockFilter, ColumnId
from headrace.model.expr import columns_of
from headrace.model.plan import Edge, Operator, Vertex, VertexKind
from headrace.plan.canonical.containment import contains
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.rewire import Rewiring
from headrace.plan.share.subject import Subject, Subjects

READING = (Operator.APPLY, Operator.AGGREGATE)
MAKING = (Operator.COPY, Operator.UNION, Operator.JOIN)

Filters = Mapping[tuple[str, str], BlockFilter]
"""By alias and predicate; filters of an input that stands alone also by its source's name."""


def from_wider(made: Collection[str]) -> Callable[[Arrangement], Iterator[Rewiring]]:
    """Rewirings of some vertices to datasets that are filtered less."""

    def candidates(now: Arrangement) -> Iterator[Rewiring]:
        filters = all_filters(now)
        if filters:
            found = _Narrowing(now, filters, Subjects(now.graph, now.blocks))
            for name in made:
                if name in now.graph.edges:
                    yield from found.of(now.graph.edges[name])

    return candidates


def all_filters(now: Arrangement) -> dict[tuple[str, str], BlockFilter]:
    found = {}
    for planned in now.blocks:
        for filter_ in planned.block.filters:
            found[filter_.alias, filter_.text] = found[planned.reads[filter_.alias], filter_.text] = filter_
    return found


def missing_filters(subject: Subject, wider: Subject | None, filters: Filters) -> frozenset[tuple[str, str]]:
    """The filters that lead from a wider subject to this one; none if it is not wider, or not in just that."""
    if wider is None or (wider.inputs, wider.conditions) != (subject.inputs, subject.conditions):
        return frozenset()
    missing = subject.filters - wider.filters
    for alias, text in wider.filters - subject.filters:
        ours = [filters[one] for one in missing if one[0] == alias and one in filters]
        if len(ours) != 1 or (alias, text) not in filters or not contains(filters[alias, text], ours[0]):
            return frozenset()
    twice = {alias for alias, _ in missing} & {alias for alias, _ in wider.filters & subject.filters}
    return frozenset() if twice or not missing <= filters.keys() else missing


@dataclass(frozen=True)
class _Narrowing:
    """Ways to make what is filtered from what is filtered less, in one arrangement."""

    now: Arrangement
    filters: Filters
    subjects: Subjects

    @cached_property
    def _readers(self) -> Mapping[str, tuple[Edge, ...]]:
        found: dict[str, list[Edge]] = {}
        for edge in self.now.graph.edges.values():
            for name in set(edge.inputs):
                found.setdefault(name, []).append(edge)
        return {name: tuple(edges) for name, edges in found.items()}

    def of(self, edge: Edge) -> Iterator[Rewiring]:
        vertices = self.now.graph.vertices
        if edge.op in READING and not edge.select:
            yield from self._read_relation(edge, vertices[edge.inputs[0]])
        elif edge.op in MAKING:
            yield from self._copy_relation(edge, vertices[edge.output])
            yield from self._stood_in_for(vertices[edge.output])

    def _read_relation(self, edge: Edge, narrow: Vertex) -> Iterator[Rewiring]:
        """Ways to read a wider relation: if somebody joins it, its own changes must be logged beside it."""
        target = self.now.graph.vertices[edge.output]
        if target.kind is VertexKind.RELATION and self._readers.get(target.id):
            return
        for wider, select in self._wider(narrow):
            if wider.site == narrow.site:
                yield self._rewiring(wider, target, {target.id: replace(edge, inputs=(wider.id,), select=select)})

    def _copy_relation(self, edge: Edge, narrow: Vertex) -> Iterator[Rewiring]:
        for wider, select in self._wider(narrow):
            if (wider.site, narrow.site) in self.now.tariff.links and (wider.id,) != edge.inputs:
                copied = Edge(Operator.COPY, (wider.id,), narrow.id, select=select, project=narrow.columns)
                yield self._rewiring(wider, narrow, {narrow.id: copied})

    def _stood_in_for(self, narrow: Vertex) -> Iterator[Rewiring]:
        for wider, select in self._wider(narrow):
            if wider.site == narrow.site:
                edges = self._reading_instead(narrow, wider, select)
                if edges:
                    yield self._rewiring(wider, narrow, edges)

    def _rewiring(self, wider: Vertex, target: Vertex, edges: Mapping[str, Edge]) -> Rewiring:
        return Rewiring("subsume", wider.id, target.id, edges)

    def _wider(self, narrow: Vertex) -> Iterator[tuple[Vertex, tuple[BlockFilter, ...]]]:
        """Deltas of the same changes that are filtered less and have all columns, with what is left to select."""
        subject = self.subjects.of(narrow)
        if subject is None or not subject.filters or narrow.kind is not VertexKind.DELTA:
            return
        for wider in self.now.graph.vertices.values():
            if wider.kind is VertexKind.DELTA and wider.delta_of == narrow.delta_of:
                missing = missing_filters(subject, self.subjects.of(wider), self.filters)
                select = tuple(self.filters[one] for one in sorted(missing))
                if select and {*narrow.columns, *find_tested_columns(narrow, select)} <= set(wider.columns):
                    yield wider, select

    # Everyone who reads a dataset

    def _reading_instead(self, narrow: Vertex, wider: Vertex, select: tuple[BlockFilter, ...]) -> dict[str, Edge]:
        """The readers of the narrow changes, and those who join the relation beside them, reading wider ones; nothing
        if somebody cannot.
        """
        edges: dict[str, Edge] = {}
        for edge in self._readers.get(narrow.id, ()):
            joined = self._readers.get(edge.output, ()) if edge.op is Operator.APPLY else ()
            if joined:
                found = self._joining_instead(edge, wider, select, joined)
            else:
                found = [self._instead(edge, narrow.id, wider.id, select)]
            for one in found:
                known = edges.get(one.output) if one is not None else None
                if one is None:
                    return {}
                edges[one.output] = one if known is None else _both(known, one, self.now.graph.edges[one.output])
        return edges

    def _joining_instead(
        self, apply: Edge, wider: Vertex, select: tuple[BlockFilter, ...], joins: Iterable[Edge]
    ) -> list[Edge | None]:
        """Those who join a relation, joining the wider relation. That must be there, logged by the delta."""
        made = (edge for edge in self._readers.get(wider.id, ()) if edge.op is Operator.APPLY and not edge.select)
        state = next((edge.output for edge in made), None)
        is_view = any(kept.vertex == apply.output for kept in self.now.kept)
        if state is None or apply.select or is_view:
            return [None]
        return [self._instead(edge, apply.output, state, select) for edge in joins]

    def _instead(self, edge: Edge, narrow: str, wider: str, select: tuple[BlockFilter, ...]) -> Edge | None:
        """An operator that reads the wider vertex and selects; None if it cannot, or not clearly."""
        inputs = tuple(wider if name == narrow else name for name in edge.inputs)
        if edge.op in (Operator.APPLY, Operator.AGGREGATE, Operator.COPY):
            return None if edge.select else replace(edge, inputs=inputs, select=select)
        if edge.op is not Operator.JOIN:
            return None
        named = self._under_aliases(edge, self.now.graph.vertices[narrow], select)
        return None if named is None else replace(edge, inputs=inputs, select=(*edge.select, *named))

    def _under_aliases(
        self, join: Edge, narrow: Vertex, select: tuple[BlockFilter, ...]
    ) -> tuple[BlockFilter, ...] | None:
        """Filters under the aliases that the join's block has for them; None if a single input has several."""
        if len(narrow.scope) > 1:
            return select
        planned = next((one for one in self.now.blocks if one.block.id == join.block), None)
        aliases = [] if planned is None else [alias for alias, name in planned.reads.items() if name == narrow.scope[0]]
        return tuple(replace(one, alias=aliases[0]) for one in select) if len(aliases) == 1 else None


def _both(known: Edge, other: Edge, before: Edge) -> Edge:
    """A join of which both inputs are replaced."""
    inputs = tuple(
        one if one != old else two for one, two, old in zip(known.inputs, other.inputs, before.inputs, strict=True)
    )
    added = tuple(one for one in other.select if one not in known.select)
    return replace(known, inputs=inputs, select=(*known.select, *added))


def find_tested_columns(vertex: Vertex, select: Iterable[BlockFilter]) -> Iterator[ColumnId]:
    """Columns that filters read, as a vertex names them: those of a single input go by its source."""
    for one in select:
        alias = one.alias if len(vertex.scope) > 1 else vertex.scope[0]
        for part in one.conjuncts:
            yield from ((alias, name.removeprefix(f"{one.alias}.")) for name in columns_of(part))
