"""What is planned for a feed: how many pairs are stored ahead, what that takes, and at which prices.

A feed is one vertex of the plan. The decisions about its pairs are rows of a relation, not vertices of their own; what
is here are sums and means over all pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlannedPrices:
    """Seconds of a core, unless they say otherwise. `calibrated` is whether they were measured on the running feed.

    `store_s` (H) is for one event in one consumer's feed, `fetch_s` (L) for one producer that a read pulls, `batch_s`
    (L0) for pulling at all, `read_s` and `event_s` for a read and an event however it is served. `page_s` is how long
    a page takes of which everything is stored ahead, `pull_s` how much longer it takes for each producer pulled.
    `engine_s` is the part of `store_s` that an entry takes in the engine.
    """

    store_s: float
    fetch_s: float
    batch_s: float
    read_s: float
    event_s: float
    page_s: float
    pull_s: float
    calibrated: bool = False
    engine_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FeedStatistics:
    """Who follows whom, and how often things happen, over all consumers and producers.

    `events` are there, `events_s` come per second; `reads_s` pages are read per second, None if nobody knows. Widths
    are bytes of one event, and of the names of one pair.
    """

    pairs: float
    consumers: float
    producers: float
    events: float
    events_s: float
    reads_s: float | None
    event_width: float
    pair_width: float

    @property
    def follows(self) -> float:
        """Producers that a consumer follows, on average."""
        return self.pairs / self.consumers

    @property
    def followers(self) -> float:
        return self.pairs / self.producers


@dataclass(frozen=True, slots=True)
class FeedPlan:
    """A feed in the plan, as the vertex `vertex` at `site`.

    `ahead` is the share of its pairs that is planned to be stored ahead: `entries_s` entries are stored per second, and
    a read pulls `pulls` producers. `cpu` are cores at sites, `link` bytes per second by link (from, to) and `disk`
    bytes at sites, of everything that serves the feed, its store included if that is ours; `store_cpu` and
    `store_bytes` are those of the store, wherever it is. One that is refused has a `reason`, as contracts have, or
    `latency`, and says in `detail` what could be kept instead; `smallest_staleness_s` is a freshness that could.
    `goes_on` is whether the feed runs on as it was, although what is declared of it now is refused.
    """

    feed: str
    site: str
    vertex: str
    contracts: tuple[str, ...]
    statistics: FeedStatistics
    prices: PlannedPrices
    ahead: float
    entries_s: float
    pulls: float
    page_s: float
    store_cpu: float
    store_bytes: float
    cpu: Mapping[str, float]
    link: Mapping[tuple[str, str], float]
    disk: Mapping[str, float]
    reason: str | None = None
    detail: str = ""
    smallest_staleness_s: float | None = None
    goes_on: bool = False
