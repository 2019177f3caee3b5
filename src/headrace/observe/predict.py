"""How long the next push of a vertex will take: measured rates, and learnt times of its operator.

Where nothing was measured yet the plan's rates and times hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.model.catalogue import Catalogue, OperatorTime
from headrace.model.plan import Graph, Operator
from headrace.observe.rates import VertexFlow
from headrace.observe.times import INGEST, RECOMPUTE, Operation, OperatorTimes, seconds_of


def operation_of(graph: Graph, vertex: str) -> Operation:
    """What makes a vertex; a source's relation is made by ingestion."""
    site, edge = graph.vertices[vertex].site, graph.edges.get(vertex)
    if edge is None:
        return Operation(INGEST, site)
    if edge.is_recomputed:
        return Operation(RECOMPUTE, site)
    origin = graph.vertices[edge.inputs[0]].site if edge.op is Operator.COPY else None
    return Operation(edge.op.value, site, origin)


def planned_time(catalogue: Catalogue, graph: Graph, vertex: str) -> OperatorTime:
    """The time of a vertex's producer as declared, at the site's speed, with what the link adds to a copy. Ingestion is
    like applying.
    """
    operation = operation_of(graph, vertex)
    like = {INGEST: Operator.APPLY.value, RECOMPUTE: Operator.DERIVE.value}
    declared = catalogue.operator_times[like.get(operation.op, operation.op)]
    speed = catalogue.sites[operation.site].speed
    wait_s, row_s = _transfer(catalogue, graph, operation, vertex)
    return OperatorTime(declared.fixed / speed + wait_s, declared.per_in / speed, declared.per_out / speed + row_s)


def _transfer(catalogue: Catalogue, graph: Graph, operation: Operation, vertex: str) -> tuple[float, float]:
    """Seconds that a link adds to a copy, and to each row of it."""
    ends = operation.origin, operation.site
    link = next((link for link in catalogue.links if (link.src, link.dst) == ends), None)
    if link is None:
        return 0.0, 0.0
    return link.latency_s, 0.0 if link.carries is None else graph.vertices[vertex].width / link.carries


def rows_of_push(graph: Graph, flows: Mapping[str, VertexFlow], vertex: str, batch_s: float) -> tuple[float, float]:
    """Rows in and rows out of some seconds of changes."""
    flow, edge = flows.get(vertex), graph.edges.get(vertex)
    if edge is not None and edge.is_recomputed:
        return sum(graph.vertices[name].rows or 0.0 for name in edge.inputs), graph.vertices[vertex].rows or 0.0
    if flow is not None and flow.rows_out.is_known:
        return flow.rows_in.rate * batch_s, flow.rows_out.rate * batch_s
    out = graph.vertices[vertex].rate.at(batch_s)
    into = out if edge is None else sum(graph.vertices[name].rate.at(batch_s) for name in edge.inputs)
    return into * batch_s, out * batch_s


def predictor(
    catalogue: Catalogue, graph: Graph, times: OperatorTimes, flows: Mapping[str, VertexFlow]
) -> Callable[[str, float], float]:
    """Seconds of a push, from the vertex and the seconds of changes that it lacks.

    A decision about pushes asks for each vertex dozens of times, with other seconds each time: what does not depend on
    these is looked up once.
    """
    known: dict[str, tuple[OperatorTime, tuple[float, float] | None]] = {}

    def seconds(vertex: str, batch_s: float) -> float:
        if vertex not in known:
            planned = planned_time(catalogue, graph, vertex)
            known[vertex] = (
                times.time_of_vertex(operation_of(graph, vertex), vertex, planned),
                _find_rates(graph, flows, vertex),
            )
        time, rates = known[vertex]
        if rates is not None:
            return time.fixed + (time.per_in * rates[0] + time.per_out * rates[1]) * batch_s
        return seconds_of(time, *rows_of_push(graph, flows, vertex, batch_s))

    return seconds


def _find_rates(graph: Graph, flows: Mapping[str, VertexFlow], vertex: str) -> tuple[float, float] | None:
    """Rows in and out of each second of changes, where that is the same for all batches."""
    flow, edge = flows.get(vertex), graph.edges.get(vertex)
    if flow is None or not flow.rows_out.is_known or (edge is not None and edge.is_recomputed):
        return None
    return flow.rows_in.rate, flow.rows_out.rate
