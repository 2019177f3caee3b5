"""Hill climbing over a graph that was merged: the rewiring that saves most, again and again (SMILE §7, plumbing).

    TAP      a delta is copied from a site that has it already, instead of being made
    REJOIN   a part of a join is made from a relation and a delta that are somewhere already, and brought here

Every step keeps every promise, saves resources and lowers the score: what comes by a longer way may cost less and still
be worth less. The climb stops where no single step does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from headrace.model.catalogue import Catalogue
from headrace.model.plan import Edge, Graph, Operator, Vertex, VertexKind
from headrace.plan.figures import score
from headrace.plan.share.arrangement import Arrangement
from headrace.plan.share.keeps import keeps_all
from headrace.plan.share.rewire import Rewiring, RewiringCosts

NEGLIGIBLE = 1e-9
"""Share of all costs below which a saving is none."""

Candidates = Callable[[Arrangement], Iterator[Rewiring]]


@dataclass(frozen=True, slots=True)
class Share:
    """One step of the climb: what was rewired, and the $/s that it saved."""

    kind: str
    src: str
    dst: str
    benefit: float


def climb(now: Arrangement, candidates: Candidates | None = None) -> tuple[Arrangement, tuple[Share, ...]]:
    """The arrangement at the top, and the steps to it."""
    steps: list[Share] = []
    while (best := _best_step(now, candidates or plumbing)) is not None:
        now, step = best
        steps.append(step)
    return now, tuple(steps)


def _best_step(now: Arrangement, candidates: Candidates) -> tuple[Arrangement, Share] | None:
    ledger, least = RewiringCosts(now), NEGLIGIBLE * now.live.bill.rescost
    found = [(ledger.benefit(rewiring), rewiring) for rewiring in candidates(now)]
    before = score(now) * (1 - NEGLIGIBLE) if found else 0.0
    worthy = [(saved, rewiring) for saved, rewiring in found if saved is not None and saved > least]
    for saved, rewiring in sorted(worthy, key=lambda pair: (-pair[0], pair[1].kind, pair[1].src, pair[1].dst)):
        after = now.with_graph(rewiring.applied(now.graph))
        if score(after) < before and keeps_all(after, _find_served(now, rewiring)):
            return after, Share(rewiring.kind, rewiring.src, rewiring.dst, saved)
    return None


def _find_served(now: Arrangement, rewiring: Rewiring) -> Collection[str]:
    """Contracts whose changes come another way."""
    return {promise.contract for name in rewiring.edges for promise in now.live.served.get(name, ())}


def plumbing(now: Arrangement) -> Iterator[Rewiring]:
    holders = Holders(now.graph)
    yield from _taps(now, holders)
    yield from _rejoins(now, holders)


class Holders:
    """Which sites hold a dataset: vertices by what they hold, then by site."""

    def __init__(self, graph: Graph) -> None:
        self._of: dict[tuple[str, VertexKind, tuple[str, ...] | None], dict[str, Vertex]] = {}
        for vertex in graph.vertices.values():
            self._of.setdefault(_dataset(vertex), {})[vertex.site] = vertex

    def of(self, vertex: Vertex) -> dict[str, Vertex]:
        """The vertices of a dataset, by site."""
        return self._of.get(_dataset(vertex), {})


def _dataset(vertex: Vertex) -> tuple[str, VertexKind, tuple[str, ...] | None]:
    return vertex.fingerprint, vertex.kind, vertex.delta_of


def _taps(now: Arrangement, holders: Holders) -> Iterator[Rewiring]:
    graph, links = now.graph, now.tariff.links
    for name, edge in graph.edges.items():
        vertex = graph.vertices[name]
        if vertex.kind is not VertexKind.DELTA or vertex.base:
            continue
        for site, source in holders.of(vertex).items():
            if (site, vertex.site) in links and (edge.op is not Operator.COPY or edge.inputs != (source.id,)):
                yield Rewiring("tap", source.id, name, {name: copy_of(source, vertex)})


def copy_of(source: Vertex, target: Vertex) -> Edge:
    """The edge that copies a dataset as it is."""
    return Edge(Operator.COPY, (source.id,), target.id, project=target.columns)


def _rejoins(now: Arrangement, holders: Holders) -> Iterator[Rewiring]:
    """Finds, for every part of a join, the ways to make it where its relation is."""
    graph = now.graph
    known: dict[tuple[str, VertexKind, tuple[str, ...] | None], Edge] = {}
    for name, edge in graph.edges.items():
        if edge.op is Operator.JOIN:
            known.setdefault(_dataset(graph.vertices[name]), edge)
    for name, vertex in graph.vertices.items():
        join = known.get(_dataset(vertex))
        if join is not None:
            yield from (found for found in _join_elsewhere(now, holders, join, vertex) if found.src != name)


def _join_elsewhere(now: Arrangement, holders: Holders, join: Edge, target: Vertex) -> Iterator[Rewiring]:
    first, second = (now.graph.vertices[name] for name in join.inputs)
    relation, delta = (first, second) if first.kind is VertexKind.RELATION else (second, first)
    for site, state in holders.of(relation).items():
        if state.id in now.live.unlogged:
            continue
        for source in holders.of(delta).values():
            found = _join_at(now, holders, join, (relation, delta), (state, source, target))
            if found is not None and may_be_at(now.catalogue, target, site):
                yield found


def _join_at(
    now: Arrangement,
    holders: Holders,
    join: Edge,
    usual: tuple[Vertex, Vertex],
    chosen: tuple[Vertex, Vertex, Vertex],
) -> Rewiring | None:
    """[copy of the delta to the relation] ; join there ; [copy to the target]. None if there is no link."""
    (relation, delta), (state, source, target), links = usual, chosen, now.tariff.links
    vertices: dict[str, Vertex] = {}
    edges: dict[str, Edge] = {}
    arrived = holders.of(delta).get(state.site)
    if arrived is None:
        if (source.site, state.site) not in links or not may_be_at(now.catalogue, delta, state.site):
            return None
        arrived = at_site(delta, state.site)
        vertices[arrived.id], edges[arrived.id] = arrived, copy_of(source, arrived)
    elif source.site != state.site:
        return None
    renamed = {relation.id: state.id, delta.id: arrived.id}
    made = at_site(target, state.site)
    if state.site != target.site:
        if (state.site, target.site) not in links or made.id in now.graph.vertices:
            return None
        vertices[made.id], edges[target.id] = made, copy_of(made, target)
    edges[made.id] = replace(join, inputs=tuple(renamed[name] for name in join.inputs), output=made.id)
    if edges[target.id] == now.graph.edges[target.id]:
        return None
    return Rewiring("rejoin", f"{state.id} {source.id}", target.id, edges, vertices)


def at_site(vertex: Vertex, site: str) -> Vertex:
    """The dataset of a vertex at another site, with the id that it has in every plan."""
    if vertex.site == site:
        return vertex
    head, _, end = vertex.id.rpartition(f"@{vertex.site}")
    return replace(vertex, id=f"{head}@{site}{end}", site=site, base=False)


def may_be_at(catalogue: Catalogue, vertex: Vertex, site: str) -> bool:
    """Whether rows may be there. Of blocks that are read like sources it is not known whose rows they hold, so that
    they go nowhere new when any source must stay elsewhere.
    """
    bound = {name for name, source in catalogue.sources.items() if source.stays and site not in source.stays.sites}
    if not bound or vertex.site == site:
        return True
    names = {alias.partition("#")[0] for alias, _ in vertex.columns}
    return not names & bound and names <= set(catalogue.sources)
