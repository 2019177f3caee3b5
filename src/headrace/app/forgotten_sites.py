"""A project without sites that are gone for good: their contracts and feeds end, and those that read their sources."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from headrace.app.project import everything_read
from headrace.model.catalogue import Catalogue


def leave_out_sites(declared: Catalogue, gone: Collection[str]) -> Catalogue:
    """What is left of a project. The files stay as they are: a site that joins again brings back what was left out."""
    if not gone:
        return declared
    sources = {name: one for name, one in declared.sources.items() if one.site not in gone}
    lost = declared.sources.keys() - sources.keys()
    contracts = {
        name: one
        for name, one in declared.contracts.items()
        if one.site not in gone and lost.isdisjoint(everything_read(declared, one.view))
    }
    views = {name: one for name, one in declared.views.items() if lost.isdisjoint(everything_read(declared, name))}
    feeds = {
        name: one
        for name, one in declared.feeds.items()
        if one.site not in gone
        and lost.isdisjoint(
            everything_read(declared, one.events.source) | everything_read(declared, one.follows.source)
        )
    }
    sites = {name: one for name, one in declared.sites.items() if name not in gone}
    links = tuple(one for one in declared.links if one.src not in gone and one.dst not in gone)
    return replace(declared, sites=sites, links=links, sources=sources, views=views, contracts=contracts, feeds=feeds)
