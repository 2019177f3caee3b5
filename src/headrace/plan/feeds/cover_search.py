"""The cheapest cover, proven: all combinations that the fractional bound does not rule out.

An option whose excess over the best of its class exceeds the gap between bound and best known cover cannot be part
of a better one. What is left, the core, is small. It is searched class by class, nearest to the bound first,
keeping the combinations that no other beats in both gain and cost; each better cover found narrows the gap, and
with it the core. After Pisinger, "A minimal algorithm for the multiple-choice knapsack problem" (1995).

The problem is NP-hard: after `effort` combinations the best cover found and the bound are returned as they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.plan.feeds.amounts import NumberArray, Positions
from headrace.plan.feeds.cover import NONE, Cover, CoverBound, climb, greedy, relax

EFFORT = 5_000_000
"""Combinations looked at before giving up the proof: seconds."""

FITS = 1 << 62
"""Sums below this are exact in int64."""


@dataclass(frozen=True, slots=True)
class Covering:
    """`chosen[c]` is the option taken in class c, or NONE. No choice that reaches the need costs less than `bound`."""

    chosen: Positions
    cost: int
    bound: int

    @property
    def proven(self) -> bool:
        return self.cost == self.bound


def cover_cheaply(cover: Cover, effort: int = EFFORT) -> Covering:
    """The cheapest choice; without effort the greedy one and its bound."""
    if cover.need <= 0:
        return Covering(np.full(cover.classes, NONE), 0, 0)
    ladder = climb(cover)
    chosen, relaxed = greedy(cover, ladder), relax(cover, ladder)
    known = Covering(chosen, cover.total_cost(chosen), relaxed.bound)
    return known if known.proven or effort == 0 else _Search(cover, relaxed, known).run(effort)


@dataclass(frozen=True, slots=True)
class _Class:
    """What may be taken instead of the base option, with the changes of gain and cost and the excess of each."""

    number: int
    option: Positions
    gain: NumberArray
    cost: NumberArray
    excess: NumberArray
    least_excess: int


@dataclass(frozen=True, slots=True)
class _Front:
    """Undominated combinations, as changes from the base: by decreasing gain, decreasing cost."""

    gain: NumberArray
    cost: NumberArray


class _Search:
    def __init__(self, cover: Cover, relaxed: CoverBound, known: Covering) -> None:
        self.cover, self.relaxed, self.known = cover, relaxed, known
        taken = relaxed.base[relaxed.base != NONE]
        self.base_cost = int(cover.cost[taken].sum())
        self.need = cover.need - int(cover.gain[taken].sum())
        self.best_cost = known.cost - self.base_cost
        self.best_at: tuple[int, int] | None = None
        self.history: list[tuple[_Class, Positions, Positions]] = []
        """Per class added: for each combination kept, the one it extends and the alternative taken (-1: the base)."""

    @property
    def limit(self) -> int:
        """The largest excess that a cheaper cover can have."""
        return (self.best_cost + self.base_cost - 1) * self.relaxed.per - self.relaxed.scaled_bound

    def run(self, effort: int) -> Covering:
        core = _core(self.cover, self.relaxed, self.limit)
        front = _Front(*_zeros(core, self.relaxed))
        self.look(front)
        for which in core:
            if which.least_excess > self.limit:
                break
            kept = int(np.searchsorted(which.excess, self.limit, side="right"))
            effort -= len(front.gain) * (kept + 1)
            if effort < 0:
                return self.answer(proven=False)
            front = self.extend(front, which, kept)
        return self.answer(proven=True)

    def extend(self, front: _Front, which: _Class, kept: int) -> _Front:
        # Later classes are farther from the bound still: a combination that cannot afford this one is complete.
        alive = np.flatnonzero(self.excess(front.gain, front.cost) <= self.limit - which.least_excess)
        gain = np.concatenate([front.gain[alive], *(front.gain[alive] + by for by in which.gain[:kept])])
        cost = np.concatenate([front.cost[alive], *(front.cost[alive] + by for by in which.cost[:kept])])
        promising = np.flatnonzero(self.excess(gain, cost) <= self.limit)
        order = promising[_by_gain_then_cost(gain[promising], cost[promising])]
        lowest = np.minimum.accumulate(cost[order])
        undominated = order[np.concatenate(([True], lowest[1:] < lowest[:-1]))]
        self.history.append((which, alive[undominated % len(alive)], undominated // len(alive) - 1))
        front = _Front(gain[undominated], cost[undominated])
        self.look(front)
        return front

    def excess(self, gain: NumberArray, cost: NumberArray) -> NumberArray:
        excess: NumberArray = cost * self.relaxed.per - gain * self.relaxed.price
        return excess

    def look(self, front: _Front) -> None:
        """Note the cheapest combination that reaches the need, if it is the cheapest so far."""
        enough = int((front.gain >= self.need).sum())
        if enough and front.cost[enough - 1] < self.best_cost:
            self.best_cost = int(front.cost[enough - 1])
            self.best_at = (len(self.history), enough - 1)

    def answer(self, proven: bool) -> Covering:
        cost = self.best_cost + self.base_cost
        return Covering(self.trace(), cost, cost if proven else min(cost, self.relaxed.bound))

    def trace(self) -> Positions:
        """The choice that led to the best combination."""
        if self.best_at is None:
            return self.known.chosen
        chosen = self.relaxed.base.copy()
        depth, at = self.best_at
        for which, parent, alternative in reversed(self.history[:depth]):
            if alternative[at] >= 0:
                chosen[which.number] = which.option[alternative[at]]
            at = int(parent[at])
        return chosen


def _by_gain_then_cost(gain: NumberArray, cost: NumberArray) -> Positions:
    """Most gain first; of equal gains the cheapest."""
    by_cost = np.argsort(cost, kind="stable")
    return by_cost[np.argsort(-gain[by_cost], kind="stable")]


def _zeros(core: list[_Class], relaxed: CoverBound) -> tuple[NumberArray, NumberArray]:
    """The base itself, in int64 where no sum can overflow, else in Python's integers."""
    gain = sum(int(abs(which.gain).max()) for which in core)
    cost = sum(int(abs(which.cost).max()) for which in core)
    dtype = np.int64 if gain * relaxed.price + cost * relaxed.per < FITS else object
    return np.zeros(1, dtype=dtype), np.zeros(1, dtype=dtype)


def _core(cover: Cover, relaxed: CoverBound, limit: int) -> list[_Class]:
    """Classes with an alternative to their base within the limit, the nearest first."""
    option = np.flatnonzero((relaxed.excess <= limit) & (relaxed.base[cover.owner] != np.arange(len(cover.owner))))
    empty = np.flatnonzero((relaxed.none_excess <= limit) & (relaxed.base != NONE))
    owner = np.concatenate((cover.owner[option], empty))
    base_gain, base_cost = _of_base(cover.gain, relaxed.base), _of_base(cover.cost, relaxed.base)
    gain = np.concatenate((cover.gain[option], np.zeros(len(empty), dtype=object))) - base_gain[owner]
    cost = np.concatenate((cover.cost[option], np.zeros(len(empty), dtype=object))) - base_cost[owner]
    excess = np.concatenate((relaxed.excess[option], relaxed.none_excess[empty]))
    option = np.concatenate((option, np.full(len(empty), NONE)))
    by_excess = np.argsort(excess, kind="stable")
    order = by_excess[np.argsort(owner[by_excess], kind="stable")]
    parts = np.split(order, np.flatnonzero(np.diff(owner[order])) + 1) if len(order) else []
    classes = [
        _Class(int(owner[part[0]]), option[part], gain[part], cost[part], excess[part], int(excess[part[0]]))
        for part in parts
    ]
    return sorted(classes, key=lambda which: which.least_excess)


def _of_base(values: NumberArray, base: Positions) -> NumberArray:
    of_base: NumberArray = np.zeros(len(base), dtype=object)
    of_base[base != NONE] = values[base[base != NONE]]
    return of_base
