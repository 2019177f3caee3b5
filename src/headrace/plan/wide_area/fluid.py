"""The fluid model: what a deployment sends over each link, and what gets through when links are full.

Every copy of an operator's output to another site is one flow with a planned rate. On each link flows share the
bandwidth max-min fairly. A query gets, from each of its streams, the smallest share that any flow on the way achieves;
planned rates are not reduced behind a bottleneck. What does not get through piles up for `BACKLOG_S` seconds and
delays the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from headrace.plan.wide_area.streams import QueryOperator, SiteLink, SiteNetwork, StreamQuery, Workload

BACKLOG_S = 60.0

Deployment = Mapping[str, Mapping[str, str]]
"""query id -> operator id -> site"""


class FlowSharing(StrEnum):
    """Which flows of different readers are one: none, those into equal operators, all of one output on one link."""

    NONE = "none"
    INOP = "inop"
    ALL = "all"


FlowKey = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CopyFlow:
    """One copy of an output over a link: planned and achieved bytes/s."""

    link: SiteLink
    planned: float
    achieved: float

    @property
    def share(self) -> float:
        return self.achieved / self.planned if self.planned > 0 else 1.0


@dataclass(frozen=True, slots=True)
class QueryFlow:
    """What reaches one query's sink: records/s of its streams, and the mean latency weighted by rate."""

    records_per_s: float
    latency_s: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model says of a deployment; bandwidths are sums over all flows in bytes/s."""

    flows: Mapping[FlowKey, CopyFlow]
    queries: Mapping[str, QueryFlow]

    @property
    def planned(self) -> float:
        return sum(flow.planned for flow in self.flows.values())

    @property
    def achieved(self) -> float:
        return sum(flow.achieved for flow in self.flows.values())

    @property
    def records_per_s(self) -> float:
        return sum(query.records_per_s for query in self.queries.values())

    @property
    def load(self) -> dict[SiteLink, float]:
        """Planned bytes/s per link."""
        total: dict[SiteLink, float] = {}
        for flow in self.flows.values():
            total[flow.link] = total.get(flow.link, 0.0) + flow.planned
        return total

    def overloaded(self, network: SiteNetwork) -> tuple[SiteLink, ...]:
        return tuple(sorted(link for link, load in self.load.items() if load > network.bandwidth[link] * (1 + 1e-9)))


def predict(workload: Workload, network: SiteNetwork, deployment: Deployment, sharing: FlowSharing) -> Prediction:
    """Flows, throughput and latency of all queries that the deployment names."""
    planned: dict[FlowKey, tuple[SiteLink, float]] = {}
    for query in workload.queries:
        for operator in query.operators if query.id in deployment else ():
            for name in operator.inputs:
                hop = _hop(workload, query, operator, name, deployment[query.id])
                if hop is not None:
                    link, rate, fingerprint = hop
                    planned[_flow_key(sharing, query, operator, fingerprint, link)] = (link, rate)
    flows = _achieve(planned, network)
    queries = {
        query.id: _query_flow(workload, network, query, deployment[query.id], sharing, flows)
        for query in workload.queries
        if query.id in deployment
    }
    return Prediction(flows, queries)


def max_min_fair(planned: Mapping[FlowKey, float], capacity: float) -> dict[FlowKey, float]:
    """Each flow gets what it plans or an equal part of what smaller flows leave."""
    achieved: dict[FlowKey, float] = {}
    left = capacity
    for served, (key, rate) in enumerate(sorted(planned.items(), key=lambda item: (item[1], item[0]))):
        achieved[key] = min(rate, left / (len(planned) - served))
        left -= achieved[key]
    return achieved


def _hop(
    workload: Workload, query: StreamQuery, operator: QueryOperator, name: str, sites: Mapping[str, str]
) -> tuple[SiteLink, float, str] | None:
    """Link, planned bytes/s and fingerprint of the copy of one input, or None when it is already there."""
    if name in workload.streams:
        stream = workload.streams[name]
        src, rate, fingerprint = stream.site, stream.bytes_per_s, stream.id
    else:
        producer = next(op for op in query.operators if op.id == name)
        src, rate, fingerprint = sites[name], producer.bytes_per_s, producer.fingerprint
    return None if src == sites[operator.id] else ((src, sites[operator.id]), rate, fingerprint)


def _flow_key(
    sharing: FlowSharing, query: StreamQuery, operator: QueryOperator, fingerprint: str, link: SiteLink
) -> FlowKey:
    reader = {FlowSharing.NONE: query.id, FlowSharing.INOP: operator.fingerprint, FlowSharing.ALL: ""}[sharing]
    return (reader, fingerprint, *link)


def _achieve(planned: Mapping[FlowKey, tuple[SiteLink, float]], network: SiteNetwork) -> dict[FlowKey, CopyFlow]:
    by_link: dict[SiteLink, dict[FlowKey, float]] = {}
    for key, (link, rate) in planned.items():
        by_link.setdefault(link, {})[key] = rate
    return {
        key: CopyFlow(link, rates[key], achieved)
        for link, rates in by_link.items()
        for key, achieved in max_min_fair(rates, network.bandwidth[link]).items()
    }


def _query_flow(
    workload: Workload,
    network: SiteNetwork,
    query: StreamQuery,
    sites: Mapping[str, str],
    sharing: FlowSharing,
    flows: Mapping[FlowKey, CopyFlow],
) -> QueryFlow:
    """Follow every stream of a query from its site to the sink."""
    records = latency = rates = 0.0
    for path in _paths(query, query.sink, workload):
        stream = workload.streams[path[0][1]]
        share, delay = 1.0, 0.0
        for operator, name in path:
            hop = _hop(workload, query, operator, name, sites)
            if hop is not None:
                flow = flows[_flow_key(sharing, query, operator, hop[2], hop[0])]
                share = min(share, flow.share)
                backlog = (flow.planned - flow.achieved) * BACKLOG_S
                delay += network.latency[hop[0]] + (backlog / flow.achieved if backlog > 0 else 0.0)
        records += stream.rate * share
        latency += stream.rate * delay
        rates += stream.rate
    return QueryFlow(records, latency / rates if rates else 0.0)


def _paths(query: StreamQuery, operator: QueryOperator, workload: Workload) -> list[list[tuple[QueryOperator, str]]]:
    """Every way from a stream to an operator, as (reader, input) pairs, the stream's first."""
    by_id = {op.id: op for op in query.operators}
    found: list[list[tuple[QueryOperator, str]]] = []
    for name in operator.inputs:
        below = [[]] if name in workload.streams else _paths(query, by_id[name], workload)
        found.extend([*path, (operator, name)] for path in below)
    return found
