"""Answers to "why" and "what if": a decision with its numbers, as values to show.

Times are seconds, costs dollars per second.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from headrace.model.feed_plan import FeedPlan, PlannedPrices
from headrace.model.plan import ContractPlan, Edge, Rejection, Vertex
from headrace.model.template_plan import TemplatePlan


@dataclass(frozen=True, slots=True)
class PathVertex:
    """One vertex of a critical path: how long its producer takes and when it is there, at the contract's batch."""

    vertex: str
    op: str | None
    site: str
    time_s: float
    arrives_s: float


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another plan for the same contract; `why_not` says what would be wrong with it, None if only its cost."""

    name: str
    cost: float
    path_s: float
    states: tuple[str, ...]
    why_not: str | None


@dataclass(frozen=True, slots=True)
class OtherWay:
    """The way to refresh a view that a contract which leaves the choice did not get: maintained if it is `in_full`, and
    else in full. It would have this `cost` and path, or is not possible (`why_not`). The sources change `rate` rows per
    second; at `wins_at` the other way would be the cheaper one, None if at no rate.
    """

    in_full: bool
    rate: float
    cost: float | None = None
    path_s: float | None = None
    wins_at: float | None = None
    why_not: str | None = None


@dataclass(frozen=True, slots=True)
class WhyContract:
    """A contract that is kept. `states` are the relations that its joins read, `shared` what others use as well."""

    plan: ContractPlan
    limit_s: float
    steps: tuple[PathVertex, ...]
    states: tuple[str, ...]
    shared: tuple[str, ...]
    others: int
    alternatives: tuple[Alternative, ...]
    other_way: OtherWay | None = None


@dataclass(frozen=True, slots=True)
class WhyRejected:
    """A contract that is refused, with what the fastest plan would look like."""

    rejection: Rejection
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class WhyVertex:
    """A vertex: its producer, its readers, and what keeping it costs ($/s)."""

    vertex: Vertex
    producer: Edge | None
    readers: tuple[str, ...]
    serves: tuple[str, ...]
    rate: float
    arrival_s: float
    cost: float


@dataclass(frozen=True, slots=True)
class WhyFeed:
    """A feed, kept or refused. `path_s` is how long changes are on their way to what is stored ahead, of `limit_s`;
    None if it is refused. `wanted` is the share of pairs that cost alone would store ahead, `least` the share that the
    latency targets ask for.
    """

    plan: FeedPlan
    freshness_s: float
    path_s: float | None
    limit_s: float | None
    money: float
    wanted: float
    least: float


@dataclass(frozen=True, slots=True)
class PairRates:
    """How often a producer posts and a consumer reads, per second. Those of a pair that runs are `measured`; else they
    are means over all. `stored_ahead` is what was decided while the feed ran, None if it does not run; `since_s` is
    since when (seconds since 1970), None if that is not known. From the score `threshold` (tau) on, pairs are stored
    ahead for latency; a producer that is `is_shed` is read because the store was late.
    """

    events_s: float
    reads_s: float | None
    measured: bool = False
    stored_ahead: bool | None = None
    threshold: float | None = None
    is_shed: bool = False
    since_s: float | None = None


@dataclass(frozen=True, slots=True)
class WhyPair:
    """One pair of a feed: whether it is stored ahead, and seconds of a core per hour that either way takes."""

    feed: str
    consumer: str
    producer: str
    stored_ahead: bool
    rates: PairRates
    prices: PlannedPrices
    stored_cost_h: float
    read_cost_h: float | None
    because: str


@dataclass(frozen=True, slots=True)
class WhyTemplate:
    """A template, kept or refused."""

    plan: TemplatePlan


@dataclass(frozen=True, slots=True)
class WhyPlacedPair:
    """Where one pair of a template runs (`at` a device or "cloud"), and why: in numbers, and in words."""

    template: str
    devices: tuple[str, ...]
    at: str
    numbers: Mapping[str, object]
    because: str


Why = WhyContract | WhyRejected | WhyVertex | WhyFeed | WhyPair | WhyTemplate | WhyPlacedPair


class StatisticOrigin(StrEnum):
    """Where a statistic comes from."""

    MEASURED = "measured"
    DECLARED = "declared"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class SourceRate:
    """Changed rows per second of a source, and what the project declares."""

    source: str
    rate: float
    origin: StatisticOrigin
    declared: float | None


@dataclass(frozen=True, slots=True)
class ResultSize:
    """What was measured of a result that an answer rests on: rows, and changed rows per second; None if not known."""

    result: str
    rows: float | None
    rate: float | None


@dataclass(frozen=True, slots=True)
class Grounds:
    """What answers rest on: the plan that runs or that of the files alone, rates, how many times as long as planned
    pushes take (None while nobody measured that), and the sizes of aggregates, DISTINCT and top-k that were measured
    and not estimated.
    """

    is_running: bool
    rates: tuple[SourceRate, ...]
    slowness: float | None
    sizes: tuple[ResultSize, ...] = ()


@dataclass(frozen=True, slots=True)
class ImaginedChange:
    """What to imagine: other terms of a contract, other bandwidths (bytes/s, by link), other rates (rows/s, by
    source).
    """

    freshness_s: float | None = None
    site: str | None = None
    bandwidth: Mapping[tuple[str, str], float] = field(default_factory=dict)
    rate: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContractOutcome:
    """A contract in one of two plans: kept with a score (`cost`), planned money and a critical path, or refused for a
    reason; in full or not.
    """

    kept: bool
    cost: float | None
    money: float | None
    path_s: float | None
    reason: str | None
    smallest_staleness_s: float | None
    recomputed: bool = False


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What changes, before and after: the contract asked about, every other that changes, and what the whole plan
    costs.
    """

    before: ContractOutcome
    after: ContractOutcome
    others: Mapping[str, tuple[ContractOutcome, ContractOutcome]]
    rescost: tuple[float, float]
