"""Conflicts that are no trees: levels of upload limits as yes/no choices, for cuts and search."""

from __future__ import annotations

import numpy as np

from headrace.plan.exact_numbers import Index, int_array
from headrace.plan.place.cut import FOREVER, Choices
from headrace.plan.place.effort import Effort
from headrace.plan.place.forest import Chain, Joint
from headrace.plan.place.search import Solved, solve


def cheapest_by_search(
    chains: list[Chain], vertices: Index, joints: list[Joint], effort: Effort
) -> tuple[Solved, Index]:
    """The cheapest levels of some vertices (positions in their chains), in the order of the vertices."""
    problem, owner = _as_choices(chains, vertices, joints)
    solved = solve(problem, effort=effort)
    levels: Index = np.bincount(owner[~solved.chosen], minlength=len(chains))[vertices]
    return solved, levels


def _as_choices(chains: list[Chain], vertices: Index, joints: list[Joint]) -> tuple[Choices, Index]:
    """One variable per level above a device's optimum: "in" while the limit stays below that level.

    Also each variable's device.
    """
    steps = [len(chains[vertex].levels) - 1 for vertex in vertices.tolist()]
    owner = np.repeat(vertices, steps)
    first = dict(zip(vertices.tolist(), np.cumsum([0, *steps[:-1]]).tolist(), strict=True))
    raised = [
        after - before
        for vertex in vertices.tolist()
        for before, after in zip(chains[vertex].cost, chains[vertex].cost[1:], strict=False)
    ]
    tail = np.flatnonzero(owner[1:] == owner[:-1])
    pairs = [(first[j.one] + j.level_one - 1, first[j.other] + j.level_other - 1) for j in joints]
    out_cost = int_array(raised)
    problem = Choices(
        out_cost=out_cost,
        in_cost=np.zeros_like(out_cost),
        tail=tail,
        head=tail + 1,
        arc_cost=np.full(len(tail), FOREVER, dtype=out_cost.dtype),
        conflicts=np.array(pairs, dtype=np.int64).reshape(-1, 2),
        constant=sum(chains[vertex].cost[0] for vertex in vertices.tolist()),
    )
    return problem, owner
