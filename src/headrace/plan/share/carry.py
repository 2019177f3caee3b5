"""What was measured while a project ran, and still counts for its files: as long as they declare what they did."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.catalogue import Catalogue, MeasuredSize, Source
from headrace.model.plan import Plan
from headrace.plan.sizes import declared_distinct, with_sizes, without_declared


def carry_measured(catalogue: Catalogue, running: Catalogue) -> Catalogue:
    """What was measured of sources, filters and results that are declared as they were, of waiting, and of
    operators if nothing is declared of these.
    """
    sources = {name: _as_it_was(source, running.sources.get(name)) for name, source in catalogue.sources.items()}
    filters = (
        one
        for one in running.selectivity
        if one.measured and _filters_of(catalogue, one.source) == _filters_of(running, one.source)
    )
    known = {(one.source, one.text) for one in catalogue.selectivity if one.measured}
    carried = (one for one in filters if one.source in sources and (one.source, one.text) not in known)
    headroom = catalogue.headroom
    if headroom.blocking_s is None or headroom.measured:
        headroom = replace(headroom, blocking_s=running.headroom.blocking_s, measured=True)
    catalogue = replace(catalogue, sources=sources, selectivity=(*catalogue.selectivity, *carried), headroom=headroom)
    catalogue = _carry_links(catalogue, running)
    catalogue = _carry_times(catalogue, running)
    return replace(catalogue, sizes={**_sizes(catalogue, running), **catalogue.sizes})


def carry_undeclared(catalogue: Catalogue, running: Plan) -> Catalogue:
    """Measurements for values that the files do not declare."""
    sources = {
        name: _as_it_was(source, running.catalogue.sources.get(name)) if source.rate is None else source
        for name, source in catalogue.sources.items()
    }
    sizes = _sizes(catalogue, running.catalogue)
    undeclared = without_declared(sizes, (entry.block for entry in running.blocks), catalogue.sources)
    carried = _carry_links(replace(catalogue, sources=sources), running.catalogue)
    return with_sizes(_carry_times(carried, running.catalogue), undeclared)


def _carry_links(catalogue: Catalogue, running: Catalogue) -> Catalogue:
    """What links were found to carry, unless something else is declared of them by now."""
    before = {(link.src, link.dst): link for link in running.links}
    links = tuple(
        replace(link, measured=was.measured)
        if (was := before.get((link.src, link.dst))) is not None and was.bandwidth == link.bandwidth
        else link
        for link in catalogue.links
    )
    return replace(catalogue, links=links)


def _carry_times(catalogue: Catalogue, running: Catalogue) -> Catalogue:
    if catalogue.operator_times_declared or running.operator_times_declared:
        return catalogue
    return replace(catalogue, operator_times=running.operator_times)


def _sizes(catalogue: Catalogue, running: Catalogue) -> dict[str, MeasuredSize]:
    """Results of sources of which the files declare as many distinct values as they did."""
    same = {
        name
        for name, source in catalogue.sources.items()
        if name in running.sources and declared_distinct(source) == declared_distinct(running.sources[name])
    }
    return {name: size for name, size in running.sizes.items() if size.sources.keys() <= same}


def _filters_of(catalogue: Catalogue, source: str) -> frozenset[tuple[str, float]]:
    """What is declared of a source's filters."""
    return frozenset(
        (one.text, one.share) for one in catalogue.selectivity if one.source == source and not one.measured
    )


def _as_it_was(source: Source, before: Source | None) -> Source:
    if before is None or before.rate != source.rate or source.measured_rate is not None:
        return source
    return replace(source, measured_rate=before.measured_rate)
