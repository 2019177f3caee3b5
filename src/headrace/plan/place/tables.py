"""A whole table of pairs at uniform prices: rates in, a place per row out."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from headrace.plan.exact_numbers import SAFE, Exact, Index, IntArray, common_scale, int_array, total
from headrace.plan.place.conflicts import Clashes, resolve
from headrace.plan.place.effort import Effort
from headrace.plan.place.instance import PlacementOutcome
from headrace.plan.place.pairs import Pairs, Star, Where, largest_cost, runs_on_device, star_of_objects
from headrace.plan.place.several import added_at_ends
from headrace.plan.place.single import LOCAL, decide_pairs, name_method, where_views_run
from headrace.plan.place.threshold import Curves, Ends, cost_curves, own_optima

WORDS = ("cloud", "a", "b")
"""What stands in the column `at`, by the numbers of `pairs.Where`."""


@dataclass(frozen=True, slots=True)
class TableDecision(PlacementOutcome):
    """Costs in the user's units, which are rates of the table times prices, and the place of every row."""

    where: Where


def uniform_star(devices: int, up: Exact, down: Exact) -> tuple[Star, int]:
    """Equal prices for every device, and the scale that makes integers of them."""
    scale = common_scale((up, down))
    return _star(devices, int(up * scale), int(down * scale)), scale


def _star(devices: int, up: int, down: int) -> Star:
    return Star(int_array([up]).repeat(devices), int_array([down]).repeat(devices), np.zeros(devices, dtype=np.bool_))


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


EndColumns = tuple[Index, Index, IntArray, IntArray]
"""All view ends of some devices: the device, its partner, the rate that the view needs of the device's own feed, and
that of the partner's. Devices are numbered 0, 1, ...; numbers of partners have nothing to do with these.
"""

Contested = tuple[Index, Index, IntArray, IntArray]
"""Views that two devices want: the devices, and the rates of their own feeds that the views need."""


@dataclass(frozen=True, slots=True)
class OwnLimits:
    """Every device's own optimum by its number, what all of them pay, and what they would with all in the Cloud."""

    limit: IntArray
    cost: int
    all_cloud_cost: int


@dataclass(frozen=True, slots=True)
class Settled:
    """New upload limits of devices in conflict, what these devices pay, and twice a lower bound of that.

    `own_cost` is what they would pay if each could have its own optimum.
    """

    limit: IntArray
    cost: int
    twice_bound: int
    own_cost: int
    method: str


@dataclass(frozen=True, slots=True)
class UniformRules:
    """All that decides a table at uniform integer prices, for an engine that holds a table in parts.

    Every part has all view ends of its devices. The functions are those that decide a table in one process.
    """

    up: int
    down: int
    words: tuple[str, str, str] = WORDS
    method: str = LOCAL

    def own_limits(self, ends: EndColumns) -> OwnLimits:
        """Each device alone."""
        found = own_optima(self._curves(ends))
        return OwnLimits(found.limit, total(found.cost), total(found.all_cloud))

    def runs_on_device(self, rate: Any, limit: Any) -> Any:
        """Whether a device with this upload limit runs a view that needs its feed at this rate; for any columns."""
        return runs_on_device(rate, limit)

    def settle(self, ends: EndColumns, contested: Contested) -> Settled:
        """`ends` are of all devices in conflict, `contested` the two devices and own rates of views that both want."""
        curves = self._curves(ends)
        own = own_optima(curves)
        resolved = resolve(curves, own.limit, Clashes(*contested), Effort())
        method = name_method(resolved.methods)
        return Settled(resolved.limit, resolved.cost, resolved.twice_bound, total(own.cost), method)

    def _curves(self, ends: EndColumns) -> Curves:
        device, partner, own, rate = ends
        degree = np.bincount(device)
        star = _star(len(degree), self.up, self.down)
        if largest_cost(max(int(own.max()), int(rate.max())), star, int(degree.max())) >= SAFE:
            own, rate, star = own.astype(object), rate.astype(object), star_of_objects(star)
        added = added_at_ends(device, partner, own, rate)
        return cost_curves(Ends(device, own, added, None), star, 0, len(degree))


def uniform_rules(up: Exact, down: Exact) -> tuple[UniformRules, int]:
    """The rules at these prices, and the scale that makes integers of the prices."""
    scale = common_scale((up, down))
    return UniformRules(int(up * scale), int(down * scale)), scale
