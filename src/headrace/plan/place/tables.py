"""A whole table of pairs at uniform prices: rates in, a place per row out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from headrace.plan.place.conflicts import Clashes, resolve
from headrace.plan.place.effort import Effort
from headrace.plan.place.instance import PlacementOutcome
from headrace.plan.place.numbers import Exact, IntArray, common_scale
from headrace.plan.place.pairs import Pairs, Star, Where
from headrace.plan.place.single import LOCAL, decide_pairs, where_views_run
from headrace.plan.place.threshold import Ends, cheapest, cost_curves

WORDS = ("cloud", "a", "b")
"""What stands in the column `at`, by the numbers of `pairs.Where`."""


@dataclass(frozen=True, slots=True)
class TableDecision(PlacementOutcome):
    """Costs in the user's units, which are rates of the table times prices, and the place of every row."""

    where: Where


def uniform_star(devices: int, up: Exact, down: Exact) -> tuple[Star, int]:
    """The same prices for every device, and the scale that makes integers of them."""
    scale = common_scale((up, down))
    everyone = np.ones(devices, dtype=np.int64)
    return Star(everyone * int(up * scale), everyone * int(down * scale), np.zeros(devices, dtype=np.bool_)), scale


def decide_table(pairs: Pairs, star: Star, scale: int, effort: Effort = Effort()) -> TableDecision:  # noqa: B008
    """`scale` is that of rates times that of prices."""
    decided = decide_pairs(pairs, star, effort)
    return TableDecision(
        cost=in_units(decided.cost, scale),
        all_cloud_cost=in_units(decided.all_cloud_cost, scale),
        lower_bound=in_units(decided.twice_bound, 2 * scale),
        method=decided.method,
        where=where_views_run(pairs, decided.limit),
    )


def in_units(amount: int, scale: int) -> Exact:
    exact = Fraction(amount, scale)
    return exact.numerator if exact.denominator == 1 else exact


@dataclass(frozen=True, slots=True)
class Settled:
    """New upload limits of devices in conflict, what these devices pay, and twice a lower bound of that."""

    limit: IntArray
    cost: int
    twice_bound: int
    method: str


def settle_conflicts(
    ends: tuple[NDArray[np.int64], IntArray, IntArray],
    conflicts: tuple[NDArray[np.int64], NDArray[np.int64], IntArray, IntArray],
    star: Star,
    effort: Effort = Effort(),  # noqa: B008
) -> Settled:
    """For an engine that found the devices' own optima elsewhere.

    `ends`: device (numbered in the star, rising), own rate, added download, for all views of the devices in conflict.
    `conflicts`: the two devices and their own rates, for all views that both want.
    """
    curves = cost_curves(Ends(*ends, None), star, 0, len(star))
    resolved = resolve(curves, cheapest(curves)[0], Clashes(*conflicts), effort)
    method = " + ".join([LOCAL, *sorted(resolved.methods)])
    return Settled(resolved.limit, resolved.cost, resolved.twice_bound, method)
