"""Filtered datasets from unfiltered ones that live: what was joined for one contract is filtered for another.

An apply or an aggregate that reads the changes of a filtered dataset may as well read those of the same dataset without
the filter, and filter on the way; and changes can be copied, filtered, from where they are without the filter. Only
whole filters are added: of an alias that was filtered otherwise before, a plan document could not say how many rows
pass both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace

from headrace.model.block import BlockFilter, ColumnId
from headrace.model.expr import columns_of
from headrace.model.plan import Edge, Operator, Vertex, VertexKind
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
        filters = _all_filters(now)
        if filters:
            subjects = Subjects(now.graph, now.blocks)
            for name in made:
                edge = now.graph.edges.get(name)
                if edge is not None and edge.op in (*READING, *MAKING):
                    yield from _rewirings(now, subjects, filters, edge)

    return candidates


def _all_filters(now: Arrangement) -> dict[tuple[str, str], BlockFilter]:
    found = {}
    for planned in now.blocks:
        for filter_ in planned.block.filters:
            found[filter_.alias, filter_.text] = found[planned.reads[filter_.alias], filter_.text] = filter_
    return found


def _rewirings(now: Arrangement, subjects: Subjects, filters: Filters, edge: Edge) -> Iterator[Rewiring]:
    target, vertices = now.graph.vertices[edge.output], now.graph.vertices
    narrow = target if edge.op in MAKING else vertices[edge.inputs[0]]
    subject = subjects.of(narrow if edge.op is Operator.AGGREGATE else target)
    if subject is None or not subject.filters or _is_joined(now, target):
        return
    for wider in vertices.values():
        missing = _missing(subject, subjects.of(wider))
        if missing and missing <= filters.keys() and _can_be_read(now, wider, narrow, edge):
            select = tuple(filters[one] for one in sorted(missing))
            passed = narrow.columns if edge.op is Operator.AGGREGATE else target.columns
            if _names(passed, select) <= {column for _, column in wider.columns}:
                copied = Edge(Operator.COPY, (wider.id,), target.id, select=select, project=target.columns)
                read = replace(edge, inputs=(wider.id,), select=select)
                yield Rewiring("subsume", wider.id, target.id, {target.id: copied if edge.op in MAKING else read})


def _is_joined(now: Arrangement, vertex: Vertex) -> bool:
    """Whether somebody joins a relation: its own changes must then be logged beside it."""
    is_relation = vertex.kind is VertexKind.RELATION
    return is_relation and any(vertex.id in edge.inputs for edge in now.graph.edges.values())


def _missing(subject: Subject, wider: Subject | None) -> frozenset[tuple[str, str]]:
    """The filters that lead from a wider subject to this one; none if it is not wider in just that."""
    if wider is None or (wider.inputs, wider.conditions) != (subject.inputs, subject.conditions):
        return frozenset()
    missing = subject.filters - wider.filters
    otherwise = {alias for alias, _ in wider.filters} & {alias for alias, _ in missing}
    return frozenset() if otherwise or not wider.filters <= subject.filters else missing


def _can_be_read(now: Arrangement, wider: Vertex, narrow: Vertex, edge: Edge) -> bool:
    """Whether there are the same changes, at the same site or over a link."""
    if wider.kind is not VertexKind.DELTA or wider.delta_of != narrow.delta_of or (wider.id,) == edge.inputs:
        return False
    return (wider.site, narrow.site) in now.tariff.links if edge.op in MAKING else wider.site == narrow.site


def _names(passed: tuple[ColumnId, ...], select: tuple[BlockFilter, ...]) -> set[str]:
    """Columns that are passed on or filtered by, without aliases."""
    tested = {
        name.removeprefix(f"{one.alias}.") for one in select for part in one.conjuncts for name in columns_of(part)
    }
    return {column for _, column in passed} | tested
