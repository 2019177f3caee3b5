"""Exact branching: fixes one variable after another and bounds the rest by half-integral cuts, in integers only.

Nodes are taken in the order of their bounds, so that when the limit is hit the least open bound is still a lower
bound of all.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from headrace.plan.exact_numbers import BoolArray, IntArray, total
from headrace.plan.place.cut import Choices, half_integral_cut, restrict
from headrace.plan.place.lagrange import FINENESS, price_rows
from headrace.plan.place.rows import Row, obeys


class BranchResult(NamedTuple):
    """The best choices known (None: none was found) and twice a lower bound; they are optimal if `finished`."""

    chosen: BoolArray | None
    twice_bound: int
    finished: bool


class RelaxedChoices(NamedTuple):
    """A problem without rows that bounds the one with them; its costs are `fineness` times as large."""

    choices: Choices
    priced: tuple[Row, ...]
    fineness: int


class BranchNode(NamedTuple):
    twice_bound: int
    number: int
    free: BoolArray
    values: BoolArray
    open: BoolArray


def branch(choices: Choices, rows: tuple[Row, ...], start: BoolArray | None, nodes: int) -> BranchResult:
    """Searches for better choices than `start`, visiting at most `nodes` nodes."""
    best = start
    best_cost = None if start is None else choices.cost(start)
    numbers = itertools.count()
    never = 2 * _more_than_any(choices)
    relaxed = RelaxedChoices(*price_rows(choices, rows), FINENESS) if rows else RelaxedChoices(choices, (), 1)
    everything = np.ones(choices.count, dtype=np.bool_)
    queue = [_bound_node(relaxed, rows, everything, ~everything, next(numbers))]
    while queue:
        node = heapq.heappop(queue)
        if node.twice_bound >= (never if best_cost is None else 2 * best_cost - 1):
            return BranchResult(best, 2 * best_cost if best_cost is not None else node.twice_bound, True)
        if next(numbers) > nodes:
            return BranchResult(best, node.twice_bound, False)
        if choices.allows(node.values) and obeys(rows, node.values):
            cost = choices.cost(node.values)
            if best_cost is None or cost < best_cost:
                best, best_cost = node.values, cost
        variable = _to_branch_on(choices, rows, relaxed.priced, node)
        if variable is None:
            continue
        for value in (True, False):
            free, values = node.free.copy(), node.values.copy()
            free[variable], values[variable] = False, value
            heapq.heappush(queue, _bound_node(relaxed, rows, free, values, next(numbers)))
    return BranchResult(best, never if best_cost is None else 2 * best_cost, True)


def _more_than_any(choices: Choices) -> int:
    costs = (choices.out_cost, choices.in_cost, choices.arc_cost[choices.arc_cost > 0])
    return choices.constant + sum(map(total, costs)) + 1


def _bound_node(
    relaxed: RelaxedChoices, rows: tuple[Row, ...], free: BoolArray, values: BoolArray, number: int
) -> BranchNode:
    """A node with its bound.

    Variables on which the two copies agree are settled for good, unless a row may want them otherwise.
    """
    part = restrict(relaxed.choices, free, values)
    half = half_integral_cut(part)
    values = values.copy()
    values[free] = half.chosen
    still_open = np.zeros_like(free)
    still_open[free] = half.open
    # Costs are whole, so that a fraction of a bound counts as the next whole.
    return BranchNode(
        -(-half.twice_bound // relaxed.fineness), number, free if rows else still_open, values, still_open
    )


def _to_branch_on(choices: Choices, rows: tuple[Row, ...], priced: tuple[Row, ...], node: BranchNode) -> int | None:
    """The free variable that weighs most among those that keep the node from being decided; None if it is.

    Copies that disagree come first, then rows that are broken, then rows with a price: one that holds with room to
    spare was charged for all the same, so that the node's bound is below the cost of its answer.
    """
    broken = [row for row in rows if row.excess(node.values) > 0]
    for wanted in (node.open, _in_rows(broken, node), _in_rows(priced, node)):
        candidates = np.flatnonzero(wanted & node.free)
        if len(candidates):
            return int(candidates[int(np.argmax(_weight(choices)[candidates]))])
    return None


def _in_rows(rows: Iterable[Row], node: BranchNode) -> BoolArray:
    wanted = np.zeros_like(node.free)
    wanted[[variable for row in rows for variable in row.variables]] = True
    return wanted


def _weight(choices: Choices) -> IntArray:
    weight = choices.out_cost + choices.in_cost
    return weight + np.bincount(choices.conflicts.reshape(-1), minlength=choices.count)
