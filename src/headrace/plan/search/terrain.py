"""Where one contract is planned: the sites that matter, what they have left, what lives there already, and the
contract's batch.

Everything is an array over sites, so that the search adds up many plans at once. What a step uses is a vector:
dollars per second first, then the resources that some plan could exhaust (others need no watching).

A vertex that lives already is not made again: it stands at its own arrival time, and using it costs only the work and
retention that it adds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace.model.catalogue import OperatorTime
from headrace.model.plan import Operator
from headrace.model.rate import Rate
from headrace.plan.datasets import Dataset
from headrace.plan.price import Tariff

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Resource:
    """Something that may run out: cores of sites (one, or those of a host), the disk of a site, or a link.

    `left` is what nobody uses yet.
    """

    name: str
    left: float
    cpu_of: tuple[str, ...] = ()
    disk_of: str | None = None
    link: tuple[str, str] | None = None

    def part_of(self, use: Mapping[str, float]) -> float:
        """How much of this resource is in uses that are named `cpu:SITE`, `disk:SITE` and `link:a>b`."""
        names = [f"cpu:{site}" for site in self.cpu_of]
        names += [] if self.disk_of is None else [f"disk:{self.disk_of}"]
        names += [] if self.link is None else [f"link:{self.link[0]}>{self.link[1]}"]
        return sum(use.get(name, 0.0) for name in names)


@dataclass(frozen=True, slots=True)
class StandingVertex:
    """A live vertex as a new contract sees it: its arrival at the contract's batch, and what using it adds to
    resources and cost.
    """

    arrival_s: float
    added_cost: float = 0.0
    added_use: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OperatorAtSites:
    """An operator at every site (or a copy from every site to every other): seconds, and what it uses. Impossible
    ones take forever.

    `standing` is the arrival of the output where it lives already (NaN where it does not) and `revival` what using it
    there adds.
    """

    time: Floats
    use: Floats
    standing: Floats
    revival: Floats


@dataclass(frozen=True, slots=True)
class CapturedSource:
    """A source's changes at its home: when they are there, how busy that keeps the site, and what it uses."""

    home: int
    arrival_s: float
    busy: float
    use: Floats


class Terrain:
    def __init__(
        self,
        tariff: Tariff,
        sites: Sequence[str],
        batch_s: float,
        freshness_s: float,
        resources: Sequence[Resource] = (),
        live: Mapping[str, StandingVertex] | None = None,
        salt: str = "",
        free: bool = False,
        unlogged: Collection[str] = (),
    ) -> None:
        """Prepares costs of operators. On a `free` terrain nothing costs anything, so that only time and capacities
        count. `unlogged` relations live without their own changes beside them.
        """
        self.tariff, self.sites, self.batch_s, self.freshness_s = tariff, tuple(sites), batch_s, freshness_s
        self.resources, self.live, self.salt = tuple(resources), live or {}, salt
        self.index = {site: number for number, site in enumerate(self.sites)}
        self.left = np.array([np.inf, *(resource.left for resource in self.resources)])
        self._speed = np.array([tariff.sites[site].speed for site in self.sites])
        self._core_price = np.array([tariff.core_price(site) for site in self.sites])
        self._storage_price = np.array([tariff.storage_price(site) for site in self.sites])
        self._latency, self._slowness, self._byte_price = self._links()
        self.free, self.unlogged = free, frozenset(unlogged)

    @property
    def size(self) -> int:
        return len(self.sites)

    @property
    def width(self) -> int:
        """Length of a vector of uses."""
        return 1 + len(self.resources)

    def _links(self) -> tuple[Floats, Floats, Floats]:
        """Latency, seconds per byte and price per byte from every site to every other; no link takes forever."""
        latency = np.full((self.size, self.size), np.inf)
        slowness, price = np.zeros_like(latency), np.zeros_like(latency)
        for (src, dst), link in self.tariff.links.items():
            if src in self.index and dst in self.index and src != dst:
                ends = self.index[src], self.index[dst]
                latency[ends] = link.latency_s
                slowness[ends] = self.tariff.byte_s(src, dst)
                price[ends] = self.tariff.byte_price(src, dst)
        np.fill_diagonal(latency, 0.0)
        return latency, slowness, price

    def run(self, op: Operator, made: Dataset, rate_in: Rate) -> OperatorAtSites:
        """An operator that makes a delta, at every site."""
        work = self._work(op, rate_in, made.rate)
        kept = made.rate.at(self.batch_s) * 2 * self.freshness_s * made.delta_width
        return self._steps(work, work, np.full(self.size, kept), made, "d")

    def recompute(self, made: Dataset, rows_in: float) -> OperatorAtSites:
        """All rows of a view from all rows of its inputs, at every site; its changes are kept."""
        work = self._work_s(self.tariff.recomputing, rows_in, made.rows)
        kept = made.rate.at(self.batch_s) * 2 * self.freshness_s * made.delta_width
        return self._steps(work, work, np.full(self.size, kept), made, "d")

    def capture(self, whole: Dataset) -> CapturedSource:
        """The changes of a source at its home: base vertices take no disk of ours."""
        assert whole.home is not None
        home = self.index[whole.home]
        steps = self.run(Operator.CAPTURE, whole, Rate())
        if not np.isnan(steps.standing[home]):
            return CapturedSource(home, float(steps.standing[home]), 0.0, steps.revival[home])
        work = self._work(Operator.CAPTURE, Rate(), whole.rate)
        use = self._steps(work, work, np.zeros(self.size), whole, "d").use
        return CapturedSource(home, float(work[home]), float(work[home]) / self.batch_s, use[home])

    def more_input(self, op: Operator, less: Rate, more: Rate) -> tuple[Floats, Floats]:
        """Seconds that an operator takes longer at every site because it reads more, and what it uses more."""
        lag = self._work(op, more, Rate()) - self._work(op, less, Rate())
        return lag, self._uses(lag, np.zeros(self.size))

    def apply(self, made: Dataset, rate_in: Rate) -> OperatorAtSites:
        """The relation of a dataset from its delta, at every site."""
        work = self._work(Operator.APPLY, rate_in, Rate())
        return self._steps(work, work, np.full(self.size, made.rows * made.width), made, "r")

    def copy(self, made: Dataset, rate_in: Rate) -> OperatorAtSites:
        """A delta from every site to every other; staying takes no time."""
        work = self._work(Operator.COPY, rate_in, made.rate)
        sent = made.rate.at(self.batch_s) * made.delta_width
        time = work[None, :] + self._latency + sent * self.batch_s * self._slowness
        return self._steps(time, work, np.full(self.size, sent * 2 * self.freshness_s), made, "d", sent)

    def _work(self, op: Operator, rate_in: Rate, rate_out: Rate) -> Floats:
        rows_in, rows_out = rate_in.at(self.batch_s) * self.batch_s, rate_out.at(self.batch_s) * self.batch_s
        return self._work_s(self.tariff.times[op], rows_in, rows_out)

    def _work_s(self, time: OperatorTime, rows_in: float, rows_out: float) -> Floats:
        work: Floats = (time.fixed + time.per_in * rows_in + time.per_out * rows_out) / self._speed
        return work

    def _steps(
        self, time: Floats, work: Floats, disk: Floats, made: Dataset, kind: str, sent: float | None = None
    ) -> OperatorAtSites:
        use = self._uses(work, disk, sent)
        time = np.where(self._find_allowed_sites(made), time, np.inf)
        if sent is not None:
            diagonal = np.arange(self.size)
            time[diagonal, diagonal] = 0.0
            use[diagonal, diagonal] = 0.0
        return OperatorAtSites(time, use, *self._standing(made, kind))

    def _uses(self, work: Floats, disk: Floats, sent: float | None = None) -> Floats:
        """Cost and scarce resources of work and disk at every site; with something sent, from every site to every
        other.
        """
        cores = work / self.batch_s
        use = np.zeros((*((self.size,) * (1 if sent is None else 2)), self.width))
        use[..., 0] = cores * self._core_price + disk * self._storage_price
        if sent is not None:
            use[..., 0] += sent * self._byte_price
        if self.free:
            use[..., 0] = 0.0
        for number, resource in enumerate(self.resources, start=1):
            self._count_use(use[..., number], resource, cores, disk, sent)
        return use

    def _count_use(self, use: Floats, resource: Resource, cores: Floats, disk: Floats, sent: float | None) -> None:
        for site in resource.cpu_of:
            if site in self.index:
                use[..., self.index[site]] += cores[self.index[site]]
        if resource.disk_of in self.index:
            use[..., self.index[resource.disk_of]] += disk[self.index[resource.disk_of]]
        if resource.link is not None and sent is not None and set(resource.link) <= set(self.index):
            use[self.index[resource.link[0]], self.index[resource.link[1]]] += sent

    def _find_allowed_sites(self, made: Dataset) -> npt.NDArray[np.bool_]:
        return np.array([made.may_be_at(site) for site in self.sites])

    def _standing(self, made: Dataset, kind: str) -> tuple[Floats, Floats]:
        standing, revival = np.full(self.size, np.nan), np.zeros((self.size, self.width))
        if not self.live:
            return standing, revival
        for number, site in enumerate(self.sites):
            vertex = made.relation_at(site, self.salt) if kind == "r" else made.delta_at(site, self.salt)
            found = self.live.get(vertex.id)
            if found is not None:
                standing[number] = found.arrival_s
                revival[number] = [
                    0.0 if self.free else found.added_cost,
                    *(resource.part_of(found.added_use) for resource in self.resources),
                ]
        return standing, revival
