"""The same graph under other statistics: what it would cost, and whether it keeps its promises, at measured rates.

Rows and rates of a vertex follow from its subject and whose changes it carries, its width from its columns. Partial
aggregates keep the rates that were planned.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from statistics import median

from headrace.model.block import BlockFilter, ColumnId
from headrace.model.catalogue import Catalogue, Link, MeasuredSize, OperatorTime, Selectivity, Site, Source
from headrace.model.expr import conjunction
from headrace.model.plan import Graph, Operator, PlannedBlock, Vertex, VertexKind
from headrace.model.rate import Rate
from headrace.model.statistics import LARGEST, width_of
from headrace.model.types import BINARY, STRING
from headrace.plan.cores import make_planned_block
from headrace.plan.outputs import block_facts, facts_of_block
from headrace.plan.price import RECOMPUTE
from headrace.plan.share.arrangement import Arrangement, KeptContract
from headrace.plan.share.forms import form_of
from headrace.plan.share.order import Cores
from headrace.plan.share.subject import Subject, Subjects, subject_in, subject_of_input
from headrace.plan.sizes import believe_size, with_sizes
from headrace.plan.statistics import DELTA_EXTRA_WIDTH, CoreStatistics, Facts

SLOWEST = 1e6
"""Seconds taken over seconds planned, and demand over capacity, beyond which a measurement is not believed."""

LONGEST_PART_S = 3600.0
"""Of an operator, whatever the rows: beyond it a measurement is not believed."""

TEXTS = (STRING, BINARY)

SMALLEST_SHARE = 1e-6
"""Stands for a filter that let nothing through for a while."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was seen until `clock_s`: changed rows per second of sources, seconds taken over seconds planned for the
    producer of a vertex, demand over capacity of links (from, to), sites that are down, rows that producers of vertices
    gave out for each row that they took in, the seconds that a push may have to wait for another, what results of
    blocks hold and emit, by the blocks' fingerprints, how long views in full take at sites, and what operators take in
    work, with the upkeep of what they make.

    Where links are real, `capacity` is what they carry, in bytes/s as plans count rows, and `row_bytes` what a row of a
    vertex takes on its way to another site, in bytes.
    """

    clock_s: float
    rates: Mapping[str, float] = field(default_factory=dict)
    slowness: Mapping[str, float] = field(default_factory=dict)
    load: Mapping[tuple[str, str], float] = field(default_factory=dict)
    down: frozenset[str] = frozenset()
    selectivities: Mapping[str, float] = field(default_factory=dict)
    blocking_s: float = 0.0
    sizes: Mapping[str, MeasuredSize] = field(default_factory=dict)
    recomputing: Mapping[str, OperatorTime] = field(default_factory=dict)
    times: Mapping[str, OperatorTime] = field(default_factory=dict)
    capacity: Mapping[tuple[str, str], float] = field(default_factory=dict)
    row_bytes: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Numbers that nobody can have measured are left out here, so that none of them reaches a plan."""
        largest_of = {"rates": LARGEST, "slowness": SLOWEST, "load": SLOWEST, "selectivities": LARGEST}
        largest_of |= {"capacity": LARGEST, "row_bytes": LARGEST}
        for name, largest in largest_of.items():
            least = 1 / SLOWEST if name in ("slowness", "capacity") else 0.0
            found = {what: number for what, number in getattr(self, name).items() if least <= number <= largest}
            object.__setattr__(self, name, found)
        object.__setattr__(self, "sizes", {name: believe_size(size) for name, size in self.sizes.items()})
        object.__setattr__(self, "times", {op: time for op, time in self.times.items() if _is_believed(time)})
        object.__setattr__(self, "blocking_s", self.blocking_s if 0.0 <= self.blocking_s <= LARGEST else 0.0)


def _is_believed(time: OperatorTime) -> bool:
    parts = time.fixed, time.per_in, time.per_out
    return all(0.0 <= part <= LONGEST_PART_S for part in parts) and any(parts)


def at_rates(catalogue: Catalogue, rates: Mapping[str, float]) -> Catalogue:
    """The catalogue with the rates of sources that were measured (rows/s)."""
    sources = {
        name: replace(source, measured_rate=rates.get(name, source.measured_rate))
        for name, source in catalogue.sources.items()
    }
    return replace(catalogue, sources=sources)


def raw_filter(graph: Graph, vertex: str) -> tuple[str, BlockFilter] | None:
    """A source and the filter that lets its changes through to a vertex; None if that is made in another way."""
    edge = graph.edges.get(vertex)
    if edge is None or edge.op not in (Operator.COPY, Operator.APPLY) or len(edge.select) != 1:
        return None
    read = graph.vertices[edge.inputs[0]]
    return (read.scope[0], edge.select[0]) if read.base else None


def with_filters(catalogue: Catalogue, graph: Graph, selectivities: Mapping[str, float]) -> Catalogue:
    """The catalogue with what filters of sources were seen to let through."""
    found = {}
    for vertex, share in selectivities.items():
        filtered = raw_filter(graph, vertex)
        if filtered is not None:
            source, filter_ = filtered
            predicate, where = conjunction(filter_.conjuncts), catalogue.sources[source].declared_at
            share = min(1.0, max(SMALLEST_SHARE, share))
            found[source, filter_.text] = Selectivity(source, filter_.text, predicate, share, where, measured=True)
    others = (one for one in catalogue.selectivity if not (one.measured and (one.source, one.text) in found))
    return replace(catalogue, selectivity=(*others, *found.values()))


def with_row_bytes(catalogue: Catalogue, graph: Graph, row_bytes: Mapping[str, float]) -> Catalogue:
    """The catalogue with texts as long as rows that were sent were found to be, where nobody declares their length.

    Databases tell it of tables that they have looked at, and of others nobody knows. What is sent is compressed, so
    that texts are at least as long as this says; those that are known to be longer stay as they are.
    """
    found = dict(catalogue.sources)
    for name in sorted(row_bytes.keys() & graph.vertices.keys()):
        vertex = graph.vertices[name]
        source = found.get(vertex.scope[0]) if vertex.scope == vertex.delta_of and len(vertex.scope) == 1 else None
        if source is not None and vertex.stands_for is None:
            kept = {column for _, column in vertex.columns}
            found[source.name] = _lengthen(source, kept, row_bytes[name] - DELTA_EXTRA_WIDTH)
    return replace(catalogue, sources=found)


def _lengthen(source: Source, kept: Collection[str], row_bytes: float) -> Source:
    columns = [column for column in source.columns or () if column.name in kept]
    texts = {one.name for one in columns if one.type in TEXTS and f"{one.name}.width" in source.found}
    width, text_width = (
        sum(width_of(one) for one in columns if one.name in names) for names in ({one.name for one in columns}, texts)
    )
    if not text_width or row_bytes <= width:
        return source
    factor = (row_bytes - width + text_width) / text_width
    lengthened = tuple(
        replace(one, width=width_of(one) * factor) if one.name in texts else one for one in source.columns or ()
    )
    return replace(source, columns=lengthened)


def as_measured(now: Arrangement, measured: Measured) -> tuple[Arrangement, Cores]:
    """The arrangement as it was found: a link that is fuller than its traffic explains is narrower, a host whose
    operators take longer is slower, and going to or from a site that is down takes forever.
    """
    catalogue = with_sizes(at_rates(now.catalogue, measured.rates), measured.sizes)
    catalogue = with_filters(catalogue, now.graph, measured.selectivities)
    catalogue = with_row_bytes(catalogue, now.graph, measured.row_bytes)
    cores = cores_of_kept(now, catalogue)
    found = revalue(now, catalogue, cores)
    links = tuple(_link(link, measured, found.live.bill.link) for link in catalogue.links)
    sites = {name: _revalue_site(site, measured, found) for name, site in catalogue.sites.items()}
    times = _with_recomputing(catalogue.operator_times, measured, sites)
    return replace(found, catalogue=replace(catalogue, links=links, sites=sites, operator_times=times)), cores


def _with_recomputing(
    times: Mapping[str, OperatorTime], measured: Measured, sites: Mapping[str, Site]
) -> Mapping[str, OperatorTime]:
    """Operator times with what recomputing takes where it takes longest: in work, which the speed of a site divides.

    Without it, a view in full that is slower than planned would make its whole site look slow, and everything else
    there as dear.
    """
    found = [
        OperatorTime(*(part * sites[site].speed for part in (time.fixed, time.per_in, time.per_out)))
        for site, time in measured.recomputing.items()
        if site in sites
    ]
    if not found:
        return times
    slowest = (max(getattr(time, part) for time in found) for part in ("fixed", "per_in", "per_out"))
    return {**times, RECOMPUTE: OperatorTime(*slowest)}


def _link(link: Link, measured: Measured, traffic: Mapping[tuple[str, str], float]) -> Link:
    """`traffic` is bytes/s at the measured rates."""
    link = replace(link, measured=measured.capacity.get((link.src, link.dst)))
    if measured.down & {link.src, link.dst}:
        return replace(link, latency_s=inf)
    if link.measured is not None:
        return link
    load, sent = measured.load.get((link.src, link.dst)), traffic.get((link.src, link.dst), 0.0)
    return replace(link, bandwidth=min(link.bandwidth or inf, sent / load)) if load and sent else link


def _revalue_site(site: Site, measured: Measured, now: Arrangement) -> Site:
    """Sites of one host are as slow as one another; those that name none are in one process."""
    sites, vertices = now.catalogue.sites, now.graph.vertices
    found = [
        factor
        for name, factor in measured.slowness.items()
        if name in vertices and sites[vertices[name].site].host == site.host and not _is_recomputed(now, name)
    ]
    return replace(site, speed=site.speed / median(found)) if found else site


def _is_recomputed(now: Arrangement, vertex: str) -> bool:
    """How long these take is learnt by itself: most of their work is of another kind."""
    edge = now.graph.edges.get(vertex)
    return edge is not None and edge.is_recomputed


def cores_of_kept(now: Arrangement, catalogue: Catalogue) -> Cores:
    """The views of all contracts that are kept, in all ways that they have, with the statistics of a catalogue."""
    found, planned = {}, {entry.block.id for entry in now.blocks}
    views = (view for kept in now.kept for view in (kept.contract.view, *kept.contract.ways))
    for view in dict.fromkeys(view for view in views if view in planned):
        found[view] = form_of(replace(now, catalogue=catalogue), view)
    return found


def revalue(now: Arrangement, catalogue: Catalogue, cores: Cores) -> Arrangement:
    """The arrangement under another catalogue, with the rows and rates that follow from it."""
    facts = dict(_facts(core for view in cores.values() for core in view))
    subjects = Subjects(now.graph, now.blocks)
    vertices = {
        name: _revalue_vertex(vertex, subjects.of(vertex), facts) for name, vertex in now.graph.vertices.items()
    }
    kept = tuple(_at_new_rate(entry, cores[entry.contract.view]) for entry in now.kept)
    known = {core.block.id: core for view in cores.values() for core in view}
    blocks = tuple(_at_new_share(entry, known.get(entry.block.id)) for entry in now.blocks)
    return replace(now, catalogue=catalogue, graph=Graph(vertices, now.graph.edges), kept=kept, blocks=blocks)


def _at_new_share(block: PlannedBlock, core: CoreStatistics | None) -> PlannedBlock:
    if core is None:
        return block
    found = make_planned_block(core, block.inner)
    return replace(block, selectivity=found.selectivity, facts=found.facts)


def _at_new_rate(kept: KeptContract, cores: tuple[CoreStatistics, ...]) -> KeptContract:
    return replace(kept, rate=block_facts(cores[-1]).rate.at(kept.batch_s))


Key = tuple[Subject, tuple[str, ...] | None]
"""What, and whose changes; None for all rows."""


@dataclass(frozen=True, slots=True)
class _Value:
    """Statistics of a dataset; bytes of all columns that it may hold."""

    rows: float
    rate: Rate
    widths: Mapping[ColumnId, float]


def _facts(cores: Iterable[CoreStatistics]) -> Iterator[tuple[Key, _Value]]:
    for core in cores:
        made = facts_of_block(core)
        yield from _of_input(subject_of_input(made.name), made, made.rows, made.rate)
        for input_ in core.inputs:
            facts, text = input_.facts, input_.filter.text if input_.filter else None
            yield from _of_input(subject_of_input(facts.name), facts, facts.rows, facts.rate)
            yield from _of_input(subject_of_input(facts.name, text), facts, input_.rows, input_.rate)
        for subset in core.sub_joins if core.is_joined else ():
            subject, rows = subject_in(core, subset), core.card(subset)
            widths = {(one.alias, name): w for one in core.members(subset) for name, w in one.facts.widths.items()}
            yield (subject, None), _Value(rows, Rate(), widths)
            for changed in range(1, subset + 1):
                if changed & subset == changed:
                    yield (subject, core.aliases_of(changed)), _Value(rows, core.rate(subset, changed), widths)


def _of_input(subject: Subject, facts: Facts, rows: float, rate: Rate) -> Iterator[tuple[Key, _Value]]:
    widths = {(facts.name, facts.stored.get(name, name)): width for name, width in facts.widths.items()}
    yield (subject, None), _Value(rows, Rate(), widths)
    yield (subject, (facts.name,)), _Value(rows, rate, widths)


def _revalue_vertex(vertex: Vertex, subject: Subject | None, facts: Mapping[Key, _Value]) -> Vertex:
    found = facts.get((subject, vertex.delta_of)) if subject is not None else None
    if found is None:
        return vertex
    is_delta = vertex.kind is VertexKind.DELTA
    return replace(
        vertex,
        rows=None if vertex.rows is None else found.rows,
        rate=found.rate if is_delta else vertex.rate,
        width=_width(vertex, found.widths) + (DELTA_EXTRA_WIDTH if is_delta else 0.0),
    )


def _width(vertex: Vertex, widths: Mapping[ColumnId, float]) -> float:
    """Bytes of a row, without what a delta has more."""
    if all(column in widths for column in vertex.columns):
        return sum(widths[column] for column in vertex.columns)
    return vertex.width - (DELTA_EXTRA_WIDTH if vertex.kind is VertexKind.DELTA else 0.0)
