"""Solves `Choices`, with further linear rows if there are any: by cuts where they decide, by search where they do not.

    no conflict, no row       minimum cut
    two colours, no row       minimum cut, one colour turned round
    other conflicts           half-integral cut; what it leaves open by search
    rows                      search

The search asks HiGHS first. Its answer counts as proven only while its tolerances cannot hide a whole unit of cost;
else exact branching goes on from it. Whatever limit is hit, the bound that is returned is a true one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.place.branch import branch
from headrace.plan.place.cut import Choices, half_integral_cut, parts, restrict, split, two_coloured_cut, two_colours
from headrace.plan.place.effort import Effort
from headrace.plan.place.infeasible import Infeasible
from headrace.plan.place.milp import milp_answer
from headrace.plan.place.rows import Row, links, obeys, rows_within

MINIMUM_CUT = "minimum cut"
BIPARTITE_CUT = "bipartite cut"
HALF_INTEGRAL = "half-integral cut"
MILP = "MILP"
BRANCHING = "exact branching"
LIMITED = "search stopped at its limit"

IMPOSSIBLE = "no placement obeys all pins, capacities and allowed devices"
UNFOUND = "the search stopped at its limit before it found a placement that obeys all pins and capacities"


@dataclass(frozen=True, slots=True)
class Solved:
    """Choices, their cost, twice a lower bound, and how they were found."""

    chosen: BoolArray
    cost: int
    twice_bound: int
    methods: frozenset[str] = field(default=frozenset())


def solve(choices: Choices, rows: tuple[Row, ...] = (), effort: Effort = Effort()) -> Solved:  # noqa: B008
    """The cheapest choices, or the best that the effort finds. Independent parts are solved apart."""
    part = parts(choices, links(rows))
    colour, odd = two_colours(choices)
    searched = np.isin(part, part[links(rows)[:, 0]])
    kinds = np.where(searched, part + 2, np.where(odd, 1, 0))
    chosen = np.zeros(choices.count, dtype=np.bool_)
    cost = twice_bound = 0
    methods: frozenset[str] = frozenset()
    for variables, problem in split(choices, np.unique(kinds, return_inverse=True)[1]):
        kind = kinds[variables[0]]
        if kind == 0:
            solved = _by_cut(problem, colour[variables])
        elif kind == 1:
            solved = _by_half_integral_cut(problem, effort)
        else:
            solved = _by_search(problem, rows_within(rows, variables), effort)
        chosen[variables] = solved.chosen
        cost, twice_bound, methods = cost + solved.cost, twice_bound + solved.twice_bound, methods | solved.methods
    return Solved(chosen, cost + choices.constant, twice_bound + 2 * choices.constant, methods)


def _by_cut(problem: Choices, colour: BoolArray) -> Solved:
    chosen = two_coloured_cut(problem, colour)
    cost = problem.cost(chosen)
    return Solved(chosen, cost, 2 * cost, frozenset({BIPARTITE_CUT if len(problem.conflicts) else MINIMUM_CUT}))


def _by_half_integral_cut(problem: Choices, effort: Effort) -> Solved:
    half = half_integral_cut(problem)
    cost = problem.cost(half.chosen)
    if 2 * cost == half.twice_bound:
        return Solved(half.chosen, cost, half.twice_bound, frozenset({HALF_INTEGRAL}))
    rest = restrict(problem, half.open, half.chosen)
    chosen, still_open = half.chosen.copy(), np.flatnonzero(half.open)
    twice_bound, methods = 2 * rest.constant, frozenset({HALF_INTEGRAL})
    for variables, piece in split(rest, parts(rest)):
        # What is open may still cost nothing: ties are open, too.
        tied = half_integral_cut(piece)
        if 2 * piece.cost(tied.chosen) == tied.twice_bound:
            solved = Solved(tied.chosen, piece.cost(tied.chosen), tied.twice_bound)
        else:
            solved = _by_search(piece, (), effort)
        chosen[still_open[variables]] = solved.chosen
        twice_bound, methods = twice_bound + solved.twice_bound, methods | solved.methods
    return Solved(chosen, problem.cost(chosen), max(twice_bound, half.twice_bound), methods)


def _by_search(problem: Choices, rows: tuple[Row, ...], effort: Effort) -> Solved:
    """One connected part, by HiGHS and then, if that proves nothing, by exact branching."""
    guess = milp_answer(problem, rows, effort.milp_nodes)
    if guess.impossible:
        raise Infeasible(IMPOSSIBLE)
    start = _cheaper(problem, rows, guess.chosen, np.zeros(problem.count, dtype=np.bool_))
    if start is not None and guess.bound is not None and problem.cost(start) <= guess.bound:
        return Solved(start, problem.cost(start), 2 * problem.cost(start), frozenset({MILP}))
    found = branch(problem, rows, start, min(effort.exact_nodes, effort.exact_work // max(1, problem.count)))
    if found.chosen is None:
        raise Infeasible(IMPOSSIBLE if found.finished else UNFOUND)
    cost = problem.cost(found.chosen)
    twice_bound = max(found.twice_bound, 2 * guess.bound if guess.bound is not None else 0)
    return Solved(found.chosen, cost, twice_bound, frozenset({MILP, BRANCHING if found.finished else LIMITED}))


def _cheaper(problem: Choices, rows: tuple[Row, ...], *candidates: BoolArray | None) -> BoolArray | None:
    """The cheapest candidate that is an answer at all."""
    answers = [c for c in candidates if c is not None and problem.allows(c) and obeys(rows, c)]
    return min(answers, key=problem.cost, default=None)
