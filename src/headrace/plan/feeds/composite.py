"""Store ahead or pull every edge of a network in which nodes follow nodes: the least cost, by one minimum cut.

What is pushed onwards must have been pushed in: an edge out of a node is stored ahead only if all edges into it
are. With that rule the cost of an edge does not depend on the others (`network`), and what remains is a closure
problem, open in Feeding Frenzy (section 3.4):

    an edge stored ahead costs    H * events that its source gives out
    pulled it costs               L * how often its target is asked
    an edge pulled                its target is incomplete, and all edges out of that are pulled

Most edges need no cut: what wants to be stored ahead and is fed only by such edges is, and what wants to be pulled
and feeds only such edges is. Ties store ahead, as everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from headrace.plan.exact_numbers import BoolArray, common_scale, scale_to_objects
from headrace.plan.feeds.amounts import NumberArray, Positions
from headrace.plan.feeds.instance import Composite, FeedsDecision
from headrace.plan.feeds.network import FollowNetwork, asked_rates, network_of, output_rates


@dataclass(frozen=True, slots=True)
class EdgeCosts:
    """What each edge costs, stored ahead and pulled; integers, in units of `1 / scale`."""

    ahead: NumberArray
    on_read: NumberArray
    scale: int


def decide_composite(composite: Composite) -> FeedsDecision:
    """Decides a network. With accounting by paths there must be no circles."""
    network = network_of(composite)
    costs = edge_costs(composite, network)
    ahead = _close(composite, costs)
    paid = Fraction(int(np.where(ahead, costs.ahead, costs.on_read).sum()), costs.scale)
    all_ahead, all_on_read = (Fraction(int(cost.sum()), costs.scale) for cost in (costs.ahead, costs.on_read))
    return FeedsDecision(ahead, paid, all_ahead, all_on_read, paid, optimal=True)


def edge_costs(composite: Composite, network: FollowNetwork) -> EdgeCosts:
    events, asked = output_rates(composite, network), asked_rates(composite, network)
    ahead = [edge.store_price * events[edge.source] for edge in composite.edges]
    on_read = [edge.fetch_price * asked[edge.target] for edge in composite.edges]
    scale = common_scale((*ahead, *on_read))
    return EdgeCosts(scale_to_objects(ahead, scale), scale_to_objects(on_read, scale), scale)


def _close(composite: Composite, costs: EdgeCosts) -> BoolArray:
    """The largest of the cheapest sets of edges that may be stored ahead together."""
    source = np.array([edge.source for edge in composite.edges], dtype=np.int64)
    target = np.array([edge.target for edge in composite.edges], dtype=np.int64)
    gains = (costs.ahead <= costs.on_read).astype(np.bool_)
    ahead = _settle_edges(gains, source, target, len(composite.nodes))
    pulled = _settle_edges(~gains, target, source, len(composite.nodes))
    contested = np.flatnonzero(~ahead & ~pulled)
    if len(contested):
        ahead[contested] = _cut(costs.ahead[contested], costs.on_read[contested], source[contested], target[contested])
    return ahead


def _settle_edges(wanted: BoolArray, near: Positions, far: Positions, nodes: int) -> BoolArray:
    """The wanted edges that depend on wanted ones alone.

    An edge depends on those whose far end is its near end: on what feeds it if that is the source, on what it feeds if
    that is the target.
    """
    settled = wanted.copy()
    order = np.argsort(near, kind="stable")
    start = np.searchsorted(near[order], np.arange(nodes + 1))
    blocked = np.zeros(nodes, dtype=np.bool_)
    todo = np.unique(far[~wanted])
    while len(todo):
        blocked[todo] = True
        dependent = order[_ranges(start[todo], start[todo + 1])]
        settled[dependent] = False
        todo = np.unique(far[dependent][~blocked[far[dependent]]])
    return settled


def _ranges(begin: Positions, end: Positions) -> Positions:
    """All numbers of all ranges, one after the other."""
    length = end - begin
    return np.repeat(begin - np.cumsum(length) + length, length) + np.arange(int(length.sum()))


def _cut(ahead: NumberArray, on_read: NumberArray, source: Positions, target: Positions) -> BoolArray:
    """Which of these edges are stored ahead. A variable more per node stands for its being incomplete."""
    # Loading SciPy takes longer than deciding most networks, and few have edges to cut.
    from headrace.plan.place.cut import FOREVER, Choices, minimum_cut, no_conflicts

    nodes, number = np.unique(np.concatenate((source, target)), return_inverse=True)
    edges = np.arange(len(ahead))
    incomplete = number + len(edges)
    nothing: NumberArray = np.zeros(len(nodes), dtype=object)
    choices = Choices(
        out_cost=np.concatenate((ahead, nothing)),
        in_cost=np.concatenate((on_read, nothing)),
        tail=np.concatenate((edges, incomplete[: len(edges)])),
        head=np.concatenate((incomplete[len(edges) :], edges)),
        arc_cost=np.full(2 * len(edges), FOREVER),
        conflicts=no_conflicts(),
    )
    # As few as possible are in, which here means pulled: ties store ahead.
    return ~minimum_cut(choices)[: len(edges)]
