"""An operator graph changes: only the devices whose prices a change touches are decided again, and what they overlap
with.

What a device pays for its operators depends on the demands of streams and operators that may be there. A changed
demand therefore touches the devices of its stream and of its reader, as they were and as they have become.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from headrace.plan.exact_numbers import BoolArray, Exact
from headrace.plan.place.allowed import allowed_devices, in_order
from headrace.plan.place.dag import (
    DagPlacement,
    find_troubled_devices,
    own_optima,
    place_on_star,
    refuse_overfull,
    settle,
)
from headrace.plan.place.effort import Effort
from headrace.plan.place.graph import Numbered, number_dag
from headrace.plan.place.instance import CLOUD, Dag, PlacementMode
from headrace.plan.place.located import closure, nothing

Names = frozenset[str]


@dataclass(frozen=True, slots=True)
class StandingGraph:
    """A decided graph, kept so that it can change: every device's own optimum, and the placement.

    `gap` holds how far a group of devices that were settled together may be from the optimum, by its first device.
    """

    dag: Dag
    own: Mapping[str, Names]
    placement: Mapping[str, str]
    cost: Exact
    gap: Mapping[str, Exact] = field(default_factory=dict)

    @property
    def lower_bound(self) -> Exact:
        return self.cost - sum(self.gap.values(), start=Fraction(0))


@dataclass(frozen=True, slots=True)
class ChangedGraph:
    """What a change did: the devices decided anew, those settled anew, and the operators that moved."""

    standing: StandingGraph
    decided: Names
    settled: Names
    moved: Mapping[str, str]


def stand_graph(dag: Dag, effort: Effort = Effort()) -> StandingGraph:  # noqa: B008
    """Decides a graph without a core from nothing."""
    nothing_yet = StandingGraph(Dag({}, ()), {}, {}, 0)
    return change_graph(nothing_yet, dag, effort).standing


def change_graph(before: StandingGraph, dag: Dag, effort: Effort = Effort()) -> ChangedGraph:  # noqa: B008
    """The graph becomes `dag`. Streams are the same if their names are."""
    given = number_dag(dag)
    refuse_overfull(given)
    asked = closure(given) if dag.mode == PlacementMode.LOCATED else nothing()
    everyone = frozenset(given.devices)
    decided = find_touched_devices(before.dag, dag) & everyone
    own = {device: names for device, names in before.own.items() if device in everyone}
    own |= _names_of(given, own_optima(given, asked, _mask(given, decided)), decided)
    # Rows of mode `located` reach beyond the devices that overlap: then everything is settled anew.
    settled = everyone if asked.rows else _overlapping(decided, before.own, own)
    if asked.rows:
        placed = place_on_star(given, asked, effort)
    else:
        troubled = find_troubled_devices(given, _members_of(given, own)) & _mask(given, settled)
        placed, _ = settle(given, asked, _settle_members(given, before, own, settled), troubled, effort)
    placement = _placement(given, placed)
    standing = StandingGraph(dag, own, placement, given.exact(placed.cost), _gaps(before, given, placed, settled))
    moved = {name: place for name, place in placement.items() if before.placement.get(name) != place}
    return ChangedGraph(standing, decided, settled, moved)


def _placement(given: Numbered, placed: DagPlacement) -> dict[str, str]:
    places = [CLOUD, *given.devices]
    at = placed.device[given.sources :].tolist()
    return {operator.id: places[device + 1] for operator, device in zip(given.operators, at, strict=True)}


def _gaps(before: StandingGraph, given: Numbered, placed: DagPlacement, settled: Names) -> dict[str, Exact]:
    gap = {name: amount for name, amount in before.gap.items() if name in given.devices and name not in settled}
    off = given.exact(2 * placed.cost - placed.twice_bound, halves=True)
    return {**gap, min(settled): off} if off else gap


def find_touched_devices(before: Dag, after: Dag) -> Names:
    """Devices whose prices or possible operators differ between two graphs."""
    old, new = _facts(before), _facts(after)
    changed = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    return frozenset().union(*(old.get(key, ((), Names()))[1] | new.get(key, ((), Names()))[1] for key in changed))


def _facts(dag: Dag) -> dict[tuple[str, ...], tuple[object, Names]]:
    """Everything that prices depend on, by a name, with the devices that it concerns."""
    operators = tuple(in_order(dag))
    allowed = allowed_devices(dag, operators)
    possible = {name: frozenset({home} - {CLOUD}) for name, home in dag.sources.items()} | allowed
    devices = frozenset(dag.sources.values()) - {CLOUD}
    facts: dict[tuple[str, ...], tuple[object, Names]] = {
        ("device", name): (dag.devices.get(name, dag.default), frozenset({name})) for name in devices
    }
    for name, home in dag.sources.items():
        facts["stream", name] = ((home, name in dag.sums), possible[name])
    for operator in operators:
        key = (operator.load, operator.pin, allowed[operator.id], operator.id in dag.sums)
        facts["stream", operator.id] = (key, allowed[operator.id])
        for position, (name, rate) in enumerate(operator.inputs):
            concerned = possible[name] | allowed[operator.id]
            facts["demand", operator.id, str(position)] = ((name, rate, name in dag.sums), concerned)
    return facts


def _overlapping(decided: Names, before: Mapping[str, Names], after: Mapping[str, Names]) -> Names:
    """The decided devices and all that want the same operators as them, directly or through others, then or now."""
    wanted_by: dict[str, set[str]] = {}
    for own in (before, after):
        for device, names in own.items():
            for name in names:
                wanted_by.setdefault(name, set()).add(device)
    reached, todo = set(decided), list(decided)
    while todo:
        device = todo.pop()
        for name in before.get(device, frozenset()) | after.get(device, frozenset()):
            new = wanted_by[name] - reached
            reached |= new
            todo += new
    return frozenset(reached & after.keys())


def _mask(given: Numbered, devices: Names) -> BoolArray:
    return np.array([name in devices for name in given.devices], dtype=np.bool_)


def _names_of(given: Numbered, chosen: BoolArray, devices: Names) -> dict[str, Names]:
    found: dict[str, set[str]] = {device: set() for device in devices}
    for device, operator in zip(
        given.member_device[chosen].tolist(), given.member_operator[chosen].tolist(), strict=True
    ):
        found[given.devices[device]].add(given.operators[operator - given.sources].id)
    return {device: frozenset(names) for device, names in found.items()}


def _members_of(given: Numbered, own: Mapping[str, Names]) -> BoolArray:
    pairs = zip(given.member_device.tolist(), given.member_operator.tolist(), strict=True)
    return np.array(
        [given.operators[op - given.sources].id in own.get(given.devices[device], ()) for device, op in pairs],
        dtype=np.bool_,
    )


def _settle_members(given: Numbered, before: StandingGraph, own: Mapping[str, Names], settled: Names) -> BoolArray:
    """The own optima of devices to be settled, and what the others run already."""
    running: dict[str, set[str]] = {}
    for name, device in before.placement.items():
        running.setdefault(device, set()).add(name)
    kept = {device: frozenset(running.get(device, ())) for device in own if device not in settled}
    return _members_of(given, {**kept, **{device: own[device] for device in settled}})
