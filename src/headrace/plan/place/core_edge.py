"""Behind the star a tree of Cloud nodes: views that are not on a device are placed on the nodes, and links between
nodes cost too.

First the star as if the Cloud were one node, then the Cloud's operators on the tree: there every link is a minimum
cut of its own, and the smallest cuts of all links fit together because a link costs the same in both directions. A
view on a device counts as at the node to which the device is attached. If the sum meets the sum of all lower bounds
(always so for one level with up <= down, and for any graph with up = down), it is optimal (RACE, Theorem 8, which
fails for up > down); if not, devices and nodes are decided together, as one problem with conflicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headrace.plan.exact_numbers import Exact, Index, IntArray, scale_numbers, total
from headrace.plan.place.costs import crossing_rate, device_costs
from headrace.plan.place.cut import FOREVER, Choices, minimum_cut
from headrace.plan.place.dag import PER_DEVICE, capacities, place_on_star, problem_of, same_operator
from headrace.plan.place.effort import Effort
from headrace.plan.place.graph import NOWHERE, Numbered
from headrace.plan.place.instance import CloudTree, Dag, PlacementDecision, PlacementMode
from headrace.plan.place.located import Closure, closure, nothing
from headrace.plan.place.networks import DemandGraph, Places, network
from headrace.plan.place.search import Solved, solve

TWO_STEPS = "minimum cut per core link"
TOGETHER = "devices and core together"


@dataclass(frozen=True, slots=True)
class Tree:
    """Cloud nodes; node 0 is the root and link k joins node k + 1 to its parent. Nodes come after their parents.

    `below[k, n]`: node n is on the far side of link k from the root.
    """

    nodes: tuple[str, ...]
    parent: Index
    weight: IntArray
    below: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Attached:
    """The tree, the nodes of devices and of sources (NOWHERE: at every node), and the demands that may cross links."""

    tree: Tree
    device_node: Index
    source_node: Index
    graph: DemandGraph


def decide_core(dag: Dag, core: CloudTree, given: Numbered, effort: Effort) -> PlacementDecision:
    """Places operators on devices and nodes; the answer names nodes. Weights must be whole in the given scale."""
    attached = attach(dag, core, given)
    asked = closure(given) if dag.mode == PlacementMode.LOCATED else nothing()
    star = place_on_star(given, asked, effort)
    device, cost = star.device, _cost(given, attached, star.device)
    twice_bound = star.twice_bound + 2 * _least_core_cost(given, attached)
    methods = [PER_DEVICE, *sorted(star.methods), TWO_STEPS]
    if twice_bound < 2 * cost:
        joint, solved = _together(given, attached, asked, effort)
        methods += [TOGETHER, *sorted(solved.methods)]
        twice_bound = max(twice_bound, solved.twice_bound)
        cost, device = min((cost, device), (_cost(given, attached, joint), joint), key=lambda answer: answer[0])
    return PlacementDecision(
        placement=_name_nodes(given, attached, device),
        cost=given.exact(cost),
        all_cloud_cost=given.exact(_cost(given, attached, given.pinned)),
        lower_bound=given.exact(twice_bound, halves=True),
        method=" + ".join(methods),
    )


def root_tree(core: CloudTree, scale: int) -> Tree:
    """The core, which must be a tree, from its first node; weights times the scale."""
    near: dict[str, dict[str, Exact]] = {}
    for link in core.links:
        near.setdefault(link.one, {})[link.other] = link.weight
        near.setdefault(link.other, {})[link.one] = link.weight
    root = core.links[0].one if core.links else min(core.attach.values())
    number, weights, parents = {root: 0}, [], []
    for node in (todo := [root]):
        for other, weight in near.get(node, {}).items():
            if other not in number:
                number[other] = len(number)
                parents.append(number[node])
                weights.append(weight)
                todo.append(other)
    below = np.zeros((len(parents), len(number)), dtype=np.bool_)
    for child in range(len(parents), 0, -1):
        below[child - 1, child] = True
        if parents[child - 1] > 0:
            below[parents[child - 1] - 1] |= below[child - 1]
    return Tree(tuple(number), np.array(parents, dtype=np.int64), scale_numbers(weights, scale), below)


def attach(dag: Dag, core: CloudTree, given: Numbered) -> Attached:
    tree = root_tree(core, given.price_scale)
    number = {name: position for position, name in enumerate(tree.nodes)}
    device_node = np.array([number[core.attach[name]] for name in given.devices], dtype=np.int64)
    source_node = np.array(
        [
            number[core.attach[name]] if device == NOWHERE and name in core.attach else NOWHERE
            for name, device in zip(dag.sources, given.home.tolist(), strict=True)
        ],
        dtype=np.int64,
    )
    on_device = given.home != NOWHERE
    source_node[on_device] = device_node[given.home[on_device]]
    graph = given.graph
    everywhere = np.concatenate([source_node == NOWHERE, np.zeros(graph.count - given.sources, dtype=np.bool_)])
    crosses = ~everywhere[graph.stream]
    demands = replace(graph, stream=graph.stream[crosses], reader=graph.reader[crosses], rate=graph.rate[crosses])
    return Attached(tree, device_node, source_node, demands)


def _cost(given: Numbered, attached: Attached, device: Index) -> int:
    """What a placement on devices costs when the rest is placed best on the nodes."""
    return total(device_costs(given.graph, device, given.up, given.down)) + _core_cost(
        attached, _nodes(given, attached, device)
    )


def _core_cost(attached: Attached, node: Index) -> int:
    tree = attached.tree
    weights = (int(weight) for weight in tree.weight)
    return sum(weight * crossing_rate(attached.graph, tree.below[link][node]) for link, weight in enumerate(weights))


def _nodes(given: Numbered, attached: Attached, device: Index) -> Index:
    """The node of every stream: where its device is attached, else where the links' minimum cuts put it."""
    node = _fix_nodes(given, attached, device)
    free = np.flatnonzero(node == NOWHERE)
    free = free[free >= given.sources]
    places = _link_places(attached, node, free)
    inside = minimum_cut(network(attached.graph, places))[: len(places.free_place)]
    # The cuts are nested, so that the deepest link with the operator below it tells its node.
    node[free] = 0
    np.maximum.at(node, places.free_operator[inside], places.free_place[inside] + 1)
    return node


def _fix_nodes(given: Numbered, attached: Attached, device: Index) -> Index:
    node = np.concatenate([attached.source_node, np.full(len(given.operators), NOWHERE)])
    on_device = np.flatnonzero(device[given.sources :] != NOWHERE) + given.sources
    node[on_device] = attached.device_node[device[on_device]]
    return node


def _link_places(attached: Attached, node: Index, free: Index) -> Places:
    """The far sides of all links as places; operators without a node may be on either side."""
    tree = attached.tree
    known = np.flatnonzero(node != NOWHERE)
    link, position = np.nonzero(tree.below[:, node[known]])
    links = np.arange(len(tree.weight))
    return Places(
        up=tree.weight,
        down=tree.weight,
        inside_place=link,
        inside_stream=known[position],
        free_place=np.repeat(links, len(free)),
        free_operator=np.tile(free, len(links)),
    )


def _movable(given: Numbered) -> Index:
    """Operators that are not pinned to a device."""
    return np.flatnonzero(given.pinned[given.sources :] == NOWHERE) + given.sources


def _least_core_cost(given: Numbered, attached: Attached) -> int:
    """No placement has less traffic over the links than their separate minimum cuts."""
    problem = _core_problem(given, attached)
    return problem.cost(minimum_cut(problem))


def _core_problem(given: Numbered, attached: Attached) -> Choices:
    fixed = _fix_nodes(given, attached, given.pinned)
    return network(attached.graph, _link_places(attached, fixed, _movable(given)))


def _together(given: Numbered, attached: Attached, asked: Closure, effort: Effort) -> tuple[Index, Solved]:
    """Devices and links in one problem. Returns the device of every stream."""
    everyone = np.ones(len(given.member_device), dtype=np.bool_)
    star, core = problem_of(given, asked, everyone), _core_problem(given, attached)
    needs, clashes = _consistency(given, attached, star.count)
    merged = Choices(
        out_cost=np.concatenate([star.out_cost, core.out_cost]),
        in_cost=np.concatenate([star.in_cost, core.in_cost]),
        tail=np.concatenate([star.tail, core.tail + star.count, needs[:, 0]]),
        head=np.concatenate([star.head, core.head + star.count, needs[:, 1]]),
        arc_cost=np.concatenate([star.arc_cost, core.arc_cost, np.full(len(needs), FOREVER)]),
        conflicts=np.concatenate([same_operator(given.member_operator), clashes]),
        constant=star.constant + core.constant,
    )
    solved = solve(merged, asked.rows + capacities(given, everyone), effort)
    device = given.pinned.copy()
    chosen = solved.chosen[: len(everyone)]
    device[given.member_operator[chosen]] = given.member_device[chosen]
    return device, solved


def _consistency(given: Numbered, attached: Attached, first: int) -> tuple[Index, Index]:
    """Needs and conflicts by which links and devices agree on one place per operator.

    Link variables start at `first`.
    """
    movable = _movable(given)
    column = np.full(given.graph.count, NOWHERE)
    column[movable] = np.arange(len(movable))
    parent = attached.tree.parent
    members = np.arange(len(given.member_device))
    node = attached.device_node[given.member_device]

    def below(link: Index, operator: Index) -> Index:
        return np.asarray(first + link * len(movable) + column[operator], dtype=np.int64)

    deeper = np.flatnonzero(parent > 0)
    needs = [_each(deeper, parent[deeper] - 1, movable, below)]
    attached_low = members[node > 0]
    needs.append(np.column_stack([attached_low, below(node[attached_low] - 1, given.member_operator[attached_low])]))
    one, other = np.nonzero(np.triu(parent[:, None] == parent[None, :], 1))
    clashes = [_each(one, other, movable, below)]
    for link, above in enumerate(parent.tolist()):
        here = members[node == above]
        clashes.append(np.column_stack([here, below(np.full(len(here), link), given.member_operator[here])]))
    return np.concatenate(needs), np.concatenate(clashes)


def _each(one: Index, other: Index, operators: Index, below: Callable[[Index, Index], Index]) -> Index:
    """Pairs of link variables, for every operator."""
    many = len(operators)
    repeated = np.tile(operators, len(one))
    return np.column_stack([below(np.repeat(one, many), repeated), below(np.repeat(other, many), repeated)])


def _name_nodes(given: Numbered, attached: Attached, device: Index) -> dict[str, str]:
    node = _nodes(given, attached, device)
    places = zip(device[given.sources :].tolist(), node[given.sources :].tolist(), strict=True)
    return {
        operator.id: attached.tree.nodes[at] if on == NOWHERE else given.devices[on]
        for operator, (on, at) in zip(given.operators, places, strict=True)
    }
