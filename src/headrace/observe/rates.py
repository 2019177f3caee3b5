"""How many rows and bytes flow, measured from pushes: what statistics were, and what they are.

A meter averages over the last minute. Each push tells what one vertex took in and gave out between its time before and
its time now: rates are per second of changes, whatever the push itself took. Rows that a source's relation gives out
are the source's rate: an update is a row that goes and one that comes, so it counts 2.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field

from headrace.model.catalogue import Link
from headrace.model.plan import Graph, Operator

OVER_S = 60.0
"""The time over which meters average."""

ENOUGH_ROWS = 100.0
"""Rows that a vertex must have taken in during that time: what passed of fewer says little about the next."""

SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Meter:
    """An amount per second up to a time (microseconds), as an average that fades.

    `weight` grows to 1 as the start is forgotten; the average is right from the first interval on.
    """

    upto: int
    faded: float = 0.0
    weight: float = 0.0

    @property
    def rate(self) -> float:
        return self.faded / self.weight if self.weight else 0.0

    @property
    def is_known(self) -> bool:
        """Whether it has seen as long a time as it averages over."""
        return self.weight >= 1 - math.exp(-1) - 1e-9


def add_amount(meter: Meter, amount: float, upto: int) -> Meter:
    """The meter after an amount came between the meter's time and a later one. A repetition changes nothing."""
    seconds = (upto - meter.upto) / SECOND
    if seconds <= 0.0:
        return meter
    kept = math.exp(-seconds / OVER_S)
    return Meter(upto, meter.faded * kept + amount / seconds * (1 - kept), meter.weight * kept + 1 - kept)


@dataclass(frozen=True, slots=True)
class VertexFlow:
    """What a vertex took in and gave out, and the bytes that it was sent."""

    rows_in: Meter
    rows_out: Meter
    bytes: Meter

    @property
    def selectivity(self) -> float | None:
        """Rows out for each row in; None while these are too few to tell."""
        enough = self.rows_in.rate * OVER_S >= ENOUGH_ROWS
        return self.rows_out.rate / self.rows_in.rate if enough else None

    def to_json(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> VertexFlow:
        """Raises KeyError, TypeError or ValueError for a text that is none of ours."""
        found = json.loads(text)
        return VertexFlow(Meter(**found["rows_in"]), Meter(**found["rows_out"]), Meter(**found["bytes"]))


def start_flow(t: int) -> VertexFlow:
    """The flow of a vertex that begins at a time: what it held then did not flow."""
    return VertexFlow(Meter(t), Meter(t), Meter(t))


def add_push(flow: VertexFlow, rows_in: float, rows_out: float, size: float, upto: int) -> VertexFlow:
    return VertexFlow(
        add_amount(flow.rows_in, rows_in, upto),
        add_amount(flow.rows_out, rows_out, upto),
        add_amount(flow.bytes, size, upto),
    )


# What planning wants to know


@dataclass(frozen=True, slots=True)
class Statistics:
    """Measured statistics, of what was watched for long enough: rows per second of sources and of vertices, rows out
    for each row in of vertices, demand over capacity of links (from, to).
    """

    sources: Mapping[str, float] = field(default_factory=dict)
    vertices: Mapping[str, float] = field(default_factory=dict)
    selectivities: Mapping[str, float] = field(default_factory=dict)
    load: Mapping[tuple[str, str], float] = field(default_factory=dict)


def statistics(graph: Graph, flows: Mapping[str, VertexFlow], links: Iterable[Link]) -> Statistics:
    """Statistics to plan again with; a link without a limit has no load."""
    known = {name: flow for name, flow in flows.items() if flow.rows_out.is_known and name in graph.vertices}
    homes = {name: graph.vertices[name].scope[0] for name in known if name not in graph.edges}
    return Statistics(
        {source: known[name].rows_out.rate for name, source in sorted(homes.items())},
        {name: flow.rows_out.rate for name, flow in known.items()},
        {name: flow.selectivity for name, flow in known.items() if flow.selectivity is not None},
        _loads(graph, known, links),
    )


def _loads(graph: Graph, flows: Mapping[str, VertexFlow], links: Iterable[Link]) -> dict[tuple[str, str], float]:
    demand: dict[tuple[str, str], float] = {}
    for name, flow in flows.items():
        edge = graph.edges.get(name)
        if edge is not None and edge.op is Operator.COPY:
            ends = graph.vertices[edge.inputs[0]].site, graph.vertices[name].site
            demand[ends] = demand.get(ends, 0.0) + flow.bytes.rate
    found = {(link.src, link.dst): link.bandwidth for link in links}
    return {ends: size / limit for ends, size in demand.items() if (limit := found.get(ends))}


def find_row_bytes(graph: Graph, flows: Mapping[str, VertexFlow]) -> dict[str, float]:
    """Bytes that a row of each copied vertex took on its way, on average."""
    return {
        name: flow.bytes.rate / flow.rows_out.rate
        for name, flow in flows.items()
        if name in graph.edges
        and graph.edges[name].op is Operator.COPY
        and flow.rows_out.rate > 0.0
        and flow.bytes.rate > 0.0
    }
