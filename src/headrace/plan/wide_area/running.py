"""What already runs: which outputs exist where, which copies cross which link, and how much of each link is taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.plan.wide_area.fluid import Deployment, FlowSharing, predict
from headrace.plan.wide_area.streams import QueryOperator, SiteLink, SiteNetwork, StreamQuery, Workload

Instance = tuple[str, str]
"""(fingerprint, site) of a running operator."""


@dataclass(frozen=True, slots=True)
class AdmittedQueries:
    """All queries admitted so far.

    `inputs` gives, for each running operator, the site from which it reads each input (by fingerprint or stream id);
    `copies` are the (fingerprint or stream id, link) that are sent already; `used` are planned bytes/s per link.
    """

    deployment: Deployment = field(default_factory=dict)
    inputs: Mapping[Instance, Mapping[str, str]] = field(default_factory=dict)
    copies: frozenset[tuple[str, SiteLink]] = frozenset()
    used: Mapping[SiteLink, float] = field(default_factory=dict)

    def sites_of(self, fingerprint: str) -> tuple[str, ...]:
        """Where an output is produced."""
        return tuple(sorted(site for running, site in self.inputs if running == fingerprint))


def running_of(
    workload: Workload, network: SiteNetwork, deployment: Deployment, sharing: FlowSharing
) -> AdmittedQueries:
    """The state that a deployment makes; always computed from the deployment, never edited."""
    inputs: dict[Instance, Mapping[str, str]] = {}
    copies: set[tuple[str, SiteLink]] = set()
    for query in workload.queries:
        sites = deployment.get(query.id)
        for operator in query.operators if sites is not None else ():
            assert sites is not None
            read = tuple(origin(workload, query, name, sites) for name in operator.inputs)
            here = sites[operator.id]
            inputs.setdefault((operator.fingerprint, here), dict(read))
            copies |= {(fingerprint, (site, here)) for fingerprint, site in read if site != here}
    used = predict(workload, network, deployment, sharing).load
    return AdmittedQueries(deployment, inputs, frozenset(copies), used)


def origin(workload: Workload, query: StreamQuery, name: str, sites: Mapping[str, str]) -> tuple[str, str]:
    """Fingerprint and site of an input: a stream, or an operator of the query."""
    if name in workload.streams:
        return name, workload.streams[name].site
    return operator_of(query, name).fingerprint, sites[name]


def operator_of(query: StreamQuery, name: str) -> QueryOperator:
    return next(operator for operator in query.operators if operator.id == name)


def bytes_of(workload: Workload, query: StreamQuery, name: str) -> float:
    """Planned bytes/s of an input."""
    return workload.streams[name].bytes_per_s if name in workload.streams else operator_of(query, name).bytes_per_s


def settle(
    workload: Workload, query: StreamQuery, chosen: Mapping[str, str], running: AdmittedQueries
) -> dict[str, str]:
    """Sites of a query's operators when those that already run are read as they run.

    Below a shared operator the query gets the sites from which that operator really reads, whatever was chosen before.
    """
    sites = dict(chosen)
    for operator in reversed(query.operators):
        read = running.inputs.get((operator.fingerprint, sites[operator.id]), {})
        for name in operator.inputs:
            if read and name not in workload.streams:
                sites[name] = read[operator_of(query, name).fingerprint]
    return sites
