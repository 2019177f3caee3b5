"""The numbers of a decision as they are written to JSON."""

from __future__ import annotations

from headrace.plan.exact_numbers import as_json, as_json_bound
from headrace.plan.feeds.instance import FeedsDecision


def summary(decision: FeedsDecision, seconds: float) -> dict[str, object]:
    """`seconds` is what deciding took."""
    return {
        "cost": as_json(decision.cost),
        "push_all_cost": as_json(decision.all_ahead_cost),
        "pull_all_cost": as_json(decision.all_on_read_cost),
        "lower_bound": as_json(decision.cost) if decision.optimal else as_json_bound(decision.lower_bound),
        "optimal": decision.optimal,
        "seconds": round(seconds, 6),
    }
