"""What is to be placed, and the answer, as values.

`Single`: one view per pair of devices. `Dag`: any acyclic graph of operators over the devices' streams. Both may have
a `CloudTree`: a tree of Cloud nodes to which the devices are attached. Rates, prices and loads are exact numbers in the
user's own units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from headrace.plan.exact_numbers import Exact

CLOUD = "cloud"


@dataclass(frozen=True, slots=True)
class Device:
    """Prices per unit of rate, up to the Cloud and down from it, and the load it can hold (None: any)."""

    up: Exact
    down: Exact
    capacity: Exact | None = None


class PairView(NamedTuple):
    """A view over the feeds of devices `a` and `b`: `rate_a` is the rate of a's feed that it needs."""

    id: str
    a: str
    b: str
    rate_a: Exact
    rate_b: Exact
    load: Exact = 1


@dataclass(frozen=True, slots=True)
class CoreLink:
    """A connection inside the Cloud: `weight` is paid per unit of rate in either direction."""

    one: str
    other: str
    weight: Exact


@dataclass(frozen=True, slots=True)
class CloudTree:
    """A tree of Cloud nodes.

    A device's or Cloud source's data enter at `attach`; a Cloud source that is not attached is at all nodes.
    """

    links: tuple[CoreLink, ...]
    attach: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Single:
    """One level: every view reads the feeds of two devices. Feeds in `cloud_sources` live in the Cloud.

    `devices` holds only those that differ from `default`.
    """

    views: tuple[PairView, ...]
    default: Device = field(default=Device(1, 1))
    devices: Mapping[str, Device] = field(default_factory=dict)
    cloud_sources: frozenset[str] = frozenset()
    core: CloudTree | None = None


class PlacementMode(StrEnum):
    """Where an operator may run: where its data come from, where one of its inputs is, or on any device.

    Always also in the Cloud.
    """

    DERIVE = "derive"
    LOCATED = "located"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class PlacedOperator:
    """Reads streams (sources or operators) at the demanded rates. `allowed` replaces what the mode would allow."""

    id: str
    inputs: tuple[tuple[str, Exact], ...]
    load: Exact = 1
    allowed: tuple[str, ...] | None = None
    pin: str | None = None


@dataclass(frozen=True, slots=True)
class Dag:
    """Any operator graph.

    `sources` maps a stream to its device or to "cloud"; the outputs of `sums` are not shared between readers.
    """

    sources: Mapping[str, str]
    operators: tuple[PlacedOperator, ...]
    mode: PlacementMode = PlacementMode.DERIVE
    default: Device = field(default=Device(1, 1))
    devices: Mapping[str, Device] = field(default_factory=dict)
    sums: frozenset[str] = frozenset()
    core: CloudTree | None = None


@dataclass(frozen=True, slots=True)
class PlacementOutcome:
    """What a placement costs and how good it is: no placement costs less than `lower_bound`.

    `all_cloud_cost` is the price of running everything in the Cloud that is not pinned to a device.
    """

    cost: Exact
    all_cloud_cost: Exact
    lower_bound: Exact
    method: str

    @property
    def optimal(self) -> bool:
        return self.cost == self.lower_bound

    @property
    def improvement(self) -> float | None:
        return float(self.all_cloud_cost / self.cost) if self.cost else None


@dataclass(frozen=True, slots=True)
class PlacementDecision(PlacementOutcome):
    """An outcome with the place of every view."""

    placement: Mapping[str, str]
