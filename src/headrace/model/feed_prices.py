"""What it costs to serve a feed, in processor seconds, and how that is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

PRICES = ("H", "L", "L0", "read", "event")
"""Names that people see, in the order of `FeedPrices`."""


@dataclass(frozen=True, slots=True)
class FeedPrices:
    """Processor seconds. `entry` (H) is to store one event for one consumer, `pull` (L) what a read pays more for a
    producer that is pulled than for one that is stored ahead (less, if negative), `batch` (L0) what it pays for pulling
    at all. `read` is a read of which everything is stored ahead, `event` an event that is stored for nobody. `errors`
    are their standard errors, in this order. `found` is what a read pays for a producer that is stored ahead; 0 if that
    was not told apart.
    """

    entry: float
    pull: float
    batch: float
    read: float
    event: float
    errors: tuple[float, ...]
    found: float = 0.0

    @property
    def named(self) -> dict[str, tuple[float, float]]:
        """Price and error, by the names that `status` shows."""
        values = (self.entry, self.pull, self.batch, self.read, self.event)
        return dict(zip(PRICES, zip(values, self.errors, strict=True), strict=True))


class HowCounted(StrEnum):
    """Whether seconds are those that processors worked, or those that passed: nobody sees the processes of a server on
    another machine, and waiting for its answers then counts as work.
    """

    PROCESSOR = "processor"
    ELAPSED = "elapsed"


@dataclass(frozen=True, slots=True)
class FeedShape:
    """What prices of a feed depend on: events of a producer in its store, producers, how many of them a reader follows,
    and how many readers follow a producer.
    """

    depth: int
    producers: int
    follows: float
    followers: float = 0.0

    @property
    def pairs(self) -> int:
        return round(self.producers * self.followers)


@dataclass(frozen=True, slots=True)
class FeedCalibration:
    """Prices of a feed as they were measured on its own store at `at_s` (seconds since 1970), in `windows` that took
    `cpu_s`. They hold for one `place`: a store of a kind at an address, and an engine of a kind.

    Each of `producers` had `depth` events in the store, and a reader followed `follows` of them.
    """

    feed: str
    prices: FeedPrices
    counted: HowCounted
    place: str
    at_s: float
    windows: int
    cpu_s: float
    depth: int
    follows: float
    producers: int = 0

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Self:
        """Raises KeyError, TypeError or ValueError for a document of another kind."""
        given = dict(found["prices"])
        errors = tuple(float(error) for error in given.pop("errors"))
        prices = FeedPrices(**{name: float(price) for name, price in given.items()}, errors=errors)
        return cls(**{**found, "prices": prices, "counted": HowCounted(found["counted"])})
