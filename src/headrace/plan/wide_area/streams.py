"""Streaming queries as graphs of operators: what flows between them, and which operators of different queries are
equal.

Rates are records/s, widths bytes per record on the wire, bandwidths bytes/s, latencies seconds one way. Between two
different sites there is a link or there is none; within a site everything is free.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

SiteLink = tuple[str, str]
"""(from, to)"""


@dataclass(frozen=True, slots=True)
class LinkFigures:
    bandwidth: float
    latency_s: float


NO_LINK = LinkFigures(1e-6, 1e6)
"""What two sites have between which there is no link: nothing passes, and everything is late."""


@dataclass(frozen=True, slots=True)
class SiteNetwork:
    """Bandwidth (bytes/s) and one-way latency (s) of every link. `compute` are the sites where any operator may run."""

    sites: tuple[str, ...]
    compute: frozenset[str]
    bandwidth: Mapping[SiteLink, float]
    latency: Mapping[SiteLink, float]

    def is_linked(self, start: str, end: str) -> bool:
        """Whether anything can pass from one site to another one."""
        return start == end or self.latency[start, end] < NO_LINK.latency_s


@dataclass(frozen=True, slots=True)
class SiteStream:
    """Records that arise at a site."""

    id: str
    site: str
    rate: float
    width: float

    @property
    def bytes_per_s(self) -> float:
        return self.rate * self.width


@dataclass(frozen=True, slots=True)
class QueryOperator:
    """One operator of a query: `inputs` are ids of its operators or of streams, `rate` and `width` are of the output.

    Operators with equal fingerprints have equal outputs. `pinned` is the site of a sink; `at_source` allows the site
    of its only stream.
    """

    id: str
    fingerprint: str
    inputs: tuple[str, ...]
    rate: float
    width: float
    at_source: bool = False
    pinned: str | None = None

    @property
    def bytes_per_s(self) -> float:
        return self.rate * self.width


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """Operators in topological order; the last one is the sink."""

    id: str
    operators: tuple[QueryOperator, ...]

    @property
    def sink(self) -> QueryOperator:
        return self.operators[-1]


@dataclass(frozen=True, slots=True)
class Workload:
    """Streams, and queries in their order of arrival."""

    streams: Mapping[str, SiteStream]
    queries: tuple[StreamQuery, ...]


def stream_of(query: StreamQuery, operator: QueryOperator, streams: Mapping[str, SiteStream]) -> SiteStream | None:
    """The only stream below an operator, or None when there are several."""
    by_id = {op.id: op for op in query.operators}
    below = _streams_below(operator, by_id, streams)
    return streams[next(iter(below))] if len(below) == 1 else None


def _streams_below(
    operator: QueryOperator, by_id: Mapping[str, QueryOperator], streams: Mapping[str, SiteStream]
) -> frozenset[str]:
    found: set[str] = set()
    for name in operator.inputs:
        found |= {name} if name in streams else _streams_below(by_id[name], by_id, streams)
    return frozenset(found)


def allowed_sites(
    query: StreamQuery,
    operator: QueryOperator,
    network: SiteNetwork,
    streams: Mapping[str, SiteStream],
    at_source: bool,
) -> tuple[str, ...]:
    """Sites where an operator may run, in the network's order; under the rule `at_source` also where its stream
    arises.
    """
    if operator.pinned is not None:
        return (operator.pinned,)
    stream = stream_of(query, operator, streams) if at_source and operator.at_source else None
    also = {stream.site} if stream is not None else set()
    return tuple(site for site in network.sites if site in network.compute or site in also)


def operator_fingerprint(kind: str, params: Mapping[str, object], inputs: Sequence[str]) -> str:
    """16 hexadecimal digits that stand for what an operator does to its inputs (their fingerprints or stream ids).

    Inputs of a union have no order.
    """
    ordered = sorted(inputs) if kind == "union" else list(inputs)
    text = json.dumps({"inputs": ordered, "kind": kind, "params": params}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
