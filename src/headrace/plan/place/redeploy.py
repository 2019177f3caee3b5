"""When to move to a better placement: once what staying has lost makes up for what moving costs.

    each period:  loss += length * (cost of what runs - cost of the best)
    move when     loss >= theta * cost of moving;  then the loss starts from 0

What that guarantees: everything paid is at most 1 + (1 + 1/theta) * (rho - 1) times what the best placement of every
period costs, where rho is the largest ratio, in any period, between what ran and the best. So theta = 1 is within 3
while rho <= 2. It is not within 3 in general: with n placements an adversary forces 2n (RACE section 4.5 claims 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from headrace.plan.exact_numbers import Exact


@dataclass(frozen=True, slots=True)
class Redeployment:
    """The state of the rule. Costs are per unit of time, `loss` and `moving` are amounts.

    `rho` is None when something was paid in a period whose best placement costs nothing: then no bound holds.
    """

    theta: Fraction = Fraction(1)
    loss: Exact = 0
    rho: Fraction | None = Fraction(1)
    running: Exact = 0
    best: Exact = 0
    moving: Exact = 0

    @property
    def bound(self) -> Fraction | None:
        """The proven ratio between everything paid so far and the best of every period."""
        return None if self.rho is None else 1 + (1 + 1 / self.theta) * (self.rho - 1)

    @property
    def ratio(self) -> Fraction | None:
        """The ratio that was really paid."""
        return Fraction(self.running + self.moving) / self.best if self.best else None


def after_period(
    state: Redeployment, length: Exact, cost: Exact, best_cost: Exact, moving_cost: Exact
) -> tuple[Redeployment, bool]:
    """Counts a period that ended, and says whether to move now to the placement that is best for the current rates."""
    loss = state.loss + length * (cost - best_cost)
    move = loss > 0 and loss >= state.theta * moving_cost
    state = Redeployment(
        state.theta,
        0 if move else loss,
        _larger(state.rho, cost, best_cost),
        state.running + length * cost,
        state.best + length * best_cost,
        state.moving + (moving_cost if move else 0),
    )
    return state, move


def _larger(rho: Fraction | None, cost: Exact, best_cost: Exact) -> Fraction | None:
    if rho is None or (best_cost == 0 and cost > 0):
        return None
    return rho if best_cost == 0 else max(rho, Fraction(cost) / best_cost)


def moving_cost(before: Mapping[str, str], after: Mapping[str, str], per_view: Exact) -> Exact:
    """Proportional to the number of views that change their place; new views are deployed in any case."""
    return per_view * sum(1 for view, at in after.items() if view in before and before[view] != at)
