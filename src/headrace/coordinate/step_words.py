"""Names for people what steps are about: results of contracts, copies, datasets, and what a contract promises."""

from __future__ import annotations

from headrace.model.amounts import format_seconds
from headrace.model.feed_names import is_of_feed
from headrace.model.names import name_of_view
from headrace.model.plan import ContractPlan, Plan
from headrace.model.words import name_id


def name_result(entry: ContractPlan) -> str:
    """What a contract is for, and where: `counts at us`."""
    return f"{name_of_view(entry.view)} at {entry.site}"


def name_of(log: str, plan: Plan) -> str:
    """The vertex that a log belongs to: `orders at us`."""
    return name_id(log.partition("#")[0] if log not in plan.graph.vertices else log, plan.graph.vertices)


def say_terms(before: ContractPlan, after: ContractPlan) -> str:
    """How a contract's promise changes."""
    pairs = (
        (name_result(before), name_result(after)),
        (format_seconds(before.freshness_s), format_seconds(after.freshness_s)),
        (f"penalty {before.penalty:g} $/row", f"penalty {after.penalty:g} $/row"),
    )
    told = [f"{first} -> {second}" for first, second in pairs if first != second]
    if before.vertex != after.vertex and not told:
        told.append("another query")
    same = "other terms of its feed" if is_of_feed(after.contract) else "other columns, owner or delivery"
    return ", ".join(told) or same
