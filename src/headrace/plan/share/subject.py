"""What a vertex is about, whichever columns it holds: which inputs, under which conditions.

Vertices of one subject at different widths are the same rows; the wider can stand in for the narrower. Outputs of
operators on top of a join are about themselves alone, and partial aggregates about nothing that others could use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.model.block import Block, ColumnId
from headrace.model.plan import Edge, Graph, Operator, PlannedBlock, Vertex
from headrace.plan.statistics import CoreStatistics


@dataclass(frozen=True, slots=True)
class Subject:
    """`inputs` are (alias, what it reads), `filters` (alias, predicate); a single input goes by its source's name.
    `conditions` are the texts of all others.
    """

    inputs: tuple[tuple[str, str], ...]
    filters: frozenset[tuple[str, str]]
    conditions: tuple[str, ...] = ()


def subject_of_join(block: Block, aliases: Collection[str]) -> Subject:
    """The subject of a sub-join: filters of its inputs, classes within it, and the residuals that it completes."""
    filters = frozenset((one.alias, one.text) for one in block.filters if one.alias in aliases)
    inside = (sorted(member for member in class_ if member[0] in aliases) for class_ in block.classes)
    equal = (" = ".join(".".join(member) for member in members) for members in inside if len(members) > 1)
    residuals = (one.text for one in block.residuals if set(one.aliases) <= set(aliases))
    inputs = ((one.alias, one.fingerprint or one.source) for one in block.inputs if one.alias in aliases)
    return Subject(tuple(sorted(inputs)), filters, tuple(sorted((*equal, *residuals))))


def subject_of_input(name: str, filter_: str | None = None) -> Subject:
    return Subject(((name, name),), frozenset() if filter_ is None else frozenset(((name, filter_),)))


def subject_in(core: CoreStatistics, subset: int) -> Subject:
    """The subject of a sub-join of a block, or of one of its inputs."""
    if subset.bit_count() > 1:
        return subject_of_join(core.block, core.aliases_of(subset))
    input_ = core.input_of(subset)
    return subject_of_input(input_.facts.name, input_.filter.text if input_.filter else None)


class Subjects:
    """The subjects of a graph's vertices, read off the operators that make them."""

    def __init__(self, graph: Graph, blocks: Iterable[PlannedBlock]) -> None:
        self._graph = graph
        self._blocks: Mapping[str, Block] = {planned.block.id: planned.block for planned in blocks}
        self._known: dict[str, Subject | None] = {}

    def of(self, vertex: Vertex) -> Subject | None:
        if vertex.id not in self._known:
            self._known[vertex.id] = self._find_subject(vertex)
        return self._known[vertex.id]

    def _find_subject(self, vertex: Vertex) -> Subject | None:
        edge = self._graph.edges.get(vertex.id)
        if edge is None or edge.op is Operator.CAPTURE:
            return subject_of_input(vertex.scope[0])
        if edge.op in (Operator.AGGREGATE, Operator.DERIVE):
            return subject_of_input(vertex.scope[0]) if vertex.stands_for is not None else None
        before = self.of(self._graph.vertices[edge.inputs[0]])
        if edge.op is Operator.JOIN:
            block = self._blocks.get(edge.block or "")
            return None if block is None else subject_of_join(block, vertex.scope)
        return before if before is None or not edge.select else _add_filters(before, edge)


def _add_filters(subject: Subject, edge: Edge) -> Subject:
    """The subject after the filters of a copy or an apply, each of which implies what its alias was filtered by before.
    On a single input they go by its source's name.
    """
    (name, _), *others = subject.inputs
    filters = {(one.alias if others else name, one.text) for one in edge.select}
    again = {alias for alias, _ in filters}
    return replace(subject, filters=frozenset(filters) | {one for one in subject.filters if one[0] not in again})


Offers = Mapping[Subject, tuple[frozenset[ColumnId], ...]]
"""Sets of columns that can be had of a subject."""


def offers_of(graph: Graph, blocks: Iterable[PlannedBlock]) -> dict[Subject, tuple[frozenset[ColumnId], ...]]:
    """What lives, by subject; narrow ones first."""
    subjects = Subjects(graph, blocks)
    found: dict[Subject, set[frozenset[ColumnId]]] = {}
    for vertex in graph.vertices.values():
        subject = subjects.of(vertex)
        if subject is not None and not vertex.base:
            found.setdefault(subject, set()).add(frozenset(vertex.columns))
    return {
        subject: tuple(sorted(widths, key=lambda columns: (len(columns), sorted(columns))))
        for subject, widths in found.items()
    }
