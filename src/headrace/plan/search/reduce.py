"""What the search need not look at: capacities that no plan could exhaust, and idle sites that are like another.

Both leave the answer as it is. A capacity matters only if the most that any plan could use of it is more than is
left. Of sites that are equal in everything and that nothing ties to the view, one stands for all: moving the whole
plan's work from two of them to one only saves copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.model.block import Aggregation
from headrace.model.catalogue import Catalogue
from headrace.model.plan import Operator
from headrace.model.rate import Rate
from headrace.plan.outputs import block_facts
from headrace.plan.price import Tariff
from headrace.plan.search.terrain import Resource
from headrace.plan.statistics import DELTA_EXTRA_WIDTH, Core

COPIES_OF_PARTS = 2
"""The two terms of a join are each copied at most once."""


@dataclass(frozen=True, slots=True)
class Most:
    """The most that any plan can use: core seconds per push (at speed 1), bytes on one disk, bytes per second over
    one link.
    """

    work_s: float
    disk: float
    sent: float

    def __add__(self, other: Most) -> Most:
        return Most(self.work_s + other.work_s, self.disk + other.disk, self.sent + other.sent)

    def or_more(self, other: Most) -> Most:
        return Most(max(self.work_s, other.work_s), max(self.disk, other.disk), max(self.sent, other.sent))


class Extremes:
    """Bounds on what any plan of a view uses at one site or link."""

    def __init__(self, tariff: Tariff, batch_s: float, freshness_s: float) -> None:
        self._times, self._batch_s, self._freshness_s = tariff.times, batch_s, freshness_s

    def of_view(self, cores: Sequence[Core]) -> Most:
        total = Most(0.0, 0.0, 0.0)
        for core in cores:
            total += self._of_core(core) + self._of_top(core)
        return total

    def _of_core(self, core: Core) -> Most:
        found = {bit: self._of_input(core, bit) for bit in core.bits(core.everything)}
        if not core.is_joined:
            return sum(found.values(), Most(0.0, 0.0, 0.0))
        for subset in core.sub_joins:
            below = Most(0.0, 0.0, 0.0)
            for left, right in core.splits(subset):
                below = below.or_more(found[left] + found[right])
            found[subset] = below + self._of_join(core, subset)
        return found[core.everything]

    def _of_input(self, core: Core, bit: int) -> Most:
        facts = core.input_of(bit).facts
        work = self._work(Operator.CAPTURE, Rate(), facts.rate)
        work += self._work(Operator.COPY, facts.rate, facts.rate) + self._work(Operator.APPLY, facts.rate, Rate())
        return self._stored(work, facts.rows, facts.width, facts.rate, logs=1)

    def _of_join(self, core: Core, subset: int) -> Most:
        rate = core.rate(subset, subset)
        changes = Rate()
        for bit in core.bits(subset):
            changes += core.input_of(bit).facts.rate
        for inner in core.sub_joins:
            if inner & subset == inner != subset:
                changes += core.rate(inner, inner)
        work = 2 * self._work(Operator.JOIN, changes, rate) + self._work(Operator.UNION, rate, rate)
        work += COPIES_OF_PARTS * self._work(Operator.COPY, rate, rate) + self._work(Operator.COPY, rate, rate)
        work += self._work(Operator.APPLY, rate, Rate())
        return self._stored(work, core.card(subset), core.width(subset), rate, logs=3)

    def _of_top(self, core: Core) -> Most:
        if core.block.top is None:
            return Most(0.0, 0.0, 0.0)
        made = block_facts(core)
        read = core.rate(core.everything, core.everything) if core.is_joined else Rate()
        for input_ in core.inputs:
            read += input_.facts.rate
        op = Operator.AGGREGATE if isinstance(core.block.top, Aggregation) else Operator.DERIVE
        rate = made.rate + made.rate
        work = 4 * self._work(op, read + rate, rate) + 3 * self._work(Operator.COPY, rate, rate)
        work += self._work(Operator.UNION, rate, rate) + self._work(Operator.APPLY, rate, Rate())
        return self._stored(work, made.rows, 2 * sum(made.widths.values()) + DELTA_EXTRA_WIDTH, rate, logs=6)

    def _work(self, op: Operator, rate_in: Rate, rate_out: Rate) -> float:
        time, x = self._times[op], self._batch_s
        return time.fixed + (time.per_in * rate_in.at(x) + time.per_out * rate_out.at(x)) * x

    def _stored(self, work: float, rows: float, width: float, rate: Rate, logs: int) -> Most:
        changed = rate.at(self._batch_s) * (width + DELTA_EXTRA_WIDTH)
        return Most(work, rows * width + logs * changed * 2 * self._freshness_s, changed)


def scarce(
    resources: Iterable[Resource], cores: Sequence[Core], tariff: Tariff, batch_s: float, freshness_s: float
) -> tuple[Resource, ...]:
    """The resources that some plan could exhaust."""
    most = Extremes(tariff, batch_s, freshness_s).of_view(cores)

    def could_run_out(resource: Resource) -> bool:
        if resource.cpu_of:
            slowest = min(tariff.sites[site].speed for site in resource.cpu_of)
            return most.work_s * len(resource.cpu_of) / slowest / batch_s > resource.left
        return (most.disk if resource.disk_of is not None else most.sent) > resource.left

    return tuple(resource for resource in resources if could_run_out(resource))


def sites_to_search(
    catalogue: Catalogue, cores: Sequence[Core], target: str, occupied: Iterable[str], resources: Sequence[Resource]
) -> tuple[str, ...]:
    """All sites that can make a difference; of idle sites that are alike, the first by name."""
    homes = {input_.facts.home for core in cores for input_ in core.inputs}
    limited = {site for resource in resources for site in (*resource.cpu_of, resource.disk_of, *(resource.link or ()))}
    busy = homes | limited | {target, *occupied}
    kept: list[str] = []
    for site in sorted(catalogue.sites):
        if site in busy or not any(other not in busy and _alike(catalogue, cores, site, other) for other in kept):
            kept.append(site)
    return tuple(kept)


def _alike(catalogue: Catalogue, cores: Sequence[Core], a: str, b: str) -> bool:
    """Whether exchanging two sites changes nothing."""
    first, second = catalogue.sites[a], catalogue.sites[b]
    same = (first.cpu_price_h, first.disk_price_gb_month, first.speed) == (
        second.cpu_price_h,
        second.disk_price_gb_month,
        second.speed,
    )
    stays = [stays for core in cores for input_ in core.inputs for stays in input_.facts.stays.values()]
    return same and all((a in s.sites) == (b in s.sites) for s in stays) and _exchanged(catalogue, a, b)


def _exchanged(catalogue: Catalogue, a: str, b: str) -> bool:
    terms = {(link.src, link.dst): (link.bandwidth, link.latency_s, link.price_gb) for link in catalogue.links}
    swap = {a: b, b: a}
    return all(
        terms.get((swap.get(src, src), swap.get(dst, dst))) == value
        for (src, dst), value in terms.items()
        if {src, dst} & {a, b}
    )
