"""Operator by operator in topological order: the algorithms of Sana (SoCC 2018), corrected, as modes to compare with.

IN-OP reuses a running operator, IN places an operator where inputs already are, and otherwise Hourglass decides: the
least sum of rate * latency^2 / bandwidth. Corrected: the extra load of a shared output counts the sites it does not
reach yet (printed: an intersection), and capacity is reserved for earlier operators of the same query (printed: each
is checked alone). Where an output will be read is not known when its operator is placed, so it is charged once towards
the sink. A mode that shares nothing plans each query alone, as one job manager per query does: it knows the links but
not what other queries send.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.plan_modes import Prefer
from headrace.plan.wide_area.fluid import FlowSharing
from headrace.plan.wide_area.running import AdmittedQueries, bytes_of, operator_of, origin, running_of, settle
from headrace.plan.wide_area.search import HEADROOM
from headrace.plan.wide_area.streams import QueryOperator, SiteLink, SiteNetwork, StreamQuery, Workload, allowed_sites

LATER = 0.1
"""Share by which a running operator may be later than another one, where latency is preferred."""
AS_GOOD = 0.1
"""Share by which a site may be worse for Hourglass than the best one and counts as good, where bytes are preferred."""


@dataclass(frozen=True, slots=True)
class SharingMode:
    """What may be shared, whether sharing and placement look at the links."""

    sharing: FlowSharing
    aware_sharing: bool
    aware_placement: bool


MODES: Mapping[str, SharingMode] = {
    "default": SharingMode(FlowSharing.NONE, aware_sharing=False, aware_placement=False),
    "net": SharingMode(FlowSharing.NONE, aware_sharing=False, aware_placement=True),
    "no-share": SharingMode(FlowSharing.NONE, aware_sharing=False, aware_placement=True),
    "mqo": SharingMode(FlowSharing.ALL, aware_sharing=False, aware_placement=False),
    "strict-share": SharingMode(FlowSharing.INOP, aware_sharing=True, aware_placement=True),
    "max-share": SharingMode(FlowSharing.ALL, aware_sharing=False, aware_placement=True),
    "sana": SharingMode(FlowSharing.ALL, aware_sharing=True, aware_placement=True),
}


def admit_greedily(
    workload: Workload, network: SiteNetwork, mode: SharingMode, at_source: bool = False
) -> AdmittedQueries:
    """All queries in their order of arrival."""
    deployment: dict[str, Mapping[str, str]] = {}
    running = AdmittedQueries()
    for query in workload.queries:
        step = _QueryAdmission(workload, network, query, mode, running, at_source)
        deployment[query.id] = step.place()
        running = running_of(workload, network, deployment, mode.sharing)
    return running


def place_greedily(
    workload: Workload,
    network: SiteNetwork,
    query: StreamQuery,
    mode: SharingMode,
    running: AdmittedQueries,
    prefer: Prefer = Prefer.BYTES,
) -> dict[str, str]:
    """The sites of one query's operators on top of what runs."""
    return _QueryAdmission(workload, network, query, mode, running, False, prefer).place()


class _QueryAdmission:
    """One query on its way in: sites chosen so far, and bytes/s reserved for them."""

    def __init__(
        self,
        workload: Workload,
        network: SiteNetwork,
        query: StreamQuery,
        mode: SharingMode,
        running: AdmittedQueries,
        at_source: bool,
        prefer: Prefer = Prefer.BYTES,
    ) -> None:
        self.workload, self.network, self.query, self.mode, self.prefer = workload, network, query, mode, prefer
        self.running = AdmittedQueries() if mode.sharing is FlowSharing.NONE else running
        self.held = self.running.copies if mode.sharing is FlowSharing.ALL else frozenset()
        self.at_source = at_source
        self.sites: dict[str, str] = {}
        self.reserved: dict[SiteLink, float] = {}
        self.unread: dict[str, dict[SiteLink, float]] = {}
        """What outputs are charged towards the sink, until their readers are placed."""

    def place(self) -> dict[str, str]:
        for operator in self.query.operators:
            for name in operator.inputs:
                self._reserve(self.unread.pop(name, {}), -1.0)
            site = self._choose_site(operator)
            self.sites[operator.id] = site
            if (operator.fingerprint, site) not in self.running.inputs:
                self._reserve(self._missing(operator, site))
            if operator is not self.query.sink:
                self.unread[operator.id] = self._towards_sink(operator, site)
                self._reserve(self.unread[operator.id])
        return settle(self.workload, self.query, self.sites, self.running)

    def _reserve(self, loads: Mapping[SiteLink, float], times: float = 1.0) -> None:
        for link, amount in loads.items():
            self.reserved[link] = self.reserved.get(link, 0.0) + times * amount

    def _choose_site(self, operator: QueryOperator) -> str:
        allowed = allowed_sites(self.query, operator, self.network, self.workload.streams, self.at_source)
        if operator.pinned is not None:
            return operator.pinned
        shared = [
            site
            for site in self.running.sites_of(operator.fingerprint)
            if not self.mode.aware_sharing or self._fits(self._towards_sink(operator, site))
        ]
        if self.prefer is Prefer.LATENCY and shared:
            fresh = self._alone(operator, allowed)
            soon = (1 + LATER) * self._latency(operator, fresh)
            shared = [site for site in shared if self._shared_latency(operator, site) <= soon]
        if shared:
            return min(shared, key=lambda site: (self._total(self._towards_sink(operator, site)), site))
        return self._choose_least_full(operator, self._alone(operator, allowed))

    def _choose_least_full(self, operator: QueryOperator, alone: str) -> str:
        """The site that was chosen for an operator of its own, or one where it runs if nothing fits in either case:
        then that which fills its links least.
        """
        running = self.running.sites_of(operator.fingerprint) if self.mode.aware_sharing else ()
        loads = self._adds(operator, alone)
        if not running or self._fits(loads):
            return alone
        full = {site: self._worst_load(self._towards_sink(operator, site)) for site in running}
        best = min(full, key=lambda site: (full[site], site))
        return best if full[best] <= self._worst_load(loads) else alone

    def _alone(self, operator: QueryOperator, allowed: tuple[str, ...]) -> str:
        """The site of an operator that nobody runs yet."""
        near_inputs, fresh = self._near_inputs(operator, allowed), self._fresh(operator, allowed)
        if not near_inputs:
            return fresh
        near = max(near_inputs, key=lambda site: (self._count_saved(operator, site), -self._hourglass(operator, site)))
        if not self.mode.aware_sharing or self.prefer is not Prefer.BYTES:
            return near
        # What is there already may be less than what is sent on from there: sharing it would cost bytes.
        sink = [site for site in allowed if site == self.query.sink.pinned]
        apart = [site for site in (fresh, *sink) if self._fits(self._adds(operator, site))]
        return min((near, *apart), key=lambda site: self._total(self._adds(operator, site)))

    def _near_inputs(self, operator: QueryOperator, allowed: Iterable[str]) -> list[str]:
        """Sites of the set IN: those to which some input is already copied for another query, where the rest still
        fits.
        """
        return [
            site
            for site in allowed
            if self._count_saved(operator, site) > 0
            and (not self.mode.aware_sharing or self._fits(self._adds(operator, site)))
        ]

    def _fresh(self, operator: QueryOperator, allowed: tuple[str, ...]) -> str:
        starts = {origin(self.workload, self.query, name, self.sites)[1] for name in operator.inputs}
        if len(starts) == 1 and (only := next(iter(starts))) in allowed:
            return only
        if not self.mode.aware_placement:
            first = origin(self.workload, self.query, operator.inputs[0], self.sites)[1]
            linked = [site for site in allowed if all(self.network.is_linked(start, site) for start in starts)]
            return min(
                linked or allowed, key=lambda site: (site != first, self.network.latency.get((first, site), 0.0), site)
            )
        fitting = [site for site in allowed if self._fits(self._needs(operator, site))]
        if fitting:
            return self._choose_fitting(operator, fitting)
        return min(
            allowed,
            key=lambda site: (
                self._worst_load(self._needs(operator, site)),
                -self._count_saved(operator, site) if self.mode.aware_sharing else 0.0,
                site,
            ),
        )

    def _choose_fitting(self, operator: QueryOperator, fitting: Iterable[str]) -> str:
        """Where Hourglass is least; of sites that are about as good, that where fewest bytes are sent. Where all would
        fill a link on the way to the sink, that which fills it least.
        """
        weights = {site: self._hourglass(operator, site) for site in fitting}
        least = min(weights.values())
        if self.prefer is Prefer.BYTES and least < float("inf"):
            good = [site for site, weight in weights.items() if weight <= (1 + AS_GOOD) * least]
            return min(good, key=lambda site: (self._total(self._adds(operator, site)), weights[site], site))
        return min(weights, key=lambda site: (weights[site], self._worst_load(self._adds(operator, site)), site))

    def _needs(self, operator: QueryOperator, site: str) -> dict[SiteLink, float]:
        """Bytes/s that an operator at a site has sent for certain. What is read by the sink alone goes there."""
        is_last = operator.id in self.query.sink.inputs
        return self._adds(operator, site) if is_last else self._missing(operator, site)

    def _adds(self, operator: QueryOperator, site: str) -> dict[SiteLink, float]:
        """Bytes/s of the copies that an operator needs, and of its output as if only the sink read it."""
        return self._sum(self._missing(operator, site), self._towards_sink(operator, site))

    def _missing(self, operator: QueryOperator, site: str) -> dict[SiteLink, float]:
        """Bytes/s of the copies an operator at a site needs and that are not sent yet."""
        loads: dict[SiteLink, float] = {}
        for name in operator.inputs:
            fingerprint, start = origin(self.workload, self.query, name, self.sites)
            link = (start, site)
            if start != site and (fingerprint, link) not in self.held:
                loads[link] = loads.get(link, 0.0) + bytes_of(self.workload, self.query, name)
        return loads

    def _towards_sink(self, operator: QueryOperator, site: str) -> dict[SiteLink, float]:
        sink = self.query.sink.pinned
        link = (site, sink or site)
        if site == sink or (operator.fingerprint, link) in self.running.copies:
            return {}
        return {link: operator.bytes_per_s}

    def _count_saved(self, operator: QueryOperator, site: str) -> float:
        """Bytes/s of inputs that are already sent to a site."""
        held = 0.0
        for name in operator.inputs:
            fingerprint, start = origin(self.workload, self.query, name, self.sites)
            if (fingerprint, (start, site)) in self.held:
                held += bytes_of(self.workload, self.query, name)
        return held

    def _hourglass(self, operator: QueryOperator, site: str) -> float:
        loads = self._adds(operator, site)
        weight = 0.0
        for link, amount in loads.items():
            free = self.network.bandwidth[link] - self._count_taken(link)
            weight += amount * self.network.latency[link] ** 2 / free if free > amount else float("inf")
        return weight

    def _latency(self, operator: QueryOperator, site: str) -> float:
        """Seconds from the streams through an operator at a site to the sink, over links alone."""
        return self._arrival(operator.id, {**self.sites, operator.id: site}) + self._to_sink(site)

    def _arrival(self, name: str, sites: Mapping[str, str]) -> float:
        if name in self.workload.streams:
            return 0.0
        inputs = operator_of(self.query, name).inputs
        starts = {one: origin(self.workload, self.query, one, sites)[1] for one in inputs}
        return max(self._hop(start, sites[name]) + self._arrival(one, sites) for one, start in starts.items())

    def _shared_latency(self, operator: QueryOperator, site: str) -> float:
        return self._running_arrival(operator.fingerprint, site) + self._to_sink(site)

    def _running_arrival(self, fingerprint: str, site: str) -> float:
        read = self.running.inputs.get((fingerprint, site), {})
        hops = (self._hop(start, site) + self._running_arrival(name, start) for name, start in read.items())
        return max(hops, default=0.0)

    def _to_sink(self, site: str) -> float:
        return self._hop(site, self.query.sink.pinned or site)

    def _hop(self, start: str, end: str) -> float:
        return 0.0 if start == end else self.network.latency[start, end]

    def _fits(self, loads: Mapping[SiteLink, float]) -> bool:
        return all(
            self._count_taken(link) + amount <= (1 - HEADROOM) * self.network.bandwidth[link]
            for link, amount in loads.items()
        )

    def _worst_load(self, loads: Mapping[SiteLink, float]) -> float:
        return max(
            ((self._count_taken(link) + amount) / self.network.bandwidth[link] for link, amount in loads.items()),
            default=0.0,
        )

    def _count_taken(self, link: SiteLink) -> float:
        return self.running.used.get(link, 0.0) + self.reserved.get(link, 0.0)

    @staticmethod
    def _total(loads: Mapping[SiteLink, float]) -> float:
        return sum(loads.values())

    @staticmethod
    def _sum(left: Mapping[SiteLink, float], right: Mapping[SiteLink, float]) -> dict[SiteLink, float]:
        return {link: left.get(link, 0.0) + right.get(link, 0.0) for link in {**left, **right}}
