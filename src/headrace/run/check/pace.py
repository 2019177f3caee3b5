"""Decides when the next piece of a background check may begin, from what the last one cost.

Checks run a piece at a time, one after the other. After a piece nothing begins until the budget has grown by what the
piece cost. So in any stretch of time checks cost at most their budget for that stretch, and one piece more.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckBudget:
    """What all checks together may cost: a share of a core, and bytes read per second.

    A subject is checked again when at least `again_after_s` have passed since its last pass began.
    """

    cores: float = 0.01
    bytes_per_s: float = 1e6
    again_after_s: float = 10.0


@dataclass(frozen=True, slots=True)
class CheckCost:
    """Seconds of a core, those that a database worked for us included, and bytes read there and here."""

    seconds: float = 0.0
    bytes: int = 0

    def __add__(self, other: CheckCost) -> CheckCost:
        return CheckCost(self.seconds + other.seconds, self.bytes + other.bytes)


DEFAULT_BUDGET = CheckBudget()
NO_COST = CheckCost()


def seconds_within(budget: CheckBudget, cost: CheckCost) -> float:
    """How long the budget takes to grow by a cost: from the beginning of a piece until the next may begin.

    Also how long a whole pass takes, from what all its pieces cost.
    """
    return max(cost.seconds / budget.cores, cost.bytes / budget.bytes_per_s)
