"""What a site knows of its links: of those that lead here how fast they are, of those to others what waits for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.catalogue import Link
from headrace.model.link_counts import LinkCounts
from headrace.observe.links import measure_rates
from headrace.run.push.simulated_links import Ends, LinkQueue

SLOWEST = 1.0
"""Bytes/s that a link is taken for over which nothing has come yet."""


@dataclass(frozen=True, slots=True)
class LinkState:
    """`silent_since` is when the other site was heard last, seconds since 1970; None while it answers.

    `behind_s` is how old what has come over it is, of all that is wanted from there.
    """

    bytes_s: float = 0.0
    capacity_bytes_s: float | None = None
    declared_bytes_s: float | None = None
    waiting_bytes: int = 0
    behind_s: float = 0.0
    round_trip_s: float | None = None
    silent_since: float | None = None

    @property
    def queue(self) -> LinkQueue:
        """What is on its way, and when the last of it is there if nothing changes."""
        rate = self.capacity_bytes_s or self.bytes_s or self.declared_bytes_s or SLOWEST
        return LinkQueue(self.waiting_bytes, self.waiting_bytes / rate)


def describe_arriving(
    counts: LinkCounts,
    behind_s: float,
    silent_since: float | None,
    declared_bytes_s: float | None,
    probed_bytes_s: float | None = None,
) -> LinkState:
    """`probed_bytes_s` is what a probe has found within the last minute."""
    rates = measure_rates(counts.counts, counts.round_trip_s)
    return LinkState(
        rates.bytes_s,
        probed_bytes_s if rates.capacity_bytes_s is None else rates.capacity_bytes_s,
        declared_bytes_s,
        counts.waiting_bytes,
        behind_s,
        counts.round_trip_s,
        silent_since,
    )


def find_declared(links: Iterable[Link]) -> Mapping[Ends, float | None]:
    return {(link.src, link.dst): link.bandwidth for link in links}
