"""Any operator graph on the star: one minimum cut decides all devices; what they disagree on is decided per component.

Each device's own cheapest set X* contains its part of some optimal placement (persistency: F(X & X*) <= F(X) since F
is submodular). So operators in no X* go to the Cloud, a device whose X* meets no other keeps it, and only overlapping
devices, or devices whose X* is more than they can hold, are looked at again, inside their X*.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from headrace.plan.exact_numbers import BoolArray, Index, total
from headrace.plan.place.costs import device_costs
from headrace.plan.place.cut import FOREVER, Choices, minimum_cut
from headrace.plan.place.effort import Effort
from headrace.plan.place.graph import NOWHERE, Numbered
from headrace.plan.place.infeasible import Infeasible
from headrace.plan.place.instance import CLOUD, Dag, PlacementDecision, PlacementMode
from headrace.plan.place.located import Closure, closure, nothing, within
from headrace.plan.place.networks import network
from headrace.plan.place.rows import Row, obeys
from headrace.plan.place.search import Solved, solve

PER_DEVICE = "minimum cut per device"


@dataclass(frozen=True, slots=True)
class DagPlacement:
    """The device of every stream (NOWHERE: in the Cloud), the cost, and twice a lower bound."""

    device: Index
    cost: int
    twice_bound: int
    methods: frozenset[str]


def decide_dag(dag: Dag, given: Numbered, effort: Effort) -> PlacementDecision:
    placed = place_on_star(given, closure(given) if dag.mode == PlacementMode.LOCATED else nothing(), effort)
    at = placed.device[given.sources :].tolist()
    return PlacementDecision(
        placement={
            operator.id: CLOUD if device == NOWHERE else given.devices[device]
            for operator, device in zip(given.operators, at, strict=True)
        },
        cost=given.exact(placed.cost),
        all_cloud_cost=given.exact(total(device_costs(given.graph, given.pinned, given.up, given.down))),
        lower_bound=given.exact(placed.twice_bound, halves=True),
        method=" + ".join([PER_DEVICE, *sorted(placed.methods)]),
    )


def place_on_star(given: Numbered, asked: Closure, effort: Effort) -> DagPlacement:
    refuse_overfull(given)
    chosen = own_optima(given, asked, np.ones(len(given.devices), dtype=np.bool_))
    troubled = find_troubled_devices(given, chosen)
    placed, chosen = settle(given, asked, chosen, troubled, effort)
    if obeys(asked.rows, chosen):
        return placed
    return _search_whole(given, asked, placed.twice_bound, effort)


def own_optima(given: Numbered, asked: Closure, devices: BoolArray) -> BoolArray:
    """Which members are in the cheapest set of their device, the smallest among equals; for some devices."""
    kept = devices[given.member_device]
    chosen = np.zeros(len(kept), dtype=np.bool_)
    chosen[kept] = minimum_cut(problem_of(given, asked, kept, devices))[: int(kept.sum())]
    return chosen


def settle(
    given: Numbered, asked: Closure, chosen: BoolArray, troubled: BoolArray, effort: Effort
) -> tuple[DagPlacement, BoolArray]:
    """Decides the troubled devices together, inside their own optima; the others keep theirs."""
    if not troubled.any():
        return _make_placement(given, chosen, None, troubled), chosen
    kept = chosen & troubled[given.member_device]
    problem = _with_conflicts(given, problem_of(given, asked, kept, troubled), kept)
    solved = solve(problem, capacities(given, kept), effort)
    chosen = chosen & ~kept
    chosen[np.flatnonzero(kept)[solved.chosen[: int(kept.sum())]]] = True
    return _make_placement(given, chosen, solved, troubled), chosen


def refuse_overfull(given: Numbered) -> None:
    for device, held in _sum_pinned_load(given).items():
        capacity = given.capacity[device]
        if capacity is not None and held > capacity:
            raise Infeasible(f'what is pinned to device "{given.devices[device]}" is more than its capacity')


def _search_whole(given: Numbered, asked: Closure, twice_bound: int, effort: Effort) -> DagPlacement:
    """Everything at once: rows of mode `located` do not stay inside the devices' own optima."""
    everyone = np.ones(len(given.member_device), dtype=np.bool_)
    problem = _with_conflicts(given, problem_of(given, asked, everyone), everyone)
    solved = solve(problem, asked.rows + capacities(given, everyone), effort)
    chosen = solved.chosen[: len(everyone)]
    placed = _make_placement(given, chosen, solved, np.ones(len(given.devices), dtype=np.bool_))
    return replace(placed, twice_bound=max(placed.twice_bound, twice_bound))


def problem_of(given: Numbered, asked: Closure, kept: BoolArray, devices: BoolArray | None = None) -> Choices:
    """The prices of the kept members on some devices, with what mode `located` asks of them."""
    places = given.device_places(np.flatnonzero(kept))
    if devices is not None:
        mine = devices[places.inside_place]
        places = replace(places, inside_place=places.inside_place[mine], inside_stream=places.inside_stream[mine])
    problem = network(given.graph, places)
    needs = within(asked, kept)
    return replace(
        problem,
        tail=np.concatenate([problem.tail, needs[:, 0]]),
        head=np.concatenate([problem.head, needs[:, 1]]),
        arc_cost=np.concatenate([problem.arc_cost, np.full(len(needs), FOREVER, dtype=problem.arc_cost.dtype)]),
    )


def _with_conflicts(given: Numbered, problem: Choices, kept: BoolArray) -> Choices:
    """No operator on two devices."""
    return replace(problem, conflicts=same_operator(given.member_operator[kept]))


def same_operator(operator: Index) -> Index:
    """All pairs of members that are the same operator."""
    order = np.argsort(operator, kind="stable")
    start = np.flatnonzero(np.diff(operator[order], prepend=-1))
    size = np.diff(start, append=len(order))
    clashes = [np.empty((0, 2), dtype=np.int64)]
    for many in np.unique(size[size > 1]).tolist():
        groups = order[start[size == many][:, None] + np.arange(many)]
        one, other = np.triu_indices(many, 1)
        clashes.append(np.column_stack([groups[:, one].reshape(-1), groups[:, other].reshape(-1)]))
    return np.concatenate(clashes)


def find_troubled_devices(given: Numbered, chosen: BoolArray) -> BoolArray:
    """Devices whose own optimum meets another's, or is more than they can hold."""
    wanted = np.bincount(given.member_operator[chosen], minlength=given.graph.count)
    troubled = np.zeros(len(given.devices), dtype=np.bool_)
    troubled[given.member_device[chosen & (wanted[given.member_operator] > 1)]] = True
    for row in capacities(given, chosen):
        if sum(row.coefficients) > row.limit:
            troubled[given.member_device[np.flatnonzero(chosen)[row.variables[0]]]] = True
    return troubled


def capacities(given: Numbered, kept: BoolArray) -> tuple[Row, ...]:
    """One row per device with a capacity, over the kept members in their numbering.

    What is pinned there is held in any case.
    """
    if all(capacity is None for capacity in given.capacity):
        return ()
    members: dict[int, list[int]] = {}
    for position, device in enumerate(given.member_device[kept].tolist()):
        members.setdefault(device, []).append(position)
    load = given.load[given.member_operator[kept]].tolist()
    held = _sum_pinned_load(given)
    return tuple(
        Row(tuple(mine), tuple(int(load[position]) for position in mine), capacity - held.get(device, 0))
        for device, mine in sorted(members.items())
        if (capacity := given.capacity[device]) is not None
    )


def _sum_pinned_load(given: Numbered) -> dict[int, int]:
    """What is on each device whatever is decided."""
    held: dict[int, int] = {}
    for stream in (np.flatnonzero(given.pinned[given.sources :] != NOWHERE) + given.sources).tolist():
        device = int(given.pinned[stream])
        held[device] = held.get(device, 0) + int(given.load[stream])
    return held


def _make_placement(given: Numbered, chosen: BoolArray, solved: Solved | None, troubled: BoolArray) -> DagPlacement:
    device = given.pinned.copy()
    device[given.member_operator[chosen]] = given.member_device[chosen]
    paid = device_costs(given.graph, device, given.up, given.down)
    cost = total(paid)
    if solved is None:
        return DagPlacement(device, cost, 2 * cost, frozenset())
    return DagPlacement(device, cost, 2 * total(paid[~troubled]) + solved.twice_bound, solved.methods)
