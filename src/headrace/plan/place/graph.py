"""A `Dag` in integers: numbered streams, scaled rates and prices, and where each operator may run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.plan.exact_numbers import Exact, Index, IntArray, common_scale, scale_numbers
from headrace.plan.place.allowed import allowed_devices, in_order
from headrace.plan.place.instance import CLOUD, Dag, PlacedOperator
from headrace.plan.place.networks import DemandGraph, Places

NOWHERE = -1
"""The device of what is in the Cloud."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """Streams are numbered sources first, then operators, inputs before readers; devices by name."""

    devices: tuple[str, ...]
    operators: tuple[PlacedOperator, ...]
    sources: int
    graph: DemandGraph
    home: Index
    """The device of each source, NOWHERE if it is in the Cloud."""
    pinned: Index
    """The device of each stream that cannot move: sources and pinned operators; NOWHERE for all others."""
    member_device: Index
    member_operator: Index
    """Pairs: this operator (a stream number) may run on this device. Pinned operators have none."""
    up: IntArray
    down: IntArray
    load: IntArray
    """Per stream, 0 for sources."""
    capacity: tuple[int | None, ...]
    rate_scale: int
    price_scale: int

    def exact(self, cost: int, halves: bool = False) -> Exact:
        amount = Fraction(cost, self.rate_scale * self.price_scale * (2 if halves else 1))
        return int(amount) if amount.denominator == 1 else amount

    def device_places(self, kept: Index | None = None) -> Places:
        """The devices as places, with all their possible operators or those at the kept positions."""
        inside = np.flatnonzero(self.pinned != NOWHERE)
        members = slice(None) if kept is None else kept
        return Places(
            self.up, self.down, self.pinned[inside], inside, self.member_device[members], self.member_operator[members]
        )


def number_dag(dag: Dag, other_prices: Sequence[Exact] = ()) -> Numbered:
    """The instance, which must be valid, in numbers. The scale of prices makes integers of the other prices, too."""
    devices = tuple(sorted({home for home in dag.sources.values() if home != CLOUD}))
    device_number = {name: position for position, name in enumerate(devices)}
    operators = tuple(in_order(dag))
    names = [*dag.sources, *(operator.id for operator in operators)]
    number = {name: position for position, name in enumerate(names)}
    demands = [(number[name], number[op.id], rate) for op in operators for name, rate in op.inputs]
    rate_scale = common_scale(rate for _, _, rate in demands)
    kinds = [dag.devices.get(name, dag.default) for name in devices]
    price_scale = common_scale([*other_prices, *(price for kind in kinds for price in (kind.up, kind.down))])
    loads = [0] * len(dag.sources) + [operator.load for operator in operators]
    load_scale = common_scale([*loads, *(kind.capacity for kind in kinds if kind.capacity is not None)])
    home = np.array([device_number.get(device, NOWHERE) for device in dag.sources.values()], dtype=np.int64)
    pins = [device_number.get(operator.pin or CLOUD, NOWHERE) for operator in operators]
    members = np.array(list(_members(dag, operators, number, device_number)), dtype=np.int64).reshape(-1, 2)
    graph = DemandGraph(
        count=len(names),
        stream=np.array([stream for stream, _, _ in demands], dtype=np.int64),
        reader=np.array([reader for _, reader, _ in demands], dtype=np.int64),
        rate=scale_numbers([rate for _, _, rate in demands], rate_scale),
        sums=np.array([name in dag.sums for name in names], dtype=np.bool_),
    )
    return Numbered(
        devices=devices,
        operators=operators,
        sources=len(dag.sources),
        graph=graph,
        home=home,
        pinned=np.concatenate([home, np.array(pins, dtype=np.int64)]),
        member_device=members[:, 0],
        member_operator=members[:, 1],
        up=scale_numbers([kind.up for kind in kinds], price_scale),
        down=scale_numbers([kind.down for kind in kinds], price_scale),
        load=scale_numbers(loads, load_scale),
        capacity=tuple(None if kind.capacity is None else int(kind.capacity * load_scale) for kind in kinds),
        rate_scale=rate_scale,
        price_scale=price_scale,
    )


def _members(
    dag: Dag, operators: Sequence[PlacedOperator], number: dict[str, int], device_number: dict[str, int]
) -> Iterator[tuple[int, int]]:
    allowed = allowed_devices(dag, operators)
    for operator in operators:
        if operator.pin is None:
            for device in sorted(allowed[operator.id]):
                yield device_number[device], number[operator.id]
