"""When to move to a better placement: once what staying has lost makes up for what moving costs.

    each period:  loss += length * (cost of what runs - cost of the best)
    move when     loss >= theta * cost of moving;  then the loss starts from 0

A placement moves in parts that neither cost nor save anything for each other (`demands.split_moves`), each as soon as
it has lost enough: one that gains much does not wait for many that gain little. What a part has lost is kept by host,
since other pairs belong to the part when rates change.

What that guarantees: everything paid is at most 1 + (1 + 1/theta) * (rho - 1) times what the best placement of every
period costs, where rho is the largest ratio, in any period, between what ran and the best. That holds for any parts:
each loss pays for one move at most. So theta = 1 is within 3 while rho <= 2. It is not within 3 in general: with n
placements an adversary forces 2n (RACE section 4.5 claims 3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from headrace.plan.exact_numbers import Exact


@dataclass(frozen=True, slots=True)
class PlacementPart:
    """Moves that belong together. `gains` is what each host saves by them, per unit of time: for some less than 0."""

    gains: Mapping[str, Exact]
    moving: Exact

    @property
    def gain(self) -> Exact:
        return sum(self.gains.values(), start=Fraction(0))


@dataclass(frozen=True, slots=True)
class Redeployment:
    """The state of the rule. Costs are per unit of time, losses and `moving` are amounts.

    `losses` are by host, since it moved last. `rho` is None when something was paid in a period whose best placement
    costs nothing: then no bound holds.
    """

    theta: Fraction = Fraction(1)
    losses: Mapping[str, Exact] = field(default_factory=dict)
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


@dataclass(frozen=True, slots=True)
class PartJudged:
    """What a part has lost until now, and whether it moves; one that gains nothing never does."""

    part: PlacementPart
    loss: Exact
    moves: bool


def after_period(
    state: Redeployment, length: Exact, best_cost: Exact, parts: Sequence[PlacementPart]
) -> tuple[Redeployment, list[PartJudged]]:
    """Counts a period that ended, and says of each part whether it moves now to what is best for the current rates.

    What ran cost what the best costs, and what the parts would gain: a loss that nobody can mend does not count.
    """
    losses, cost = dict(state.losses), best_cost
    for part in parts:
        if part.gain > 0:
            cost += part.gain
            gains = part.gains
            host = max(sorted(gains), key=gains.__getitem__)
            losses[host] = losses.get(host, 0) + length * part.gain
    judged = []
    for part in parts:
        loss = sum((losses.get(host, 0) for host in part.gains), start=Fraction(0))
        judged.append(PartJudged(part, loss, part.gain > 0 and loss > 0 and loss >= state.theta * part.moving))
    moved = [one.part for one in judged if one.moves]
    settled = {host for part in moved for host in part.gains}
    after = Redeployment(
        state.theta,
        {host: loss for host, loss in losses.items() if host not in settled},
        _larger(state.rho, cost, best_cost),
        state.running + length * cost,
        state.best + length * best_cost,
        state.moving + sum((part.moving for part in moved), start=Fraction(0)),
    )
    return after, judged


def _larger(rho: Fraction | None, cost: Exact, best_cost: Exact) -> Fraction | None:
    if rho is None or (best_cost == 0 and cost > 0):
        return None
    return rho if best_cost == 0 else max(rho, Fraction(cost) / best_cost)
