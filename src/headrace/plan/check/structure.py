"""Whether a plan document is a graph at all: names that exist, one producer each, no cycles, operators at one site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter

from headrace.plan.check.form import EdgeForm, PlanForm, VertexForm

Problem = tuple[str, str]
"""(where, what)"""

INPUT_COUNTS = {"capture": 1, "copy": 1, "apply": 1, "aggregate": 1, "join": 2}


def check_structure(document: PlanForm) -> list[Problem]:
    """All that is wrong with names and edges. The rest can be checked only when nothing is."""
    problems = [*_find_doubled(document), *_unknown_names(document)]
    if problems:
        return problems
    vertices = {vertex.id: vertex for vertex in document.vertices}
    return [*_producers(document), *_cycles(document), *_sites(document, vertices)]


def _find_doubled(document: PlanForm) -> Iterator[Problem]:
    named: dict[str, Iterable[str]] = {
        "catalogue/sites": (site.id for site in document.catalogue.sites),
        "catalogue/sources": (source.id for source in document.catalogue.sources),
        "catalogue/links": (f"{link.src}>{link.dst}" for link in document.catalogue.links),
        "views": (view.id for view in document.views),
        "contracts": [contract.id for contract in document.contracts],
        "vertices": (vertex.id for vertex in document.vertices),
        "edges": (edge.id for edge in document.edges),
    }
    for where, names in named.items():
        for name, count in Counter(names).items():
            if count > 1:
                yield f"{where}/{name}", f"occurs {count} times"
    for rejected in document.rejected:
        if any(contract.id == rejected.contract for contract in document.contracts):
            yield f"rejected/{rejected.contract}", "is also among the contracts that are kept"


def _unknown_names(document: PlanForm) -> Iterator[Problem]:
    sites = {site.id for site in document.catalogue.sites}
    readable = {source.id for source in document.catalogue.sources} | {view.id for view in document.views}
    vertices = {vertex.id for vertex in document.vertices}
    for vertex in document.vertices:
        if vertex.site not in sites:
            yield f"vertices/{vertex.id}", f'site "{vertex.site}" does not exist'
    for edge in document.edges:
        for name in (*edge.inputs, edge.out):
            if name not in vertices:
                yield f"edges/{edge.id}", f'vertex "{name}" does not exist'
        if edge.op not in document.catalogue.times:
            yield f"edges/{edge.id}", f'catalogue has no times for "{edge.op}"'
    for view in document.views:
        for read in view.sources:
            if read.source not in readable and view.unsupported is None:
                yield f"views/{view.id}", f'reads "{read.source}", which is neither a source nor a view'
    for contract in document.contracts:
        if contract.block_id not in {view.id for view in document.views}:
            yield f"contracts/{contract.id}", f'view "{contract.block_id}" does not exist'
        if contract.vertex not in vertices:
            yield f"contracts/{contract.id}", f'vertex "{contract.vertex}" does not exist'


def _producers(document: PlanForm) -> Iterator[Problem]:
    """Every vertex but base relations has exactly one producer."""
    made = Counter(edge.out for edge in document.edges)
    for vertex in document.vertices:
        is_source = vertex.base and vertex.kind != "delta"
        wanted = 0 if is_source else 1
        if made[vertex.id] != wanted:
            yield f"vertices/{vertex.id}", f"has {made[vertex.id]} producers instead of {wanted}"


def _cycles(document: PlanForm) -> Iterator[Problem]:
    graph: dict[str, list[str]] = {}
    for edge in document.edges:
        graph.setdefault(edge.out, []).extend(edge.inputs)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield "edges", f"form a cycle: {' -> '.join(error.args[1])}"


def _sites(document: PlanForm, vertices: dict[str, VertexForm]) -> Iterator[Problem]:
    links = {(link.src, link.dst) for link in document.catalogue.links}
    for edge in document.edges:
        where, target = f"edges/{edge.id}", vertices[edge.out].site
        sources = {vertices[name].site for name in edge.inputs}
        expected = INPUT_COUNTS.get(edge.op)
        if expected is not None and len(edge.inputs) != expected:
            yield where, f"{edge.op} has {len(edge.inputs)} inputs instead of {expected}"
        elif not edge.inputs:
            yield where, f"{edge.op} has no inputs"
        elif edge.op != "copy" and sources != {target}:
            yield where, f"{edge.op} at {target} reads vertices at {', '.join(sorted(sources - {target}))}"
        elif edge.op == "copy" and (next(iter(sources)), target) not in links:
            yield where, f"there is no link from {next(iter(sources))} to {target}"
        else:
            yield from _kinds(edge, where, vertices)


def _kinds(edge: EdgeForm, where: str, vertices: dict[str, VertexForm]) -> Iterator[Problem]:
    """Which operators read and make relations, and which deltas."""
    deltas = [vertices[name].kind == "delta" for name in edge.inputs]
    makes_delta = vertices[edge.out].kind == "delta"
    if makes_delta == (edge.op == "apply"):
        yield where, f"{edge.op} makes a {vertices[edge.out].kind}"
    if edge.op == "capture" and not (vertices[edge.inputs[0]].base and not deltas[0] and vertices[edge.out].base):
        yield where, "capture makes the base delta of a base relation"
    elif edge.op == "join" and sorted(deltas) != [False, True]:
        yield where, "join reads one relation and one delta"
    elif edge.op in ("copy", "union", "apply", "aggregate") and not all(deltas):
        yield where, f"{edge.op} reads deltas only"
    elif edge.op == "derive" and not any(deltas):
        yield where, "derive reads no delta"
    elif edge.op != "capture" and vertices[edge.out].base:
        yield where, f"{edge.op} makes a base vertex"
