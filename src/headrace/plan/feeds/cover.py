"""Reach a total gain at the least total cost, choosing at most one option of each class: the covering knapsack.

    greedy   options by cost per gain, cheapest first, then everything taken back that is not needed
    relax    the fractional solution as a Lagrangian bound: valid for any multiplier, so doubles may choose it

`cover_search` closes the gap between the two. All numbers are integers, so that no comparison rounds; doubles only
choose the order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from headrace.plan.exact_numbers import BoolArray
from headrace.plan.feeds.amounts import FloatArray, NumberArray, Positions

NONE = -1
"""No option of a class."""


@dataclass(frozen=True, slots=True)
class Cover:
    """Options of a class stand together; `owner` counts classes from 0. Within a class both gain and cost increase.

    Taking no option of a class costs and gains nothing. All last options together reach the need.
    """

    owner: Positions
    gain: NumberArray
    cost: NumberArray
    need: int

    @property
    def classes(self) -> int:
        return int(self.owner[-1]) + 1 if len(self.owner) else 0

    def total_cost(self, chosen: Positions) -> int:
        return int(self.cost[chosen[chosen != NONE]].sum())


@dataclass(frozen=True, slots=True)
class Ladder:
    """Steps between neighbouring options on the lower hull of each class, by cost per gain.

    `option` is where a step leads to, `before` where it starts. The first `taken` steps reach the need.
    """

    option: Positions
    before: Positions
    gain: NumberArray
    cost: NumberArray
    taken: int


def climb(cover: Cover) -> Ladder:
    option = np.flatnonzero(_on_hull(cover))
    first = _starts(cover.owner[option])
    before = np.where(first, NONE, np.concatenate(([NONE], option[:-1])))
    gain = cover.gain[option] - np.where(first, 0, cover.gain[before])
    cost = cover.cost[option] - np.where(first, 0, cover.cost[before])
    order = np.argsort(_doubles(cost) / _doubles(gain), kind="stable")
    reached = np.cumsum(gain[order])
    taken = int(np.argmax(reached >= cover.need)) + 1
    if reached[taken - 1] < cover.need:
        raise ValueError("the options together do not reach the need")
    return Ladder(option[order], before[order], gain[order], cost[order], taken)


def greedy(cover: Cover, ladder: Ladder) -> Positions:
    """The option taken by each class, or NONE.

    Costs at most the last step taken more than the fractional solution.
    """
    option, before = ladder.option[: ladder.taken], ladder.before[: ladder.taken]
    chosen = np.full(cover.classes, NONE)
    np.maximum.at(chosen, cover.owner[option], option)
    gains = ladder.gain[: ladder.taken].tolist()
    surplus = sum(gains) - cover.need
    for step in range(ladder.taken - 1, -1, -1):
        owner = cover.owner[option[step]]
        if gains[step] <= surplus and chosen[owner] == option[step]:
            chosen[owner] = before[step]
            surplus -= gains[step]
    return chosen


@dataclass(frozen=True, slots=True)
class CoverBound:
    """The bound for the multiplier `price / per`, the cost per gain of the last step taken.

    `base` is the best option of each class at that price. `excess` says by how much an option is worse than it, and
    `none_excess` the same for taking none; both, and `scaled_bound`, are times `per`.
    """

    price: int
    per: int
    base: Positions
    excess: NumberArray
    none_excess: NumberArray
    scaled_bound: int

    @property
    def bound(self) -> int:
        """No choice that reaches the need costs less; rounded up, because costs are integers."""
        return -(-self.scaled_bound // self.per)


def relax(cover: Cover, ladder: Ladder) -> CoverBound:
    price, per = int(ladder.cost[ladder.taken - 1]), int(ladder.gain[ladder.taken - 1])
    reduced = cover.cost * per - cover.gain * price
    starts = np.flatnonzero(_starts(cover.owner))
    least = np.minimum(np.minimum.reduceat(reduced, starts), 0)
    best = np.flatnonzero((reduced == least[cover.owner]) & (reduced < 0))
    base = np.full(cover.classes, NONE)
    base[cover.owner[best]] = best
    return CoverBound(price, per, base, reduced - least[cover.owner], -least, price * cover.need + int(least.sum()))


def _starts(owner: Positions) -> BoolArray:
    return np.concatenate(([True], owner[1:] != owner[:-1]))


def _doubles(values: NumberArray) -> FloatArray:
    """Near enough to sort by, for integers of any size."""
    excess = max(0, int(values.max(initial=0)).bit_length() - 1000)
    return (values >> excess).astype(np.float64) if excess else values.astype(np.float64)


def _on_hull(cover: Cover) -> BoolArray:
    """Options on the lower convex hull of their class, which starts at no gain for no cost."""
    keep = np.ones(len(cover.owner), dtype=np.bool_)
    gain, cost, first = _doubles(cover.gain), _doubles(cover.cost), _starts(cover.owner)
    run = np.where(first, gain, np.diff(gain, prepend=0.0))
    rise = np.where(first, cost, np.diff(cost, prepend=0.0))
    bent = ~first[1:] & (rise[1:] * run[:-1] < rise[:-1] * run[1:])
    for owner in np.unique(cover.owner[1:][bent]).tolist():
        begin, end = np.searchsorted(cover.owner, (owner, owner + 1)).tolist()
        keep[begin:end] = _hull(gain[begin:end].tolist(), cost[begin:end].tolist())
    return keep


def _hull(gain: list[float], cost: list[float]) -> list[bool]:
    points = [(0.0, 0.0), *zip(gain, cost, strict=True)]
    kept = [0]
    for position in range(1, len(points)):
        while len(kept) > 1 and _bends_down(points[kept[-2]], points[kept[-1]], points[position]):
            kept.pop()
        kept.append(position)
    on_hull = set(kept)
    return [position in on_hull for position in range(1, len(points))]


def _bends_down(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (c[1] - b[1]) * (b[0] - a[0]) < (b[1] - a[1]) * (c[0] - b[0])
