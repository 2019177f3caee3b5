"""What is decided about: who follows whom, how often, at which prices, and how quick reads must be.

Two kinds: `Feeds`, where consumers follow producers, and `Composite`, where nodes follow nodes. Names are kept apart
from the numbers: inside, everybody is a position.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import Amounts, Positions


class Model(StrEnum):
    """What a query pays for the producers that are pulled; `docs/deciding-feeds.md` has the formulas."""

    RPC = "rpc"
    """One call to each."""
    AMORTISED = "amortised"
    """For each its share of the events shown: claim 2 of Feeding Frenzy."""
    BATCH = "batch"
    """One multi-get for all, with a price of its own, and a part for each."""
    RECENCY = "recency"
    """Only calls to those that an index knows to own one of the newest events."""


class ServingWay(StrEnum):
    """How events of a producer reach a consumer."""

    STORE_AHEAD = "push"
    ON_READ = "pull"


@dataclass(frozen=True, slots=True)
class Pricing:
    """`batch_price` is L0, paid per query that pulls anything (batch); `shown` is k, the events of a feed (recency)."""

    model: Model = Model.BATCH
    batch_price: Fraction = Fraction(0)
    shown: int = 10

    @property
    def is_per_pair(self) -> bool:
        """Whether the price of a pair does not depend on whom else the consumer follows."""
        return self.model is Model.RPC or (self.model is Model.BATCH and self.batch_price == 0)


@dataclass(frozen=True, slots=True)
class MeanPulls:
    """A target: at most this many producers are pulled per query, on average over queries."""

    most: Fraction


@dataclass(frozen=True, slots=True)
class Percentile:
    """A target: at least this share of queries pulls at most so many producers."""

    share: Fraction
    most_pulls: int


Latency = MeanPulls | Percentile


@dataclass(frozen=True, slots=True)
class Feeds:
    """Pair n: consumer number `consumer[n]` follows producer number `producer[n]`. No pair occurs twice.

    `store_price` is H, the cost to write one event to one feed, `fetch_price` is L, the cost of one pull; both by
    producer.
    """

    event_rate: Amounts
    query_rate: Amounts
    store_price: Amounts
    fetch_price: Amounts
    consumer: Positions
    producer: Positions
    pricing: Pricing = Pricing()

    def __len__(self) -> int:
        return len(self.consumer)


class PullAccounting(StrEnum):
    """How often a query of a composite network fetches from a node that it reaches along several paths."""

    PATHS = "paths"
    DISTINCT = "distinct"


@dataclass(frozen=True, slots=True)
class FollowNode:
    """`passed` is the share of arriving events that leave again, on top of the node's own events."""

    event_rate: Fraction = Fraction(0)
    query_rate: Fraction = Fraction(0)
    passed: Fraction = Fraction(1)


@dataclass(frozen=True, slots=True)
class FollowEdge:
    """`target` follows `source`; both are positions."""

    source: int
    target: int
    store_price: Fraction
    fetch_price: Fraction


@dataclass(frozen=True, slots=True)
class Composite:
    """A network in which a node may follow and be followed. No edge occurs twice."""

    nodes: tuple[FollowNode, ...]
    edges: tuple[FollowEdge, ...]
    accounting: PullAccounting = PullAccounting.PATHS


@dataclass(frozen=True, slots=True)
class FeedsDecision:
    """`ahead[n]`: whether pair or edge n is stored ahead. Costs are fractions where that is possible, else doubles.

    No assignment that keeps the target costs less than `lower_bound`.
    """

    ahead: BoolArray
    cost: Fraction | float
    all_ahead_cost: Fraction | float
    all_on_read_cost: Fraction | float
    lower_bound: Fraction | float
    optimal: bool
