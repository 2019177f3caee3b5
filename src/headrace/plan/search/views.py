"""Plans of a whole view at its target: the searches of its blocks, chained, and the choice among what they found.

COST = resCost * (1 + CP / s) + lateness. Plans of equal cost (to nine digits) are told apart by critical path, then
by the sum of all arrivals, then by the sorted list of their edges, so that equal inputs give equal plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from headrace.model.plan import Edge, Vertex
from headrace.plan.datasets import whole_dataset
from headrace.plan.outputs import block_facts
from headrace.plan.price import late_share
from headrace.plan.search.joins import Rules, Search, Supply
from headrace.plan.search.supply import Ints, States, states
from headrace.plan.search.terrain import Floats, Terrain
from headrace.plan.search.tops import output_dataset, output_deltas
from headrace.plan.search.trace import BlockPlan, Trace
from headrace.plan.search.trace_output import make_output
from headrace.plan.statistics import CoreStatistics

EQUAL = 1e-9
"""Costs and critical paths that differ by a smaller share are equal."""


Places = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted: a view (its blocks, the last is the view), where, and the price of a late row. `places` are sites
    that are given: by block, of sub-joins and outputs.
    """

    cores: tuple[CoreStatistics, ...]
    target: str
    penalty: float
    places: Places | None = None


@dataclass(frozen=True, slots=True)
class ViewPlans:
    """The plans of a view that no other beats: relation at the target, and what each costs in all."""

    plan: BlockPlan
    states: States
    cost: Floats
    terrain: Terrain

    def __len__(self) -> int:
        return len(self.cost)


@dataclass(frozen=True, slots=True)
class Choice:
    """A plan of a view: the vertices and edges that it adds, the view's vertex, and what the search expects of it."""

    vertices: Mapping[str, Vertex]
    edges: Mapping[str, Edge]
    vertex: str
    cost: float
    path_s: float


def rate_of_view(wish: Wish, batch_s: float) -> float:
    """Changed rows per second of the view."""
    return block_facts(wish.cores[-1]).rate.at(batch_s)


def find_plans(wish: Wish, terrain: Terrain, rules: Rules) -> ViewPlans:
    """All plans worth comparing, within limit and capacities."""
    target = terrain.index[wish.target]
    plans: dict[str, BlockPlan] = {}
    for core in wish.cores:
        wanted_there = core is wish.cores[-1] and core.block.top is None
        given = None if wish.places is None else wish.places.get(core.name, {})
        places = None if given is None else {part: terrain.index[site] for part, site in given.items()}
        plans[core.name] = _block_plan(core, terrain, rules, plans, target if wanted_there else None, places)
    plan = plans[wish.cores[-1].name]
    at_target = _states_at(plan, target)
    at_target = at_target.take(plan.search.fits(at_target.labels, at_target.ready))
    return ViewPlans(plan, at_target, _cost(wish, terrain, at_target), terrain)


def _block_plan(
    core: CoreStatistics,
    terrain: Terrain,
    rules: Rules,
    plans: Mapping[str, BlockPlan],
    target: int | None,
    places: Mapping[int, int] | None,
) -> BlockPlan:
    inner = {bit: plans[name] for bit in core.bits(core.everything) if (name := core.input_of(bit).facts.name) in plans}
    supplies = {
        bit: _supply_of(inner[bit]) if bit in inner else Supply(whole_dataset(core.input_of(bit).facts))
        for bit in core.bits(core.everything)
    }
    search = Search(core, terrain, rules, supplies, target, places)
    return BlockPlan(search, output_dataset(search), output_deltas(search), inner)


def _supply_of(plan: BlockPlan) -> Supply:
    """A block as an input of a later one."""
    search, everything = plan.search, plan.search.core.everything
    if search.core.block.top is not None or everything.bit_count() > 1 or search.is_whole(everything):
        return Supply(plan.made, plan.deltas)
    inner, filter_ = search.supplies[everything], search.core.input_of(everything).filter
    pending = (*inner.pending, *(() if filter_ is None else (filter_,)))
    return Supply(plan.made, plan.deltas, inner.origin, pending)


def _states_at(plan: BlockPlan, target: int) -> States:
    """The view's relation at the target."""
    search, everything = plan.search, plan.search.core.everything
    if search.core.block.top is None and everything.bit_count() > 1:
        found = search.states(everything)
    elif search.core.block.top is None:
        # The source itself is the view only if nothing of it is left out.
        moves = search.moves(everything)
        home = moves.home if search.is_whole(everything) else -1
        found = states(plan.deltas, replace(moves, home=home), search.terrain.batch_s)
    else:
        found = states(plan.deltas, search.plain_moves(plan.made), search.terrain.batch_s)
    return found.take(found.site == target)


def _cost(wish: Wish, terrain: Terrain, found: States) -> Floats:
    """$/s in all, for each plan."""
    rate = rate_of_view(wish, terrain.batch_s)
    late = np.array([late_share(rate, peak, terrain.freshness_s) for peak in found.labels.peak])
    return found.labels.use[:, 0] * (1 + found.ready / terrain.freshness_s) + rate * late * wish.penalty


def choose(found: ViewPlans) -> Choice | None:
    """The cheapest plan; ties as said above."""
    rows = _least(np.arange(len(found)), found.cost, EQUAL)
    rows = _least(rows, found.states.ready, EQUAL)
    rows = _least(rows, found.states.labels.total, EQUAL)
    choices = [trace(found, int(row)) for row in rows]
    return min(choices, key=_edge_list, default=None)


def cheapest_few(found: ViewPlans, count: int) -> list[Choice]:
    """The cheapest plans, in order."""
    order = np.lexsort((found.states.labels.total, found.states.ready, found.cost))
    return [trace(found, int(row)) for row in order[:count]]


def _least(rows: Ints, values: Floats, tolerance: float) -> Ints:
    if len(rows) == 0:
        return rows
    least = values[rows].min()
    kept: Ints = rows[values[rows] <= least + tolerance * abs(least)]
    return kept


def _edge_list(choice: Choice) -> list[tuple[str, tuple[str, ...], str]]:
    return sorted((edge.op.value, edge.inputs, edge.output) for edge in choice.edges.values())


def trace(found: ViewPlans, row: int) -> Choice:
    """One of the plans as vertices and edges."""
    parts, search, table = Trace(make_output), found.plan.search, found.states
    delta, site = int(table.delta[row]), int(table.site[row])
    make = parts.view if search.core.block.top is None else parts.view_of_output
    vertex = make(found.plan, delta, site)
    return Choice(parts.vertices, parts.edges, vertex, float(found.cost[row]), float(table.ready[row]))
