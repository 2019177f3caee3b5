"""The sites that the search looks at. Of idle sites that are alike, one stands for all.

That leaves the answer as it is: moving all work from two sites that are equal in everything, and that nothing ties to
the view, to one of them only saves copies. Sites whose capacity is watched are all looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.model.catalogue import Catalogue
from headrace.plan.search.terrain import Resource
from headrace.plan.statistics import CoreStatistics


def sites_to_search(
    catalogue: Catalogue,
    cores: Sequence[CoreStatistics],
    target: str,
    occupied: Iterable[str],
    resources: Sequence[Resource],
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


def _alike(catalogue: Catalogue, cores: Sequence[CoreStatistics], a: str, b: str) -> bool:
    """Whether exchanging two sites changes nothing."""
    first, second = catalogue.sites[a], catalogue.sites[b]
    same = (first.cpu_price_h, first.disk_price_gb_month, first.speed) == (
        second.cpu_price_h,
        second.disk_price_gb_month,
        second.speed,
    )
    stays = [stays for core in cores for input_ in core.inputs for stays in input_.facts.stays.values()]
    return same and all((a in s.sites) == (b in s.sites) for s in stays) and _may_exchange(catalogue, a, b)


def _may_exchange(catalogue: Catalogue, a: str, b: str) -> bool:
    terms = {(link.src, link.dst): (link.carries, link.latency_s, link.price_gb) for link in catalogue.links}
    swap = {a: b, b: a}
    return all(
        terms.get((swap.get(src, src), swap.get(dst, dst))) == value
        for (src, dst), value in terms.items()
        if {src, dst} & {a, b}
    )
