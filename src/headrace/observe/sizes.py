"""What results of blocks hold and emit, measured from logs and pushes: aggregates, DISTINCT, top-k and the like.

Rows are those of the last base of a result's log, which upkeep makes anew when as much has changed as half of it: the
ledger knows their number, and no file is read. Changes per second are those that the operator's pushes gave out.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.model.catalogue import MeasuredSize
from headrace.model.log import Log, PieceKind
from headrace.model.plan import Graph, Operator, Plan, Stage, VertexKind
from headrace.observe.rates import VertexFlow


def find_held_results(plan: Plan) -> tuple[str, ...]:
    """The vertices that hold all rows of a block's result; their logs have the names of the vertices."""
    results = _results(plan)
    return tuple(name for name in results if plan.graph.vertices[name].kind is VertexKind.RELATION)


def measure_sizes(
    plan: Plan, flows: Mapping[str, VertexFlow], rates: Mapping[str, float], logs: Mapping[str, Log]
) -> dict[str, MeasuredSize]:
    """Measures sizes by fingerprint, of results whose changes were watched for long enough. `rates` are the sources'
    measured ones.

    Where a result is at several sites, one of them tells: they hold and emit the same. Rows alone are not told: from
    few groups alone the planner would guess few changes.
    """
    graph, found = plan.graph, dict[str, MeasuredSize]()
    for name, fingerprint in _results(plan).items():
        before = found.get(fingerprint, MeasuredSize())
        rows = _rows_held(logs[name]) if name in logs and before.rows is None else before.rows
        sources, rate = _source_rates(plan, name, rates), before.rate
        if rate is None and None not in sources.values() and _is_made_here(graph, name):
            rate = _rate_of(flows.get(name))
        found[fingerprint] = MeasuredSize(rows, rate, {source: one or 0.0 for source, one in sources.items()})
    return {fingerprint: size for fingerprint, size in found.items() if size.rate is not None}


def _results(plan: Plan) -> dict[str, str]:
    """Vertices that are the whole result of an operator on top, each with the block's fingerprint."""
    tops = {entry.block.fingerprint for entry in plan.blocks if entry.block.top is not None}
    vertices = plan.graph.vertices
    return {name: vertices[name].fingerprint for name in sorted(vertices) if vertices[name].fingerprint in tops}


def _rows_held(log: Log) -> int | None:
    """None while there is no base, or an empty one that changes were added to: these may have come or gone."""
    if log.base_t is None:
        return None
    rows = sum(piece.rows for piece in log.of_kind(PieceKind.BASE))
    is_outdated = rows == 0 and any(piece.kind is PieceKind.CHANGE for piece in log.contents)
    return None if is_outdated else rows


def _rate_of(flow: VertexFlow | None) -> float | None:
    """Changed rows per second; None while too little was seen to tell."""
    if flow is None or not flow.rows_out.is_known or flow.selectivity is None:
        return None
    return flow.rows_out.rate


def _is_made_here(graph: Graph, vertex: str) -> bool:
    """Whether a vertex is what the operator emits, and no copy of it."""
    edge = graph.edges.get(vertex)
    if edge is None:
        return False
    is_partial = edge.grouping is not None and edge.grouping.stage is Stage.PARTIAL
    return edge.op is Operator.DERIVE or (edge.op is Operator.AGGREGATE and not is_partial)


def _source_rates(plan: Plan, vertex: str, rates: Mapping[str, float]) -> dict[str, float | None]:
    """The measured rates of the sources that a vertex is made from; None for what is not known."""
    edges, todo, seen = plan.graph.edges, [vertex], set[str]()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += edges[name].inputs if name in edges else ()
    sources = sorted(plan.graph.vertices[name].scope[0] for name in seen if plan.graph.vertices[name].base)
    static = {name for name, source in plan.catalogue.sources.items() if source.static}
    return {name: 0.0 if name in static else rates.get(name) for name in sources}
