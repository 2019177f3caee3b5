"""What was measured while a project ran, and still counts for its files: as long as they declare what they did."""

from __future__ import annotations

from dataclasses import replace

from headrace.model.catalogue import Catalogue, Source


def carry_measured(catalogue: Catalogue, running: Catalogue) -> Catalogue:
    """What was measured of sources and of filters that are declared as they were, and of waiting."""
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
    return replace(catalogue, sources=sources, selectivity=(*catalogue.selectivity, *carried), headroom=headroom)


def _filters_of(catalogue: Catalogue, source: str) -> frozenset[tuple[str, float]]:
    """What is declared of a source's filters."""
    return frozenset(
        (one.text, one.share) for one in catalogue.selectivity if one.source == source and not one.measured
    )


def _as_it_was(source: Source, before: Source | None) -> Source:
    if before is None or before.rate != source.rate or source.measured_rate is not None:
        return source
    return replace(source, measured_rate=before.measured_rate)
