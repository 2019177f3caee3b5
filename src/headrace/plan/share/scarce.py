"""Where links are too narrow for all contracts, those who can do without a link leave it to those who cannot.

Contracts are planned one after the other, each at its least cost, so one that came early may fill a link for a small
saving, and a later one that has no other way is refused. Links for which somebody was refused are then made dearer for
all, and everything is planned once more: as for the queries of a wide area (decision 0005), but with the whole search
of plans. What comes out is judged at the prices that are declared, and kept if fewer contracts are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.model.catalogue import Catalogue, Link
from headrace.plan.share.arrangement import Arrangement

ROUNDS = 4
DEARER = 16.0
LEAST_PRICE_GB = 0.01
"""$/GB of a scarce link that is declared to cost nothing, the first time."""
LINK = "link:"

Arrange = Callable[[Catalogue], Arrangement]
"""Plans everything for a catalogue, from nothing."""


def spare_scarce_links(now: Arrangement, arrange: Arrange) -> Arrangement:
    """The arrangement, or one that refuses fewer contracts because others leave scarce links alone."""
    declared, dearer = now.catalogue, dict[str, float]()
    best = tried = now
    for _ in range(ROUNDS):
        scarce = find_scarce(tried)
        if not scarce:
            break
        dearer = {**dearer, **{name: dearer.get(name, 1.0) * DEARER for name in scarce}}
        links = tuple(_make_dearer(link, dearer.get(f"{link.src}>{link.dst}", 1.0)) for link in declared.links)
        tried = arrange(replace(declared, links=links))
        then = replace(tried, catalogue=replace(tried.catalogue, links=declared.links))
        best = then if len(then.rejected) < len(best.rejected) else best
    return best


def find_scarce(now: Arrangement) -> frozenset[str]:
    """Links that had no room for a contract which was refused, as `a>b`."""
    return frozenset(one.reason.removeprefix(LINK) for one in now.rejected if one.reason.startswith(LINK))


def _make_dearer(link: Link, factor: float) -> Link:
    return link if factor == 1.0 else replace(link, price_gb=max(link.price_gb, LEAST_PRICE_GB) * factor)
