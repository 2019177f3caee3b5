"""A whole query placed at once, by the bytes it adds to what already runs.

An output that exists costs nothing, a copy that is sent costs nothing, any other copy costs its bytes/s (and a little
for latency, as Hourglass weighs it). Over a tree of operators the cheapest sites follow by dynamic programming from
the streams to the sink. Links that a choice would fill beyond the headroom are made dearer and the program runs again:
the next best way is taken. When nothing fits, the placement with the least overload is returned and marked contended.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.plan.wide_area.fluid import FlowSharing
from headrace.plan.wide_area.running import AdmittedQueries, bytes_of, operator_of, origin, running_of, settle
from headrace.plan.wide_area.streams import QueryOperator, SiteLink, SiteNetwork, StreamQuery, Workload, allowed_sites

HEADROOM = 0.1
ROUNDS = 24
LATENCY_WEIGHT = 1e-3
"""Bytes/s that one s^2 of Hourglass weight is worth, relative to the bytes of the copy: it only breaks ties."""

Choice = tuple[float, Mapping[str, str]]
"""Cost, and sites of an operator and all below it."""


@dataclass(frozen=True, slots=True)
class QueryPlacement:
    """Sites of one query's operators, what it adds to each link, and whether some link is now beyond its headroom."""

    sites: Mapping[str, str]
    added: Mapping[SiteLink, float]
    contended: bool


def place_query(
    workload: Workload, network: SiteNetwork, query: StreamQuery, running: AdmittedQueries, at_source: bool
) -> QueryPlacement:
    """The cheapest sites that fit; ties go to the first site of the network."""
    prices: dict[SiteLink, float] = {}
    best: tuple[float, float, QueryPlacement] | None = None
    for _ in range(ROUNDS):
        sites = settle(workload, query, _cheapest(workload, network, query, running, at_source, prices), running)
        added = added_bytes(workload, query, sites, running)
        over = {link: excess for link in added if (excess := _excess(network, running, link, added[link])) > 0}
        candidate = (sum(over.values()), sum(added.values()), QueryPlacement(sites, added, bool(over)))
        best = candidate if best is None or candidate[:2] < best[:2] else best
        if not over:
            break
        for link in over:
            prices[link] = 4 * prices.get(link, 1.0)
    assert best is not None
    return best[2]


def admit_all(workload: Workload, network: SiteNetwork, at_source: bool = False, passes: int = 1) -> AdmittedQueries:
    """All queries in their order of arrival, each planned on what runs; then `passes` of planning each again."""
    deployment: dict[str, Mapping[str, str]] = {}
    running = AdmittedQueries()
    for _ in range(1 + passes):
        for query in workload.queries:
            others = {name: sites for name, sites in deployment.items() if name != query.id}
            running = running_of(workload, network, others, FlowSharing.ALL)
            placed = place_query(workload, network, query, running, at_source)
            deployment = {**others, query.id: placed.sites}
    return running_of(workload, network, deployment, FlowSharing.ALL)


def added_bytes(
    workload: Workload, query: StreamQuery, sites: Mapping[str, str], running: AdmittedQueries
) -> dict[SiteLink, float]:
    """Bytes/s that a query adds to each link when every output is copied once to a site, whoever reads it there."""
    added: dict[tuple[str, SiteLink], float] = {}
    for operator in query.operators:
        here = sites[operator.id]
        if (operator.fingerprint, here) in running.inputs:
            continue
        for name in operator.inputs:
            fingerprint, site = origin(workload, query, name, sites)
            if site != here and (fingerprint, (site, here)) not in running.copies:
                added[fingerprint, (site, here)] = bytes_of(workload, query, name)
    total: dict[SiteLink, float] = {}
    for (_, link), amount in added.items():
        total[link] = total.get(link, 0.0) + amount
    return total


def _excess(network: SiteNetwork, running: AdmittedQueries, link: SiteLink, added: float) -> float:
    return running.used.get(link, 0.0) + added - (1 - HEADROOM) * network.bandwidth[link]


def _cheapest(
    workload: Workload,
    network: SiteNetwork,
    query: StreamQuery,
    running: AdmittedQueries,
    at_source: bool,
    prices: Mapping[SiteLink, float],
) -> Mapping[str, str]:
    """Dynamic programming: for each operator and site the cheapest way to have its output there produced."""
    table: dict[str, dict[str, Choice]] = {}
    for operator in query.operators:
        table[operator.id] = {
            site: _produce(workload, network, query, operator, site, running, table, prices)
            for site in allowed_sites(query, operator, network, workload.streams, at_source)
        }
    sink = query.sink
    assert sink.pinned is not None
    return table[sink.id][sink.pinned][1]


def _produce(
    workload: Workload,
    network: SiteNetwork,
    query: StreamQuery,
    operator: QueryOperator,
    site: str,
    running: AdmittedQueries,
    table: Mapping[str, Mapping[str, Choice]],
    prices: Mapping[SiteLink, float],
) -> Choice:
    if (operator.fingerprint, site) in running.inputs:
        return 0.0, {operator.id: site, **_any_sites_below(workload, query, operator, table)}
    total, chosen = 0.0, {operator.id: site}
    for name in operator.inputs:
        fingerprint, options = _options(workload, query, name, table)
        amount = bytes_of(workload, query, name)
        cost, _, below = min(
            (
                (cost + _copy_cost(network, running, fingerprint, (start, site), amount, prices), start, below)
                for start, (cost, below) in options.items()
            ),
            key=lambda option: option[0],
        )
        total += cost
        chosen |= below
    return total, chosen


def _options(
    workload: Workload, query: StreamQuery, name: str, table: Mapping[str, Mapping[str, Choice]]
) -> tuple[str, Mapping[str, Choice]]:
    if name in workload.streams:
        return name, {workload.streams[name].site: (0.0, {})}
    return operator_of(query, name).fingerprint, table[name]


def _any_sites_below(
    workload: Workload, query: StreamQuery, operator: QueryOperator, table: Mapping[str, Mapping[str, Choice]]
) -> dict[str, str]:
    """Sites below a shared operator; `settle` replaces them by those it really reads from."""
    sites: dict[str, str] = {}
    for name in operator.inputs:
        if name not in workload.streams:
            sites |= next(iter(table[name].values()))[1]
    return sites


def _copy_cost(
    network: SiteNetwork,
    running: AdmittedQueries,
    fingerprint: str,
    link: SiteLink,
    amount: float,
    prices: Mapping[SiteLink, float],
) -> float:
    if link[0] == link[1] or (fingerprint, link) in running.copies:
        return 0.0
    if link not in network.bandwidth:
        return float("inf")
    over = max(0.0, _excess(network, running, link, amount))
    weight = network.latency[link] ** 2 / network.bandwidth[link]
    return prices.get(link, 1.0) * amount + 1e3 * over + LATENCY_WEIGHT * amount * weight
