"""An instance becomes a decision, with its price and how far from the least price it can be at most."""

from __future__ import annotations

from headrace.plan.feeds.cost import price
from headrace.plan.feeds.cover_search import EFFORT
from headrace.plan.feeds.instance import Feeds, FeedsDecision, Latency
from headrace.plan.feeds.latency import LatencyMethod, meet_target
from headrace.plan.feeds.per_pair import decide_pairs
from headrace.plan.feeds.wholesale import decide_wholesale


def decide(
    feeds: Feeds, latency: Latency | None = None, method: LatencyMethod = LatencyMethod.EXACT, effort: int = EFFORT
) -> FeedsDecision:
    """A latency target needs model `rpc` or `batch`, and takes up to `effort` combinations to prove its cost least."""
    ahead = decide_pairs(feeds)
    costs = price(feeds, ahead)
    if latency is not None:
        moved = meet_target(feeds, ahead, latency, method, effort)
        cost, bound = costs.paid + moved.extra_cost, costs.paid + moved.extra_bound
        return FeedsDecision(moved.ahead, cost, costs.all_ahead, costs.all_on_read, bound, moved.proven)
    if method is LatencyMethod.WHOLESALE:
        whole = decide_wholesale(feeds)
        cost = price(feeds, whole).paid
        return FeedsDecision(whole, cost, costs.all_ahead, costs.all_on_read, costs.paid, bool(cost == costs.paid))
    return FeedsDecision(ahead, costs.paid, costs.all_ahead, costs.all_on_read, costs.paid, optimal=True)
