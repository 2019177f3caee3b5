"""Decides, for sites that run elsewhere, at which of them a view is compared with its query, and what that site is
given for it.

Rows of a source may be where its `stays` lets them be, and comparing takes the rows of all sources that a view reads.
Where these may be, the rows of the view may be as well, since they are made of them. So a view is compared at its own
site if that may hold all rows, and otherwise at another one, which then gets the rows of the view too. Every site
decides this for itself, from the same catalogue, and gives nothing that it would not have asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.coordinate.compare.moment import query_of
from headrace.coordinate.compare.sources import columns_read, sources_of
from headrace.model.catalogue import Catalogue, Stays
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan
from headrace.run.source_port import Columns

MAY_NOT = 'rows of source "{}" may not be at site "{}": see `stays` in docs/sites.md'


@dataclass(frozen=True, slots=True, order=True)
class GivenRows:
    """What a site is given for a comparison: rows of a source, or of a contract's view."""

    site: str
    source: str | None = None
    contract: str | None = None

    @property
    def name(self) -> str:
        """What its rows are asked for by."""
        return f"source {self.source}" if self.source is not None else f"contract {self.contract}"


def choose_site(catalogue: Catalogue, contract: ContractPlan) -> str | None:
    """Where a view is compared with its query; None if no site may hold all rows that takes.

    At its own site if possible, else where most of its sources are; the first name if several are equal.
    """
    read = [catalogue.sources[name] for name in sorted(sources_of(query_of(catalogue, contract.view)))]
    allowed = [site for site in sorted(catalogue.sites) if all(may_be_at(one.stays, site) for one in read)]
    if contract.site in allowed:
        return contract.site
    return min(allowed, key=lambda site: -sum(one.site == site for one in read), default=None)


def may_be_at(stays: Stays | None, site: str) -> bool:
    """Whether rows of a source may be at a site, not only what is aggregated of them."""
    return stays is None or site in stays.sites


def say_nowhere(catalogue: Catalogue, contract: ContractPlan) -> str:
    """Why no site can compare a view."""
    names = sorted(sources_of(query_of(catalogue, contract.view)))
    bound = [(name, stays.sites) for name in names if (stays := catalogue.sources[name].stays) is not None]
    stay = "; ".join(f'those of "{name}" at {", ".join(sites)}' for name, sites in bound)
    return f"no site may hold all rows of its sources: {stay} (`stays`)"


def find_given(catalogue: Catalogue, contracts: Iterable[ContractPlan], giver: str) -> tuple[GivenRows, ...]:
    """What a site gives to others, sorted."""
    found = set()
    for one in contracts:
        site = choose_site(catalogue, one)
        if site is None:
            continue
        if site != giver and one.site == giver:
            found.add(GivenRows(site, contract=one.contract))
        if site != giver:
            sources = sources_of(query_of(catalogue, one.view))
            found |= {GivenRows(site, source=name) for name in sources if catalogue.sources[name].site == giver}
    return tuple(sorted(found, key=lambda one: (one.site, one.name)))


def find_columns(catalogue: Catalogue, contracts: Iterable[ContractPlan], site: str) -> Mapping[str, Columns]:
    """The columns of sources that the queries scan which a site evaluates: it is given no others."""
    views = sorted({one.view for one in contracts if choose_site(catalogue, one) == site})
    return columns_read(catalogue.sources, [query_of(catalogue, view) for view in views])


def name_views(contracts: Iterable[ContractPlan]) -> Mapping[str, str]:
    return {one.contract: name_of_view(one.view) for one in contracts}
