"""What the feeds benchmark measures: plain numbers, each with its spread over draws of the workload."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and standard deviation over draws."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Spread:
        every = list(values)
        return cls(statistics.mean(every), statistics.stdev(every) if len(every) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Mix:
    """At one query:event ratio or skew: the two extremes against each other, and the hybrid against the better one."""

    at: str
    push_over_pull: Spread
    saving: Spread
    """Share of the better extreme's cost that the hybrid saves."""
    stored_ahead: Spread
    costs: tuple[float, float, float]
    """Hybrid, all ahead, all on read: means."""


@dataclass(frozen=True, slots=True)
class AtThreshold:
    """Push threshold, relative cost, and how many producers a query pulls."""

    threshold: float
    cost: Spread
    mean_pulls: Spread
    p95_pulls: Spread
    all_stored: Spread
    """Share of queries that pull nothing."""


@dataclass(frozen=True, slots=True)
class ForLatency:
    """Extra cost of a target, relative to least cost, by pair and by whole consumers."""

    target: str
    per_pair: Spread
    per_consumer: Spread
    least: Spread


@dataclass(frozen=True, slots=True)
class Flash:
    """Extra cost of a flash, relative to before: with the old decisions, and after deciding again."""

    faster: float
    before_adapting: Spread
    after_adapting: Spread
    flipped: Spread


@dataclass(frozen=True, slots=True)
class FanOut:
    fan_out: float
    cost: Spread


@dataclass(frozen=True, slots=True)
class Results:
    ratios: tuple[Mix, ...]
    skews: tuple[Mix, ...]
    thresholds: tuple[AtThreshold, ...]
    latencies: tuple[ForLatency, ...]
    fan_outs: tuple[FanOut, ...]
    flashes: tuple[Flash, ...]
